"""Salvaging: what is whole is there, what is not is named, and the damaged files are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live.store.old_stores import old_store
from live.store.support import append, contents, everything, opened, sequences, tamper, ticks_of
from penstock.live.store import Append, KeepRecord, LogStore, SetValue, StoreLockedError, StoreRefusedError, Trim
from penstock.live.store.inspecting import FILE_NAME, JOURNAL_NAME, LOG_NAME
from penstock.live.store.salvage import Salvaged, salvage
from penstock.live.store.wal import WriteAheadLog
from penstock.live.store.witness import WITNESS_NAME
from penstock.model.tick import TICK_MAX, Tick, TickRange, tick_at

FRAME = 4_120


def killed(path: Path) -> Path:
    """What a kill leaves of a store with a hundred commits."""
    with opened(path / "store") as store:
        store.commit([Append("p", lease=Tick(150)), Trim("p", Tick(5))])
        for tick in range(10, 110):
            store.commit([Append("p", [(Tick(tick), b"%d" % tick)], sequences={b"x": tick})])
        store.commit([Append("p", lease=Tick(160)), SetValue("v", b"1"), KeepRecord("a", b"1")])
        shutil.copytree(path / "store", path / "killed")
    return path / "killed"


def salvaged(folder: Path, *pubends: str, owner: tuple[str, str] | None = None) -> Salvaged:
    return salvage(folder, stamp="now", now_ms=1_000, owner=owner, pubends=pubends)


def damage(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def page_with(folder: Path, words: bytes, number: int) -> int:
    """Where in the log the frame is that has these words for the so-and-so-manieth time."""
    log = WriteAheadLog((folder / LOG_NAME).read_bytes())
    frame = [each for each in range(log.frames) if words in log.image(each)][number]
    return 32 + FRAME * frame + 24 + log.image(frame).index(words)


def lost_ticks(store: LogStore) -> list[TickRange]:
    return store.damaged("p")


def test_a_damaged_log_whose_pages_were_written_again_costs_nothing(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    damage(folder / LOG_NAME, page_with(folder, b"PenTotal", 50))
    damaged = contents(folder)
    done = salvaged(folder)
    assert (done.messages, done.lost, done.doubts) == (100, {}, [])
    assert contents(done.aside) == damaged
    assert sorted(each.name for each in folder.iterdir()) == ["damaged-now", FILE_NAME, WITNESS_NAME]
    with opened(folder) as store:
        assert ticks_of(everything(store)) == list(range(10, 110))
        assert (store.lease("p"), store.trimmed_below("p"), sequences(store).get(b"x")) == (160, 5, 109)
        assert (store.value("v"), dict(store.recovered().kept)) == (b"1", {"a": b"1"})
        append(store, 161, 161)


def test_a_log_that_was_cut_off_leaves_a_range_up_to_the_lease_that_is_lost(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    size = (folder / LOG_NAME).stat().st_size
    with (folder / LOG_NAME).open("r+b") as log:
        log.truncate(size // 2)
    done = salvaged(folder)
    last = 9 + done.messages
    assert 30 < done.messages < 80
    assert done.lost == {"p": [TickRange(Tick(last + 1), Tick(160))]}
    assert [doubt.split()[0] for doubt in done.doubts] == ["sequence", "named", "kept"]
    with opened(folder) as store:
        part = store.read_part("p", Tick(0), TICK_MAX, bytes_max=1 << 20)
        assert (ticks_of(part.messages), part.last) == (list(range(10, last + 1)), last)
        assert part.damaged is not None
        assert part.damaged.ticks == (last + 1, 160)
        # The stream goes on above all ticks that may have been used.
        assert store.lease("p") == store.last_tick("p") == 160
        append(store, 161, 161)


def test_without_a_witness_the_clock_bounds_what_may_be_lost(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    (folder / WITNESS_NAME).unlink()
    damage(folder / LOG_NAME, 10)
    with (folder / LOG_NAME).open("r+b") as log:
        log.truncate(400_000)
    done = salvaged(folder, "p")
    assert done.lost["p"][-1].last == tick_at(61_000)


def test_rows_that_are_damaged_leave_gaps_that_are_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for first in (10, 20, 30, 40):
            append(store, first, first + 4)
        store.commit([Append("p", lease=Tick(60))])
    tamper(tmp_path, "UPDATE batches SET messages=9 WHERE place IN (2, 3)")
    done = salvaged(tmp_path)
    assert done.lost == {"p": [TickRange(0, 9), TickRange(15, 39), TickRange(45, 60)]}  # type: ignore[arg-type]
    assert (done.messages, done.doubts) == (10, [])
    with opened(tmp_path) as store:
        assert lost_ticks(store) == done.lost["p"]


def test_a_damaged_body_is_lost_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for first in (10, 20, 30):
            append(store, first, first + 4)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00' WHERE place=2")
    assert salvaged(tmp_path).lost == {"p": [TickRange(Tick(20), Tick(24))]}


def test_a_missing_database_can_be_salvaged_by_who_knows_the_names(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    (folder / FILE_NAME).unlink()
    before = contents(folder)
    with pytest.raises(StoreRefusedError, match="name it with --overlay and --broker"):
        salvaged(folder)
    with pytest.raises(StoreRefusedError, match="name all of them with --pubend"):
        salvaged(folder, owner=("o", "b1"))
    assert contents(folder) == before
    done = salvaged(folder, "p", owner=("o", "b1"))
    assert done.lost == {"p": [TickRange(Tick(0), Tick(160))]}
    with opened(folder) as store:
        assert lost_ticks(store) == done.lost["p"]


def test_a_pubend_without_a_name_is_not_left_out(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 10, 14)
        store.commit([Append("p", lease=Tick(60), sequences={b"x": 1}), Append("q", lease=Tick(70))])
    tamper(tmp_path, "DELETE FROM pubends WHERE name='p'")
    with pytest.raises(StoreRefusedError, match="the names of 1 pubends"):
        salvaged(tmp_path)
    done = salvaged(tmp_path, "p", "q")
    assert done.lost["p"] == [TickRange(Tick(0), Tick(70))]
    assert [doubt.split()[0] for doubt in done.doubts] == ["sequence"]


def test_salvaging_twice_gives_the_same(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with (folder / LOG_NAME).open("r+b") as log:
        log.truncate(500_000)
    first = salvaged(folder)
    again = salvage(folder, stamp="later", now_ms=1_000)
    assert (again.messages, again.lost, again.doubts) == (first.messages, first.lost, [])


def test_a_store_in_use_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreLockedError):
        salvaged(tmp_path)


def test_a_store_of_an_older_format_is_left_as_it_is(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    before = contents(tmp_path)
    with pytest.raises(StoreRefusedError, match="has an older format"):
        salvaged(tmp_path, "p")
    assert contents(tmp_path) == before


def test_a_swap_that_was_interrupted_is_never_taken_for_an_empty_folder(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with opened(tmp_path / "new"):
        pass
    shutil.copyfile(tmp_path / "new" / WITNESS_NAME, folder / WITNESS_NAME)
    for name in ("", LOG_NAME, FILE_NAME):
        if name:
            (folder / name).unlink()
        with pytest.raises(StoreRefusedError), opened(folder):
            pass


def test_the_witness_of_another_store_vouches_for_nothing(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with opened(tmp_path / "other"):
        pass
    shutil.copyfile(tmp_path / "other" / WITNESS_NAME, folder / WITNESS_NAME)
    (folder / LOG_NAME).unlink()
    with opened(tmp_path / "whole") as store:
        append(store, 10, 20)
    shutil.copyfile(tmp_path / "whole" / FILE_NAME, folder / FILE_NAME)
    done = salvaged(folder)
    assert done.lost == {"p": [TickRange(Tick(21), tick_at(61_000))]}
    assert [doubt.split()[0] for doubt in done.doubts] == ["sequence", "named", "kept"]


def test_a_rollback_journal_is_put_aside(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    (folder / JOURNAL_NAME).write_bytes(b"\xff" * 5_000)
    done = salvaged(folder)
    assert (done.messages, done.lost) == (100, {})
    assert (done.aside / JOURNAL_NAME).read_bytes() == b"\xff" * 5_000
    with opened(folder) as store:
        assert ticks_of(everything(store)) == list(range(10, 110))


def test_a_second_salvage_with_the_same_stamp_gets_a_name_of_its_own(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    assert salvaged(folder).aside.name == "damaged-now"
    assert salvaged(folder).aside.name == "damaged-now-2"


def test_a_folder_that_is_no_store_gets_none(tmp_path: Path) -> None:
    with pytest.raises(StoreRefusedError, match="there is no folder"):
        salvaged(tmp_path / "nothing", "p", owner=("o", "b1"))
    work = tmp_path / "salvaging"
    work.mkdir()
    (work / "diary").write_text("mine")
    with pytest.raises(StoreRefusedError, match="there is no store in"):
        salvaged(tmp_path, "p", owner=("o", "b1"))
    assert contents(work) == {"diary": b"mine"}
    assert list(tmp_path.iterdir()) == [work]


@pytest.mark.parametrize("name", [FILE_NAME, LOG_NAME, WITNESS_NAME])
def test_files_that_only_have_the_names_of_a_store_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"hello" * 1_000)
    before = contents(tmp_path)
    with pytest.raises(StoreRefusedError, match="shows that it is a store of Penstock"):
        salvaged(tmp_path, "p", owner=("o", "b1"))
    assert contents(tmp_path) == before
