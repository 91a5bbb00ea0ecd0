"""Trims wait until the last values of what goes are kept, and both become durable together."""

from __future__ import annotations

from random import Random

import pytest

from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.durable import ForgetPublishers, Recovered, SetValue, Trim
from penstock.broker.effects import Commit, ReadLog, Record
from penstock.broker.pubend.compaction import Compaction
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.tick import TickRange
from penstock.sim.disk import Disk

NOW_MS = 1_000_000
GRACE_MS = 10_000
IDS = MessageIdSource(publisher=1, broker=1)


class Home:
    """A pubend ``p`` that keeps last values by ``symbol``, with a disk that outlives it."""

    def __init__(self, attribute: str = "symbol", **limits: object) -> None:
        limits = {"retain_ms": 0, "grace_ms": GRACE_MS} | limits
        views = (("p", attribute),) if attribute else ()
        self.settings = BrokerSettings("pb", pubends=("p", "q"), last_values=views, **limits)  # type: ignore[arg-type]
        self.disk = Disk()
        self.now_ms = NOW_MS
        self.sent: dict[int, str] = {}
        """The symbol of each durable message, by tick."""
        self.start()

    def start(self) -> None:
        recovered: Recovered = self.disk.recovered()
        self.connections = Connections(self.settings)
        self.commits = Commits()
        self.logs = {each: PubendLog(each, self.settings, recovered.pubends.get(each)) for each in ("p", "q")}
        self.log = self.logs["p"]
        self.register = Register("p", {})
        registers = {"p": self.register, "q": Register("q", {})}
        dead = DeadLetters("pb", self.logs, publish=lambda *_: None, send=lambda _: None)
        work = WorkHome(self.settings, self.connections, self.logs, registers, self.commits, {}, dead)
        self.finality = Finality(self.settings, self.connections, self.logs, registers, work)
        self.compaction = Compaction(
            self.settings, self.connections, self.logs, self.finality, self.commits, recovered.values
        )
        self.finality.trims(now_ms=self.now_ms)
        self.compaction.begin()
        self.now_ms += GRACE_MS

    def store(self) -> Commit | None:
        """Makes the present turn's commit durable."""
        commit = self.commits.take()
        if commit is not None:
            self.disk.apply(commit.changes)
            self.commits.on_committed(commit.number)
            self.compaction.on_committed(commit.number)
        return commit

    def publish(self, *symbols: str, pubend: str = "p", size: int = 0) -> list[int]:
        ticks: list[int] = []
        for symbol in symbols:
            self.now_ms += 1
            body = encode_body(IDS.next(self.now_ms), Message({"symbol": symbol}, bytes(size)))
            log = self.logs[pubend]
            change = log.publish(b"", 1, [body], [{}], now_ms=self.now_ms)
            assert change is not None
            number = self.commits.add(change)
            log.on_appended(change, number)
            self.store()
            log.on_committed(number, now_ms=self.now_ms)
            ticks += [tick for tick, _ in change.messages]
            if pubend == "p":
                self.sent[ticks[-1]] = symbol
        return ticks

    def check(self, after_ms: int = 1_000) -> None:
        """Looks at the logs, as the broker does every second."""
        self.now_ms += after_ms
        for change in self.finality.trims(now_ms=self.now_ms):
            self.commits.add(change)
        self.compaction.look(now_ms=self.now_ms)

    def read(self) -> ReadLog | None:
        """The read that the broker asks for, if any."""
        return next(iter(self.compaction.take_effects()), None)

    def answer(self, read: ReadLog) -> None:
        found = self.disk.read(read.pubend, read.first, read.last, read.bytes_max)
        assert self.compaction.on_read(read.number, *found, now_ms=self.now_ms) is not None

    def settle(self) -> int:
        """Carries out everything; returns the number of reads."""
        self.store()
        reads = 0
        while (read := self.read()) is not None:
            reads += 1
            self.answer(read)
            self.store()
        self.compaction.check_invariants()
        return reads

    def kept(self) -> dict[int, str]:
        found = self.compaction.views["p"].between(0, 10**18, now_ms=self.now_ms)
        return {tick: str(decode_attributes(body)["symbol"]) for tick, body in found}

    def stored(self) -> list[int]:
        return sorted(int(name.split("/")[2]) for name in self.disk.recovered().values if name.startswith("last/"))

    def events(self) -> list[tuple[str, dict[str, str | int]]]:
        effects = self.connections.take_effects()
        return [(each.event, dict(each.fields)) for each in effects if isinstance(each, Record)]


def test_the_log_is_trimmed_when_its_last_values_are_kept_and_not_before() -> None:
    home = Home()
    ticks = home.publish("A", "B", "A")
    home.check()
    home.store()
    assert home.log.trimmed_below <= ticks[0]
    read = home.read()
    assert read is not None
    assert (read.pubend, read.first, read.last) == ("p", home.log.trimmed_below, ticks[-1])
    assert home.commits.take() is None
    home.answer(read)
    commit = home.commits.take()
    assert commit is not None
    assert [type(each) for each in commit.changes] == [SetValue, SetValue, Trim, ForgetPublishers]
    assert home.log.trimmed_below == ticks[-1] + 1
    assert home.kept() == {ticks[1]: "B", ticks[2]: "A"}


def test_pubends_without_a_view_are_trimmed_at_once() -> None:
    home = Home()
    (tick,) = home.publish("A", pubend="q")
    home.check()
    commit = home.store()
    assert commit is not None
    assert Trim("q", tick + 1, 2_000) in commit.changes  # type: ignore[arg-type]
    assert home.read() is None


def test_a_long_trim_goes_piece_by_piece_each_with_its_values() -> None:
    home = Home()
    ticks = home.publish(*"ABCDEFGH", size=60_000)
    home.check()
    home.store()
    pieces = 0
    while (read := home.read()) is not None:
        home.answer(read)
        assert home.read() is None, "the next piece waits until this one is durable"
        commit = home.store()
        assert commit is not None
        (below,) = [each.below_tick for each in commit.changes if isinstance(each, Trim)]
        written = [each for each in commit.changes if isinstance(each, SetValue)]
        assert len(written) == sum(tick < below for tick in ticks) - 2 * pieces
        pieces += 1
    assert pieces == 4
    assert [*home.kept()] == home.stored() == ticks
    assert home.log.size_bytes == 0


def test_a_piece_may_be_one_message_whatever_its_size() -> None:
    home = Home()
    ticks = home.publish("A", "B", size=1_000_000)
    home.check()
    assert home.settle() == 2
    assert home.stored() == ticks


def test_publishers_are_forgotten_once_in_a_while_and_not_with_every_piece() -> None:
    home = Home()
    home.publish(*"ABCDEFGH", size=60_000)
    home.check()
    forgotten = 0
    home.store()
    while (read := home.read()) is not None:
        home.answer(read)
        commit = home.store()
        assert commit is not None
        forgotten += sum(isinstance(each, ForgetPublishers) for each in commit.changes)
    assert forgotten == 1


def test_who_comes_during_the_read_and_is_further_behind_is_not_trimmed_away() -> None:
    home = Home()
    ticks = home.publish(*"ABC")
    home.check()
    home.store()
    read = home.read()
    assert read is not None
    home.register.claim("D", 1, "sb", ticks[1])
    home.answer(read)
    assert home.log.trimmed_below == ticks[1]
    assert home.kept() == {ticks[0]: "A"}
    assert home.settle() == 1, "what must stay is looked at, and left alone"
    assert home.log.trimmed_below == ticks[1]
    home.check()
    assert home.settle() == 0
    home.register.forget("D")
    home.check()
    assert home.settle() == 1
    assert home.stored() == ticks


def test_a_damaged_record_does_not_hold_the_log_for_ever() -> None:
    home = Home()
    ticks = home.publish(*"ABC")
    home.disk.damage("p", ticks[1])
    home.check()
    home.settle()
    assert home.log.trimmed_below == ticks[-1] + 1
    assert home.stored() == [ticks[0], ticks[2]]
    assert [event for event, _ in home.events()] == ["damaged-record"]


def test_what_is_kept_outlives_the_broker_and_what_is_published_later_replaces_it() -> None:
    home = Home()
    home.publish(*"ABC")
    home.check()
    home.settle()
    home.start()
    assert [*home.kept().values()] == ["A", "B", "C"]
    (tick,) = home.publish("B")
    home.check()
    home.settle()
    assert [*home.kept().values()] == ["A", "C", "B"]
    assert max(home.stored()) == tick


def test_a_view_that_nobody_wants_any_more_is_dropped_at_the_start() -> None:
    for attribute in ("", "price"):
        home = Home()
        home.publish(*"ABC")
        home.check()
        home.settle()
        disk, home = home.disk, Home(attribute)
        home.disk = disk
        home.start()
        home.store()
        assert home.stored() == []
        assert [event for event, _ in home.events()] == ["last-values-forgotten"]


def test_damaged_values_are_dropped_and_noted() -> None:
    home = Home()
    ticks = home.publish(*"ABC")
    home.check()
    home.settle()
    home.disk.apply([SetValue(f"last/p/{ticks[1]}/symbol", b"")])
    home.start()
    home.store()
    assert home.stored() == [ticks[0], ticks[2]]
    assert home.events() == [("last-values-damaged", {"pubend": "p", "count": 1})]
    assert home.compaction.counts["last_values_damaged"] == 1


def test_what_is_dropped_at_a_bound_is_counted_shown_and_noted_once_in_a_while() -> None:
    home = Home(last_values_max=2)
    home.publish(*"ABC")
    home.check()
    home.settle()
    home.check()
    assert home.events() == [("last-values-dropped", {"pubend": "p", "key": "symbol", "count": 1, "kept": 2})]
    assert home.compaction.counts["last_values_dropped"] == 1
    status = home.finality.status(views=home.compaction.status)
    assert status["q"].last_values is None
    shown = status["p"].last_values
    assert shown is not None
    assert (shown.key, shown.keys, shown.dropped, shown.damaged) == ("symbol", 2, 1, 0)
    home.publish(*"DE")
    home.check()
    home.settle()
    home.check()
    assert home.events() == []
    home.check(60_000)
    assert [fields["count"] for _, fields in home.events()] == [2]


def test_at_the_maximum_the_oldest_is_given_up_once_its_last_values_are_kept() -> None:
    size = 40_000
    home = Home(retain_bytes_max=20 * size, retain_policy="lapse")
    home.register.claim("D", 1, "sb", 1)
    ticks = home.publish(*("AB" * 10), size=size)
    assert home.finality.hold_reason() == ""
    home.check()
    home.store()
    assert home.log.size_bytes >= 20 * size
    ticks += home.publish("A", "B", "A", size=size)
    assert "keep last values" in home.finality.hold_reason("p"), "the log must not grow without a bound meanwhile"
    assert home.finality.hold_reason("q") == ""
    home.settle()
    assert home.finality.hold_reason() == ""
    home.check()
    home.settle()
    assert 14 * size <= home.log.size_bytes < 19 * size
    assert [event for event, _ in home.events()] == ["log-lapsed", "log-lapsed"]
    assert sorted(home.kept().values()) == ["A", "B"]


def test_a_given_up_part_is_trimmed_to_its_end_though_the_log_is_soon_below_its_maximum() -> None:
    size = 40_000
    home = Home(retain_bytes_max=20 * size, retain_policy="lapse")
    home.register.claim("D", 1, "sb", 1)
    home.publish(*("AB" * 10), size=size)
    home.check()
    home.store()
    read = home.read()
    assert read is not None
    home.answer(read)
    home.store()
    assert home.log.size_bytes < 20 * size
    home.check()
    home.settle()
    assert home.log.size_bytes < 19 * size
    assert [event for event, _ in home.events()] == ["log-lapsed"]


def test_reads_of_others_are_none_of_ours() -> None:
    home = Home()
    assert home.compaction.on_read(1, [], 9, None, now_ms=home.now_ms) is None
    home.publish("A")
    home.check()
    read = home.read()
    assert read is not None
    assert home.compaction.on_read(read.number + 1, [], 9, TickRange(1, 2), now_ms=0) is None  # type: ignore[arg-type]
    home.settle()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_crash_loses_each_last_value_is_in_the_log_or_kept(seed: int) -> None:
    chance = Random(seed)
    home = Home()
    for _ in range(60):
        home.publish(*chance.choices("ABCDE", k=chance.randrange(1, 8)), size=chance.choice((0, 30_000)))
        if chance.random() < 0.7:
            home.check()
        for _ in range(chance.randrange(4)):
            if chance.random() < 0.8:
                home.store()
            if (read := home.read()) is not None:
                home.answer(read)
        if chance.random() < 0.4:
            # What was not durable is gone; now and then the last write had come through.
            if chance.random() < 0.5:
                home.store()
            home.start()
        found: dict[str, int] = {symbol: tick for tick, symbol in home.kept().items()}
        logged = [tick for tick in home.disk.ticks("p") if tick >= home.log.trimmed_below]
        found |= {home.sent[tick]: tick for tick in logged}
        assert found == {symbol: tick for tick, symbol in sorted(home.sent.items())}


def test_publishers_do_not_wait_for_a_log_whose_only_part_cannot_be_trimmed_yet() -> None:
    home = Home(retain_policy="lapse", retain_bytes_max=50_000)
    home.finality.report("p", "sb", 1, is_settled=True, now_ms=home.now_ms)
    home.publish("A", size=60_000)
    home.check()
    home.settle()
    assert home.log.size_bytes > 50_000 * 9 // 8
    assert home.finality.hold_reason("p") == ""
