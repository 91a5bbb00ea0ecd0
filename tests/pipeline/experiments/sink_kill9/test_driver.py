"""The relay is killed in the phase that was drawn, and an executor while a batch runs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.lab.delivery.kill9.process import descendants
from penstock.pipeline.experiments.sink_kill9.driver import PHASES, Birth, Phase, SinkDriver, is_in_phase

LIMIT_S = 60.0
JOURNAL = "staging/journal.json"
SHOWS: dict[Phase, tuple[str, Any]] = {
    "batch": ("checkpoint/offsets/4", ""),
    "staging": ("staging/staged/stream/x.rows", ""),
    "publishing": (JOURNAL, {"sequence": 5, "stream": 4, "batch": {"rows": 2, "settled": 1}}),
    "committed": (JOURNAL, {"sequence": 5, "stream": 4, "batch": {"rows": 2, "settled": 2}}),
}
# A relay that goes from phase to phase, with an executor beside it.
SCRIPT = """
import json, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("--folder") + 1])
shows = json.loads(sys.argv[1])
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", "CoarseGrainedExecutorBackend"])
print("begun", flush=True)
number = 4
while True:
    number += 1
    for name, content in shows:
        path = folder / name.replace("4", str(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(".new")
        fresh.write_text(content.replace("5", str(number)))
        fresh.replace(path)
        time.sleep(0.05)
"""


def put(folder: Path, phase: Phase) -> None:
    name, content = SHOWS[phase]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else msgspec.json.encode(content).decode())


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_phase_is_seen_on_the_disk_and_what_was_there_before_shows_nothing(tmp_path: Path, phase: Phase) -> None:
    long_ago = Birth(offset=3, sequence=4, at_ns=0)
    assert not is_in_phase(phase, tmp_path, long_ago)
    put(tmp_path, phase)
    assert is_in_phase(phase, tmp_path, long_ago)
    assert not is_in_phase(phase, tmp_path, Birth.of(tmp_path))


def test_a_batch_that_spark_has_noted_is_over(tmp_path: Path) -> None:
    put(tmp_path, "committed")
    path = tmp_path / "checkpoint/commits/4"
    path.parent.mkdir(parents=True)
    path.touch()
    assert not is_in_phase("committed", tmp_path, Birth(3, 4, 0))


def test_half_a_journal_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    (tmp_path / JOURNAL).write_text("{")
    assert not is_in_phase("publishing", tmp_path, Birth(-1, -1, 0))


def driver(folder: Path, phases: tuple[Phase, ...]) -> SinkDriver:
    shows = [SHOWS[phase] for phase in phases]
    texts = [(name, text if isinstance(text, str) else msgspec.json.encode(text).decode()) for name, text in shows]
    return SinkDriver(folder, [], command=[sys.executable, "-c", SCRIPT, msgspec.json.encode(texts).decode()])


@pytest.mark.parametrize("seed", range(2))
def test_an_executor_is_killed_in_a_batch_and_the_driver_in_its_phase(tmp_path: Path, seed: int) -> None:
    killed = driver(tmp_path / "relay", ("batch", "staging", "publishing"))
    others = set(descendants(os.getpid()))

    async def scenario() -> tuple[bool, int, bool]:
        killed.start()
        while not killed.family():
            await asyncio.sleep(0.01)
        # Until the command of the executor is its own.
        while not killed.log:
            await asyncio.sleep(0.01)
        hit = await killed.kill_executor(Random(seed), patience_s=LIMIT_S)
        left = len(killed.family())
        phase_hit = await killed.kill_in("publishing", Random(seed), patience_s=LIMIT_S)
        killed.kill_all()
        await killed.close()
        return hit, left, phase_hit

    assert asyncio.run(scenario()) == (True, 0, True)
    assert not set(descendants(os.getpid())) - others


def test_a_phase_that_does_not_come_is_told(tmp_path: Path) -> None:
    killed = driver(tmp_path / "relay", ("batch",))

    async def scenario() -> bool:
        killed.start()
        hit = await killed.kill_in("committed", Random(0), patience_s=0.2)
        killed.kill_all()
        await killed.close()
        return hit

    assert asyncio.run(scenario()) is False
