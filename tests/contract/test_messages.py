# SPDX-License-Identifier: Apache-2.0
"""What both languages must agree on: the marks, the golden messages, the generated code."""

import json
import subprocess
from pathlib import Path

import pytest
from google.protobuf import json_format

from muster.core import spec
from muster.server import codec
from muster.v1 import scheduling_pb2 as pb

HERE = Path(__file__).parent
REPO = HERE.parent.parent
GOLDEN = sorted((HERE / "golden").glob("*.json"))
Frame = pb.SchedulerFrame | pb.ServerFrame
FRAMES: dict[str, type[pb.SchedulerFrame] | type[pb.ServerFrame]] = {
    "scheduler": pb.SchedulerFrame,
    "server": pb.ServerFrame,
}


def frame_in(path: Path) -> Frame:
    """Fails on a field that the contract does not have."""
    frame: Frame = json_format.Parse(path.read_text(), FRAMES[path.stem.split("_")[0]]())
    return frame


def test_the_marks_are_those_the_scheduler_looks_for() -> None:
    marks = json.loads((HERE / "marks.json").read_text())
    assert tuple(marks["annotationPrefixes"]) == spec.MARK_ANNOTATION_PREFIXES
    assert tuple(marks["labelPrefixes"]) == spec.MARK_LABEL_PREFIXES


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_message_survives_the_round_trip(path: Path) -> None:
    frame = frame_in(path)
    assert frame.WhichOneof("body")
    assert type(frame).FromString(frame.SerializeToString()) == frame


@pytest.mark.parametrize("path", [p for p in GOLDEN if p.stem.startswith("scheduler_")], ids=lambda path: path.stem)
def test_the_server_understands_every_golden_frame_of_the_scheduler(path: Path) -> None:
    frame = frame_in(path)
    assert isinstance(frame, pb.SchedulerFrame)
    match frame.WhichOneof("body"):
        case "hello" | "synced":
            return
        case "facts":
            assert len(list(codec.facts(frame.facts))) == len(frame.facts.facts)
        case _:
            assert codec.call(frame)


def test_every_kind_of_frame_has_a_golden_message() -> None:
    seen = {(path.stem.split("_")[0], frame_in(path).WhichOneof("body")) for path in GOLDEN}
    wanted = {(side, field.name) for side, frame in FRAMES.items() for field in frame.DESCRIPTOR.oneofs[0].fields}
    assert seen == wanted


def test_every_kind_of_fact_has_a_golden_message() -> None:
    frames = [frame_in(path) for path in GOLDEN]
    seen = {
        fact.WhichOneof("fact")
        for frame in frames
        if isinstance(frame, pb.SchedulerFrame)
        for fact in frame.facts.facts
    }
    assert seen == {field.name for field in pb.Fact.DESCRIPTOR.fields}


def test_the_generated_code_is_that_of_the_proto_files(tmp_path: Path) -> None:
    subprocess.run([REPO / "scripts" / "generate", tmp_path], check=True, capture_output=True)
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) >= 12
    stale = [str(path) for path in made if (REPO / path).read_bytes() != (tmp_path / path).read_bytes()]
    assert not stale, "run `make proto`"
