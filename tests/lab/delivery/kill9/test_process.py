"""A process that is killed is killed with all that it has started, or alone."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from penstock.lab.delivery.kill9.process import Kill9Process, alive, command_of, descendants

LIMIT_S = 60.0
PARENT = """
import signal, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", "the-child"])
print("begun", sys.argv[1:], flush=True)
signal.pause()
"""


async def begun(process: Kill9Process) -> None:
    while "begun" not in process.log:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("alone", [False, True])
def test_what_it_has_started_is_found_and_goes_with_it_unless_it_is_killed_alone(tmp_path: Path, alone: bool) -> None:
    process = Kill9Process([sys.executable, "-c", PARENT], tmp_path / "log")

    async def scenario() -> tuple[dict[int, str], int, int]:
        process.start("more")
        await begun(process)
        family = process.family()
        process.kill(alone=alone)
        if not alone:
            while alive(family):
                await asyncio.sleep(0.01)
        left = len(alive(family))
        process.kill_all()
        return family, left, await process.close()

    family, left, closed = asyncio.run(scenario())
    assert len(family) == 1
    assert left == (1 if alone else 0)
    assert closed == 0
    assert process.log == "begun ['more']"
    assert process.exit_code is None
    assert not process.is_running


def test_the_end_of_a_process_is_told(tmp_path: Path) -> None:
    process = Kill9Process([sys.executable, "-c", "print('last word'); exit(3)"], tmp_path / "log")

    async def scenario() -> int | None:
        process.start()
        return await process.ended(patience_s=LIMIT_S)

    assert asyncio.run(scenario()) == 3
    process.kill()
    assert process.exit_code == 3
    assert process.last_line == "last word"


def test_commands_are_told_and_nothing_of_those_who_are_not_there() -> None:
    assert "python" in command_of(os.getpid())
    assert command_of(2**22 + 1) == ""
    assert descendants(2**22 + 1) == {}
