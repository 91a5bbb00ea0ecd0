"""What all brokers say about their links: old words never win, and copies that hear each other end up the same."""

from __future__ import annotations

from collections import deque
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.neighbours.topology import BROKERS_MAX, Topology
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import LinkState
from strategies import tries

NAMES = ("a", "b", "c", "d")
PAIRS = tuple(combinations(NAMES, 2))
Pair = tuple[str, str]


def alone(name: str = "a", incarnation: int = 5, pubends: tuple[str, ...] = ()) -> Topology:
    return Topology(name, incarnation=incarnation, pubends=pubends)


def state(origin: str, *neighbours: str, age: tuple[int, int] = (1, 1), pubends: tuple[str, ...] = ()) -> LinkState:
    return LinkState(origin, *age, neighbours, pubends)


class Net:
    """Topologies that flood to each other as brokers do, over links that keep order and lose their content when cut."""

    def __init__(self) -> None:
        self.lives = dict.fromkeys(NAMES, 1)
        self.copies = {name: alone(name, 100, (f"{name}.p",)) for name in NAMES}
        self.links: dict[Pair, deque[LinkState]] = {}

    def join(self, one: str, other: str) -> None:
        self.links[one, other], self.links[other, one] = deque(), deque()
        for name, end in ((one, other), (other, one)):
            self.flood(name, self.copies[name].neighbour_up(end), but=end)
            self.links[name, end].extend(self.copies[name].states)

    def cut(self, one: str, other: str) -> None:
        del self.links[one, other], self.links[other, one]
        self.flood(one, self.copies[one].neighbour_down(other))
        self.flood(other, self.copies[other].neighbour_down(one))

    def restart(self, name: str, incarnation: int) -> None:
        self.copies[name] = alone(name, incarnation, (f"{name}.p{self.lives[name]}",))
        for one, other in [pair for pair in self.links if pair[0] == name]:
            del self.links[one, other], self.links[other, one]
            self.flood(other, self.copies[other].neighbour_down(one))

    def flood(self, name: str, news: LinkState, but: str = "") -> None:
        for (sender, receiver), queue in self.links.items():
            if sender == name and receiver != but:
                queue.append(news)

    def carry(self, sender: str, receiver: str) -> None:
        heard = self.links[sender, receiver].popleft()
        news = self.copies[receiver].learn(heard)
        if news is not None:
            self.flood(receiver, news, but=sender if news is heard else "")

    def settle(self) -> None:
        for _ in range(100_000):
            busy = [pair for pair, queue in self.links.items() if queue]
            if not busy:
                return
            self.carry(*busy[0])
        raise AssertionError("the flood does not end")

    def act(self, step: tuple[str, int, int], *, forwards: bool) -> None:
        what, number, amount = step
        pair = PAIRS[number % len(PAIRS)]
        if what == "toggle":
            (self.cut if pair in self.links else self.join)(*pair)
        elif what == "restart":
            name = NAMES[number % len(NAMES)]
            self.lives[name] += 1
            self.restart(name, 100 + self.lives[name] if forwards else 100 - self.lives[name])
        else:
            busy = [each for each, queue in self.links.items() if queue]
            for _ in range(amount):
                if busy and self.links[busy[number % len(busy)]]:
                    self.carry(*busy[number % len(busy)])

    def check(self) -> None:
        """All copies are the same and true."""
        for name, copy in self.copies.items():
            copy.check_invariants()
            assert sorted(copy.states, key=lambda each: each.origin) == sorted(
                self.copies["a"].states, key=lambda each: each.origin
            )
            assert copy.graph() == {
                each: tuple(sorted(end for start, end in self.links if start == each)) for each in NAMES
            }
            for other in NAMES:
                pubends = next(each.pubends for each in self.copies[other].states if each.origin == other)
                assert [copy.origin_of(pubend) for pubend in pubends] == [other], name


steps = st.lists(
    st.tuples(
        st.sampled_from(["toggle", "toggle", "carry", "carry", "restart"]), st.integers(0, 11), st.integers(1, 9)
    ),
    max_size=30,
)


@settings(max_examples=tries(400))
@given(steps, st.sets(st.sampled_from(PAIRS)))
def test_after_any_history_copies_that_are_connected_again_are_the_same_and_true(
    history: list[tuple[str, int, int]], healed: set[Pair]
) -> None:
    net = Net()
    for step in history:
        net.act(step, forwards=True)
    heal(net, healed)
    net.check()


@settings(max_examples=tries(400))
@given(steps, st.sets(st.sampled_from(PAIRS)))
def test_copies_are_the_same_and_true_also_when_restarts_set_the_incarnation_back(
    history: list[tuple[str, int, int]], healed: set[Pair]
) -> None:
    net = Net()
    for step in history:
        net.act(step, forwards=False)
    heal(net, healed)
    net.check()


def heal(net: Net, more: set[Pair]) -> None:
    for pair in sorted({*pairwise(NAMES), *more}):
        if pair not in net.links:
            net.join(*pair)
    net.settle()


def word_of_a(copy: Topology) -> LinkState:
    return next(each for each in copy.states if each.origin == "a")


def test_words_of_an_earlier_life_are_contradicted_when_a_part_that_was_away_brings_them_back() -> None:
    net = Net()
    net.join("a", "b")
    net.join("b", "c")
    net.settle()
    net.cut("b", "c")
    net.restart("a", 99)
    net.join("a", "b")
    net.settle()
    assert word_of_a(net.copies["b"]) != word_of_a(net.copies["c"])
    net.join("c", "d")
    net.join("b", "c")
    net.settle()
    net.check()


def test_two_different_words_of_the_same_age_do_not_divide_the_brokers_for_good() -> None:
    net = Net()
    net.join("a", "b")
    net.settle()
    # Only c hears the last words of the first life of a.
    net.cut("a", "b")
    net.join("a", "c")
    net.settle()
    # In its second life a takes over from b an age below what c knows, and goes on from there.
    net.restart("a", 99)
    net.join("a", "b")
    net.settle()
    net.join("a", "d")
    net.settle()
    before, after = word_of_a(net.copies["c"]), word_of_a(net.copies["b"])
    assert before != after
    net.join("b", "c")
    net.settle()
    net.check()


def test_a_link_counts_when_both_ends_confirm_it() -> None:
    copy = alone()
    copy.neighbour_up("b")
    assert copy.graph() == {"a": ()}
    copy.learn(state("b"))
    assert copy.graph() == {"a": (), "b": ()}
    copy.learn(state("b", "a", age=(1, 2)))
    assert copy.graph() == {"a": ("b",), "b": ("a",)}
    copy.neighbour_down("b")
    assert copy.graph() == {"a": (), "b": ()}


def test_what_a_dead_broker_said_does_not_keep_its_links_alive() -> None:
    copy = alone()
    copy.neighbour_up("b")
    copy.learn(state("b", "a", "c"))
    copy.learn(state("c", "b"))
    assert copy.graph() == {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    copy.neighbour_down("b")
    copy.learn(state("c", age=(1, 2)))
    assert copy.graph() == {"a": (), "b": (), "c": ()}


def test_what_is_flooded_names_all_links_and_grows_in_sequence() -> None:
    copy = alone(pubends=("p",))
    assert copy.states == [LinkState("a", 5, 1, (), ("p",), life=5)]
    assert copy.neighbour_up("c") == LinkState("a", 5, 2, ("c",), ("p",), life=5)
    assert copy.neighbour_up("b") == LinkState("a", 5, 3, ("b", "c"), ("p",), life=5)
    assert copy.neighbour_down("c") == LinkState("a", 5, 4, ("b",), ("p",), life=5)
    assert copy.neighbour_down("unknown") == LinkState("a", 5, 5, ("b",), ("p",), life=5)
    assert copy.states == [LinkState("a", 5, 5, ("b",), ("p",), life=5)]


def test_older_and_equal_words_are_not_passed_on_and_change_nothing() -> None:
    copy = alone()
    newest = state("b", "a", age=(2, 5))
    assert copy.learn(newest) is newest
    version = copy.version
    for age in [(2, 5), (2, 4), (1, 9)]:
        assert copy.learn(state("b", "c", age=age)) is None
    assert newest in copy.states
    assert copy.version == version
    for age in [(2, 6), (3, 1)]:
        assert copy.learn(state("b", "c", age=age)) is not None
    assert copy.version == version + 2


def test_a_restarted_broker_is_believed_from_its_first_word() -> None:
    copy = alone()
    copy.learn(state("b", "a", "c", age=(7, 40), pubends=("old",)))
    assert copy.learn(state("b", age=(8, 1), pubends=("new",))) is not None
    assert copy.origin_of("old") is None
    assert copy.origin_of("new") == "b"


def test_newer_words_about_oneself_are_contradicted_and_older_ones_ignored() -> None:
    copy = alone(incarnation=5, pubends=("p",))
    copy.neighbour_up("b")
    assert copy.learn(state("a", age=(5, 1))) is None
    assert copy.learn(state("a", age=(4, 99))) is None
    mine = copy.states[0]
    assert copy.learn(mine) is None
    said = copy.learn(state("a", "z", age=(9, 30)))
    assert said is not None
    assert (said.incarnation, said.sequence) > (9, 30)
    assert (said.neighbours, said.pubends) == (("b",), ("p",))
    assert copy.states == [said]
    following = copy.neighbour_down("b")
    assert (following.incarnation, following.sequence) > (said.incarnation, said.sequence)
    copy.check_invariants()


def test_a_home_of_which_a_later_life_is_heard_of_is_superseded_and_contradicts_nobody() -> None:
    copy = Topology("h", incarnation=5, pubends=("q",), can_move=True)
    copy.neighbour_up("b")
    said = [(copy.learn(state("h", "c", age=age)), copy.is_superseded) for age in ((4, 99), (6, 1))]
    assert said == [(None, False), (None, True)]
    assert copy.states[0].incarnation == 5


@pytest.mark.parametrize("age", [(2**62, 2**62), (2**62 - 1, 5), (5, 2**62)])
def test_what_contradicts_a_neighbour_that_lies_about_the_age_can_still_be_sent(age: tuple[int, int]) -> None:
    copy = alone(incarnation=5)
    said = copy.learn(state("a", age=age))
    for each in ([said] if said else []) + [copy.neighbour_up("b"), copy.neighbour_up("c")]:
        assert list(FrameReader().feed(encode_frame(each))) == [each]


def test_the_version_grows_with_every_change_and_the_graph_follows() -> None:
    copy = alone()
    versions, graphs = [copy.version], [copy.graph()]
    copy.neighbour_up("b")
    versions.append(copy.version)
    graphs.append(copy.graph())
    for heard in (state("b", "a"), state("b", age=(1, 2)), state("a", age=(9, 1))):
        copy.learn(heard)
        versions.append(copy.version)
        graphs.append(copy.graph())
    assert versions == sorted(set(versions))
    linked = {"a": ("b",), "b": ("a",)}
    assert graphs == [{"a": ()}, {"a": ()}, linked, {"a": (), "b": ()}, {"a": (), "b": ()}]


def test_pubends_have_an_origin_and_system_streams_are_those_of_their_broker() -> None:
    copy = alone(pubends=("a.p",))
    copy.learn(state("b", pubends=("b.p", "b.q")))
    assert [copy.origin_of(each) for each in ("a.p", "b.p", "b.q", "c.p", "")] == ["a", "b", "b", None, None]
    assert [copy.origin_of(each) for each in ("$a", "$b", "$c", "$")] == ["a", "b", None, None]
    assert copy.pubends_within(frozenset({"a", "b"})) == ["a.p", "b.p", "b.q"]
    assert copy.pubends_within(frozenset({"b"})) == ["b.p", "b.q"]


def test_a_pubend_that_two_brokers_claim_belongs_to_the_same_one_everywhere() -> None:
    first, second = alone(pubends=("p",)), alone("b", pubends=("p",))
    first.learn(second.states[0])
    second.learn(first.states[0])
    assert first.origin_of("p") == second.origin_of("p") == "a"


def test_more_brokers_than_an_overlay_may_have_are_ignored() -> None:
    copy = alone()
    for number in range(BROKERS_MAX - 1):
        assert copy.learn(state(f"n{number}")) is not None
    assert copy.learn(state("one-too-many")) is None
    assert len(copy.states) == BROKERS_MAX
    # Those that are known are still heard.
    assert copy.learn(state("n7", "a", age=(1, 2))) is not None


def test_who_is_no_member_counts_only_while_it_can_be_reached() -> None:
    topology = alone("a")
    topology.restrict(("a", "b", "c"))
    topology.neighbour_up("b")
    for each in (state("b", "a", "x"), state("x", "b", pubends=("x.p",)), state("c", "y"), state("y", "c")):
        topology.learn(each)
    assert topology.graph() == {"a": ("b",), "b": ("a", "x"), "c": (), "x": ("b",)}
    assert (topology.origin_of("x.p"), topology.origin_of("$y")) == ("x", None)
    topology.learn(state("b", "a", age=(1, 2)))
    assert topology.graph() == {"a": ("b",), "b": ("a",), "c": ()}
    assert (topology.origin_of("x.p"), topology.is_guaranteed("x.p")) == (None, False)
    topology.check_invariants()
    topology.restrict(("a", "b", "c", "x"))
    assert topology.origin_of("x.p") == "x"
    topology.forget("x")
    assert topology.origin_of("x.p") is None
    assert "x" not in [each.origin for each in topology.states]
