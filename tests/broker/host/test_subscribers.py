"""Deliveries: to whom a loop over all subscriptions would deliver, with as few frames as possible."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.host.subscribers import Subscribers
from penstock.broker.narrowing import narrowed
from penstock.model.values import AttributeValue
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Deliver
from penstock.selectors import Selector, ast
from penstock.selectors.evaluate import compile_condition
from strategies import conditions, conjunctions, messages, tries

Message = dict[str, AttributeValue]
Delivered = dict[int, list[int]]

BULK = 96


def delivered(subscribers: Subscribers, message: Message, *, system: bool = False) -> Delivered:
    """The numbers that each connection gets, sorted; each connection is named once and each frame is another one."""
    found: Delivered = {}
    deliveries = subscribers.deliveries(3, [17], [b"body"], [message], system=system)
    assert len({frame.numbers[0] for frame, _ in deliveries}) == len(deliveries)
    for frame, connections in deliveries:
        assert (frame.pubend, list(frame.ticks), list(frame.bodies)) == (3, [17], [b"body"])
        for connection in connections:
            assert connection not in found
            found[connection] = sorted(numbers_of(frame))
    return found


def numbers_of(frame: Deliver) -> list[int]:
    (numbers,) = frame.numbers
    return unpacked(numbers)


def unpacked(numbers: bytes) -> list[int]:
    return list(struct.unpack(f">{len(numbers) // 4}I", numbers))


def subscribed(*each: tuple[int, int, str]) -> Subscribers:
    subscribers = Subscribers()
    for connection, number, text in each:
        subscribers.add(connection, number, Selector.parse(text))
    return subscribers


steps = st.lists(
    st.tuples(st.integers(-2, 4), st.integers(0, 8), st.one_of(conditions, conjunctions)), min_size=1, max_size=24
)


@settings(max_examples=tries(200))
@given(steps, st.lists(messages, min_size=1, max_size=5))
def test_deliveries_agree_with_a_loop_after_additions_and_removals_in_any_order(
    history: list[tuple[int, int, ast.Condition]], probes: list[Message]
) -> None:
    subscribers = Subscribers()
    kept: dict[tuple[int, int], tuple[int, ast.Condition]] = {}
    for connection, number, condition in history:
        # A number that is taken is removed: its key is used again by a later one.
        if (connection, number) in kept:
            subscribers.remove(kept.pop((connection, number))[0])
        else:
            kept[connection, number] = (subscribers.add(connection, number, Selector(condition)), condition)
        subscribers.check_invariants()
    assert len(subscribers) == len(kept)
    for message in probes:
        expected: Delivered = {}
        for (connection, number), (_, condition) in sorted(kept.items(), key=lambda item: item[0]):
            if compile_condition(condition)(message) is True:
                expected.setdefault(connection, []).append(number)
        assert delivered(subscribers, message) == expected


@pytest.mark.parametrize("count", [1, 63, 64, 65, BULK - 1, BULK, BULK + 1, 128, 129, 1_000])
def test_few_matches_and_many_are_delivered_alike(count: int) -> None:
    subscribers = subscribed(*((number % 7, 1_000 * number, f"x > {number}") for number in range(count)))
    expected: Delivered = {}
    for number in range(count):
        expected.setdefault(number % 7, []).append(1_000 * number)
    assert delivered(subscribers, {"x": count}) == expected
    assert delivered(subscribers, {"x": 0}) == {}


@pytest.mark.parametrize("seed", range(10))
def test_random_fleets_are_delivered_to_as_a_loop_says(seed: int) -> None:
    rng = Random(seed)
    subscribers, kept = Subscribers(), dict[int, tuple[int, int, int]]()
    for number in range(600):
        connection, limit = rng.randrange(-3, 40), rng.randrange(10)
        key = subscribers.add(connection, number, Selector.parse(f"x >= {limit}"))
        assert key not in kept
        kept[key] = (connection, number, limit)
        if rng.random() < 0.3:
            gone = rng.choice(sorted(kept))
            subscribers.remove(gone)
            del kept[gone]
    subscribers.check_invariants()
    for value in range(10):
        expected: Delivered = {}
        for connection, number, limit in kept.values():
            if value >= limit:
                expected.setdefault(connection, []).append(number)
        assert delivered(subscribers, {"x": value}) == {each: sorted(numbers) for each, numbers in expected.items()}


@pytest.mark.parametrize("count", [5, 500])
def test_clients_whose_numbers_agree_share_one_frame(count: int) -> None:
    subscribers = subscribed(*((connection, 1, "x = 1") for connection in range(count)), (count, 2, "x = 1"))
    shared, single = sorted(subscribers.deliveries(0, [1], [b""], [{"x": 1}]), key=lambda each: -len(each[1]))
    assert numbers_of(shared[0]) == [1]
    assert sorted(shared[1]) == list(range(count))
    assert (numbers_of(single[0]), single[1]) == ([2], (count,))


@settings(max_examples=tries(200))
@given(steps, st.lists(messages, max_size=12))
def test_messages_together_reach_everybody_as_one_by_one_would(
    history: list[tuple[int, int, ast.Condition]], batch: list[Message]
) -> None:
    subscribers = Subscribers()
    for connection, number, condition in history:
        subscribers.add(connection, number, Selector(condition))
    ticks, bodies = list(range(len(batch))), [bytes([place]) for place in range(len(batch))]
    got: dict[int, list[tuple[int, bytes, list[int]]]] = {}
    for frame, connections in subscribers.deliveries(3, ticks, bodies, batch):
        for connection in connections:
            for tick, numbers, body in zip(frame.ticks, frame.numbers, frame.bodies, strict=True):
                got.setdefault(connection, []).append((tick, body, sorted(unpacked(numbers))))
    alone: dict[int, list[tuple[int, bytes, list[int]]]] = {}
    for tick, message in enumerate(batch):
        for connection, found in delivered(subscribers, message).items():
            alone.setdefault(connection, []).append((tick, bytes([tick]), found))
    assert got == alone


def test_messages_for_the_same_receivers_share_a_frame_and_others_come_by_client() -> None:
    subscribers = subscribed((1, 1, "x > 0"), (2, 1, "x > 0"), (3, 1, "x > 1"), (4, 1, "x < 0"))
    ones: list[Message] = [{"x": 1}] * 4
    ((frame, connections),) = subscribers.deliveries(0, [1, 2, 3, 4], [b"a"] * 4, ones)
    assert (list(frame.ticks), sorted(connections)) == ([1, 2, 3, 4], [1, 2])
    mixed: list[Message] = [{"x": 1}, {"x": 2}, {"x": 1}, {"x": 2}]
    frames = subscribers.deliveries(0, [1, 2, 3, 4], [b"a"] * 4, mixed)
    assert {connections: list(frame.ticks) for frame, connections in frames} == {
        (1,): [1, 2, 3, 4],
        (2,): [1, 2, 3, 4],
        (3,): [2, 4],
    }


@pytest.mark.parametrize("wanted", [["x > 0"], ["x > 0", "x > 1"]])
def test_a_frame_takes_no_more_messages_when_it_is_large(wanted: list[str]) -> None:
    subscribers = subscribed(*((1, number, text) for number, text in enumerate(wanted)))
    batch: list[Message] = [{"x": 1}, {"x": 2}] * 4
    frames = subscribers.deliveries(0, list(range(8)), [bytes(20_000)] * 8, batch)
    assert [list(frame.ticks) for frame, _ in frames] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_who_gets_a_message_is_not_remembered_beyond_a_change_of_subscriptions() -> None:
    subscribers = subscribed((1, 1, "x > 0"), (2, 2, "x > 0"))
    assert delivered(subscribers, {"x": 1}) == {1: [1], 2: [2]}
    third = subscribers.add(3, 3, Selector.parse("x > 1"))
    assert delivered(subscribers, {"x": 1}) == {1: [1], 2: [2]}
    assert delivered(subscribers, {"x": 2}) == {1: [1], 2: [2], 3: [3]}
    subscribers.remove(third)
    # The key serves another connection now.
    assert subscribers.add(4, 4, Selector.parse("x > 1")) == third
    assert delivered(subscribers, {"x": 2}) == {1: [1], 2: [2], 4: [4]}
    subscribers.silence([0])
    assert delivered(subscribers, {"x": 2}) == {2: [2], 4: [4]}


def test_the_largest_numbers_arrive_as_they_are() -> None:
    largest = 2**32 - 1
    assert delivered(subscribed((1, largest, "x = 1"), (1, 0, "x = 1")), {"x": 1}) == {1: [0, largest]}
    many = subscribed(*((1, largest - number, "x = 1") for number in range(BULK)))
    assert delivered(many, {"x": 1}) == {1: list(range(largest - BULK + 1, largest + 1))}


def test_a_subscription_with_several_matching_alternatives_is_named_once() -> None:
    assert delivered(subscribed((1, 5, "x = 1 OR y = 1 OR z = 1")), {"x": 1, "y": 1, "z": 1}) == {1: [5]}


def test_a_removed_subscription_gets_nothing_and_its_key_serves_another() -> None:
    subscribers = subscribed((1, 1, "x = 1"))
    key = subscribers.add(2, 2, Selector.parse("x = 1"))
    subscribers.remove(key)
    assert len(subscribers) == 1
    assert delivered(subscribers, {"x": 1}) == {1: [1]}
    assert subscribers.add(3, 3, Selector.parse("x = 2")) == key
    assert delivered(subscribers, {"x": 1}) == {1: [1]}
    assert delivered(subscribers, {"x": 2}) == {3: [3]}
    subscribers.check_invariants()


def test_selectors_by_reserved_attributes_see_only_messages_of_the_system_and_others_never_do() -> None:
    subscribers = subscribed((1, 1, "$load > 5"), (2, 2, "x = 1"), (3, 3, "TRUE"), (4, 4, "$load > 5 AND x = 1"))
    both: Message = {"$load": 6, "x": 1}
    assert delivered(subscribers, both, system=True) == {1: [1], 4: [4]}
    assert delivered(subscribers, both) == {2: [2], 3: [3]}
    assert delivered(subscribers, {"x": 1}, system=True) == {}


def test_a_selector_with_both_kinds_of_alternatives_sees_each_where_it_belongs() -> None:
    subscribers = subscribed((1, 1, "$load > 5 OR x = 1"))
    assert delivered(subscribers, {"$load": 6}, system=True) == {1: [1]}
    assert delivered(subscribers, {"x": 1}) == {1: [1]}
    assert delivered(subscribers, {"x": 1}, system=True) == {}
    subscribers.remove(0)
    assert delivered(subscribers, {"$load": 6}, system=True) == delivered(subscribers, {"x": 1}) == {}
    subscribers.check_invariants()


@pytest.mark.parametrize("text", ["$load + 1 > 5", "$load > $load_max", "x = 1 AND $load > x", "0 < $load * 2"])
def test_a_selector_that_computes_with_reserved_attributes_sees_messages_of_the_system_too(text: str) -> None:
    subscribers = subscribed((1, 1, text))
    message: Message = {"$load": 6, "$load_max": 3, "x": 1}
    assert Selector.parse(text).matches(message)
    assert delivered(subscribers, message, system=True) == {1: [1]}
    assert delivered(subscribers, message) == {}


def test_a_selector_that_nothing_satisfies_has_a_key_and_gets_nothing() -> None:
    subscribers = subscribed((1, 1, "FALSE"))
    assert len(subscribers) == 1
    assert delivered(subscribers, {}) == {}
    subscribers.check_invariants()
    subscribers.remove(0)
    assert len(subscribers) == 0
    subscribers.check_invariants()


def test_more_matching_subscriptions_than_one_frame_can_name_arrive_all_the_same() -> None:
    subscribers, selector = Subscribers(), Selector.parse("x = 1")
    for number in range(2**16):
        subscribers.add(1, number, selector)
    deliveries = subscribers.deliveries(0, [1], [b""], [{"x": 1}])
    assert all(encode_frame(frame) for frame, _ in deliveries)
    assert sorted(number for frame, _ in deliveries for number in numbers_of(frame)) == list(range(2**16))


def test_what_is_looked_up_is_counted_and_told_to_whoever_samples() -> None:
    subscribers = Subscribers()
    subscribers.add(1, 7, Selector.parse("x > 0"))
    subscribers.add(2, 7, Selector.parse("$class = 'PIE'"))
    told: list[tuple[dict[str, object], list[int], int]] = []
    subscribers.deliveries(1, [1], [b"body"], [{"x": 1}])
    subscribers.sample_into(lambda attributes, keys, size: told.append((dict(attributes), keys.tolist(), size)))
    subscribers.deliveries(1, [2], [b"body"], [{"x": 2}], name="orders")
    subscribers.deliveries(1, [3], [b""], [{"x": 0}], name="trades")
    subscribers.deliveries(1, [4], [b""], [{"$class": "PIE"}], system=True)
    subscribers.deliveries(1, [5], [b""], [{"x": 3}], members={0: 0})
    assert told == [({"x": 2, "$pubend": "orders"}, [0], 4), ({"x": 0, "$pubend": "trades"}, [], 0)]
    assert subscribers.matched == 4
    subscribers.stop_sampling()
    subscribers.deliveries(1, [6], [b"body"], [{"x": 2}])
    assert len(told) == 2
    assert subscribers.ordinary == 1
    assert len(subscribers) == 2


def test_one_lookup_in_sixteen_is_timed_if_there_is_a_stopwatch() -> None:
    ticks = iter(range(0, 1_000, 5))
    subscribers = Subscribers(lambda: next(ticks))
    subscribers.add(1, 7, Selector.parse("x > 0"))
    for number in range(33):
        subscribers.deliveries(1, [number + 1], [b""], [{"x": 1}])
    assert (subscribers.matched, subscribers.timed, subscribers.timed_ns) == (33, 2, 10)


def test_silenced_subscriptions_get_nothing_and_must_still_be_removed() -> None:
    subscribers = subscribed((1, 1, "x > 0"), (1, 2, "x > 1"), (2, 1, "x > 2"))
    subscribers.silence([0, 1])
    assert delivered(subscribers, {"x": 5}) == {2: [1]}
    assert delivered(subscribers, {"x": 1}) == {}
    assert len(subscribers) == 3
    subscribers.check_invariants()
    subscribers.remove(0)
    subscribers.remove(1)
    subscribers.check_invariants()
    subscribers.add(3, 7, Selector.parse("x > 0"))
    assert delivered(subscribers, {"x": 5}) == {2: [1], 3: [7]}


def test_whether_anybody_is_interested_depends_on_the_pubend_too() -> None:
    subscribers = Subscribers()
    subscribers.add(1, 7, narrowed(Selector.parse("x > 0"), ("orders",)))
    subscribers.add(2, 7, Selector.parse("$class = 'PIE'"))
    asked: list[tuple[dict[str, AttributeValue], str]] = [
        ({"x": 1}, "orders"),
        ({"x": 1}, "trades"),
        ({"x": 0}, "orders"),
        ({"$class": "PIE"}, "orders"),
    ]
    assert [subscribers.are_interested(*each) for each in asked] == [True, False, False, False]


def test_a_subscription_to_some_pubends_gets_their_messages_only() -> None:
    subscribers = Subscribers()
    key = subscribers.add(1, 7, narrowed(Selector.parse("x > 0"), ("orders",)))
    subscribers.add(2, 8, Selector.parse("x > 0"))

    def receivers(name: str) -> list[int]:
        frames = subscribers.deliveries(1, [1, 2], [b"", b""], [{"x": 1}, {"x": 2}], name=name)
        return sorted({each for _, connections in frames for each in connections})

    assert (receivers("orders"), receivers("trades")) == ([1, 2], [2])
    subscribers.check_invariants()
    subscribers.remove(key)
    assert receivers("orders") == [2]
    subscribers.check_invariants()
