# SPDX-License-Identifier: Apache-2.0
"""What waits for the child: one entry a pod, bounded, marks first and kept until confirmed."""

from muster.core.model import GangKey, PodUid
from muster.core.reasons import Explanation, Reason, Why
from muster.writer.outbox import Outbox
from muster.writer.wire import Clear, GangGone, GangHeld, Leading, Mark, Tell


def explanation(uid: str, sentence: str | None) -> Explanation:
    why = None if sentence is None else Why(Reason.NOT_ENOUGH_MEMBERS, sentence)
    return Explanation(PodUid(uid), "a", f"pod-{uid}", GangKey("a/train"), why)


def tell(uid: str, sentence: str) -> Tell:
    return Tell(uid, "a", f"pod-{uid}", "NotEnoughMembers", sentence)


def test_the_latest_explanation_of_a_pod_wins() -> None:
    outbox = Outbox()
    outbox.explain(explanation("1", "waiting for 2 more"))
    outbox.explain(explanation("2", "waiting for 2 more"))
    outbox.explain(explanation("1", "waiting for 1 more"))
    assert outbox.take(10) == [tell("1", "waiting for 1 more"), tell("2", "waiting for 2 more")]
    assert outbox.take(10) == []


def test_an_explanation_without_a_reason_takes_back_what_is_pending() -> None:
    outbox = Outbox()
    outbox.explain(explanation("1", "waiting for 2 more"))
    outbox.explain(explanation("1", None))
    assert outbox.take(10) == [Clear("1")]


def test_marks_go_before_explanations() -> None:
    outbox = Outbox()
    outbox.explain(explanation("1", "waiting"))
    outbox.mark("1", "a", "pod-1")
    assert outbox.take(1) == [Mark("1", "a", "pod-1")]
    assert outbox.take(1) == [tell("1", "waiting")]


def test_a_mark_is_sent_once_and_again_only_to_a_new_child() -> None:
    outbox = Outbox()
    outbox.mark("1", "a", "pod-1")
    assert outbox.take(10) == [Mark("1", "a", "pod-1")]
    outbox.mark("1", "a", "pod-1")
    assert outbox.take(10) == []
    outbox.resend()
    assert outbox.take(10) == [Mark("1", "a", "pod-1")]


def test_a_confirmed_mark_is_not_sent_again_until_asked_for_anew() -> None:
    outbox = Outbox()
    outbox.mark("1", "a", "pod-1")
    outbox.take(10)
    outbox.confirm("1")
    outbox.resend()
    assert outbox.take(10) == []
    assert outbox.unconfirmed == 0
    outbox.mark("1", "a", "pod-1")
    assert outbox.take(10) == [Mark("1", "a", "pod-1")]


def test_a_full_outbox_drops_the_oldest_explanation_and_counts_it() -> None:
    outbox = Outbox(most_told=2)
    for uid in ("1", "2", "3"):
        outbox.explain(explanation(uid, "waiting"))
    assert outbox.take(10) == [tell("2", "waiting"), tell("3", "waiting")]
    assert outbox.dropped == 1


def test_a_newer_explanation_of_a_known_pod_fits_into_a_full_outbox() -> None:
    outbox = Outbox(most_told=1)
    outbox.explain(explanation("1", "waiting for 2 more"))
    outbox.explain(explanation("1", "waiting for 1 more"))
    assert outbox.take(10) == [tell("1", "waiting for 1 more")]
    assert outbox.dropped == 0


def test_marks_past_the_bound_are_counted() -> None:
    outbox = Outbox(most_marks=1)
    outbox.mark("1", "a", "pod-1")
    outbox.mark("2", "a", "pod-2")
    assert len(outbox) == 1
    assert outbox.dropped == 1


def test_a_new_child_learns_all_gangs_again_and_only_then_that_it_leads() -> None:
    outbox = Outbox()
    outbox.lead(True)
    outbox.gang(GangKey("a/train"), Why(Reason.NO_ROOM, "no node"))
    outbox.gang(GangKey("a/late"), None)
    outbox.gang(GangKey("a/gone"), None)
    first = [GangHeld("a/train", "NoRoom", "no node"), GangHeld("a/late", "", ""), GangHeld("a/gone", "", "")]
    assert outbox.take(10) == [*first, Leading(True)]
    outbox.gang_gone(GangKey("a/gone"))
    assert outbox.take(10) == [GangGone("a/gone")]
    assert len(outbox) == 0

    outbox.resend()

    assert outbox.take(2) == first[:2]
    assert outbox.take(10) == [Leading(True)]


def test_to_stop_leading_comes_before_all_else() -> None:
    outbox = Outbox()
    outbox.lead(True)
    assert outbox.take(10) == [Leading(True)]
    outbox.mark("1", "a", "pod-1")
    outbox.lead(False)
    assert outbox.take(10) == [Leading(False), Mark("1", "a", "pod-1")]
    outbox.lead(True)
    outbox.lead(False)  # nobody has heard of the one in between
    assert outbox.take(10) == []
