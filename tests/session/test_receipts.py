from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.model.limits import SETTLED_MAX
from penstock.session.receipts import TICKS_MAX, Receipts
from penstock.session.received import BestEffortReceived, Received


def message(tick: int, pubend: str = "p") -> Received:
    return Received(pubend, tick, b"")


def test_what_is_in_hand_counts_when_the_application_comes_back() -> None:
    receipts = Receipts(is_manual=False)
    receipts.hold([message(3), message(5)])
    assert receipts.positions({"p": 9}, [message(7)]) == {"p": 3}
    assert receipts.settle()
    assert receipts.positions({"p": 9}, [message(7)]) == {"p": 7}
    assert receipts.positions({"p": 9}, []) == {"p": 9}
    assert not receipts.settle()


def test_a_batch_that_the_application_empties_is_still_in_its_hands() -> None:
    receipts, batch = Receipts(is_manual=False), [message(3), message(5)]
    receipts.hold(batch)
    batch.clear()
    assert receipts.positions({"p": 9}, []) == {"p": 3}


def test_manually_silence_counts_up_to_the_next_message_that_was_not_acknowledged() -> None:
    receipts = Receipts(is_manual=True)
    assert receipts.positions({"p": 2}, []) == {"p": 2}
    receipts.hold([message(3), message(5), message(8)])
    receipts.settle()
    assert receipts.positions({"p": 20}, [message(15)]) == {"p": 3}
    receipts.acknowledge_through(message(5))
    assert receipts.positions({"p": 20}, [message(15)]) == {"p": 8}
    receipts.acknowledge_through(message(3))
    assert receipts.positions({"p": 20}, [message(15)]) == {"p": 8}, "nothing is taken back"
    receipts.acknowledge_through()
    assert receipts.positions({"p": 20}, [message(15)]) == {"p": 15}
    assert receipts.positions({"p": 20}, []) == {"p": 20}


def test_all_that_was_read_does_not_include_what_waits_elsewhere() -> None:
    receipts = Receipts(is_manual=True)
    receipts.hold([message(3), message(5), message(1, "q"), message(8)])
    receipts.acknowledge_through(waiting=[message(5), message(8)])
    assert receipts.positions({"p": 20, "q": 20}, []) == {"p": 5, "q": 20}
    receipts.acknowledge_through(waiting=[message(8)])
    assert receipts.positions({"p": 20, "q": 20}, []) == {"p": 8, "q": 20}


def test_what_was_not_read_cannot_be_acknowledged() -> None:
    receipts = Receipts(is_manual=True)
    receipts.hold([message(3)])
    for wrong in (message(4), message(1, "q")):
        with pytest.raises(MisuseError, match=f"tick {wrong.tick} of pubend {wrong.pubend} was not read"):
            receipts.acknowledge_through(wrong)
    with pytest.raises(MisuseError, match="not acknowledged manually"):
        Receipts(is_manual=False).acknowledge_through()


def test_very_many_open_messages_hold_the_position_and_not_the_memory() -> None:
    receipts, count = Receipts(is_manual=True), TICKS_MAX + 1_000
    receipts.hold(message(2 * tick) for tick in range(count))
    last = 2 * TICKS_MAX - 2
    receipts.acknowledge_through(message(last))
    assert receipts.positions({"p": 10**9}, []) == {"p": last + 1}, "what came next is not known any more"
    receipts.hold([message(2 * count)])
    receipts.acknowledge_through(message(last + 100))
    assert receipts.positions({"p": 10**9}, []) == {"p": last + 101}
    receipts.acknowledge_through(message(2 * count))
    assert receipts.positions({"p": 10**9}, []) == {"p": 10**9}
    receipts.hold([message(2 * count + 7)])
    assert receipts.positions({"p": 10**9}, []) == {"p": 2 * count + 7}, "there is room again"


def test_only_what_has_risen_is_said_and_all_of_it_on_another_connection() -> None:
    receipts = Receipts(is_manual=False)
    assert receipts.say({"p": 5, "q": 0, "r": 7}, {"p": 1, "q": 2}) == ((1, 5),)
    assert receipts.say({"p": 5, "q": 3}, {"p": 1, "q": 2}) == ((2, 3),)
    assert receipts.acknowledged == {"p": 5, "q": 3}
    receipts.on_disconnected()
    assert receipts.say({"p": 5, "q": 4, "r": 7}, {"r": 0, "p": 1}) == ((1, 5), (0, 7))
    assert receipts.acknowledged == {"p": 5, "q": 3, "r": 7}


_STEPS = st.lists(st.tuples(st.sampled_from(["arrive", "silence", "take", "acknowledge"]), st.sampled_from("pq")))


@given(_STEPS, st.booleans(), st.data())
def test_nothing_is_acknowledged_that_is_not_done_with(
    steps: list[tuple[str, str]], is_manual: bool, data: st.DataObject
) -> None:
    """The oracle keeps every message with what has become of it."""
    receipts, arrived = Receipts(is_manual=is_manual), {"p": 0, "q": 0}
    waiting, taken, done = list[Received](), list[Received](), set[Received]()
    for step, pubend in steps:
        if step == "arrive":
            waiting.append(message(arrived[pubend] + 1, pubend))
            arrived[pubend] += 2
        elif step == "silence":
            arrived[pubend] += 5
        elif step == "take":
            receipts.settle()
            done |= set() if is_manual else {*taken}
            count = data.draw(st.integers(0, len(waiting)))
            receipts.hold(waiting[:count])
            taken, waiting = taken + waiting[:count], waiting[count:]
        elif is_manual and taken:
            each = data.draw(st.sampled_from(taken))
            receipts.acknowledge_through(each)
            done |= {other for other in taken if other.pubend == each.pubend and other.tick <= each.tick}
        positions = receipts.positions(arrived, waiting)
        open_messages = [each for each in [*taken, *waiting] if each not in done]
        for name, position in positions.items():
            expected = min((each.tick for each in open_messages if each.pubend == name), default=arrived[name])
            assert position == expected, "neither ahead of what is open, nor behind it"


def test_what_guaranteed_nothing_is_no_matter_of_acknowledgement() -> None:
    receipts = Receipts(is_manual=True)
    message = BestEffortReceived("quotes", 4, b"")
    receipts.hold([message])
    receipts.acknowledge_through(message)
    assert receipts.positions({"quotes": 9}, [message]) == {"quotes": 9}


# --- single messages

HERE = {"p": 0, "q": 4}


def said(receipts: Receipts, now_ms: int = 0) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(each.pubend, each.below, each.ticks) for each in receipts.settlings(HERE, now_ms=now_ms)]


def with_taken(*ticks: int) -> Receipts:
    receipts = Receipts(is_manual=True)
    receipts.hold(map(message, ticks))
    return receipts


def test_a_single_message_holds_the_position_before_all_that_are_open() -> None:
    receipts = with_taken(3, 5, 8, 9)
    receipts.acknowledge(message(8))
    receipts.acknowledge(message(5))
    assert receipts.positions({"p": 20}, []) == {"p": 3}
    assert receipts.next_settling() == 0
    assert said(receipts) == [("p", 3, (5, 8))]
    assert receipts.acknowledged == {"p": 3}
    assert said(receipts) == [], "that was said"
    receipts.acknowledge(message(3))
    assert receipts.positions({"p": 20}, []) == {"p": 9}, "over all that are done"
    assert receipts.taken == 3
    assert said(receipts, 5_000) == [], "the position covers them, and is reported"


def test_what_is_not_kept_is_said_again_and_what_is_kept_is_not() -> None:
    receipts = with_taken(3, 5, 8)
    receipts.acknowledge(message(5))
    receipts.acknowledge(message(8))
    assert said(receipts) == [("p", 3, (5, 8))]
    assert receipts.next_settling() == 1_000
    receipts.on_settled("p", 0, [8])
    assert receipts.is_kept("p", 8)
    assert not receipts.is_kept("p", 5)
    assert said(receipts, 999) == []
    assert said(receipts, 1_000) == [("p", 3, (5,))]
    receipts.on_disconnected()
    assert receipts.next_settling() is None, "nobody is there to be told"
    receipts.wake()
    assert said(receipts, 1_001) == [("p", 3, (5,))]
    receipts.on_settled("p", 0, [5])
    assert said(receipts, 9_999) == []
    receipts.wake()
    assert receipts.next_settling() is None


def test_who_waits_hears_of_messages_that_the_position_covers() -> None:
    receipts = with_taken(3, 5)
    receipts.acknowledge(message(3))
    assert said(receipts) == [], "a report is enough"
    receipts.wait_for("p", 3)
    assert receipts.next_settling() == 0
    assert said(receipts) == [("p", 5, ())]
    assert receipts.next_settling() == 1_000
    receipts.on_settled("p", 3, [])
    assert not receipts.is_kept("p", 3), "the host did not know yet that it was sent"
    assert said(receipts, 1_000) == [("p", 5, ())]
    receipts.on_settled("p", 5, [])
    assert receipts.is_kept("p", 3)
    receipts.wait_no_more("p", 3)
    assert said(receipts, 2_000) == []
    assert receipts.next_settling() is None


def test_who_waits_for_a_single_message_hears_when_the_position_has_passed_it() -> None:
    receipts = with_taken(3, 5, 8)
    receipts.acknowledge(message(5))
    receipts.wait_for("p", 5)
    assert said(receipts) == [("p", 3, (5,))]
    receipts.acknowledge(message(3))
    assert receipts.next_settling() == 0, "at once, as the pubend may have had no room for it"
    assert said(receipts, 10) == [("p", 8, ())]
    receipts.on_settled("p", 8, [])
    assert receipts.is_kept("p", 5)


def test_to_acknowledge_twice_is_no_mistake() -> None:
    receipts = with_taken(3, 5, 8)
    for _ in range(2):
        receipts.acknowledge(message(5))
    said(receipts)
    receipts.acknowledge(message(5))
    receipts.on_settled("p", 0, [5])
    receipts.acknowledge(message(5))
    receipts.acknowledge_through(message(8))
    receipts.acknowledge(message(5))
    assert receipts.taken == 3
    assert receipts.positions({"p": 20}, []) == {"p": 20}


def test_only_messages_that_were_read_are_acknowledged_singly() -> None:
    receipts = with_taken(3, 8)
    for wrong in (message(5), message(9), message(1, "q")):
        with pytest.raises(MisuseError, match=f"tick {wrong.tick} of pubend {wrong.pubend} was not read"):
            receipts.acknowledge(wrong)
    receipts.acknowledge(BestEffortReceived("p", 7, b""))
    with pytest.raises(MisuseError, match="not acknowledged manually"):
        Receipts(is_manual=False).acknowledge(message(3))
    assert receipts.positions({"p": 20}, []) == {"p": 3}


def test_beyond_those_that_are_known_only_all_together_are_acknowledged() -> None:
    receipts = with_taken(*range(TICKS_MAX + 2))
    for _ in range(2):
        with pytest.raises(MisuseError, match=f"tick {TICKS_MAX} .* is not known any more.*: use acknowledge_through"):
            receipts.acknowledge(message(TICKS_MAX))
        for tick in range(TICKS_MAX):
            receipts.acknowledge(message(tick))
        assert receipts.positions({"p": 10**9}, []) == {"p": TICKS_MAX}
    receipts.acknowledge_through(message(TICKS_MAX + 1))
    receipts.hold([message(TICKS_MAX + 5), message(TICKS_MAX + 6)])
    receipts.acknowledge(message(TICKS_MAX + 6))
    assert receipts.positions({"p": 10**9}, []) == {"p": TICKS_MAX + 5}, "there is room again"


def test_of_very_many_the_first_are_said_until_they_are_kept() -> None:
    receipts = with_taken(*range(3_001))
    for tick in range(1, 3_001):
        receipts.acknowledge(message(tick))
    ((_, below, ticks),) = said(receipts)
    assert (below, ticks) == (0, tuple(range(1, SETTLED_MAX + 1)))
    receipts.on_settled("p", 0, ticks)
    ((_, _, others),) = said(receipts, 1_000)
    assert others == tuple(range(SETTLED_MAX + 1, 2 * SETTLED_MAX + 1))
    ((_, _, again),) = said(receipts, 2_000)
    assert again == others, "the pubend has no room for them"
    receipts.acknowledge(message(0))
    assert said(receipts, 3_000) == []
    assert receipts.positions({"p": 5_000}, []) == {"p": 5_000}


def test_a_pubend_without_a_number_is_told_when_it_has_one() -> None:
    receipts = Receipts(is_manual=True)
    receipts.hold([message(3, "far"), message(5, "far")])
    receipts.acknowledge(message(5, "far"))
    assert said(receipts) == []
    assert receipts.next_settling() is None
    receipts.wake()
    assert [tuple(each) for each in receipts.settlings({"far": 7}, now_ms=0)] == [("far", 3, (5,))]


@given(st.data())
def test_no_position_passes_an_open_message_and_what_is_said_was_acknowledged(data: st.DataObject) -> None:
    receipts, taken, done, kept, now_ms = with_taken(), list[int](), set[int](), set[int](), 0
    for _ in range(data.draw(st.integers(0, 30))):
        match data.draw(st.sampled_from(["take", "one", "through", "say", "answer", "reconnect", "later"])):
            case "take":
                taken.append(len(taken) + 1)
                receipts.hold([message(taken[-1])])
            case "one" if taken:
                tick = data.draw(st.sampled_from(taken))
                receipts.acknowledge(message(tick))
                done.add(tick)
            case "through" if taken:
                tick = data.draw(st.sampled_from(taken))
                receipts.acknowledge_through(message(tick))
                done |= set(range(tick + 1))
            case "say":
                for _, below, ticks in said(receipts, now_ms):
                    assert set(ticks) | set(range(1, below)) <= done
                    kept |= set(range(below)) | set(ticks)
            case "answer":
                some = [each for each in sorted(kept) if data.draw(st.booleans())]
                receipts.on_settled("p", 0, some)
            case "reconnect":
                receipts.on_disconnected()
                receipts.wake()
            case "later":
                now_ms += 1_000
        open_ticks = [each for each in taken if each not in done]
        end = len(taken) + 1
        assert receipts.positions({"p": end}, []) == {"p": min(open_ticks, default=end)}
        assert all(receipts.is_kept("p", each) is False or each in done for each in taken)


def test_what_is_not_known_to_be_kept_is_told_until_it_is() -> None:
    receipts = Receipts(is_manual=True)
    messages = [Received("p", tick, b"") for tick in range(5)]
    receipts.hold(messages)
    assert receipts.unkept() == []
    for tick in (0, 1, 3):
        receipts.acknowledge(messages[tick])
    assert receipts.unkept() == [("p", 1), ("p", 3)]
    receipts.settlings({"p": 0}, now_ms=0)
    assert receipts.unkept() == [("p", 1), ("p", 3)]
    receipts.on_settled("p", 1, [3])
    assert receipts.unkept() == [("p", 1)]
    receipts.on_settled("p", 2, [])
    assert receipts.unkept() == []
