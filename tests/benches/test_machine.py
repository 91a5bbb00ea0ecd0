from __future__ import annotations

from bench.machine import warning_of


def test_a_quiet_machine_is_no_reason_for_a_warning() -> None:
    assert warning_of(0.1) == ""


def test_a_busy_machine_is_named_with_its_load() -> None:
    assert "(load 7.5)" in warning_of(7.5)
