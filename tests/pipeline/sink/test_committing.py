"""Staged rows are published exactly once, whichever step of a commit was the last of a process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.model.message import Message
from penstock.pipeline.lake.errors import LakeBusyError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.committing import BATCH_FOLDER, REMEMBERED_MS, STREAM_FOLDER, Committer
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.journal import load_journal
from penstock.pipeline.sink.staging import Staged
from pipeline.lake.lakes import BreakingFiles
from pipeline.sink.sinks import Crash, FakeBroker, FrailFiles, Fuse, messages, numbers, staged

ROWS = 30


def committer(root: Path, broker: FakeBroker, **more: Any) -> Committer:
    return Committer(FrailFiles(root, broker.fuse), "q", broker.opening, lock_s=0, **more)


def stream_rows(root: Path, number: int, rng: Random, query: str = "one") -> list[Staged]:
    """A batch as Spark brings it: its rows in any order and in any parts."""
    rows = messages(number * ROWS, ROWS)
    rng.shuffle(rows)
    cut = rng.randrange(ROWS)
    return staged(root, STREAM_FOLDER, [rows[:cut], rows[cut:], []], query)


def test_rows_are_published_in_their_order_and_their_files_go(tmp_path: Path) -> None:
    broker = FakeBroker()
    committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [messages(0, 5), messages(5, 5)]))
    assert numbers(broker.log) == list(range(10))
    assert not list((tmp_path / "staged").rglob("*.rows"))
    assert load_journal(LocalFiles(tmp_path), "q").batch.is_settled


def test_the_names_of_staged_files_are_durable_before_the_journal_speaks_of_them(tmp_path: Path) -> None:
    rows = staged(tmp_path, STREAM_FOLDER, [messages(0, 5)])
    files = BreakingFiles(tmp_path)
    Committer(files, "q", FakeBroker().opening, lock_s=0).commit_stream(0, rows)
    assert files.story.index("sync stream") < files.story.index("rename journal.json")


def test_a_batch_that_counts_is_left_out_when_it_comes_again(tmp_path: Path) -> None:
    broker, rng = FakeBroker(), Random(1)
    for number in (0, 0, 1, 0, 1, 2):
        committer(tmp_path, broker).commit_stream(number, stream_rows(tmp_path, number, rng))
    assert sorted(numbers(broker.log)) == list(range(3 * ROWS))
    assert broker.connections == 3
    assert broker.repeated == 0


def test_whatever_step_was_the_last_every_row_is_published_once(tmp_path: Path) -> None:
    """Also if the next life ends as well, a step earlier or later."""
    steps = 0
    while True:
        steps += 1
        root, broker, rng = tmp_path / str(steps), FakeBroker(fuse=Fuse(steps)), Random(steps)
        crashes = 0
        for number in range(2):
            while True:
                try:
                    committer(root, broker).commit_stream(number, stream_rows(root, number, rng))
                    break
                except Crash:
                    crashes += 1
                    broker.fuse.left = rng.randrange(1, steps + 2) if crashes < 3 else -1
        assert sorted(numbers(broker.log)) == list(range(2 * ROWS)), steps
        assert load_journal(LocalFiles(root), "q").batch.first == ROWS + 1
        if not crashes:
            break
    assert steps > 20


def test_a_former_life_that_left_a_batch_is_finished_with_what_counted_then(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(5))
    with pytest.raises(Crash):
        committer(tmp_path, broker).commit_stream(7, staged(tmp_path, STREAM_FOLDER, [messages(0, 4)]))
    broker.fuse.left = -1
    before = len(broker.log)
    assert before < 4
    committer(tmp_path, broker).commit_stream(7, staged(tmp_path, STREAM_FOLDER, [messages(100, 4)]))
    assert numbers(broker.log) == [0, 1, 2, 3]


def test_many_rows_go_by_chunks_and_progress_is_noted(tmp_path: Path) -> None:
    broker, at = FakeBroker(), iter(range(0, 10**9, 600))
    rows = messages(0, 5_000)
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [rows]))
    assert broker.log == rows
    assert load_journal(LocalFiles(tmp_path), "q").sequence > 3


def test_the_rest_of_a_batch_is_all_that_is_sent_again(tmp_path: Path) -> None:
    at = iter(range(0, 10**9, 1_000))
    broker = FakeBroker(fuse=Fuse(16))
    with pytest.raises(Crash):
        committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(
            0, staged(tmp_path, STREAM_FOLDER, [messages(0, 5_000)])
        )
    broker.fuse.left = -1
    taken = len(broker.log)
    assert 1_000 < taken < 5_000
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, [])
    assert numbers(broker.log) == list(range(5_000))
    assert broker.repeated < taken


def test_what_the_broker_may_have_forgotten_is_not_sent_again_unasked(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(5))
    with pytest.raises(Crash):
        committer(tmp_path, broker, now_ms=lambda: 1_000).commit_stream(
            0, staged(tmp_path, STREAM_FOLDER, [messages(0, 4)])
        )
    broker.fuse.left = -1
    late = 1_000 + REMEMBERED_MS + 1
    with pytest.raises(SinkError, match="4 rows were in flight 23 hours ago"):
        committer(tmp_path, broker, now_ms=lambda: late).commit_stream(0, [])
    committer(tmp_path, broker, now_ms=lambda: late, forgotten="publish").commit_stream(0, [])
    assert sorted(numbers(broker.log)) == [0, 1, 2, 3]


def test_a_refused_batch_stays_and_is_published_when_it_may_be(tmp_path: Path) -> None:
    broker = FakeBroker(failures=[SinkError("may not publish")])
    rows = staged(tmp_path, STREAM_FOLDER, [messages(0, 4)])
    with pytest.raises(SinkError, match="may not publish"):
        committer(tmp_path, broker).commit_stream(0, rows)
    committer(tmp_path, broker).commit_stream(0, [])
    assert numbers(broker.log) == [0, 1, 2, 3]


def test_another_query_or_a_lost_checkpoint_is_refused(tmp_path: Path) -> None:
    broker, rng = FakeBroker(), Random(1)
    committer(tmp_path, broker).commit_stream(0, stream_rows(tmp_path, 0, rng, "one"))
    with pytest.raises(SinkOptionError, match=r"another streaming query \(one\)"):
        committer(tmp_path, broker).commit_stream(0, stream_rows(tmp_path, 0, rng, "two"))


def test_another_overlay_is_refused(tmp_path: Path) -> None:
    broker, rng = FakeBroker(), Random(1)
    committer(tmp_path, broker).commit_stream(0, stream_rows(tmp_path, 0, rng))
    broker.overlay = "other"
    with pytest.raises(SinkOptionError, match="is of overlay 'demo', not of 'other'"):
        committer(tmp_path, broker).commit_stream(1, stream_rows(tmp_path, 1, rng))


def batch(root: Path, broker: FakeBroker, name: str, rows: Sequence[Message]) -> None:
    committer(root, broker).commit_batch(name, staged(root, BATCH_FOLDER, [rows]))


def test_under_one_name_a_batch_write_is_published_once(tmp_path: Path) -> None:
    broker = FakeBroker()
    for name in ("monday", "tuesday", "monday", "", ""):
        batch(tmp_path, broker, name, messages(0, 2))
    assert numbers(broker.log) == [0, 1] * 4
    assert not list((tmp_path / "staged").rglob("*.rows"))


def test_a_batch_write_that_was_cut_off_is_completed_by_the_next(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(5))
    with pytest.raises(Crash):
        batch(tmp_path, broker, "monday", messages(0, 4))
    broker.fuse.left = -1
    batch(tmp_path, broker, "tuesday", messages(4, 2))
    assert numbers(broker.log) == list(range(6))


def test_a_batch_write_leaves_the_rows_of_others_alone(tmp_path: Path) -> None:
    broker = FakeBroker()
    other = staged(tmp_path, BATCH_FOLDER, [messages(9, 1)])
    batch(tmp_path, broker, "", messages(0, 1))
    committer(tmp_path, broker).commit_batch("", other)
    assert numbers(broker.log) == [0, 9]


def test_what_is_aborted_is_deleted_and_never_published(tmp_path: Path) -> None:
    broker = FakeBroker()
    rows = staged(tmp_path, STREAM_FOLDER, [messages(0, 4)])
    committer(tmp_path, broker).discard(rows)
    committer(tmp_path, broker).discard(rows)
    assert not list((tmp_path / "staged").rglob("*.rows"))
    assert not broker.log


def test_an_empty_batch_needs_no_broker(tmp_path: Path) -> None:
    broker = FakeBroker()
    committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [[]]))
    assert broker.connections == 0
    assert load_journal(LocalFiles(tmp_path), "q").stream == 0


def test_only_one_commits_at_a_time(tmp_path: Path) -> None:
    broker = FakeBroker()
    with LocalFiles(tmp_path).lock("_lock", "x"), pytest.raises(LakeBusyError):
        committer(tmp_path, broker).commit_stream(0, [])
