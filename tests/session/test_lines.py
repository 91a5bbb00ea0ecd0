"""Lines have numbers of their own, deadlines, and an end."""

from __future__ import annotations

from penstock.protocol.frames import Goodbye
from penstock.session.address import Address
from penstock.session.changes import Abort, Dial, HangUp
from penstock.session.lines import Lines
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings

SETTINGS = ClientSettings(connect_ms=30, close_ms=40)
HOME = Address("home", 7000)


def test_a_line_is_dialled_hung_up_and_cut_if_nobody_takes_the_last_words() -> None:
    lines = Lines(SETTINGS)
    line = lines.dial(HOME, Resident(SETTINGS, name="me"), now_ms=100)
    assert lines.take_effects() == [Dial(1, HOME)]
    assert (lines.next_deadline(), line.is_due(129), line.is_due(130)) == (130, False, True)
    assert lines.open(1) is line
    lines.hang_up(line, Goodbye("closed", "done"), now_ms=200)
    assert lines.take_effects() == [HangUp(1, (Goodbye("closed", "done"),))]
    assert (lines.open(1), lines.next_deadline()) == (None, 240)
    lines.abort(line)
    assert lines.take_effects() == [Abort(1)]
    assert lines.next_deadline() is None


def test_nothing_is_done_to_a_line_that_is_gone() -> None:
    lines = Lines(SETTINGS)
    line = lines.dial(HOME, Resident(SETTINGS, name="me"), now_ms=100)
    lines.take_effects()
    assert lines.forget(1) is line
    lines.hang_up(line, now_ms=200)
    lines.abort(line)
    assert (lines.take_effects(), lines.forget(1)) == ([], None)


def test_numbers_are_not_used_again() -> None:
    lines = Lines(SETTINGS)
    resident = Resident(SETTINGS, name="me")
    lines.dial(HOME, resident, now_ms=0)
    lines.clear()
    assert (lines.dial(HOME, resident, now_ms=0).number, [each.number for each in lines]) == (2, [2])
