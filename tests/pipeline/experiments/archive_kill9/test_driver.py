"""The driver of the archive is killed in the phase that was drawn, and nothing that it started stays."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

from penstock.lab.delivery.kill9.process import descendants
from penstock.pipeline.experiments.archive_kill9.driver import PHASES, ArchiveDriver, Birth, Phase, is_in_phase

LIMIT_S = 60.0
SHOWS: dict[Phase, tuple[str, object]] = {
    "batch": ("_checkpoints/publications/spark/offsets/4", "v1"),
    "staging": ("publications/_staging/life-4/x.parquet", ""),
    "publishing": ("publications/_journal.json", {"sequence": 5, "batch": {"is_done": False}}),
    "merging": ("publications/_journal.json", {"sequence": 5, "compactions": [{"inputs": []}]}),
}
SCRIPT = """
import pathlib, signal, subprocess, sys
lake = pathlib.Path(sys.argv[sys.argv.index("--lake") + 1])
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
name, content, code = sys.argv[1:4]
(lake / name).parent.mkdir(parents=True, exist_ok=True)
(lake / name).write_text(content)
print("error: told on the way out", flush=True)
sys.exit(int(code)) if code else signal.pause()
"""


def show(lake: Path, phase: Phase) -> tuple[str, str]:
    """A file by which the phase is seen, and what is in it."""
    name, content = SHOWS[phase]
    return name, content if isinstance(content, str) else msgspec.json.encode(content).decode()


def put(lake: Path, phase: Phase) -> None:
    name, content = show(lake, phase)
    (lake / name).parent.mkdir(parents=True, exist_ok=True)
    (lake / name).write_text(content)


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_phase_is_seen_on_the_disk(tmp_path: Path, phase: Phase) -> None:
    birth = Birth(offset=3, sequence=4, at_ns=0)
    assert not is_in_phase(phase, tmp_path, birth)
    put(tmp_path, phase)
    assert is_in_phase(phase, tmp_path, birth)


@pytest.mark.parametrize("phase", PHASES[1:])
def test_what_an_earlier_life_left_shows_nothing(tmp_path: Path, phase: Phase) -> None:
    put(tmp_path, phase)
    assert not is_in_phase(phase, tmp_path, Birth.of(tmp_path))


def test_a_merge_is_seen_by_its_file_as_well(tmp_path: Path) -> None:
    path = tmp_path / "publications/_staging/compaction/merged.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    assert is_in_phase("merging", tmp_path, Birth(-1, -1, 0))
    assert not is_in_phase("staging", tmp_path, Birth(-1, -1, 0))


def test_half_a_journal_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "publications").mkdir()
    (tmp_path / "publications/_journal.json").write_text("{")
    assert not is_in_phase("publishing", tmp_path, Birth(-1, -1, 0))


def driver(lake: Path, phase: Phase, code: str = "") -> ArchiveDriver:
    return ArchiveDriver(lake, [], command=[sys.executable, "-c", SCRIPT, *show(lake, phase), code])


@pytest.mark.parametrize("seed", range(4))
def test_it_is_killed_with_all_that_it_started(tmp_path: Path, seed: int) -> None:
    killed = driver(tmp_path / "lake", "staging")
    others = set(descendants(os.getpid()))

    async def scenario() -> tuple[bool, set[int]]:
        killed.start()
        while not killed.log:
            await asyncio.sleep(0.01)
        family = set(descendants(os.getpid())) - others
        hit = await killed.kill_in("staging", Random(seed), patience_s=LIMIT_S)
        # Who was killed alone has left somebody behind, who would stay for ever.
        killed.kill_all()
        await killed.close()
        return hit, family

    hit, family = asyncio.run(scenario())
    assert hit
    assert len(family) == 2
    assert not set(descendants(os.getpid())) & family
    assert killed.exit_code is None


def test_one_that_ends_by_itself_is_told_from_one_that_was_killed(tmp_path: Path) -> None:
    ending = driver(tmp_path / "lake", "batch", code="1")

    async def scenario() -> tuple[bool, int | None]:
        ending.start()
        assert await ending.ended(patience_s=LIMIT_S) == 1
        hit = await ending.kill_in("merging", Random(0), patience_s=LIMIT_S)
        code = ending.exit_code
        ending.kill_all()
        return hit, code

    assert asyncio.run(scenario()) == (False, 1)
    assert ending.last_line == "error: told on the way out"


def test_patience_ends(tmp_path: Path) -> None:
    slow = driver(tmp_path / "lake", "batch")

    async def scenario() -> tuple[int | None, bool]:
        slow.start()
        code = await slow.ended(patience_s=0.0)
        hit = await slow.kill_in("merging", Random(0), patience_s=0.0)
        slow.kill_all()
        await slow.close()
        return code, hit

    assert asyncio.run(scenario()) == (None, False)
