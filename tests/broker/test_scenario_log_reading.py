"""Reading logs across brokers: whatever is asked for and whatever happens meanwhile, each tick is told of once.

The parts of a read lie side by side and cover what was asked for; what is in them is what a filter in Python finds in
the log; what is neither in them nor said to be lost was never there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay import Overlay, TestClient, chain, ring
from penstock.broker.durable import Trim
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.tick import Tick
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.tracking.settings import TrackingSettings

PUBEND = "pb.a"
PATIENT = {"guaranteed": True, "silent_ms": 10**9}
SELECTORS: dict[str, Callable[[int], bool]] = {
    "TRUE": lambda _number: True,
    "FALSE": lambda _number: False,
    "number > 5": lambda number: number > 5,
    "number IN (1, 4, 7) OR number > 9": lambda number: number in (1, 4, 7) or number > 9,
    "number * 2 = 8": lambda number: number == 4,
    "another IS NULL": lambda _number: True,
    "another = 1": lambda _number: False,
}


@dataclass
class Read:
    """A client's way through a log: asks, and asks again, and goes on where an answer ended."""

    client: TestClient
    first: int
    last: int
    selector: str = "TRUE"
    bytes_max: int = 100
    parts: list[f.LogAnswer] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))
    number: int = 0

    @property
    def following(self) -> int:
        return self.parts[-1].last + 1 if self.parts else self.first

    @property
    def is_over(self) -> bool:
        return self.following > self.last

    def ask(self) -> None:
        self.number = next(self.numbers)
        self.ask_again()

    def ask_again(self) -> None:
        asked = f.ReadRequest(self.number, PUBEND, self.following, self.last, self.selector, self.bytes_max)
        self.client.say(asked)

    def take(self) -> bool:
        """Whether the answer has come."""
        found = [each for each in self.client.heard if isinstance(each, f.LogAnswer) and each.number == self.number]
        assert len(found) <= 1, "an answer came twice"
        if found:
            assert found[0].first == self.following
            self.parts.append(found[0])
        return bool(found)

    def finish(self) -> Read:
        """To the end, where nothing is in the way."""
        while not self.is_over:
            before = self.following
            self.ask()
            assert self.take()
            assert self.following > before, "no progress"
        return self

    def move_to(self, client: TestClient) -> None:
        """The client has another connection, or another host."""
        self.client = client

    @property
    def ticks(self) -> list[int]:
        return [tick for part in self.parts for tick in part.ticks]

    @property
    def rows(self) -> list[dict[str, AttributeValue]]:
        return [decode_attributes(body) for part in self.parts for body in part.bodies]

    @property
    def lost(self) -> list[tuple[int, int]]:
        return [each for part in self.parts for each in part.lost]

    def is_lost(self, tick: int) -> bool:
        return any(low <= tick <= high for low, high in self.lost)

    def check(self, log: dict[int, int], *, damaged: Collection[int] = (), trimmed: int = 0) -> None:
        """The log is the numbers of all messages ever published, by tick."""
        assert self.parts[0].first == self.first
        assert self.parts[-1].last == self.last
        assert all(after.first == before.last + 1 for before, after in pairwise(self.parts))
        assert all(part.first <= part.last for part in self.parts)
        for part in self.parts:
            edges = [part.first, *(tick for each in part.lost for tick in each), part.last]
            assert edges == sorted(edges)
        assert self.ticks == sorted(set(self.ticks))
        test = SELECTORS[self.selector]
        wanted = {tick: number for tick, number in log.items() if self.first <= tick <= self.last and test(number)}
        kept = {tick: number for tick, number in wanted.items() if not self.is_lost(tick)}
        assert dict(zip(self.ticks, (row["number"] for row in self.rows), strict=True)) == kept
        for low, high in self.lost:
            assert low == high or high < trimmed, f"{low} to {high} is lost for no reason"
            assert high < trimmed or low in damaged, f"{low} to {high} is lost for no reason"
        assert all(self.is_lost(tick) for tick in damaged if self.first <= tick <= self.last)


def present(overlay: Overlay) -> int:
    return overlay.brokers["pb"]._guaranteed.logs[PUBEND].promised


def earliest(overlay: Overlay) -> int:
    return overlay.brokers["pb"]._guaranteed.logs[PUBEND].trimmed_below


def trim(overlay: Overlay, below: int) -> None:
    """The pubend gives up what is older, as retention would have it."""
    overlay.brokers["pb"]._guaranteed.logs[PUBEND].trim(below)
    overlay.disks["pb"].apply([Trim(PUBEND, Tick(below))])


def published(overlay: Overlay, batches: list[tuple[int, list[int]]]) -> dict[int, int]:
    """Publishes messages of some sizes, after some milliseconds each; answers with their numbers by tick."""
    publisher, numbers = overlay.client("pb"), count()
    ids = publisher.source()
    for gap_ms, sizes in batches:
        overlay.wait(gap_ms)
        bodies = [encode_body(ids.next(0), Message({"number": next(numbers)}, bytes(size))) for size in sizes]
        if bodies:
            publisher.say(f.Publish(publisher.published[""] + 1, bodies))
            publisher.published[""] += len(bodies)
    return numbered(overlay)


def numbered(overlay: Overlay) -> dict[int, int]:
    """The ticks of all messages that are kept, each with its place."""
    return {tick: number for number, tick in enumerate(overlay.disks["pb"].ticks(PUBEND))}


batches = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 7, 1_500]), st.lists(st.sampled_from([0, 1, 10, 300]), max_size=5)),
    max_size=6,
)


@st.composite
def ranges(draw: st.DrawFn, overlay: Overlay, log: dict[int, int]) -> tuple[int, int]:
    """A range that ends at, before or behind something."""
    present_tick = present(overlay)
    edges = {0, 1, earliest(overlay) - 1, earliest(overlay), present_tick}
    edges |= {tick + shift for tick in log for shift in (-1, 0, 1)}
    places = sorted(each for each in edges if 0 <= each <= present_tick)
    first, last = sorted((draw(st.sampled_from(places)), draw(st.sampled_from(places))))
    return first, last


@settings(max_examples=150, deadline=None)
@given(batches, st.integers(1, 3), st.sampled_from(sorted(SELECTORS)), st.integers(1, 2_000), st.data())
def test_any_range_of_any_log_is_read_exactly(
    given_batches: list[tuple[int, list[int]]], brokers: int, selector: str, bytes_max: int, data: st.DataObject
) -> None:
    names = ("pb", "ib", "sb")[:brokers]
    overlay = chain(*names, **PATIENT)
    log = published(overlay, given_batches)
    damaged = data.draw(st.sets(st.sampled_from(sorted(log)), max_size=3)) if log else set()
    for tick in damaged:
        overlay.disks["pb"].damage(PUBEND, tick)
    if bool(log) and data.draw(st.booleans()):
        trim(overlay, data.draw(st.sampled_from(sorted(log))) + data.draw(st.integers(0, 1)))
    trimmed = earliest(overlay)
    for _ in range(3):
        first, last = data.draw(ranges(overlay, log))
        read = Read(overlay.client(names[-1]), first, last, selector, bytes_max).finish()
        read.check(log, damaged={tick for tick in damaged if tick >= trimmed}, trimmed=trimmed)
        if first < trimmed:
            assert read.lost[0][0] == first
            assert all(read.is_lost(tick) for tick in (first, min(trimmed - 1, last)))
    overlay.check_invariants()


HARMS = ("nothing", "lose answers", "lose requests", "heal", "crash pb", "crash sb", "cut", "trim", "publish", "wait")


class Trouble:
    """An overlay of three brokers to which things happen while somebody reads."""

    def __init__(self, log_batches: list[tuple[int, list[int]]]) -> None:
        self.overlay = ring("pb", "ib", "sb", **PATIENT)
        published(self.overlay, log_batches)
        self.trims = 0

    def harm(self, what: str, read: Read) -> None:
        overlay = self.overlay
        match what:
            case "lose answers":
                overlay.loses = f.LogAnswer
            case "lose requests":
                overlay.loses = f.LogRequest
            case "heal":
                self.heal()
            case "crash pb":
                self.restart("pb")
            case "crash sb":
                self.restart("sb")
                read.move_to(overlay.client("sb"))
            case "cut" if ("pb", "ib") in overlay.links():
                overlay.cut("pb", "ib")
            case "trim":
                self.trims += 1
                ticks = overlay.disks["pb"].ticks(PUBEND)
                trim(overlay, [*ticks, earliest(overlay)][len(ticks) // 4] + self.trims % 2)
            case "publish":
                overlay.client("pb").publish({"number": 100})
            case "wait":
                overlay.wait(2_500)

    def restart(self, name: str) -> None:
        self.overlay.crash(name)
        self.overlay.now_ms += 10
        self.overlay.start(name)
        self.heal()

    def heal(self) -> None:
        self.overlay.loses = None
        for first, second in (("pb", "ib"), ("ib", "sb"), ("sb", "pb")):
            if (first, second) not in self.overlay.links():
                self.overlay.link(first, second)
        self.overlay.wait(3_000)


@settings(max_examples=150, deadline=None)
@given(
    batches.filter(lambda each: any(sizes for _, sizes in each)),
    st.sampled_from(sorted(SELECTORS)),
    st.integers(1, 1_000),
    st.lists(st.tuples(st.sampled_from(HARMS), st.sampled_from(HARMS), st.booleans()), max_size=12),
)
@example([(0, [1] * 5), (5, [10] * 5)], "TRUE", 1, [("crash pb", "crash pb", True), ("trim", "crash sb", True)] * 3)
def test_whatever_happens_meanwhile_the_result_is_exact(
    given_batches: list[tuple[int, list[int]]], selector: str, bytes_max: int, harms: list[tuple[str, str, bool]]
) -> None:
    trouble = Trouble(given_batches)
    overlay = trouble.overlay
    log = numbered(overlay)
    read = Read(overlay.client("sb"), earliest(overlay), present(overlay), selector, bytes_max)
    for before, during, repeats in harms:
        if read.is_over:
            break
        trouble.harm(before, read)
        overlay.syncs = False
        read.ask()
        trouble.harm(during, read)
        overlay.syncs = True
        overlay.sync()
        if not read.take() and repeats:
            read.ask_again()
            read.take()
        overlay.check_invariants()
    trouble.heal()
    read.finish().check(log, trimmed=earliest(overlay))
    overlay.wait(20_000)
    for broker in overlay.brokers.values():
        assert not any((broker._log_desk._readings, broker._log_desk._surveys, broker._log_desk._serving._keys))


def test_a_log_whose_messages_are_all_of_one_millisecond_is_read_exactly() -> None:
    overlay = chain("pb", "sb", **PATIENT)
    log = published(overlay, [(0, [10] * 300), (0, [10] * 300)])
    assert len({tick >> 16 for tick in log}) == 1
    read = Read(overlay.client("sb"), earliest(overlay), present(overlay), bytes_max=1).finish()
    read.check(log)
    assert len(read.parts) >= 600
    middle = sorted(log)[300]
    Read(overlay.client("sb"), middle, middle).finish().check(log)


def test_a_message_that_is_larger_than_what_may_be_read_at_once_comes_alone() -> None:
    overlay = chain("pb", "ib", "sb", **PATIENT)
    log = published(overlay, [(1, [10]), (1, [1_500_000]), (1, [10]), (1, [400_000, 400_000, 400_000])])
    read = Read(overlay.client("sb"), earliest(overlay), present(overlay), bytes_max=2**62).finish()
    read.check(log)
    assert [len(part.ticks) for part in read.parts] == [1, 1, 3, 1]
    small = Read(overlay.client("sb"), earliest(overlay), present(overlay), bytes_max=1).finish()
    assert small.rows == read.rows


def test_what_is_yet_to_come_is_not_known_and_later_it_is() -> None:
    overlay = chain("pb", "sb", **PATIENT)
    log = published(overlay, [(0, [1, 1])])
    end = present(overlay)
    read = Read(overlay.client("sb"), earliest(overlay), end + 10**9)
    read.ask()
    assert read.take()
    assert (read.parts[0].last, read.ticks) == (end, sorted(log))
    read.ask()
    assert read.take()
    assert (read.parts[1].last, read.parts[1].ticks, read.parts[1].lost) == (end, [], ())
    read.parts.pop()
    overlay.wait(30_000)
    read.finish().check(log)


def test_messages_that_are_not_durable_yet_are_not_read_and_nothing_is_said_of_them() -> None:
    # Nothing else may want to be stored meanwhile.
    overlay = chain("pb", "sb", **PATIENT, tracking=TrackingSettings(strategy="null"))
    published(overlay, [(0, [1])])
    reader, publisher = overlay.client("sb"), overlay.client("pb")
    overlay.wait(50)
    overlay.syncs = False
    publisher.publish({"number": 1})
    overlay.wait(5_000)
    end = present(overlay)
    overlay.syncs = True
    read = Read(reader, earliest(overlay), end).finish()
    read.check(dict.fromkeys(overlay.disks["pb"].ticks(PUBEND), 0))
    overlay.sync()
    assert overlay.disks["pb"].ticks(PUBEND)[-1] > end


def test_answers_that_a_full_link_drops_are_asked_for_again() -> None:
    overlay = chain("pb", "sb", link_outbox_bytes=2_000, **PATIENT)
    log = published(overlay, [(1, [500] * 10)])
    overlay.clog("pb", "sb")
    reads = [Read(overlay.client("sb"), earliest(overlay), present(overlay), bytes_max=3_000) for _ in range(5)]
    for read in reads:
        read.ask()
    overlay.unclog("pb", "sb")
    came = [read.take() for read in reads]
    assert True in came
    assert False in came
    for read in reads:
        read.finish().check(log)


def test_a_host_whose_link_breaks_goes_on_by_another_way() -> None:
    overlay = ring("pb", "ib", "sb", **PATIENT)
    log = published(overlay, [(1, [100] * 20)])
    read = Read(overlay.client("sb"), earliest(overlay), present(overlay))
    overlay.delay("pb", "sb")
    read.ask()
    assert not read.take()
    overlay.cut("sb", "pb")
    overlay.delayed.clear()
    read.finish().check(log)


def test_two_reads_at_once_on_one_connection_do_not_mix_and_deliveries_go_on() -> None:
    overlay = chain("pb", "ib", "sb", **PATIENT)
    log = published(overlay, [(1, [100] * 10), (1, [100] * 10)])
    client = overlay.client("sb")
    client.subscribe(1, "number >= 50")
    numbers: count[int] = count(1)
    one = Read(client, earliest(overlay), present(overlay), "number > 5", numbers=numbers)
    other = Read(client, sorted(log)[3], sorted(log)[12], "TRUE", 1, numbers=numbers)
    publisher = overlay.client("pb")
    for number in range(50, 70):
        overlay.syncs = False
        for each in (one, other):
            if not each.is_over:
                each.ask()
        publisher.publish({"number": number})
        overlay.syncs = True
        overlay.sync()
        for each in (one, other):
            if not each.is_over:
                each.take()
    one.finish().check(log)
    other.finish().check(log)
    assert client.numbers() == list(range(50, 70))


@pytest.mark.parametrize("when", ["asked", "between"])
def test_a_pubend_that_dies_and_comes_back_in_the_middle_says_the_same(when: str) -> None:
    trouble = Trouble([(1, [100] * 20)])
    overlay = trouble.overlay
    log = numbered(overlay)
    read = Read(overlay.client("sb"), earliest(overlay), present(overlay))
    read.ask()
    assert read.take()
    if when == "asked":
        overlay.syncs = False
        read.ask()
    overlay.crash("pb")
    if when == "between":
        read.ask()
    read.ask_again()
    assert not read.take()
    overlay.syncs = True
    overlay.now_ms += 10
    overlay.start("pb")
    overlay.client("pb").publish({"number": 99})
    trouble.heal()
    read.ask_again()
    assert read.take()
    read.finish().check(log)


def test_a_range_is_the_same_whenever_it_is_read() -> None:
    overlay = chain("pb", "sb", **PATIENT)
    log = published(overlay, [(1, [10] * 5), (3, [10] * 5)])
    first, last = earliest(overlay), present(overlay)
    before = Read(overlay.client("sb"), first, last).finish()
    overlay.client("pb").publish({"number": 1})
    overlay.wait(60_000)
    overlay.crash("pb")
    overlay.start("pb")
    overlay.link("pb", "sb")
    after = Read(overlay.client("sb"), first, last, bytes_max=1).finish()
    after.check(log)
    assert (after.ticks, after.rows) == (before.ticks, before.rows)


def test_what_retention_gives_up_while_somebody_reads_is_said_to_be_lost() -> None:
    overlay = chain("pb", "sb", retain_ms=1_000, **PATIENT)
    log = published(overlay, [(1, [100] * 10), (3_000, [100] * 10)])
    read = Read(overlay.client("sb"), min(log), present(overlay), bytes_max=100)
    read.ask()
    assert read.take()
    overlay.wait(120_000)
    trimmed = earliest(overlay)
    assert trimmed > read.following
    read.finish().check(log, trimmed=trimmed)
    assert read.lost[0] == (read.parts[1].first, min(trimmed - 1, read.last))
