"""Early ends: a signal becomes an interrupt, a group of errors becomes its first one."""

from __future__ import annotations

import signal
import threading

import pytest

from penstock.lab.links.ending import ending_in_order, first_error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_interrupts_and_what_was_there_before_comes_back(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), ending_in_order():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_in_order():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_to_end_counts_also_where_interrupts_are_ignored() -> None:
    """Scripts start what they put into the background so."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), ending_in_order():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


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
