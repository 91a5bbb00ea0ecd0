"""Early ends: a signal becomes an interrupt, a group of errors becomes its first one."""

from __future__ import annotations

import signal
import threading

import pytest

from penstock.lab.links.ending import ending_in_order, first_error


def test_a_request_to_end_interrupts_and_what_was_there_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ending_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_of_several_errors_the_first_is_raised() -> None:
    inner = ExceptionGroup("tasks", [ValueError("first"), ValueError("second")])
    outer = ExceptionGroup("more", [inner, ValueError("third")])
    assert str(first_error(outer)) == "first"
    with pytest.raises(ValueError, match="first"), ending_in_order():
        raise outer


def test_other_threads_leave_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with ending_in_order():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
