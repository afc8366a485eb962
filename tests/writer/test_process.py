# SPDX-License-Identifier: Apache-2.0
"""The writer as the server runs it, in a real process, when the API server does not do what one hopes."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from muster.core.model import GangKey, PodUid
from muster.core.reasons import Explanation, Reason, Why
from muster.core.spec import TIMEOUT
from muster.writer import Writer
from tests.writer.stand_in import Answer, Request, StandIn, fine, stand_in, status, write_kubeconfig

POD = ("u-1", "a", "train-0")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[StandIn]:
    async with stand_in(tmp_path) as running:
        yield running


@pytest.fixture
async def writer(api: StandIn) -> AsyncIterator[Writer]:
    handle = Writer(api.kubeconfig)
    await handle.start()
    yield handle
    await handle.stop()


def held(sentence: str = "waiting for 1 more", reason: Reason = Reason.NOT_ENOUGH_MEMBERS) -> Explanation:
    return Explanation(PodUid("u-1"), "a", "train-0", GangKey("a/train"), Why(reason, sentence))


async def until(holds: Callable[[], bool], within: float = 20.0) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


def first(*answers: Answer) -> Callable[[Request], Answer]:
    """These answers, one after the other, and then success."""
    left = list(answers)
    return lambda request: left.pop(0) if left else fine(request)


async def test_a_mark_carries_the_uid_so_that_it_fits_no_other_pod(api: StandIn, writer: Writer) -> None:
    writer.mark([POD])
    await until(lambda: writer.counts.marked == 1)
    (request,) = api.requests
    assert (request.method, request.path.split("?")[0]) == ("PATCH", "/api/v1/namespaces/a/pods/train-0")
    assert request.body == {"metadata": {"uid": "u-1", "annotations": {TIMEOUT: "true"}}}
    assert writer.unconfirmed == 0


async def test_a_mark_refused_for_load_is_retried_no_sooner_than_asked(api: StandIn, writer: Writer) -> None:
    code, _, body = status(429, "TooManyRequests", "slow down")
    api.answer = first((code, {"Retry-After": "1"}, body), status(500, "InternalError", "oops"))
    began = time.monotonic()
    writer.mark([POD])
    await until(lambda: writer.counts.marked == 1)
    assert time.monotonic() - began > 1.0
    assert len(api.requests) == 3


async def test_a_mark_of_a_pod_that_is_gone_is_given_up(api: StandIn, writer: Writer) -> None:
    api.answer = lambda _: status(404, "NotFound", 'pods "train-0" not found')
    writer.mark([POD])
    await until(lambda: writer.counts.gone == 1)
    assert (len(api.requests), writer.unconfirmed) == (1, 0)


@pytest.mark.parametrize(
    "answer",
    [
        status(409, "Conflict", "Precondition failed: UID in precondition: u-1, UID in object meta: u-2"),
        status(
            422, "Invalid", "immutable", details={"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]}
        ),
    ],
    ids=["as a conflict", "as an invalid field"],
)
async def test_a_pod_of_the_same_name_but_another_uid_is_never_marked(
    api: StandIn, writer: Writer, answer: Answer
) -> None:
    api.answer = lambda _: answer
    writer.mark([POD])
    await until(lambda: writer.counts.gone == 1)
    assert (len(api.requests), writer.counts.marked) == (1, 0)


async def test_a_conflict_with_another_writer_is_retried(api: StandIn, writer: Writer) -> None:
    api.answer = first(status(409, "Conflict", "the object has been modified; please apply your changes"))
    writer.mark([POD])
    await until(lambda: writer.counts.marked == 1)
    assert len(api.requests) == 2


async def test_a_page_of_a_proxy_is_not_taken_for_an_answer_about_the_pod(api: StandIn, writer: Writer) -> None:
    api.answer = first((404, {"Content-Type": "text/html"}, {}), (503, {"Content-Type": "text/html"}, {}))
    writer.mark([POD])
    await until(lambda: writer.counts.marked == 1)
    assert writer.counts.gone == 0


async def test_marks_wait_for_an_api_server_that_is_away(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    write_kubeconfig(tmp_path / "kubeconfig", port)
    writer = Writer(tmp_path / "kubeconfig")
    await writer.start()
    try:
        writer.mark([POD])
        await asyncio.sleep(1.0)
        assert writer.unconfirmed == 1
        async with stand_in(tmp_path, port):
            await until(lambda: writer.counts.marked == 1)
    finally:
        await writer.stop()


async def test_an_event_is_given_up_after_a_few_tries_and_counted(api: StandIn, writer: Writer) -> None:
    api.answer = lambda _: status(500, "InternalError", "oops")
    writer.explain([held()])
    await until(lambda: writer.counts.lost == 1)
    assert 2 <= len(api.requests) <= 5


async def test_an_event_that_exists_already_counts_as_written(api: StandIn, writer: Writer) -> None:
    api.answer = lambda _: status(409, "AlreadyExists", "events already exists")
    writer.explain([held()])
    await until(lambda: len(api.requests) == 1)
    writer.mark([POD])
    api.answer = fine
    await until(lambda: writer.counts.marked == 1)
    assert (len(api.requests), writer.counts.lost) == (2, 0)


async def test_an_event_the_server_forbids_is_not_repeated(api: StandIn, writer: Writer) -> None:
    api.answer = lambda _: status(403, "Forbidden", "the namespace is being terminated")
    writer.explain([held()])
    await until(lambda: writer.counts.lost == 1)
    assert len(api.requests) == 1


async def test_failing_events_do_not_hold_up_a_mark(api: StandIn, writer: Writer) -> None:
    def answer(request: Request) -> Answer:
        return fine(request) if request.method == "PATCH" else status(503, "ServiceUnavailable", "no")

    api.answer = answer
    pods = [Explanation(PodUid(f"u-{n}"), "a", f"p-{n}", None, Why(Reason.SURPLUS, "wait")) for n in range(500)]
    writer.explain(pods)
    await until(lambda: len(api.requests) >= 8)
    began = time.monotonic()
    writer.mark([POD])
    await until(lambda: writer.counts.marked == 1)
    assert time.monotonic() - began < 2.0


async def test_a_child_that_was_killed_is_followed_by_one_that_gets_the_marks_again(
    api: StandIn, writer: Writer
) -> None:
    api.answer = lambda _: status(500, "InternalError", "oops")
    writer.mark([POD])
    await until(lambda: len(api.requests) >= 1)
    os.kill(child_of(os.getpid()), signal.SIGKILL)
    await until(lambda: writer.counts.restarts == 1)
    api.answer = fine
    await until(lambda: writer.counts.marked == 1)
    assert writer.unconfirmed == 0


async def test_stopping_sends_what_is_left_and_lets_marks_finish(api: StandIn) -> None:
    api.answer = first(status(500, "InternalError", "oops"))
    writer = Writer(api.kubeconfig)
    await writer.start()
    writer.mark([POD])
    writer.explain([held()])
    await writer.stop()
    assert writer.counts.marked == 1
    assert {request.method for request in api.requests} == {"PATCH", "POST"}


async def test_stopping_is_bounded_when_the_api_server_never_answers_well(api: StandIn) -> None:
    api.answer = lambda _: status(500, "InternalError", "oops")
    writer = Writer(api.kubeconfig)
    await writer.start()
    writer.mark([POD])
    await until(lambda: len(api.requests) >= 1)
    began = time.monotonic()
    await writer.stop()
    assert 4.0 < time.monotonic() - began < 8.0
    assert writer.unconfirmed == 1


async def test_a_missing_kubeconfig_is_tried_again_and_never_raises(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "nothing")
    await writer.start()
    writer.mark([POD])
    writer.explain([held()])
    await until(lambda: writer.counts.restarts >= 1)
    await writer.stop()
    assert writer.unconfirmed == 1


async def test_a_command_that_cannot_be_started_never_raises() -> None:
    writer = Writer(command=["/nonexistent/command"])
    await writer.start()
    writer.mark([POD])
    await until(lambda: writer.counts.restarts >= 1)
    await writer.stop()


async def test_a_child_that_does_not_read_never_blocks_the_server() -> None:
    writer = Writer(command=[sys.executable, "-c", "import time; time.sleep(60)"])
    await writer.start()
    began = time.monotonic()
    for n in range(30_000):
        writer.explain([Explanation(PodUid(f"u-{n}"), "a", "p", None, Why(Reason.SURPLUS, "x" * 200))])
        if n % 1000 == 0:
            await asyncio.sleep(0.001)
    assert time.monotonic() - began < 5.0
    assert writer.dropped > 0
    await writer.stop()


async def test_a_writer_that_is_not_enabled_does_nothing() -> None:
    writer = Writer(enabled=False)
    await writer.start()
    writer.explain([held()])
    writer.mark([POD])
    assert writer.unconfirmed == 0
    await writer.stop()


def child_of(parent: int) -> int:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (child,) = (int(pid) for pid in children if b"muster.writer" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return child
