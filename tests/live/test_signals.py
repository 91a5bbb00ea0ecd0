"""Signals that are noted until somebody can act on them."""

from __future__ import annotations

import signal
import subprocess
import sys

from penstock.live.signals import Signals


def test_hangups_before_count_once_and_later_ones_each() -> None:
    signals, seen = Signals(), list[int]()
    for _ in range(3):
        signals.note_hangup(signal.SIGHUP, None)
    signals.hand_hangups_to(lambda: seen.append(1))
    assert seen == [1]
    signals.note_hangup(signal.SIGHUP, None)
    signals.note_hangup(signal.SIGHUP, None)
    assert seen == [1, 1, 1]
    signals.hand_hangups_to(None)
    signals.note_hangup(signal.SIGHUP, None)
    assert seen == [1, 1, 1]


def test_the_wish_to_end_is_noted() -> None:
    signals = Signals()
    assert not signals.must_end
    signals.note_ending(signal.SIGTERM, None)
    assert signals.must_end


def test_a_second_wish_to_end_is_not_noted_but_carried_out() -> None:
    program = (
        "import os, signal\n"
        "from penstock.live.signals import early\n"
        "early.install()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('still here', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('never said', flush=True)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGTERM, "still here\n", "")
