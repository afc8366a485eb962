# SPDX-License-Identifier: Apache-2.0
"""When an event is written. The time is whatever the test says."""

from muster.writer.rules import MOST_SENTENCES, PAUSE, REPEAT, Rules
from muster.writer.wire import Tell


def tell(sentence: str, reason: str = "NotEnoughMembers", uid: str = "1") -> Tell:
    return Tell(uid, "a", f"pod-{uid}", reason, sentence)


def written(rules: Rules, now: float) -> list[str]:
    sentences = []
    while (told := rules.take(now)) is not None:
        sentences.append(told.sentence)
    return sentences


def test_the_first_word_on_a_pod_is_written_at_once() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 100.0)
    assert rules.next_at() == 100.0
    assert written(rules, 100.0) == ["two more"]
    assert rules.next_at() is None


def test_the_same_sentence_again_within_ten_minutes_is_skipped() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.tell(tell("two more"), REPEAT - 1)
    assert written(rules, REPEAT * 10) == []


def test_the_same_sentence_again_after_ten_minutes_is_written() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.tell(tell("two more"), REPEAT)
    assert written(rules, REPEAT) == ["two more"]


def test_new_numbers_wait_for_the_pause_and_the_latest_win() -> None:
    rules = Rules()
    rules.tell(tell("three more"), 0.0)
    assert written(rules, 0.0) == ["three more"]
    rules.tell(tell("two more"), 1.0)
    rules.tell(tell("one more"), 2.0)
    assert rules.next_at() == PAUSE
    assert written(rules, PAUSE - 0.1) == []
    assert written(rules, PAUSE) == ["one more"]


def test_numbers_that_came_back_before_the_pause_was_over_are_not_written() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.tell(tell("one more"), 1.0)
    rules.tell(tell("two more"), 2.0)
    assert written(rules, REPEAT) == []
    assert rules.next_at() is None


def test_another_reason_is_written_at_once_and_replaces_what_waited() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.tell(tell("one more"), 1.0)
    rules.tell(tell("no node", "NoRoom"), 2.0)
    assert written(rules, 2.0) == ["no node"]
    assert written(rules, PAUSE) == []


def test_a_pod_that_flips_between_two_reasons_is_told_both_once() -> None:
    rules = Rules()
    sentences = []
    for second in range(0, 300, 5):
        rules.tell(tell("no node", "NoRoom") if second % 10 else tell("1 of 3", "WaitingForQuorum"), float(second))
        sentences += written(rules, float(second))
    assert sentences == ["1 of 3", "no node"]


def test_new_numbers_after_a_flip_of_the_reason_still_wait_for_the_pause() -> None:
    rules = Rules()
    rules.tell(tell("1 of 3", "WaitingForQuorum"), 0.0)
    rules_written = written(rules, 0.0)
    rules.tell(tell("no node", "NoRoom"), 1.0)
    rules_written += written(rules, 1.0)
    rules.tell(tell("2 of 3", "WaitingForQuorum"), 2.0)
    assert rules_written == ["1 of 3", "no node"]
    assert written(rules, 2.0) == []
    assert written(rules, PAUSE) == ["2 of 3"]


def test_clearing_drops_what_is_pending_but_remembers_what_was_told() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.tell(tell("one more"), 1.0)
    rules.clear("1")
    assert written(rules, PAUSE) == []
    rules.tell(tell("two more"), PAUSE)
    assert written(rules, PAUSE) == []


def test_what_could_not_be_written_may_be_told_again_after_the_pause() -> None:
    rules = Rules()
    rules.tell(tell("two more"), 0.0)
    assert written(rules, 0.0) == ["two more"]
    rules.forget(tell("two more"))
    rules.tell(tell("two more"), 1.0)
    assert written(rules, PAUSE) == ["two more"]


def test_a_sentence_that_changes_all_the_time_keeps_its_turn() -> None:
    rules = Rules()
    rules.tell(tell("first", uid="1"), 0.0)
    rules.tell(tell("second", uid="2"), 0.0)
    rules.tell(tell("first, changed", uid="1"), 0.5)
    assert written(rules, 1.0) == ["first, changed", "second"]


def test_pods_do_not_slow_each_other_down() -> None:
    rules = Rules()
    rules.tell(tell("two more", uid="1"), 0.0)
    rules.tell(tell("two more", uid="2"), 0.0)
    assert written(rules, 0.0) == ["two more", "two more"]


def test_memory_is_bounded_by_pods_and_by_sentences() -> None:
    rules = Rules(most_pods=10)
    for number in range(100):
        rules.tell(tell("x", uid=str(number)), 0.0)
    assert len(written(rules, 0.0)) == 10
    assert rules.dropped == 90
    for number in range(MOST_SENTENCES + 50):
        rules.tell(tell(f"sentence {number}", reason=f"Reason{number}", uid="many"), 1.0)
        assert written(rules, 1.0) == [f"sentence {number}"]
    assert len(rules._told["many"].by_sentence) == MOST_SENTENCES


def test_pods_not_told_about_for_ten_minutes_are_forgotten() -> None:
    rules = Rules()
    rules.tell(tell("x", uid="old"), 0.0)
    rules.tell(tell("x", uid="new"), REPEAT + 1)
    assert written(rules, REPEAT + 1) == ["x", "x"]  # both are told only now
    rules.tell(tell("y", uid="newest"), 3 * REPEAT)
    assert written(rules, 3 * REPEAT) == ["y"]
    assert list(rules._told) == ["newest"]
