"""Putting a salvaged store in the place of the damaged one: an interruption at any point loses nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from live.store.interruptions import STEPS, Interruptions
from live.store.support import contents, opened
from penstock.live.store import Append, LogStore, SetValue, StoreDamagedError, StoreRefusedError, Trim
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME, UNFINISHED
from penstock.live.store.salvage import Salvaged, salvage
from penstock.live.store.swap import swapping
from penstock.live.store.witness import WITNESS_NAME
from penstock.model.tick import TICK_MAX, Tick


def fill(store: LogStore, first: int, last: int) -> None:
    for tick in range(first, last + 1):
        store.commit([Append("p", [(Tick(tick), b"%d" % tick)], Tick(tick + 50), {b"x": tick})])


def cut_off(path: Path) -> Path:
    """A store that was killed, and whose log lost its end."""
    with opened(path / "store") as store:
        fill(store, 1, 60)
        store.commit([Trim("p", Tick(20)), SetValue("v", b"1")])
    with opened(path / "store") as store:
        fill(store, 61, 120)
        shutil.copytree(path / "store", path / "damaged")
    with (path / "damaged" / LOG_NAME).open("r+b") as log:
        log.truncate(log.seek(0, os.SEEK_END) // 2)
    return path / "damaged"


def replaced(path: Path) -> Path:
    """A store whose database is an older copy."""
    with opened(path / "store") as store:
        fill(store, 1, 60)
    shutil.copyfile(path / "store" / FILE_NAME, path / "older")
    with opened(path / "store") as store:
        fill(store, 61, 120)
    shutil.copyfile(path / "older", path / "store" / FILE_NAME)
    return path / "store"


def outcome(folder: Path, done: Salvaged) -> tuple[object, ...]:
    with opened(folder) as store:
        part = store.read_part("p", Tick(0), TICK_MAX, bytes_max=1 << 20)
        read = (part.messages, part.last, store.damaged("p"), store.lease("p"), store.value("v"))
    # SQLite's shared memory is there if a reader was interrupted, and holds nothing.
    aside = {name: content for name, content in contents(done.aside).items() if not name.endswith("-shm")}
    return (done.messages, done.lost, done.doubts, aside, read)


@pytest.mark.parametrize("damaged", [cut_off, replaced])
def test_after_an_interruption_salvaging_again_gives_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: Callable[[Path], Path]
) -> None:
    folder = damaged(tmp_path)
    (tmp_path / "copies").mkdir()
    interruptions = Interruptions(folder, tmp_path / "copies")
    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, interruptions.before(getattr(os, name)))
        done = salvage(folder, stamp="one", now_ms=1)
    wanted = outcome(folder, done)
    assert done.lost
    finished = 0
    for copy in interruptions.taken:
        if (copy / done.aside.name).exists() and not (copy / UNFINISHED).exists():
            # All is in place: only the work folder is not tidied yet.
            finished += 1
            assert outcome(copy, Salvaged(copy / done.aside.name, done.messages, done.lost, done.doubts)) == wanted
            continue
        with pytest.raises(StoreDamagedError, match="penstock store salvage"), opened(copy):
            pass
        assert outcome(copy, salvage(copy, stamp="one", now_ms=1)) == wanted
        assert not (copy / UNFINISHED.parent).exists()
    assert 0 < finished < len(interruptions.taken) - 10


def test_a_work_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    work = folder / UNFINISHED.parent
    work.mkdir()
    (work / "diary").write_text("mine")
    with pytest.raises(StoreRefusedError, match="move it elsewhere"), swapping(folder):
        pass
    assert contents(work) == {"diary": b"mine"}


def test_what_fails_before_the_swap_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    before = contents(folder)
    with suppress(ZeroDivisionError), swapping(folder) as swap:
        swap.new.mkdir()
        raise ZeroDivisionError
    assert contents(folder) == before


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError

    folder = replaced(tmp_path)
    before = contents(folder)
    monkeypatch.setattr(os, "link", refuses)
    done = salvage(folder, stamp="one", now_ms=1)
    assert contents(done.aside) == before
    assert sorted(each.name for each in folder.iterdir()) == ["damaged-one", FILE_NAME, WITNESS_NAME]
