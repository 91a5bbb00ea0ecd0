"""Groups at a broker's pubends: nothing is handed out or answered before it is durable, and nothing is forgotten."""

from __future__ import annotations

from typing import Any

from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.durable import SetValue
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.pubend.work import WorkAnswer, WorkHome
from penstock.broker.settings import BrokerSettings, SettingsInForce
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.tick import TickRange, tick_at
from penstock.protocol.frames import LATEST, Carry, Handed, WorkAsk, WorkJoined, WorkLeave, WorkOutcomes, WorkVerdicts
from penstock.protocol.work_frames import DEAD_LETTERS, Outcome, Verdict
from penstock.streams.knowledge import Knowledge

NOW_MS = 1_000_000
FIRST = tick_at(NOW_MS)
WORK_MS = 1_000


def body(number: int) -> bytes:
    return encode_body(MessageId(1, 2, NOW_MS, number % 1_000), Message({"number": number}, b"x"))


class Pubend:
    """A pubend with groups, and a disk that is as fast as a test wants it to be."""

    def __init__(self, **settings: Any) -> None:
        self.settings = SettingsInForce.of(BrokerSettings("pb", pubends=("p",), **settings))
        self.now_ms = NOW_MS
        self.values: dict[str, bytes] = {}
        self.messages: list[tuple[int, bytes]] = []
        self.life = 0
        self.start()

    def start(self) -> None:
        self.life += 1
        self.log = PubendLog("p", self.settings)
        self.log.begin(now_ms=NOW_MS)
        self.log.promised = self.messages[-1][0] if self.messages else FIRST - 1
        self.commits = Commits()
        self.connections = Connections(self.settings)
        registers = {"p": Register("p", {})}
        logs = {"p": self.log}
        self.carried: list[Carry] = []
        letters = DeadLetters("pb", logs, publish=lambda *_: None, send=self.carried.append)
        values = dict(self.values)
        self.home = WorkHome(
            self.settings, self.connections, logs, registers, self.commits, values, letters, life=self.life
        )
        self.home.begin(now_ms=self.now_ms)
        self.answers: list[WorkAnswer] = []

    def publish(self, count: int = 1) -> None:
        ticks = [FIRST + len(self.messages) + number for number in range(count)]
        bodies = [body(tick) for tick in ticks]
        self.messages += zip(ticks, bodies, strict=True)
        self.log.promised = ticks[-1]
        self.home.on_announced(Knowledge("p", ticks[0], ticks[-1], ticks, bodies), now_ms=self.now_ms)

    def ask(self, member: bytes = b"a", round_: int = 1, received: int = 0, **wishes: Any) -> None:
        given: dict[str, Any] = {"life": self.life, "series": 1, "start": 0, "prefetch": 10, **wishes}
        prefetch, start = given.pop("prefetch"), given.pop("start")
        key, selector = given.pop("key", ""), given.pop("selector", "")
        deliveries_max = given.pop("deliveries_max", 0)
        name = given.pop("name", member.decode())
        frame = WorkAsk(
            "p",
            "sb",
            member,
            name,
            round_,
            received,
            prefetch,
            "g",
            selector,
            key,
            WORK_MS,
            deliveries_max,
            start,
            **given,
        )
        self.answers += self.home.ask(frame, now_ms=self.now_ms)

    def judge(self, member: bytes, *said: tuple[int, int, Verdict]) -> None:
        verdicts = tuple((FIRST + place, attempt, verdict, 0, "") for place, attempt, verdict in said)
        self.home.judge(WorkVerdicts("p", "sb", member, "g", verdicts), now_ms=self.now_ms)

    def finish(self) -> int:
        """Ends a turn; returns the number of its commit, or of the last one."""
        self.answers += self.home.finish(now_ms=self.now_ms)
        commit = self.commits.take()
        if commit is None:
            return self.commits.durable
        for change in commit.changes:
            assert isinstance(change, SetValue)
            if change.value is None:
                self.values.pop(change.name, None)
            else:
                self.values[change.name] = change.value
        return commit.number

    def sync(self) -> list[WorkAnswer]:
        """Ends a turn and makes it durable; what is said by then."""
        number = self.finish()
        self.commits.on_committed(number)
        self.answers += self.home.on_committed(number, now_ms=self.now_ms)
        return self.take()

    def read(self, *, damaged: TickRange | None = None, up_to: int = 2**62) -> None:
        """Answers the read that was asked for."""
        (effect,) = self.home.take_effects()
        last = min(up_to, effect.last)
        found = [each for each in self.messages if effect.first <= each[0] <= last]
        assert self.home.on_read(effect.number, found, last, damaged, now_ms=self.now_ms)

    def take(self) -> list[WorkAnswer]:
        answers, self.answers = self.answers, []
        return answers

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.home.on_deadline(now_ms=self.now_ms)


def handed(answers: list[WorkAnswer]) -> list[tuple[bytes, int, int]]:
    """Member, place in the log and attempt of what was handed out."""
    return [
        (each.member, tick - FIRST, attempt)
        for each in answers
        if isinstance(each, Handed)
        for tick, attempt in zip(each.ticks, each.attempts, strict=True)
    ]


def outcomes(answers: list[WorkAnswer]) -> list[int]:
    return [outcome for each in answers if isinstance(each, WorkOutcomes) for *_, outcome in each.outcomes]


def test_a_member_is_told_that_it_belongs_to_the_group_when_that_is_durable() -> None:
    pubend = Pubend()
    pubend.ask()
    number = pubend.finish()
    assert pubend.take() == []
    assert pubend.home.on_committed(number, now_ms=NOW_MS) == [WorkJoined("p", "sb", b"a", 1)]


def test_a_member_is_told_again_until_its_host_has_heard_it() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.ask()
    assert pubend.sync() == [WorkJoined("p", "sb", b"a", 1)]
    pubend.ask(has_joined=True)
    assert pubend.sync() == []


def test_nothing_is_handed_out_before_that_is_durable() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.publish(2)
    number = pubend.finish()
    assert pubend.take() == []
    # Neither if the member comes anew meanwhile.
    pubend.ask(round_=2)
    later = pubend.finish()
    assert handed(pubend.take()) == []
    pubend.answers += pubend.home.on_committed(max(number, later), now_ms=NOW_MS)
    assert {*handed(pubend.take())} == {(b"a", 0, 1), (b"a", 1, 1)}


def test_an_attempt_whose_time_is_over_before_it_is_durable_is_never_sent() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.publish()
    first = pubend.finish()
    pubend.wait(WORK_MS * 4 // 3)
    second = pubend.finish()
    assert second > first
    assert handed(pubend.home.on_committed(first, now_ms=pubend.now_ms)) == []
    assert handed(pubend.home.on_committed(second, now_ms=pubend.now_ms)) == [(b"a", 0, 2)]


def test_a_verdict_is_answered_when_it_is_durable() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish()
    pubend.sync()
    pubend.judge(b"a", (0, 1, Verdict.DONE))
    number = pubend.finish()
    assert pubend.take() == []
    assert outcomes(pubend.home.on_committed(number, now_ms=NOW_MS)) == [Outcome.KEPT]


def test_an_answer_that_changes_nothing_does_not_wait_while_messages_wait_for_space() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish()
    number = pubend.finish()
    # Only the values are durable: the disk is full.
    pubend.home.on_committed(number, now_ms=NOW_MS)
    pubend.take()
    pubend.judge(b"a", (0, 1, Verdict.EXTENDED))
    pubend.finish()
    assert outcomes(pubend.take()) == [Outcome.KEPT]


def test_what_was_done_and_handed_out_is_known_after_a_restart() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish(3)
    pubend.sync()
    pubend.judge(b"a", (0, 1, Verdict.DONE))
    pubend.sync()
    pubend.start()
    pubend.ask(b"b")
    pubend.sync()
    pubend.read()
    assert handed(pubend.sync()) == []
    pubend.ask(b"a")
    # It had them, and perhaps never got them.
    assert {*handed(pubend.sync())} == {(b"a", 1, 1), (b"a", 2, 1)}
    pubend.judge(b"a", (0, 1, Verdict.DONE))
    assert outcomes(pubend.sync()) == [Outcome.KEPT]


def test_what_a_restarted_pubend_sends_is_numbered_in_its_own_life() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish(2)
    (before,) = [each for each in pubend.sync() if isinstance(each, Handed)]
    pubend.start()
    # The host has received something of the former life: that confirms nothing of this one.
    pubend.ask(received=5, life=1)
    pubend.sync()
    pubend.read()
    (after,) = [each for each in pubend.sync() if isinstance(each, Handed)]
    assert (before.life, after.life) == (1, 2)
    assert after.sequence == 1
    pubend.now_ms += 1_000
    pubend.ask(received=5, life=1)
    assert [each.sequence for each in pubend.take() if isinstance(each, Handed)] == [1]
    pubend.now_ms += 2_000
    pubend.ask(received=1)
    assert pubend.take() == []
    assert pubend.home.counts["work_resent"] == 1


def test_a_group_begins_with_new_messages_or_with_all_there_are() -> None:
    for start, expected in ((LATEST, []), (0, [(b"a", 0, 1), (b"a", 1, 1)])):
        pubend = Pubend()
        pubend.messages = [(FIRST + place, body(place)) for place in range(2)]
        pubend.start()
        pubend.log.trimmed_below = FIRST
        pubend.ask(start=start)
        pubend.finish()
        if start != LATEST:
            pubend.read()
        assert handed(pubend.sync()) == expected


def test_one_read_at_a_time_goes_on_until_the_group_has_caught_up() -> None:
    pubend = Pubend()
    pubend.messages = [(FIRST + place, body(place)) for place in range(4)]
    pubend.start()
    pubend.log.trimmed_below = FIRST
    pubend.ask()
    pubend.sync()
    pubend.read(up_to=FIRST + 1)
    assert len(handed(pubend.sync())) == 2
    pubend.read()
    assert len(handed(pubend.sync())) == 2
    assert pubend.home.take_effects() == []
    assert not pubend.home.on_read(12_345, [], 5, None, now_ms=NOW_MS)


def test_damage_in_the_log_is_told_and_not_waited_for() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish(2)
    pubend.sync()
    pubend.start()
    pubend.sync()
    pubend.read(up_to=FIRST - 1, damaged=TickRange(FIRST, FIRST))
    pubend.sync()
    assert pubend.home.counts["work_lost"] == 1
    pubend.read()
    pubend.ask(b"a")
    assert handed(pubend.sync()) == [(b"a", 1, 1)]


def test_members_that_ask_for_something_else_are_told_what_the_group_has() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.ask(b"b", key="symbol")
    (answer,) = pubend.take()
    assert isinstance(answer, WorkJoined)
    assert "shared_by" in answer.problem
    pubend.ask(b"c", selector="no selector (")
    (answer,) = pubend.take()
    assert isinstance(answer, WorkJoined)
    assert "selector" in answer.problem


def test_groups_have_a_limit_and_no_names_of_durable_subscriptions() -> None:
    pubend = Pubend(groups_max=1)
    pubend.ask()
    pubend.sync()
    frame = WorkAsk("p", "sb", b"a", "a", 1, 0, 1, "h", "", "", WORK_MS, 0, 0)
    (answer,) = pubend.home.ask(frame, now_ms=NOW_MS)
    assert isinstance(answer, WorkJoined)
    assert "which is its limit" in answer.problem


def test_a_member_that_leaves_gives_everything_back() -> None:
    pubend = Pubend()
    pubend.ask(b"a")
    pubend.publish()
    assert handed(pubend.sync()) == [(b"a", 0, 1)]
    pubend.ask(b"b")
    pubend.home.leave(WorkLeave("p", "sb", b"a", 1, "g", is_final=True), now_ms=NOW_MS)
    assert handed(pubend.sync()) == [(b"b", 0, 2)]


def test_a_group_that_is_forgotten_leaves_nothing_and_tells_its_members() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish()
    pubend.sync()
    assert pubend.values
    assert pubend.home.client_of("p", "g") == ""
    pubend.home.forget("p", "g")
    (answer,) = pubend.sync()
    assert isinstance(answer, WorkJoined)
    assert "was forgotten" in answer.problem
    assert pubend.values == {}
    assert pubend.home.client_of("p", "g") is None


def test_dead_letters_are_kept_where_they_come_as_soon_as_that_is_set() -> None:
    pubend = Pubend()
    pubend.publish()
    assert [*pubend.home.groups] == []
    pubend.settings.change_to(BrokerSettings("pb", pubends=("p",), dead_letters="p"))
    pubend.home.keep_dead_letters(now_ms=NOW_MS)
    assert [*pubend.home.groups] == [("p", DEAD_LETTERS)]
    pubend.sync()
    assert pubend.values
    pubend.home.keep_dead_letters(now_ms=NOW_MS)
    assert pubend.finish() == pubend.commits.durable


def test_a_damaged_group_of_dead_letters_is_made_anew_when_it_is_forgotten() -> None:
    pubend = Pubend(dead_letters="p")
    pubend.sync()
    pubend.values = dict.fromkeys(pubend.values, b"\xff")
    pubend.start()
    assert pubend.home.problem_with_forgetting("p", DEAD_LETTERS) == ""
    pubend.home.forget("p", DEAD_LETTERS)
    pubend.sync()
    pubend.start()
    assert [*pubend.home.groups] == [("p", DEAD_LETTERS)]
    assert pubend.home.problem_with_forgetting("p", DEAD_LETTERS)


def test_nobody_makes_the_group_of_dead_letters_where_none_come() -> None:
    pubend = Pubend()
    (answer,) = pubend.home.ask(WorkAsk("p", "sb", b"a", "a", 1, 0, 1, DEAD_LETTERS, "", "", WORK_MS, 0, 0), now_ms=0)
    assert isinstance(answer, WorkJoined)
    assert "made by the broker" in answer.problem


def test_a_question_that_was_on_its_way_does_not_make_a_forgotten_group_anew() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.home.forget("p", "g")
    pubend.sync()
    pubend.ask(has_joined=True)
    (answer,) = pubend.sync()
    assert isinstance(answer, WorkJoined)
    assert "was forgotten" in answer.problem
    assert pubend.home.client_of("p", "g") is None
    assert pubend.values == {}
    # Who asks for the first time makes the group anew.
    pubend.ask()
    assert pubend.sync() == [WorkJoined("p", "sb", b"a", 1)]


def test_a_dead_letter_is_sent_when_its_number_is_durable() -> None:
    pubend = Pubend(dead_letters="dead")
    pubend.ask(deliveries_max=1)
    pubend.publish(2)
    pubend.sync()
    pubend.judge(b"a", (0, 1, Verdict.REFUSED))
    number = pubend.finish()
    assert pubend.carried == []
    pubend.commits.on_committed(number)
    pubend.home.on_committed(number, now_ms=pubend.now_ms)
    assert pubend.home.is_stirred
    pubend.sync()
    (carried,) = pubend.carried
    assert (carried.first, len(carried.bodies)) == (1, 1)
    pubend.judge(b"a", (1, 1, Verdict.REFUSED))
    pubend.start()
    pubend.sync()
    pubend.read()
    pubend.sync()
    (again,) = pubend.carried
    assert (again.first, again.bodies) == (carried.first, carried.bodies)


def test_a_group_whose_values_are_damaged_holds_the_log_until_it_is_forgotten() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    pubend.values = dict.fromkeys(pubend.values, b"\xff")
    pubend.start()
    assert pubend.home.lowest("p") == ("g", 0)
    pubend.ask()
    (answer,) = pubend.take()
    assert isinstance(answer, WorkJoined)
    assert "is damaged" in answer.problem
    pubend.home.forget("p", "g")
    pubend.sync()
    assert pubend.values == {}
    assert pubend.home.lowest("p") is None


def test_a_group_needs_the_log_from_the_first_message_that_is_not_done() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.publish(3)
    pubend.sync()
    pubend.judge(b"a", (0, 1, Verdict.DONE), (2, 1, Verdict.DONE))
    pubend.sync()
    assert pubend.home.lowest("p") == ("g", FIRST + 1)
    pubend.judge(b"a", (1, 1, Verdict.DONE))
    pubend.sync()
    assert pubend.home.lowest("p") == ("g", FIRST + 3)
    status = pubend.home.status("p", None)["g"]
    assert (status.known, status.held, status.counts["done"]) == (0, 0, 3)
    pubend.home.check_invariants()


def test_members_of_one_name_are_told_apart() -> None:
    pubend = Pubend()
    for member, name in ((b"a", "worker"), (b"b", "worker"), (b"c", "c")):
        pubend.ask(member, name=name, prefetch=1)
    pubend.sync()
    pubend.publish(3)
    pubend.sync()
    assert pubend.home.status("p", None)["g"].members == {"worker 61": 1, "worker 62": 1, "c": 1}


def test_large_messages_go_in_frames_of_their_own() -> None:
    pubend = Pubend()
    pubend.ask()
    pubend.sync()
    large = encode_body(MessageId(1, 2, NOW_MS, 1), Message({}, bytes(50_000)))
    ticks = [FIRST, FIRST + 1, FIRST + 2]
    pubend.log.promised = ticks[-1]
    pubend.home.on_announced(Knowledge("p", ticks[0], ticks[-1], ticks, [large] * 3), now_ms=NOW_MS)
    assert [len(each.ticks) for each in pubend.sync() if isinstance(each, Handed)] == [2, 1]
