"""Experiments of a quick report run side by side: those that fail are named, and an interrupt ends all."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from penstock.cli.lab.side_by_side import COMMAND, run_side_by_side

SCRIPT = """
import pathlib, sys
_, _, name, _, folder, _, out = sys.argv
pathlib.Path(folder, name).write_text(out)
if name == "bad":
    sys.exit("it broke")
sys.exit(3 if name == "mute" else 0)
"""
WAITING = """
import pathlib, sys, time
try:
    pathlib.Path(sys.argv[4], sys.argv[2]).write_text("begun")
    print("begun", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[4], sys.argv[2]).write_text("interrupted")
"""


def python(script: str) -> tuple[str, ...]:
    return sys.executable, "-c", script


def test_all_run_and_those_that_fail_are_named_with_what_they_said(tmp_path: Path) -> None:
    done: list[str] = []
    names = ["one", "bad", "two", "mute"]
    failed = run_side_by_side(names, tmp_path, done.append, command=python(SCRIPT), jobs=2)
    assert failed == {"bad": "it broke", "mute": "ended with 3"}
    assert sorted(done) == sorted(names)
    assert all((tmp_path / name).exists() for name in names)


def test_what_goes_wrong_here_ends_them_in_order(tmp_path: Path) -> None:
    quick = python(f"import sys\nif sys.argv[2] == 'quick': sys.exit()\n{WAITING}")

    def impatient(_: str) -> None:
        # The other one has begun: only then can it notice an interrupt.
        while not (tmp_path / "slow").exists() or not (tmp_path / "slow").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_side_by_side(["quick", "slow", "never"], tmp_path, impatient, command=quick, jobs=2)
    assert (tmp_path / "slow").read_text() == "interrupted"
    assert not (tmp_path / "never").exists()


def test_the_command_is_our_own() -> None:
    assert COMMAND[-3:] == ("lab", "report", "--quick")
