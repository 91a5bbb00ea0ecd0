"""Every message of a group is done once, by one member at a time, whatever members, time and restarts do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.model.expiry import EXPIRES
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.work_frames import DELAY_MS_MAX, Outcome, Verdict
from penstock.work.group import AWAY_MS, Group
from penstock.work.ledger import Ledger, State, Task
from penstock.work.terms import Terms
from work.stored import Stored

WORK_MS = 1_000
"""How long a member may have a message, altogether."""


class Home:
    """A group at a pubend with a log, without commits that take time."""

    def __init__(self, **terms: Any) -> None:
        self.now_ms = 0
        self.log: list[tuple[int, bytes, dict[str, AttributeValue]]] = []
        self.stored = Stored()
        chosen: dict[str, Any] = {"selector": "job = TRUE", "work_ms": WORK_MS * 3 // 4, **terms}
        self.group = Group(Ledger(Terms("g", **chosen), "", 0), now_ms=0)
        self.sent: list[tuple[str, int, int]] = []
        """Member, tick and attempt of everything handed out."""

    def publish(self, key: AttributeValue = None, *, job: bool = True, lives_ms: int = 0) -> int:
        tick = len(self.log) + 1
        attributes: dict[str, AttributeValue] = {"job": job}
        if lives_ms:
            attributes[EXPIRES] = lives_ms
        if key is not None:
            attributes["key"] = key
        self.log.append((tick, MessageId(1, 1, self.now_ms, tick).to_bytes(), attributes))
        self.group.look(self.log[self.group.cursor - 1 :], tick, now_ms=self.now_ms)
        return tick

    def join(self, name: str, prefetch: int = 10, round_: int = 1) -> bool:
        return self.group.join(name.encode(), "b1", name, round_, prefetch, now_ms=self.now_ms)

    def turn(self) -> list[tuple[str, int, int]]:
        """Hands out what can be, and writes; returns who got which tick in which attempt."""
        given = self.group.hand_out(now_ms=self.now_ms)
        self.stored.write(self.group.ledger)
        sent = [(each.decode(), task.tick, task.attempts) for each, tasks in given.items() for task in tasks]
        for each, tasks in given.items():
            self.group.handing(self.group.members[each], tasks, now_ms=self.now_ms)
        self.sent += sent
        self.group.check_invariants()
        return sent

    def judge(
        self, name: str, tick: int, attempt: int = 1, verdict: Verdict = Verdict.DONE, delay_ms: int = 0
    ) -> Outcome:
        found = self.group.judge(name.encode(), tick, attempt, verdict, delay_ms, "", now_ms=self.now_ms)
        self.stored.write(self.group.ledger)
        return found

    def state(self, tick: int) -> State:
        return self.group.ledger.tasks[tick].state

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.group.on_deadline(now_ms=self.now_ms)

    def restart(self) -> None:
        self.group = Group(self.stored.restored(), now_ms=self.now_ms)
        self.group.look(self.log[self.group.cursor - 1 :], len(self.log), now_ms=self.now_ms)


def test_members_share_what_they_want_and_no_more() -> None:
    home = Home()
    home.join("a", 3)
    home.join("b", 2)
    for place in range(8):
        home.publish(job=place != 3)
    sent = home.turn()
    assert sorted(tick for _, tick, _ in sent) == [1, 2, 3, 5, 6]
    assert sorted(name for name, _, _ in sent) == ["a"] * 3 + ["b"] * 2
    assert home.turn() == []
    name, tick, _ = sent[0]
    assert home.judge(name, tick) is Outcome.KEPT
    assert home.judge(name, tick) is Outcome.KEPT, "the answer may have got lost"
    assert home.turn() == [(name, 7, 1)]
    assert home.group.position == min(each for _, each, _ in sent[1:])


def test_work_comes_to_another_one_when_its_time_is_over() -> None:
    home = Home()
    home.join("a")
    home.publish()
    assert home.turn() == [("a", 1, 1)]
    home.wait(WORK_MS - 1)
    assert home.judge("a", 1, verdict=Verdict.EXTENDED) is Outcome.KEPT
    home.wait(WORK_MS - 1)
    assert home.state(1) is State.HELD
    home.wait(1)
    assert home.state(1) is State.READY
    assert home.judge("a", 1, verdict=Verdict.EXTENDED) is Outcome.LOST
    home.group.leave(b"a", 1, is_final=True, now_ms=home.now_ms)
    home.join("b")
    assert home.turn() == [("b", 1, 2)]
    assert home.judge("a", 1) is Outcome.LOST
    assert home.judge("b", 1, 2) is Outcome.KEPT
    assert home.judge("a", 1) is Outcome.LOST


def test_whoever_is_late_may_still_be_done_if_nobody_else_has_begun() -> None:
    home = Home()
    home.join("a")
    home.publish()
    home.turn()
    home.wait(WORK_MS)
    assert home.judge("a", 1) is Outcome.KEPT
    assert home.turn() == []


def test_a_member_that_is_away_has_some_time_to_come_back() -> None:
    home = Home(work_ms=10 * AWAY_MS)
    home.join("a")
    home.publish()
    home.turn()
    home.group.leave(b"a", 1, is_final=False, now_ms=home.now_ms)
    home.wait(AWAY_MS - 1)
    assert home.join("a", round_=2)
    assert [*home.group.members[b"a"].held] == [1]
    for _ in range(9):
        home.wait(AWAY_MS - 1)
        assert home.state(1) is State.HELD
        home.join("a", round_=2)
    # Nothing is heard any more.
    home.wait(AWAY_MS)
    home.wait(AWAY_MS)
    assert home.state(1) is State.READY
    assert "went away" in home.group.ledger.tasks[1].history[-1]
    home.wait(AWAY_MS)
    assert home.group.members == {}


def test_what_an_absent_member_has_is_handed_to_others_soon_however_much_time_it_had() -> None:
    home = Home(work_ms=100 * AWAY_MS)
    home.join("a")
    home.publish()
    home.turn()
    home.group.leave(b"a", 1, is_final=False, now_ms=home.now_ms)
    home.wait(AWAY_MS - 1)
    assert home.state(1) is State.HELD
    home.wait(1)
    assert home.state(1) is State.READY


def test_an_old_word_of_a_member_that_has_come_anew_does_not_count() -> None:
    home = Home()
    home.join("a", round_=5)
    home.publish()
    home.turn()
    assert not home.join("a", prefetch=1, round_=4)
    assert home.group.members[b"a"].prefetch == 10
    home.group.leave(b"a", 4, is_final=True, now_ms=home.now_ms)
    assert home.state(1) is State.HELD


def test_what_may_not_have_arrived_is_sent_again() -> None:
    home = Home()
    home.join("a")
    home.publish()
    home.turn()
    home.publish()
    home.turn()
    assert home.group.confirm(b"a", 1, 0, now_ms=home.now_ms) == []
    home.now_ms += 1_000
    again = home.group.confirm(b"a", 1, 1, now_ms=home.now_ms)
    assert [(each.sequence, [task.tick for task in each.open(b"a")]) for each in again] == [(2, [2])]
    assert home.group.confirm(b"a", 1, 1, now_ms=home.now_ms) == []
    home.judge("a", 2)
    assert again[0].open(b"a") == []


def test_what_is_sent_again_waits_longer_each_time() -> None:
    home = Home(work_ms=600_000)
    home.join("a")
    home.publish()
    home.turn()
    sent_ms = []
    for now_ms in range(0, 20_000, 500):
        home.now_ms = now_ms
        home.join("a")
        if home.group.confirm(b"a", 1, 0, now_ms=now_ms):
            sent_ms.append(now_ms)
    assert sent_ms == [1_000, 3_000, 7_000, 15_000]


def test_a_member_whose_messages_do_not_arrive_in_time_is_not_sent_more_of_them() -> None:
    home = Home()
    home.join("a", prefetch=2)
    for _ in range(5):
        home.publish()
    home.turn()
    home.wait(WORK_MS)
    home.join("a", prefetch=2)
    assert home.turn() == []
    home.group.confirm(b"a", 1, 1, now_ms=home.now_ms)
    # One at a time, until something arrives in time again.
    assert home.turn() == [("a", 1, 2)]
    home.judge("a", 1, 2)
    assert [tick for _, tick, _ in home.turn()] == [2, 3]


def test_the_numbers_of_a_member_that_was_forgotten_for_a_while_are_others() -> None:
    home = Home()
    home.join("a")
    first = home.group.members[b"a"].series
    home.join("a", round_=2)
    second = home.group.members[b"a"].series
    for _ in range(3):
        home.wait(AWAY_MS)
    assert home.group.members == {}
    home.join("a", round_=2)
    assert first < second < home.group.members[b"a"].series


def test_what_a_member_had_before_a_restart_is_found_in_the_log_and_sent_again() -> None:
    home = Home()
    home.join("a")
    home.publish()
    home.turn()
    home.group = Group(home.stored.restored(), now_ms=home.now_ms)
    home.join("a")
    assert home.turn() == []
    home.group.look(home.log, 1, now_ms=home.now_ms)
    assert home.turn() == [("a", 1, 1)]
    assert home.turn() == []


def test_after_a_restart_what_a_member_has_that_does_not_come_back_is_handed_to_others_soon() -> None:
    home = Home(work_ms=100 * AWAY_MS)
    home.join("a")
    home.join("b")
    home.publish()
    home.publish()
    holders = {name: tick for name, tick, _ in home.turn()}
    home.restart()
    home.join("b")
    home.wait(2 * AWAY_MS - 1)
    home.join("b")
    assert home.state(holders["a"]) is State.HELD
    home.wait(1)
    assert home.state(holders["a"]) is State.READY
    assert home.state(holders["b"]) is State.HELD


def test_a_group_that_knows_enough_leaves_the_rest_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.work.group._TASKS_MAX", 3)
    home = Home()
    home.join("a", prefetch=1)
    for _ in range(5):
        home.publish()
    assert (home.group.ledger.undone, home.group.cursor) == (3, 4)
    home.turn()
    home.judge("a", 1)
    home.group.look(home.log[home.group.cursor - 1 :], 5, now_ms=home.now_ms)
    assert (home.group.ledger.undone, home.group.cursor) == (3, 5)


def test_a_refused_message_waits_and_dies_in_the_end() -> None:
    home = Home(deliveries_max=2)
    home.join("a")
    home.publish()
    home.turn()
    assert home.judge("a", 1, 1, Verdict.REFUSED, 500) is Outcome.KEPT
    assert home.turn() == []
    home.wait(500)
    assert home.turn() == [("a", 1, 2)]
    home.judge("a", 1, 2, Verdict.REFUSED)
    assert home.turn() == []
    assert [*home.group.dying] == [1]
    assert home.group.dying[1].history == ("attempt 1 by a: refused", "attempt 2 by a: refused")
    assert home.judge("a", 1, 2) is Outcome.LOST
    home.restart()
    assert [task.tick for task in home.group.dying.values()] == [1]
    home.group.bury(1)
    assert home.group.position == 2


def test_what_was_not_begun_counts_as_no_failure() -> None:
    home = Home(deliveries_max=1)
    home.join("a")
    home.publish()
    for attempt in range(1, 4):
        assert home.turn() == [("a", 1, attempt)]
        home.judge("a", 1, attempt, Verdict.RETURNED)
    home.turn()
    home.group.leave(b"a", 1, is_final=True, now_ms=home.now_ms)
    assert [*home.group.dying] == [1]


def test_messages_of_one_key_are_handed_out_one_at_a_time() -> None:
    home = Home(key="key")
    home.join("a")
    home.join("b")
    for key in ("x", "x", "y", None, "x"):
        home.publish(key)
    assert sorted(tick for _, tick, _ in home.turn()) == [1, 3, 4]
    holder = next(name for name, tick, _ in home.sent if tick == 1)
    home.judge(holder, 1, 1, Verdict.REFUSED, 100)
    assert home.turn() == [], "a refused message blocks its key"
    home.wait(100)
    ((holder, tick, attempt),) = home.turn()
    assert (tick, attempt) == (1, 2)
    home.judge(holder, 1, 2)
    assert [tick for _, tick, _ in home.turn()] == [2]


def test_a_restart_forgets_nothing_that_a_member_was_told() -> None:
    home = Home()
    home.join("a", 2)
    for _ in range(4):
        home.publish()
    assert home.turn() == [("a", 1, 1), ("a", 2, 1)]
    home.judge("a", 1)
    home.restart()
    home.join("b")
    assert home.turn() == [("b", 3, 1), ("b", 4, 1)], "the first one is done, the second one may be with its member"
    assert home.judge("a", 1) is Outcome.KEPT
    home.join("a", round_=2)
    assert home.judge("a", 2) is Outcome.KEPT
    assert home.group.position == 3


def test_a_log_that_was_lost_is_not_waited_for() -> None:
    home = Home()
    home.join("a", 1)
    home.publish()
    home.turn()
    home.group = Group(home.stored.restored(), now_ms=0)
    assert [task.tick for task in home.group.lose(1)] == [1]
    assert home.group.position == 2


def test_a_message_that_was_given_up_is_not_waited_for_if_its_log_was_lost() -> None:
    home = Home(deliveries_max=1)
    home.join("a")
    for tick in (1, 2):
        home.publish()
        home.turn()
        home.judge("a", tick, 1, Verdict.REFUSED)
    home.group = Group(home.stored.restored(), now_ms=0)
    assert [task.tick for task in home.group.lose(1)] == [1]
    assert [task.tick for task in home.group.dying.values()] == [2]
    home.group.check_invariants()


def test_a_message_that_was_given_up_blocks_its_key_until_it_is_dead() -> None:
    home = Home(key="key", deliveries_max=1)
    home.join("a")
    for _ in range(2):
        home.publish("x")
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED)
    assert (home.state(1), home.turn()) == (State.DYING, [])
    home.restart()
    home.join("a")
    assert home.turn() == []
    home.group.bury(1)
    assert home.turn() == [("a", 2, 1)]


def test_a_refused_message_blocks_its_key_until_it_is_done() -> None:
    home = Home(key="key")
    home.join("a")
    for _ in range(2):
        home.publish("x")
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED, 500)
    home.restart()
    home.join("a")
    assert home.turn() == []
    home.wait(500)
    assert home.turn() == [("a", 1, 2)]
    home.judge("a", 1, 2)
    assert home.turn() == [("a", 2, 1)]


def test_a_delay_holds_over_a_restart() -> None:
    home = Home()
    home.join("a")
    home.publish()
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED, 60_000)
    home.now_ms = 30_000
    home.restart()
    home.join("a")
    assert home.turn() == []
    assert home.state(1) is State.DELAYED
    for home.now_ms in (35_000, 40_000, 45_000, 50_000, 55_000, 59_999):
        home.join("a")
        home.wait(0)
    assert home.turn() == []
    home.wait(1)
    assert home.turn() == [("a", 1, 2)]


def test_a_delay_that_is_over_by_a_restart_is_over() -> None:
    home = Home()
    home.join("a")
    home.publish()
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED, 500)
    home.now_ms = 500
    home.restart()
    home.join("a")
    assert home.turn() == [("a", 1, 2)]


def test_no_delay_is_longer_than_there_can_be_whatever_a_member_says() -> None:
    home = Home()
    home.now_ms = 10 * DELAY_MS_MAX
    home.join("a")
    home.publish()
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED, 2**60)
    assert home.group.ledger.tasks[1].until_ms == 11 * DELAY_MS_MAX


def test_a_delay_is_no_longer_than_it_was_if_the_clock_was_set_back_since() -> None:
    home = Home()
    home.now_ms = 3_600_000
    home.join("a")
    home.publish()
    home.turn()
    home.judge("a", 1, 1, Verdict.REFUSED, 3_000)
    home.now_ms = 0
    home.restart()
    home.wait(2_999)
    assert home.state(1) is State.DELAYED
    home.wait(1)
    assert home.state(1) is State.READY


def test_members_that_are_gone_are_forgotten_also_where_nothing_happens() -> None:
    home = Home()
    home.join("gone")
    home.publish()
    home.turn()
    home.join("steady")
    home.group.leave(b"gone", 1, is_final=False, now_ms=0)
    while len(home.group.members) > 1:
        due_ms = home.group.next_deadline()
        assert due_ms is not None
        assert home.now_ms < due_ms <= 2 * AWAY_MS
        home.wait(due_ms - home.now_ms)
        home.join("steady")
    assert [*home.group.members] == [b"steady"]
    assert home.now_ms == 2 * AWAY_MS
    assert home.group.next_deadline() == 3 * AWAY_MS


def die(home: Home, name: str) -> None:
    """A member is killed, with all that it has."""
    member = home.group.members[name.encode()]
    home.group.leave(name.encode(), member.round, is_final=True, now_ms=home.now_ms)


def test_what_may_die_is_handed_out_alone_so_that_nothing_dies_with_it() -> None:
    home = Home(deliveries_max=2)
    home.join("a")
    for _ in range(4):
        home.publish()
    assert len(home.turn()) == 4
    die(home, "a")
    home.join("b")
    assert home.turn() == [("b", 1, 2)]
    home.publish()
    assert home.turn() == [], "it gets nothing else until it has judged that one"
    die(home, "b")
    assert [task.tick for task in home.group.dying.values()] == [1]
    home.join("c")
    for tick in (2, 3, 4):
        assert home.turn() == [("c", tick, 2)]
        home.judge("c", tick, 2)
    assert home.turn() == [("c", 5, 1)]


def test_a_member_that_has_a_message_alone_has_it_alone_after_a_restart() -> None:
    home = Home(deliveries_max=1)
    home.join("a")
    for _ in range(2):
        home.publish()
    assert home.turn() == [("a", 1, 1)]
    home.restart()
    home.join("a")
    assert home.turn() == []
    home.judge("a", 1)
    assert home.turn() == [("a", 2, 1)]


def test_if_no_member_has_nothing_those_with_the_least_are_handed_no_more_until_they_have_nothing() -> None:
    home = Home(deliveries_max=2)
    for name, prefetch in (("a", 3), ("b", 2), ("c", 3), ("d", 3)):
        home.join(name, prefetch)
    for _ in range(11):
        home.publish()
    held = {name: [tick for each, tick, _ in home.sent if each == name] for name in "abcd"} if home.turn() else {}
    assert sorted(map(len, held.values())) == [2, 3, 3, 3]
    home.group.join(b"failing", "b1", "failing", 1, 1, now_ms=0)
    poison = home.publish()
    assert home.turn() == [("failing", poison, 1)]
    die(home, "failing")
    for _ in range(6):
        home.publish()
    for name in "abcd":
        home.judge(name, held[name].pop(0))
    # At most half of them are kept from other work, and only as many as are needed.
    assert sorted(name for name, _, _ in home.turn()) == ["a", "c", "d"]
    home.judge("b", held["b"].pop(0))
    assert [each[::2] for each in home.turn()] == [("b", 2)]
    assert home.turn() == []


def test_a_message_that_may_die_waits_for_another_member_if_one_takes_long() -> None:
    home = Home(deliveries_max=2)
    for name, prefetch in (("slow", 1), ("quick", 2), ("failing", 1)):
        home.join(name, prefetch)
        for _ in range(prefetch):
            home.publish()
        home.turn()
    assert home.sent == [("slow", 1, 1), ("quick", 2, 1), ("quick", 3, 1), ("failing", 4, 1)]
    die(home, "failing")
    for _ in range(3):
        home.publish()
    home.judge("quick", 2)
    assert home.turn() == [("quick", 5, 1)], "the slow one has least"
    home.wait(WORK_MS - 1)
    for name, tick in (("slow", 1), ("quick", 3), ("quick", 5)):
        home.judge(name, tick, verdict=Verdict.EXTENDED)
    home.wait(1)
    home.judge("quick", 3)
    assert home.turn() == []
    home.judge("quick", 5)
    assert home.turn() == [("quick", 4, 2)]
    home.judge("slow", 1)
    assert home.turn() == [("slow", 6, 1)]


def test_a_single_member_that_wants_one_message_at_a_time_gets_all_of_them() -> None:
    home = Home(deliveries_max=2, key="key")
    home.join("a", prefetch=1)
    for key in ("x", "x", "y", None):
        home.publish(key)
    order = []
    for _ in range(8):
        ((name, tick, attempt),) = home.turn()
        order.append((tick, attempt))
        home.judge(name, tick, attempt, Verdict.REFUSED if attempt == 1 else Verdict.DONE)
    assert order == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2)]
    assert home.turn() == []


def test_nobody_is_kept_from_work_for_a_message_that_was_done_meanwhile() -> None:
    home = Home(deliveries_max=2)
    for name, prefetch in (("a", 1), ("b", 2)):
        home.join(name, prefetch)
        for _ in range(prefetch):
            home.publish()
        home.turn()
    assert home.sent == [("a", 1, 1), ("b", 2, 1), ("b", 3, 1)]
    die(home, "a")
    assert home.turn() == []
    # It is late, and nobody else has begun.
    assert home.judge("a", 1) is Outcome.KEPT
    home.publish()
    home.judge("b", 2)
    assert home.turn() == [("b", 4, 1)]


def test_a_later_message_of_a_key_that_expires_offers_the_first_one_no_second_time() -> None:
    home = Home(deliveries_max=2, key="key")
    home.publish("x")
    home.publish("x", lives_ms=100)
    home.publish("x")
    home.wait(100)
    home.join("a", prefetch=1)
    assert home.turn() == [("a", 1, 1)]
    home.judge("a", 1, 1, Verdict.REFUSED)
    # As a message that may be handed out with others.
    home.group.check_invariants()
    assert home.turn() == [("a", 1, 2)]


def test_messages_of_a_group_without_dead_letters_are_handed_out_together_however_often_they_fail() -> None:
    home = Home()
    for attempt in range(1, 30):
        home.join("a")
        if attempt == 1:
            home.publish()
            home.publish()
        assert home.turn() == [("a", 1, attempt), ("a", 2, attempt)]
        die(home, "a")


@pytest.mark.parametrize("is_final", [True, False])
def test_a_member_that_goes_after_a_restart_keeps_nothing_that_is_yet_to_be_read(is_final: bool) -> None:
    home = Home(work_ms=100 * AWAY_MS)
    home.join("a")
    home.publish()
    home.turn()
    home.group = Group(home.stored.restored(), now_ms=0)
    home.join("a")
    home.group.leave(b"a", 1, is_final=is_final, now_ms=0)
    home.group.look(home.log, 1, now_ms=0)
    home.turn()
    home.wait(2 * AWAY_MS)
    assert home.state(1) is State.READY


def test_a_lost_message_that_was_given_up_does_not_keep_later_dead_letters_waiting() -> None:
    home = Home(deliveries_max=1)
    home.join("a", 1)
    home.publish()
    home.turn()
    home.judge("a", 1, verdict=Verdict.REFUSED)
    home.group = Group(home.stored.restored(), now_ms=0)
    assert [*home.group.dying] == [1]
    home.group.lose(1)
    assert not home.group.dying
    home.group.check_invariants()


def test_what_a_member_had_before_a_restart_takes_a_place_before_it_has_been_read() -> None:
    home = Home()
    home.join("a", 1)
    home.join("b", 1)
    for _ in range(2):
        home.publish()
    (_, first, _), (other, second, _) = sorted(home.turn(), key=lambda each: each[1])
    home.judge("a" if other == "b" else "b", first, verdict=Verdict.RETURNED)
    home.group = Group(home.stored.restored(), now_ms=0)
    home.join(other, 1)
    home.group.look(home.log[:1], first, now_ms=0)
    assert home.turn() == [], "it has one, which has yet to be read"
    home.group.look(home.log, second, now_ms=0)
    assert home.turn() == [(other, second, 1)]


class Life(RuleBasedStateMachine):
    """Random lives of a group, with commits that take time and restarts that lose what was not committed."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Home(key="key", deliveries_max=3)
        self.rounds = dict.fromkeys("abc", 0)
        self.done: dict[int, tuple[str, int]] = {}
        self.last: dict[int, int] = {}
        """The last attempt of each message that somebody was handed."""
        self.ended: set[tuple[int, int]] = set()
        """Attempts that have ended: refused, run out, or their member gone for long enough."""
        self.dead: set[int] = set()
        self.held: dict[tuple[int, int], tuple[str, int]] = {}
        """By message and attempt: who has it, and when that ends at the latest."""

    @rule(key=st.sampled_from([None, "x", "y"]), job=st.booleans())
    def publish(self, key: str | None, job: bool) -> None:
        self.home.publish(key, job=job)

    @rule(name=st.sampled_from("abc"), prefetch=st.integers(1, 5))
    def join(self, name: str, prefetch: int) -> None:
        self.rounds[name] += 1
        self.home.join(name, prefetch, self.rounds[name])

    @rule(name=st.sampled_from("abc"))
    def renew(self, name: str) -> None:
        if name.encode() in self.home.group.members:
            self.home.join(name, 5, self.rounds[name])

    @rule(name=st.sampled_from("abc"), is_final=st.booleans())
    def leave(self, name: str, is_final: bool) -> None:
        was_known = name.encode() in self.home.group.members
        self.home.group.leave(name.encode(), self.rounds[name], is_final=is_final, now_ms=self.home.now_ms)
        for (tick, attempt), (holder, until_ms) in list(self.held.items()):
            if holder == name and was_known:
                latest_ms = self.home.now_ms + (0 if is_final else AWAY_MS)
                self.held[tick, attempt] = holder, min(until_ms, latest_ms)

    @rule()
    def hand_out(self) -> None:
        for name, tick, attempt in self.home.turn():
            assert tick not in self.done
            assert tick not in self.dead
            assert self.home.log[tick - 1][2]["job"]
            assert attempt > self.last.get(tick, 0)
            for before in range(self.last.get(tick, 0), attempt):
                # Whoever had it before has no time left.
                _, until_ms = self.held.get((tick, before), ("", 0))
                assert until_ms <= self.home.now_ms
            key = self.home.log[tick - 1][2].get("key")
            if key is not None:
                earlier = [each for each in self.home.log[: tick - 1] if each[2].get("key") == key and each[2]["job"]]
                assert all(each[0] in self.done or each[0] in self.dead for each in earlier)
            self.last[tick] = attempt
            self.held[tick, attempt] = name, self.home.now_ms + WORK_MS

    @rule(data=st.data(), verdict=st.sampled_from(Verdict), delay_ms=st.sampled_from([0, 300]))
    def judge(self, data: st.DataObject, verdict: Verdict, delay_ms: int) -> None:
        if not self.held:
            return
        tick, attempt = data.draw(st.sampled_from(sorted(self.held)))
        name, _ = self.held[tick, attempt]
        outcome = self.home.judge(name, tick, attempt, verdict, delay_ms)
        if verdict is Verdict.DONE and outcome is Outcome.KEPT:
            assert self.done.setdefault(tick, (name, attempt)) == (name, attempt), "two members have done it"
            assert attempt == self.last[tick]
        if outcome is Outcome.KEPT:
            self.held[tick, attempt] = name, self.home.now_ms + (WORK_MS if verdict is Verdict.EXTENDED else 0)

    @rule(ms=st.sampled_from([1, 300, WORK_MS, AWAY_MS]))
    def wait(self, ms: int) -> None:
        self.home.wait(ms)

    @rule()
    def bury(self) -> None:
        for number, task in list(self.home.group.dying.items()):
            assert task.tick not in self.done
            assert len(task.history) == task.failures == 3
            self.dead.add(task.tick)
            self.home.group.bury(number)

    @rule()
    def restart(self) -> None:
        # What was not written was not told to anybody.
        if self.home.stored.values:
            self.home.restart()
            self.dead -= {task.tick for task in self.home.group.dying.values()}
            for key, (name, until_ms) in list(self.held.items()):
                self.held[key] = name, until_ms

    @invariant()
    def holds(self) -> None:
        self.home.group.check_invariants()
        for member in self.home.group.members.values():
            assert len(member.held) < 2 or all(task.failures < 2 for task in member.held.values())

    def teardown(self) -> None:
        # Whatever has happened, everything is done or dead in the end.
        home = self.home
        self.bury()
        self.rounds["a"] += 1
        tasks: list[Task] = []
        for _ in range(4 * len(home.log) + 10):
            home.wait(AWAY_MS)
            home.join("a", 1_000, self.rounds["a"])
            self.hand_out()
            self.bury()
            tasks = [*home.group.ledger.undone_tasks()]
            for task in tasks:
                if task.state is State.HELD:
                    assert home.judge(task.member.decode(), task.tick, task.attempts) is Outcome.KEPT
                    self.done[task.tick] = (task.member.decode(), task.attempts)
        assert [*home.group.ledger.undone_tasks()] == []
        jobs = {tick for tick, _, attributes in home.log if attributes["job"]}
        assert {*self.done} | self.dead == jobs
        assert not {*self.done} & self.dead


TestLife = Life.TestCase


def test_what_has_expired_is_not_handed_out_and_is_done() -> None:
    home = Home()
    home.publish(lives_ms=500)
    home.publish()
    home.publish(lives_ms=2_000)
    home.now_ms = 500
    home.join("a")
    assert home.turn() == [("a", 2, 1), ("a", 3, 1)]
    assert home.group.counts["expired"] == 1
    assert home.group.take_expired() == [home.log[0][1]]
    assert home.group.take_expired() == []
    home.group.confirm(b"a", 1, 1, now_ms=home.now_ms)
    home.wait(1_600)
    assert home.state(3) is State.DONE, "its time was over, and so was the message's"
    assert home.group.counts["expired"] == 2
    assert [tick for _, tick, _ in home.turn()] == [2]


def test_what_a_member_has_does_not_expire() -> None:
    home = Home()
    home.join("a")
    home.publish(lives_ms=100)
    assert home.turn() == [("a", 1, 1)]
    home.wait(WORK_MS - 1)
    assert home.judge("a", 1) is Outcome.KEPT
    assert home.group.counts["expired"] == 0


def test_what_expires_while_nobody_is_there_holds_no_log() -> None:
    home = Home()
    home.publish(lives_ms=100)
    home.publish("k", lives_ms=300)
    home.publish("k", lives_ms=200)
    home.turn()
    assert home.group.next_deadline() == 100
    home.wait(250)
    home.turn()
    assert (home.group.position, home.group.counts["expired"]) == (2, 2)
    home.restart()
    home.wait(50)
    home.turn()
    assert (home.group.position, home.group.ledger.undone) == (4, 0)
    home.now_ms = 1_000
    home.publish(lives_ms=-500)
    assert home.group.position == 5, "it had expired before anybody looked"
