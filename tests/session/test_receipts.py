from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
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
