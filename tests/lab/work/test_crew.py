"""Workers are processes: they are started and killed, and one that ends by itself is noticed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.work import crew as crew_module
from penstock.lab.work.crew import Crew, WorkerError
from penstock.lab.work.plan import PLAN

LIMIT_S = 60.0


def crew_in(folder: Path, overlay: DemoOverlay) -> Crew:
    (folder / "overlay.toml").touch()
    return Crew(overlay, "g", "number >= 0", at_once=2, job_s=0.001)


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoOverlay:
    made = DemoOverlay(PLAN, folder=tmp_path)
    monkeypatch.setattr(DemoOverlay, "url", lambda _, name: f"penstock://{name}")
    return made


def test_a_worker_that_ends_by_itself_is_noticed_and_its_last_words_are_told(
    tmp_path: Path, overlay: DemoOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_module, "_COMMAND", ("python3", "-c", "raise SystemExit('enough')"))
    with crew_in(tmp_path, overlay) as crew:
        crew.start("w1")
        with pytest.raises(WorkerError, match=r"worker w1 ended by itself.*\n  enough"):
            asyncio.run(looking(crew))


async def looking(crew: Crew) -> None:
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        crew.look()
        await asyncio.sleep(0.01)


def test_a_killed_worker_leaves_its_doubts_and_its_next_life_has_a_file_of_its_own(
    tmp_path: Path, overlay: DemoOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_module, "_COMMAND", ("python3", "-c", "import signal; signal.pause()"))
    with crew_in(tmp_path, overlay) as crew:
        crew.start("w1")
        (tmp_path / "g-w1-0.jobs").write_text("ready 1.0\ntried 0 1 2.0\ndone 0 1 2.5\ntried 1 1 3.0\n")
        assert crew.look() == 1
        assert (crew.is_ready, crew.is_answered) == (True, False)
        doubts = [crew.in_doubt]
        crew.kill("w1")
        doubts.append(crew.in_doubt)
        assert doubts == [0, 1]
        crew.start("w1")
        assert (crew.is_ready, crew.is_answered) == (False, True)
        (tmp_path / "g-w1-1.jobs").write_text("ready 4.0\ntried 1 2 5.0\ndone 1 2 5.5\n")
        assert crew.look() == 1
        first, second = crew.alive(9.0)
        assert first == (1.0, crew.lives[0].killed_s)
        assert second == (4.0, 9.0)
        assert crew.done_s() == [2.5, 5.5]
        assert crew.done == 2
