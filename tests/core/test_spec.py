# SPDX-License-Identifier: Apache-2.0
"""What pods say about their gang, key by key: defaults, aliases, precedence, and what is refused."""

from dataclasses import replace

import pytest

from muster.core.model import MatchPolicy, Mode, OnTimeout, Pod, PodUid
from muster.core.order import inner_order
from muster.core.spec import Defaults, declare
from tests.builders import pod

NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"


def labelled(**labels: str) -> Pod:
    return Pod(PodUid("p"), "a", "p", labels=labels)


def test_a_gang_can_be_declared_by_labels() -> None:
    said = declare(labelled(**{NAME_LABEL: "train", MIN_LABEL: "3"}), Defaults())
    assert said.gang == "a/train" and said.spec and said.spec.min == 3 and not said.problems


def test_what_is_not_said_has_the_defaults_of_the_server() -> None:
    defaults = Defaults(42.0, OnTimeout.RETRY, MatchPolicy.ONLY_WAITING)
    spec = declare(pod("p", "train", 3), defaults).spec
    assert spec and (spec.wait, spec.on_timeout, spec.policy) == (42.0, OnTimeout.RETRY, MatchPolicy.ONLY_WAITING)
    assert (spec.mode, spec.total, spec.group) == (Mode.STRICT, 3, ("a/train",))


def test_an_annotation_comes_before_a_label() -> None:
    both = replace(pod("p", "train", 3), labels={NAME_LABEL: "other", MIN_LABEL: "5", POD_GROUP: "third"})
    said = declare(both, Defaults())
    assert said.gang == "a/train" and said.spec and said.spec.min == 3


def test_a_total_above_the_minimum_is_kept_and_one_below_is_refused() -> None:
    spec = declare(pod("p", "train", 3, total_number=5), Defaults()).spec
    assert spec and spec.total == 5
    (problem,) = declare(pod("p", "train", 3, total_number=2), Defaults()).problems
    assert "must not be less than the minimum, 3" in str(problem)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("match_policy", "sometimes"),
        ("mode", "strict"),
        ("waiting_time", "0s"),
        ("waiting_time", "721h"),
        ("groups", "[1]"),
        ("on_timeout", "fail"),
        ("total_number", "-1"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(key: str, value: str) -> None:
    said = declare(pod("p", "train", 3, **{key: value}), Defaults())  # type: ignore[arg-type]
    assert said.spec is None and key.replace("_", "-") in str(said.problems[0]) and value in str(said.problems[0])


@pytest.mark.parametrize("policy", MatchPolicy)
def test_every_match_policy_is_understood(policy: MatchPolicy) -> None:
    spec = declare(pod("p", "train", 3, match_policy=policy.value), Defaults()).spec
    assert spec and spec.policy is policy


def test_member_two_goes_before_member_ten() -> None:
    names = ["w-10", "w-2", "w-1"]
    assert [p.name for p in sorted((pod(name) for name in names), key=inner_order)] == ["w-1", "w-2", "w-10"]
