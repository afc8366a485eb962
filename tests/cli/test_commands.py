# SPDX-License-Identifier: Apache-2.0
"""`muster get gangs` and `muster explain gang`, run as programs against a real gRPC server."""

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import Parse

from muster.v1.view_pb2 import Gang, ListGangsResponse
from tests.cli.server import Canned, muster, serving, train


async def test_the_table_has_one_line_a_gang_in_order_with_the_whole_sentence(view: Canned) -> None:
    done = train(name="serve", phase="Satisfied", reason="", sentence="", min=4, cycle=1)
    view.gangs = [train(), done, train(namespace="Z", name="x", min=0, sentence="y" * 500)]
    ran = await muster("get", "gangs", "--server", view.address)
    assert (ran.code, ran.err) == (0, "")
    header, other, serve, train_line = ran.out.splitlines()
    assert header.split() == ["NAMESPACE", "GANG", "PHASE", "MEMBERS", "CYCLE", "AGE", "WHY"]
    assert serve.split() == ["a", "serve", "Satisfied", "2/4", "1", "3h"]
    assert train_line.split(None, 2)[:2] == ["a", "train"]
    assert train_line.split("  ")[-1].strip() == "2 of 3 members of gang a/train have a place; waiting for 1 more"
    assert "2/3 (4 known)" in train_line
    assert "2/- (4 known)" in other and "y" * 500 in other


async def test_a_namespace_narrows_the_list(view: Canned) -> None:
    view.gangs = [train(), train(namespace="b")]
    ran = await muster("get", "gangs", "-n", "b", "--server", view.address)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["NAMESPACE", "b"]


async def test_no_gangs_is_said_on_stderr_and_is_no_error(view: Canned) -> None:
    view.gangs = []
    ran = await muster("get", "gangs", "--server", view.address)
    assert (ran.code, ran.out, ran.err) == (0, "", "No gangs.\n")


async def test_json_is_protobufs_own_and_complete(view: Canned) -> None:
    ran = await muster("get", "gangs", "-o", "json", "--server", view.address)
    assert Parse(ran.out, ListGangsResponse()) == ListGangsResponse(gangs=view.gangs, scheduler_epoch="epoch-1")
    raw = json.loads(ran.out)["gangs"][0]
    assert (raw["deadlineMs"], raw["lastFailure"], raw["members"][0]["nodeName"]) == (
        "572000",
        "0/5 nodes are available: 5 Insufficient cpu",
        "node-1",
    )
    assert raw["members"][0]["sentence"] == ""  # a key is there also when it has nothing to say


async def test_explain_says_all_there_is_to_know(view: Canned) -> None:
    ran = await muster("explain", "gang", "a/train", "--server", view.address)
    assert (ran.code, ran.err) == (0, "")
    head, members = ran.out.split("\n\n")
    facts = dict(line.split(":", 1) for line in head.splitlines())
    said = {title: value.strip() for title, value in facts.items()}
    assert said["Gang"] == "a/train"
    assert said["Phase"] == "Waiting (WaitingForQuorum)"
    assert said["Why"] == "2 of 3 members of gang a/train have a place; waiting for 1 more"
    assert said["What to do"].startswith("Nothing has to be done while the others are being placed.")
    assert said["Last failure"] == "0/5 nodes are available: 5 Insufficient cpu"
    assert (said["Minimum"], said["Total"], said["Mode"], said["Cycle"]) == ("3", "4", "Strict", "7")
    assert said["Starts with"] == "b/serve"
    assert said["Deadline"] == "waits 9m32s more at most"
    assert "Next try" not in said
    rows = [line.split(None, 4) for line in members.splitlines()]
    assert rows[0] == ["POD", "PHASE", "NODE", "FAILURES", "WHY"]
    assert rows[1] == ["train-0", "Waiting", "node-1", "0"]
    assert rows[3] == ["train-2", "Pending", "-", "4", "no node for it"]


async def test_explain_tells_the_next_try_and_gives_json(view: Canned) -> None:
    view.gangs = [train(retry_ms=4_200, deadline_ms=-1)]
    ran = await muster("explain", "gang", "train", "-n", "a", "--server", view.address)
    assert "in 4s" in ran.out and "Deadline" not in ran.out
    ran = await muster("explain", "gang", "a/train", "-o", "json", "--server", view.address)
    assert Parse(ran.out, Gang()) == view.gangs[0]


async def test_an_unknown_gang_is_one_line_and_exit_code_1(view: Canned) -> None:
    ran = await muster("explain", "gang", "a/nothing", "--server", view.address)
    assert (ran.code, ran.out, ran.err) == (1, "", "neither a pod nor a PodGroup of gang a/nothing is known\n")


async def test_a_server_that_knows_nothing_yet_is_not_taken_for_one_that_is_away(view: Canned) -> None:
    view.refusal = "no scheduler has been in session yet, so nothing is known"
    ran = await muster("get", "gangs", "--server", view.address)
    assert (ran.code, ran.out, ran.err) == (1, "", f"{view.refusal}\n")


@pytest.mark.parametrize("more", [[], ["-w"], ["-o", "json"]])
async def test_a_server_that_is_away_is_one_line_with_its_address_and_exit_code_3(
    tmp_path: Path, more: list[str]
) -> None:
    address = f"unix://{tmp_path}/none.sock"
    ran = await muster("get", "gangs", "--server", address, *more)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"cannot reach muster-server at {address}: No such file or directory\n"


async def test_a_port_nobody_listens_on_is_exit_code_3() -> None:
    ran = await muster("get", "gangs", "--server", "127.0.0.1:1")
    assert (ran.code, ran.err) == (3, "cannot reach muster-server at 127.0.0.1:1: Connection refused\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "gangs", "--server", "nonsense"],
        ["get", "gangs", "--server", "unix://"],
        ["get", "gangs", "--server", "unix:///x", "--ca", "/x"],
        ["get", "gangs", "--server", "host:1", "--cert", "/x"],
        ["get", "gangs", "--server", "host:1", "--ca", "/nonexistent"],
        ["get", "gangs", "-n", "a", "-A"],
        ["get", "gangs", "-o", "yaml"],
        ["explain", "gang", "a/b/c"],
        ["explain", "gang", "/b"],
        ["explain", "gang", "a/b", "-n", "c"],
        ["explain"],
        ["frobnicate"],
    ],
)
async def test_wrong_usage_is_exit_code_2_and_no_traceback(arguments: list[str]) -> None:
    ran = await muster(*arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err + ran.out


async def test_what_comes_from_the_cluster_cannot_command_the_terminal(view: Canned) -> None:
    evil = "\x1b[2J\x07\x9b31m\u202e\r\nnode\x7f"
    view.gangs = [train(sentence=evil, last_failure=evil, name="train", reason=evil, group=[evil])]
    view.gangs[0].members[0].node_name = evil
    for arguments in (["get", "gangs"], ["explain", "gang", "a/train"], ["get", "gangs", "-o", "json"]):
        ran = await muster(*arguments, "--server", view.address)
        assert ran.code == 0
        assert not set(ran.out) & set(evil.replace("\n", "")) - set("[2J31mnode")
    ran = await muster("get", "gangs", "--server", view.address)
    assert "\\x1b[2J\\x07\\x9b31m\\u202e\\x0d\\x0anode\\x7f" in ran.out
    view.refusal = evil
    ran = await muster("get", "gangs", "--server", view.address)
    assert "\x1b" not in ran.err and len(ran.err.splitlines()) == 1


async def test_rich_markup_in_a_sentence_is_shown_as_it_is(view: Canned) -> None:
    view.gangs = [train(sentence="[red]not[/red] :smile: [/]")]
    ran = await muster("get", "gangs", "--server", view.address)
    assert "[red]not[/red] :smile: [/]" in ran.out


async def test_the_server_is_found_by_environment_then_in_a_directory_above(tmp_path: Path) -> None:
    run = tmp_path / ".muster/run"
    below = tmp_path / "x/y"
    run.mkdir(parents=True)
    below.mkdir(parents=True)
    async with serving(run / "server.sock"):
        ran = await muster("get", "gangs", cwd=below)
        assert (ran.code, "train" in ran.out) == (0, True)
        ran = await muster("get", "gangs", cwd=below, env={"MUSTER_SERVER": "unix:///nonexistent"})
        assert ran.code == 3
        ran = await muster("get", "gangs", "--server", "unix://.muster/run/server.sock", cwd=tmp_path)
        assert ran.code == 0


async def test_version_is_one_line() -> None:
    ran = await muster("version")
    assert ran.code == 0 and ran.out.startswith("muster ") and len(ran.out.splitlines()) == 1
