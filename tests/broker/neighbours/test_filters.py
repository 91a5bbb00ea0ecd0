"""Filters: what a broker's clients want is known everywhere in the end, and to nobody else's disadvantage."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.narrowing import narrowed
from penstock.broker.neighbours.filters import Filters, HostChange
from penstock.broker.peers import LinkSequence
from penstock.matching.index import LINKS_MAX
from penstock.model.values import AttributeValue
from penstock.protocol.codec import FRAME_BYTES_MAX, FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import FilterUpdate
from penstock.protocol.status import FilterStatus
from penstock.selectors import Selector, ast
from penstock.selectors.evaluate import compile_condition
from strategies import conditions, conjunctions, messages, tries

NAMES = ("a", "b", "c", "d")
RING = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
Message = dict[str, AttributeValue]


class Net:
    """Filters that flood to each other as brokers do, over links that keep order and lose what they hold when cut."""

    def __init__(self, *, step: int = 128) -> None:
        self.step = step
        self.incarnations = dict.fromkeys(NAMES, 100)
        self.filters = {name: Filters(name, incarnation=100, step=step) for name in NAMES}
        self.wanted: dict[str, list[ast.Condition]] = {name: [] for name in NAMES}
        self.ends: dict[tuple[str, str], LinkSequence] = {}
        self.queues: dict[tuple[str, str], deque[FilterUpdate]] = {}

    def join(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            self.ends[pair], self.queues[pair] = LinkSequence(), deque()
        for sender, receiver in ((one, other), (other, one)):
            for change in self.filters[sender].whole():
                self.queues[sender, receiver].extend(self.ends[sender, receiver].number(change))

    def cut(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            del self.ends[pair], self.queues[pair]

    def restart(self, name: str, incarnation: int) -> None:
        for one, other in RING:
            if name in (one, other) and (one, other) in self.ends:
                self.cut(one, other)
        self.filters[name] = Filters(name, incarnation=incarnation, step=self.step)
        self.wanted[name] = []

    def want(self, name: str, condition: ast.Condition) -> None:
        self.wanted[name].append(condition)
        self.flood(name, self.filters[name].want(Selector(condition)))

    def unwant(self, name: str, count: int) -> None:
        gone, self.wanted[name] = self.wanted[name][:count], self.wanted[name][count:]
        self.flood(name, self.filters[name].unwant(map(Selector, gone)))

    def flood(self, name: str, change: HostChange | None, but: str = "") -> None:
        for (sender, receiver), queue in self.queues.items():
            if change is not None and sender == name and receiver != but:
                queue.extend(self.ends[sender, receiver].number(change))

    def carry(self, sender: str, receiver: str) -> None:
        filters = self.filters[receiver]
        change = self.ends[receiver, sender].take(self.queues[sender, receiver].popleft())
        if change is None:
            return
        news = filters.learn(change)
        # What contradicts old words about oneself goes back to where they came from, too.
        self.flood(receiver, news, but=sender if news is change else "")
        while filters.has_steps:
            filters.check_invariants()
            self.flood(receiver, filters.step(), but=sender)

    def settle(self) -> None:
        for _ in range(100_000):
            busy = [pair for pair, queue in self.queues.items() if queue]
            if not busy:
                return
            self.carry(*busy[0])
        raise AssertionError("the flood does not end")

    def heal(self) -> None:
        for pair in RING:
            if pair not in self.ends:
                self.join(*pair)
        self.settle()

    def check(self, probes: list[Message]) -> None:
        """All know the same of all, and it is what a loop over the conditions says."""
        for name, filters in self.filters.items():
            filters.check_invariants()
            assert known(filters) == known(self.filters["a"])
            for message in probes:
                wanting = filters.hosts_wanting(message, "p")
                for host in NAMES:
                    found = bool(wanting & filters.mask_of(frozenset({host})))
                    assert found == (host != name and wants(self.wanted[host], message))


def known(filters: Filters) -> dict[str, tuple[int, int, frozenset[str]]]:
    return {each.host: (each.incarnation, each.version, frozenset(each.added)) for each in filters.whole()}


def wants(wanted: list[ast.Condition], message: Message) -> bool:
    return any(compile_condition(each)(message) is True for each in wanted)


def change_of(host: str, *added: str, version: int = 1, base: int = -1, incarnation: int = 1) -> HostChange:
    return HostChange(host, incarnation, version, base, added, ())


steps = st.lists(
    st.tuples(
        st.sampled_from(["want", "want", "want", "unwant", "carry", "carry", "cut", "join", "restart"]),
        st.integers(0, 7),
        st.one_of(conditions, conjunctions),
    ),
    max_size=24,
)


def act(net: Net, what: str, number: int, condition: ast.Condition) -> None:
    name, pair = NAMES[number % 4], RING[number % 4]
    busy = [each for each, queue in net.queues.items() if queue]
    if what == "want":
        net.want(name, condition)
    elif what == "unwant":
        net.unwant(name, 1 + number // 2)
    elif what == "carry" and busy:
        net.carry(*busy[number % len(busy)])
    elif what == "cut" and pair in net.ends:
        net.cut(*pair)
    elif what == "join" and pair not in net.ends:
        net.join(*pair)
    elif what == "restart":
        net.incarnations[name] += 1
        net.restart(name, net.incarnations[name])
    elif what == "restart with an older clock":
        net.incarnations[name] -= 1
        net.restart(name, net.incarnations[name])


@settings(max_examples=tries(200))
@given(steps, st.lists(messages, min_size=1, max_size=5), st.sampled_from([1, 3, 128]))
def test_after_any_history_brokers_that_are_connected_again_know_the_same_and_the_truth(
    history: list[tuple[str, int, ast.Condition]], probes: list[Message], step: int
) -> None:
    net = Net(step=step)
    net.heal()
    for what, number, condition in history:
        act(net, what, number, condition)
    net.heal()
    net.check(probes)


@settings(max_examples=tries(200))
@given(steps, st.lists(messages, min_size=1, max_size=5))
def test_brokers_know_the_same_and_the_truth_also_when_restarts_set_the_incarnation_back(
    history: list[tuple[str, int, ast.Condition]], probes: list[Message]
) -> None:
    net = Net()
    net.heal()
    for what, number, condition in history:
        act(net, "restart with an older clock" if what == "restart" else what, number, condition)
    net.heal()
    net.check(probes)


@settings(max_examples=tries(200))
@given(st.lists(st.one_of(conditions, conjunctions), max_size=10), st.data(), st.lists(messages, min_size=1))
def test_what_is_taken_back_together_leaves_what_the_others_want(
    wanted: list[ast.Condition], data: st.DataObject, probes: list[Message]
) -> None:
    host, other = Filters("a", incarnation=1), Filters("b", incarnation=1)
    for change in [*host.whole(), *(host.want(Selector(each)) for each in wanted)]:
        assert change is None or other.learn(change)
    gone = data.draw(st.sets(st.integers(0, max(0, len(wanted) - 1))))
    last = host.unwant(Selector(each) for place, each in enumerate(wanted) if place in gone)
    assert last is None or other.learn(last)
    rest = [each for place, each in enumerate(wanted) if place not in gone]
    assert [bool(other.hosts_wanting(message, "p")) for message in probes] == [
        wants(rest, message) for message in probes
    ]
    assert known(other)["a"] == known(host)["a"]
    other.check_invariants()


def test_a_filter_of_thousands_of_conjunctions_travels_in_parts_and_arrives_whole() -> None:
    net = Net()
    for number in range(2_500):
        net.want("a", ast.Comparison("=", ast.Attribute("n"), ast.Literal(number)))
    net.join("a", "b")
    queue = net.queues["a", "b"]
    assert [len(update.added) for update in queue] == [500, 500, 500, 500, 500]
    for _ in range(4):
        net.carry("a", "b")
        assert net.filters["b"].hosts_wanting({"n": 1}, "p") == 0
    net.heal()
    # One wider wish replaces them all: the removals come in parts, too.
    net.want("a", ast.Comparison(">=", ast.Attribute("n"), ast.Literal(0)))
    assert len(queue) == 6
    net.settle()
    net.check([{"n": 2_499}, {"n": 2_500}, {"n": -1}])
    assert net.filters["c"].status() == FilterStatus(hosts=3, entries=1, own=0)
    net.unwant("a", 1)
    net.unwant("a", 2_498)
    net.unwant("a", 1)
    net.unwant("a", 1)
    net.settle()
    net.check([{"n": 2_499}, {"n": 1}])
    assert net.filters["c"].status().entries == 0


def test_a_wish_that_a_wider_one_covers_is_not_flooded() -> None:
    filters = Filters("a", incarnation=7)
    wide, narrow = Selector.parse("x > 1"), Selector.parse("x > 5")
    assert filters.want(wide) == HostChange("a", 7, 1, 0, ("x > 1",), ())
    assert filters.want(narrow) is None
    assert filters.want(wide) is None
    assert filters.version == 1
    assert filters.unwant([wide]) is None
    assert filters.unwant([wide]) == HostChange("a", 7, 2, 1, ("x > 5",), ("x > 1",))
    assert filters.unwant([]) is None
    assert filters.unwant([narrow]) == HostChange("a", 7, 3, 2, (), ("x > 5",))


def test_what_enters_and_leaves_at_once_is_not_mentioned() -> None:
    filters = Filters("a", incarnation=7)
    texts = ["x > 1", "x > 5", "x > 9"]
    for text in texts:
        filters.want(Selector.parse(text))
    assert filters.unwant(map(Selector.parse, texts)) == HostChange("a", 7, 2, 1, (), ("x > 1",))


def test_a_broker_does_not_learn_its_own_filter_from_others() -> None:
    filters = Filters("a", incarnation=1)
    assert filters.learn(change_of("a", "x = 1", version=0, incarnation=1)) is None
    filters.learn(change_of("a", "x = 1", version=9, incarnation=9))
    assert filters.hosts_wanting({"x": 1}, "p") == 0
    assert filters.mask_of(frozenset({"a"})) == 0
    assert [each.host for each in filters.whole()] == ["a"]


def test_old_news_is_no_news() -> None:
    filters = Filters("a", incarnation=1)
    assert filters.version_of("h") == (-1, -1)
    assert filters.learn(change_of("h", "x = 1", version=5, incarnation=2))
    for incarnation, version, base in [(2, 5, -1), (2, 4, -1), (1, 9, -1), (2, 5, 4), (1, 9, 8)]:
        assert not filters.learn(change_of("h", "x = 2", version=version, base=base, incarnation=incarnation))
    assert filters.version_of("h") == (2, 5)
    assert filters.hosts_wanting({"x": 2}, "p") == 0
    assert filters.hosts_wanting({"x": 1}, "p") == filters.mask_of(frozenset({"h"})) != 0


def test_a_whole_filter_replaces_what_was_known() -> None:
    filters = Filters("a", incarnation=1)
    filters.learn(change_of("h", "x = 1", "x = 2", version=5))
    assert filters.learn(change_of("h", "x = 2", "x = 3", version=0, incarnation=2))
    assert [bool(filters.hosts_wanting({"x": value}, "p")) for value in (1, 2, 3)] == [False, True, True]
    assert filters.version_of("h") == (2, 0)
    assert filters.status().entries == 2
    filters.check_invariants()


@pytest.mark.parametrize(
    ("incarnation", "version", "base"),
    [(1, 3, 2), (1, 2, 0), (2, 1, 0), (2, 2, 1)],
    ids=["gap", "back", "life", "both"],
)
def test_a_change_of_an_unknown_version_is_a_protocol_error(incarnation: int, version: int, base: int) -> None:
    filters = Filters("a", incarnation=1)
    jump = change_of("h", "x = 2", version=version, base=base, incarnation=incarnation)
    with pytest.raises(ProtocolError, match="jumps from an unknown version"):
        filters.learn(jump)
    assert filters.version_of("h") == (-1, -1)
    filters.learn(change_of("h", "x = 1"))
    with pytest.raises(ProtocolError, match="jumps from an unknown version"):
        filters.learn(jump)
    assert filters.version_of("h") == (1, 1)
    assert filters.hosts_wanting({"x": 2}, "p") == 0
    assert filters.learn(change_of("h", "x = 2", version=2, base=1))


def test_hosts_have_a_bit_each_and_a_new_one_makes_masks_stale() -> None:
    filters = Filters("a", incarnation=1)
    versions = [filters.hosts_version]
    for host in ("x", "y", "z"):
        filters.learn(change_of(host, f"{host} = 1"))
        versions.append(filters.hosts_version)
    assert versions == sorted(set(versions))
    filters.learn(change_of("x", version=2, base=1))
    assert filters.hosts_version == versions[-1]
    masks = [filters.mask_of(frozenset({host})) for host in ("x", "y", "z")]
    assert [mask.bit_count() for mask in masks] == [1, 1, 1]
    assert filters.mask_of(frozenset({"x", "z", "unknown"})) == masks[0] | masks[2]
    assert filters.hosts_wanting({"x": 1, "z": 1}, "p") == masks[0] | masks[2]


def test_a_filter_that_is_no_selector_is_a_protocol_error_and_changes_nothing() -> None:
    filters = Filters("a", incarnation=1)
    filters.learn(change_of("known", "x = 1"))
    for bad in (change_of("h", "y = 1", "y >"), change_of("known", "y = 1", "y >", version=2, base=1)):
        with pytest.raises(ProtocolError):
            filters.learn(bad)
    assert filters.version_of("h") == (-1, -1)
    assert filters.version_of("known") == (1, 1)
    assert filters.hosts_wanting({"y": 1}, "p") == 0
    filters.check_invariants()
    # A neighbour that says it well is believed.
    assert filters.learn(change_of("h", "y = 1"))
    assert filters.learn(change_of("known", "y = 1", version=2, base=1))


def test_every_update_of_a_large_filter_fits_into_a_frame() -> None:
    texts = tuple(f"x = '{number:016000}'" for number in range(1_000))
    change = change_of("h", *texts)
    updates = change.updates(1)
    assert all(len(encode_frame(update)) <= FRAME_BYTES_MAX for update in updates)
    receiver = LinkSequence()
    assert [receiver.take(update) for update in updates][-1] == change


def test_more_hosts_than_bitmaps_have_bits_are_at_worst_a_protocol_error() -> None:
    filters = Filters("a", incarnation=1)
    for number in range(LINKS_MAX + 1):
        with suppress(ProtocolError):
            filters.learn(change_of(f"h{number}", "x = 1"))
    assert filters.status().hosts <= LINKS_MAX


def test_newer_words_about_oneself_are_contradicted_with_the_whole_filter() -> None:
    filters = Filters("a", incarnation=5)
    filters.want(Selector.parse("x = 1"))
    for incarnation, version in [(5, 1), (5, 0), (4, 99)]:
        assert filters.learn(change_of("a", "x = 2", incarnation=incarnation, version=version)) is None
    said = filters.learn(change_of("a", "x = 2", incarnation=9, version=30))
    assert said is not None
    assert (said.incarnation, said.version) > (9, 30)
    assert (said.host, said.base, said.added, said.removed) == ("a", -1, ("x = 1",), ())
    assert said.incarnation == filters.incarnation
    following = filters.want(Selector.parse("y = 1"))
    assert following is not None
    assert (following.incarnation, following.base) == (said.incarnation, said.version)


def test_what_contradicts_a_neighbour_that_lies_about_the_age_can_still_be_read() -> None:
    filters = Filters("a", incarnation=5)
    said = [
        filters.learn(change_of("a", "x = 2", incarnation=2**62, version=2**62)),
        filters.want(Selector.parse("x = 1")),
    ]
    updates = [update for change in said if change is not None for update in change.updates(1)]
    assert list(FrameReader().feed(b"".join(map(encode_frame, updates)))) == updates


def test_a_host_whose_incarnation_was_set_back_by_its_restart_is_heard_again() -> None:
    net = Net()
    net.heal()
    net.want("a", ast.Comparison("=", ast.Attribute("x"), ast.Literal(1)))
    net.settle()
    net.restart("a", 99)
    net.heal()
    net.want("a", ast.Comparison("=", ast.Attribute("x"), ast.Literal(2)))
    net.settle()
    net.check([{"x": 1}, {"x": 2}])


def whole(host: str, *texts: str, version: int = 1, base: int = -1) -> HostChange:
    return HostChange(host, 1, version, base, texts, ())


def test_a_host_that_is_forgotten_leaves_nothing_and_its_number_to_another() -> None:
    filters = Filters("a", incarnation=1)
    for host in ("b", "c"):
        filters.learn(whole(host, "x = 1"))
    before = filters.mask_of(frozenset({"b"}))
    versions = filters.hosts_version, filters.stamp
    filters.forget("b")
    filters.forget("b")
    filters.check_invariants()
    assert (filters.hosts_version, filters.stamp) == (versions[0] + 1, versions[1] + 1)
    assert (filters.version_of("b"), filters.mask_of(frozenset({"b"}))) == ((-1, -1), 0)
    assert filters.hosts_wanting({"x": 1}, "p") == filters.mask_of(frozenset({"c"}))
    filters.learn(whole("d", "x = 2"))
    assert filters.mask_of(frozenset({"d"})) == before
    filters.check_invariants()


def test_of_a_forgotten_host_only_a_whole_filter_is_believed() -> None:
    filters = Filters("a", incarnation=1)
    filters.learn(whole("b", "x = 1"))
    filters.forget("b")
    assert filters.learn(whole("b", "x = 2", version=2, base=1)) is None
    assert filters.hosts_wanting({"x": 2}, "p") == 0
    assert list(filters.forgotten) == ["b"]
    assert filters.learn(whole("b", "x = 2", version=2)) is not None
    assert list(filters.forgotten) == []
    with pytest.raises(ProtocolError):
        filters.learn(whole("b", "x = 3", version=9, base=8))


def test_the_covering_set_can_be_told_in_part() -> None:
    filters = Filters("a", incarnation=1)
    for text in ("x > 0", "x > 5", "y > 0", "$class = 'PIE'"):
        filters.want(Selector.parse(text))
    assert sorted(filters.covering(lambda each: "$class" in each.names(), 10)) == ["x > 0", "y > 0"]
    assert len(list(filters.covering(lambda _: False, 2))) == 2


def test_a_part_of_a_change_is_read_when_it_comes() -> None:
    filters = Filters("b1", incarnation=1)
    filters.read_ahead(FilterUpdate(1, "h", 7, -1, -1, added=("x > 1",)))
    with pytest.raises(ProtocolError, match="filter of h: expected"):
        filters.read_ahead(FilterUpdate(1, "h", 7, -1, -1, added=("x >",)))
    assert filters.status().hosts == 0


def test_a_part_of_more_selectors_than_can_be_read_in_a_turn_is_a_protocol_error() -> None:
    filters = Filters("b1", incarnation=1)
    filters.read_ahead(FilterUpdate(1, "h", 7, -1, -1, added=tuple(f"x = {n}" for n in range(1_000))))
    with pytest.raises(ProtocolError, match="has 1,001 selectors"):
        filters.read_ahead(FilterUpdate(1, "h", 7, -1, -1, added=tuple(f"x = {n}" for n in range(1_001))))
    long = " AND ".join(f"x{n} = 1" for n in range(2_000))
    with pytest.raises(ProtocolError, match="1,000 of 32,768 are allowed"):
        filters.read_ahead(FilterUpdate(1, "h", 7, -1, -1, added=(long, f"y = 1 AND {long}")))


def test_a_large_change_comes_into_force_in_steps_and_counts_when_all_of_it_is_there() -> None:
    filters = Filters("b1", incarnation=1, step=2)
    change = change_of("h", *(f"x = {n}" for n in range(5)))
    entries = []
    news = filters.learn(change)
    while news is None:
        assert filters.version_of("h") == (-1, -1)
        assert filters.interested(["h"], "p") == (0, {})
        assert [each.host for each in filters.whole()] == ["b1"]
        entries.append(filters.status().entries)
        filters.check_invariants()
        news = filters.step()
    assert news is change
    assert entries == [2, 4]
    assert filters.version_of("h") == (1, 1)
    assert not filters.has_steps


def test_what_a_new_version_does_not_want_leaves_in_steps_and_is_not_passed_on() -> None:
    filters = Filters("b1", incarnation=1, step=2)
    filters.learn(change_of("h", "x = 1", "x = 2"))
    filters.learn(HostChange("h", 1, 2, 1, ("x = 3", "x = 4"), ()))
    assert not filters.has_steps
    change = change_of("h", "x = 5", version=3)
    assert filters.learn(change) is change
    entries = []
    while filters.is_changing("h"):
        assert known(filters)["h"] == (1, 3, frozenset({"x = 5"}))
        entries.append(filters.status().entries)
        filters.check_invariants()
        assert filters.step() is None
    assert entries == [4, 2]
    assert filters.status().entries == 1


def test_until_a_new_version_counts_the_old_one_is_in_force() -> None:
    filters = Filters("b1", incarnation=1, step=1)
    filters.learn(change_of("h", "x = 1"))
    assert filters.learn(change_of("h", "x = 2", "x = 3", version=2)) is None
    assert filters.version_of("h") == (1, 1)
    mask = filters.mask_of(frozenset({"h"}))
    assert filters.hosts_wanting({"x": 1}, "p") == mask
    assert filters.step() is not None
    assert filters.hosts_wanting({"x": 3}, "p") == mask


def test_a_host_that_is_forgotten_while_its_filter_changes_takes_no_more_steps() -> None:
    filters = Filters("b1", incarnation=1, step=1)
    filters.learn(change_of("h", "x = 1", "x = 2"))
    assert filters.is_changing("h")
    filters.forget("h")
    assert not filters.has_steps
    assert filters.status().entries == 0
    filters.check_invariants()


def test_a_host_is_interested_in_the_pubends_that_its_selectors_are_narrowed_to() -> None:
    host, other = Filters("h", incarnation=1), Filters("o", incarnation=1)
    other.learn(host.whole()[0])
    system = Selector.parse("$class = 'PIE'")
    narrow = narrowed(Selector.parse("x > 0"), ("orders", "trades"))
    wide = Selector.parse("x > 5")

    def interested() -> list[str]:
        return [each for each in ("orders", "trades", "audit") if other.interested(["h"], each)[0]]

    for selector, pubends, found in (
        (system, [], []),
        (narrow, ["orders", "trades"], ["orders", "trades"]),
        (wide, ["orders", "trades", "audit"], ["orders", "trades"]),
    ):
        change = host.want(selector)
        assert change is not None
        other.learn(change)
        other.check_invariants()
        assert interested() == pubends
        assert [each for each in ("orders", "trades", "audit") if other.hosts_wanting({"x": 1}, each)] == found
    for selector, pubends in ((wide, ["orders", "trades"]), (narrow, [])):
        change = host.unwant([selector])
        assert change is not None
        other.learn(change)
        other.check_invariants()
        assert interested() == pubends
    other.forget("h")
    other.check_invariants()
