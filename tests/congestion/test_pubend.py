from __future__ import annotations

import pytest

from penstock.congestion import CongestionSettings, Dcq, PubendControl, Uca
from penstock.model.tick import tick_at

PAPER = CongestionSettings.paper()


def run(control: PubendControl, wanted_s: int, *, first_ms: int, last_ms: int) -> tuple[int, list[Dcq]]:
    """Publishers that want a rate, and wait when they have to; what got its tick, and the queries."""
    granted, waiting, dcqs = 0, 0.0, []
    for now_ms in range(first_ms, last_ms, 10):
        waiting = min(waiting + wanted_s / 100, 10.0)
        got = control.admit(int(waiting), now_ms=now_ms)
        waiting -= got
        granted += got
        due_ms = control.next_deadline()
        if due_ms is not None and due_ms <= now_ms and (dcq := control.on_deadline(tick_at(now_ms), now_ms=now_ms)):
            dcqs.append(dcq)
        control.check_invariants()
    return granted, dcqs


def test_the_rate_that_is_allowed_is_what_gets_ticks() -> None:
    control = PubendControl(PAPER, now_ms=0)
    granted, dcqs = run(control, 100, first_ms=0, last_ms=3_000)
    assert (granted, control.rate_msg_s, len(dcqs)) == (300, None, 3)
    assert control.on_uca(Uca(dcqs[-1].seq, 0.5), now_ms=3_000)
    assert control.rate_msg_s == pytest.approx(50)
    granted, _ = run(control, 100, first_ms=3_000, last_ms=5_000)
    assert granted == pytest.approx(100, abs=2)
    # Publishers wait, nobody alerts: so the rate grows, until it is what they want.
    granted, _ = run(control, 100, first_ms=5_000, last_ms=60_000)
    assert control.rate_msg_s is not None
    assert 100 <= control.rate_msg_s <= 110
    granted, _ = run(control, 100, first_ms=60_000, last_ms=61_000)
    assert granted == pytest.approx(100, abs=1)


def test_who_has_to_wait_is_told_until_when() -> None:
    control = limited()
    assert control.admit(50, now_ms=2_000) == 0
    due_ms = control.next_ms(now_ms=2_000)
    assert due_ms == 2_020
    assert control.admit(50, now_ms=due_ms) == 1


def test_only_who_is_held_back_makes_the_rate_grow() -> None:
    for wanted, grows in ((1, False), (100, True)):
        control = limited()
        for now_ms in range(2_000, 9_000, 100):
            control.admit(wanted, now_ms=now_ms)
            control.on_deadline(tick_at(now_ms), now_ms=now_ms)
        assert control.rate_msg_s is not None
        assert (control.rate_msg_s > 50) is grows


def test_silence_is_spoken_of_more_often_while_there_is_a_limit() -> None:
    settings = CongestionSettings.paper(silence_limited_ms=250)
    control = PubendControl(settings, now_ms=0)
    assert control.silence_ms(1000) == 1000
    assert limited(settings).silence_ms(1000) == 250
    assert limited(settings).silence_ms(100) == 100


def test_settings_can_be_changed_on_the_way() -> None:
    control = limited()
    control.tune(CongestionSettings.paper(pdcc=False), now_ms=2_000)
    control.check_invariants()
    assert control.admit(500, now_ms=2_000) == 500
    control.tune(PAPER, now_ms=2_000)
    control.check_invariants()
    assert control.rate_msg_s == pytest.approx(50)


def limited(settings: CongestionSettings = PAPER) -> PubendControl:
    """Just cut to 50 messages a second, at 2 s."""
    control = PubendControl(settings, now_ms=0)
    _, dcqs = run(control, 100, first_ms=0, last_ms=2_000)
    assert control.on_uca(Uca(dcqs[-1].seq, 0.5), now_ms=2_000)
    return control
