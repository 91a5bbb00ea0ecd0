"""Staged rows are published exactly once, whichever step of a commit was the last of a process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec
import pytest

from penstock.pipeline.lake.errors import LakeBusyError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.committing import BATCH_FOLDER, REMEMBERED_MS, STREAM_FOLDER, Committer, identity_of
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.journal import JOURNAL, SinkJournal, load_journal
from penstock.pipeline.sink.staging import Row, Staged
from pipeline.lake.lakes import BreakingFiles
from pipeline.sink.sinks import PUBEND, Crash, FakeBroker, FrailFiles, Fuse, messages, numbers, rows, staged

ROWS = 30


def committer(root: Path, broker: FakeBroker, **more: Any) -> Committer:
    return Committer(FrailFiles(root, broker.fuse), PUBEND, broker.opening, lock_s=0, **more)


def stream_rows(
    root: Path, number: int, rng: Random, query: str = "one", pubends: Sequence[str] = (PUBEND,)
) -> list[Staged]:
    """A batch as Spark brings it: its rows in any order and in any parts."""
    batch_rows = rows(number * ROWS, ROWS, pubends)
    rng.shuffle(batch_rows)
    cut = rng.randrange(ROWS)
    return staged(root, STREAM_FOLDER, [batch_rows[:cut], batch_rows[cut:], []], query)


def test_rows_are_published_in_their_order_and_their_files_go(tmp_path: Path) -> None:
    broker = FakeBroker()
    committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [rows(0, 5), rows(5, 5)]))
    assert numbers(broker.log) == list(range(10))
    assert not list((tmp_path / "staged").rglob("*.rows"))
    assert load_journal(LocalFiles(tmp_path), PUBEND).batch.is_settled


def test_the_names_of_staged_files_are_durable_before_the_journal_speaks_of_them(tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path)
    found = staged(tmp_path, STREAM_FOLDER, [rows(0, 5)])
    Committer(files, PUBEND, FakeBroker().opening, lock_s=0).commit_stream(0, found)
    assert files.story.index("sync stream") < files.story.index("rename journal.json")


def test_a_batch_that_counts_is_left_out_when_it_comes_again(tmp_path: Path) -> None:
    broker, rng = FakeBroker(), Random(1)
    for number in (0, 0, 1, 0, 1, 2):
        committer(tmp_path, broker).commit_stream(number, stream_rows(tmp_path, number, rng))
    assert sorted(numbers(broker.log)) == list(range(3 * ROWS))
    assert broker.connections == 3
    assert broker.repeated == 0


@pytest.mark.parametrize("pubends", [(PUBEND,), (PUBEND, "r", "s")])
def test_whatever_step_was_the_last_every_row_is_published_once(tmp_path: Path, pubends: tuple[str, ...]) -> None:
    """Also if the next life ends as well, a step earlier or later."""
    steps = 0
    while True:
        steps += 1
        root, broker, rng = tmp_path / str(steps), FakeBroker(fuse=Fuse(steps), pubends=set(pubends)), Random(steps)
        crashes = 0
        for number in range(2):
            while True:
                try:
                    committer(root, broker).commit_stream(number, stream_rows(root, number, rng, pubends=pubends))
                    break
                except Crash:
                    crashes += 1
                    broker.fuse.left = rng.randrange(1, steps + 2) if crashes < 3 else -1
        for place, pubend in enumerate(pubends):
            assert sorted(numbers(broker.logs[pubend])) == list(range(place, 2 * ROWS, len(pubends))), steps
        assert load_journal(LocalFiles(root), PUBEND).published == dict.fromkeys(pubends, ROWS // len(pubends))
        if not crashes:
            break
    assert steps > 20


def test_a_former_life_that_left_a_batch_is_finished_with_what_counted_then(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(6))
    with pytest.raises(Crash):
        committer(tmp_path, broker).commit_stream(7, staged(tmp_path, STREAM_FOLDER, [rows(0, 4)]))
    broker.fuse.left = -1
    before = len(broker.log)
    assert before < 4
    committer(tmp_path, broker).commit_stream(7, staged(tmp_path, STREAM_FOLDER, [rows(100, 4)]))
    assert numbers(broker.log) == [0, 1, 2, 3]


def test_many_rows_go_by_chunks_and_progress_is_noted(tmp_path: Path) -> None:
    broker, at = FakeBroker(), iter(range(0, 10**9, 600))
    many = staged(tmp_path, STREAM_FOLDER, [rows(0, 5_000)])
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, many)
    assert broker.log == messages(0, 5_000)
    assert load_journal(LocalFiles(tmp_path), PUBEND).sequence > 3


def test_the_rest_of_a_batch_is_all_that_is_sent_again(tmp_path: Path) -> None:
    at = iter(range(0, 10**9, 1_000))
    broker = FakeBroker(fuse=Fuse(17))
    with pytest.raises(Crash):
        committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(
            0, staged(tmp_path, STREAM_FOLDER, [rows(0, 5_000)])
        )
    broker.fuse.left = -1
    taken = len(broker.log)
    assert 1_000 < taken < 5_000
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, [])
    assert numbers(broker.log) == list(range(5_000))
    assert broker.repeated < taken


def test_what_the_broker_may_have_forgotten_is_not_sent_again_unasked(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(6))
    with pytest.raises(Crash):
        committer(tmp_path, broker, now_ms=lambda: 1_000).commit_stream(
            0, staged(tmp_path, STREAM_FOLDER, [rows(0, 4)])
        )
    broker.fuse.left = -1
    late = 1_000 + REMEMBERED_MS + 1
    with pytest.raises(SinkError, match="4 rows were in flight 23 hours ago"):
        committer(tmp_path, broker, now_ms=lambda: late).commit_stream(0, [])
    committer(tmp_path, broker, now_ms=lambda: late, forgotten="publish").commit_stream(0, [])
    assert sorted(numbers(broker.log)) == [0, 1, 2, 3]


def test_a_refused_batch_stays_and_is_published_when_it_may_be(tmp_path: Path) -> None:
    broker = FakeBroker(failures=[SinkError("may not publish")])
    found = staged(tmp_path, STREAM_FOLDER, [rows(0, 4)])
    with pytest.raises(SinkError, match="may not publish"):
        committer(tmp_path, broker).commit_stream(0, found)
    # Spark aborts a batch whose commit has failed.
    committer(tmp_path, broker).discard(found)
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
    with pytest.raises(SinkError, match="this is overlay other, not demo"):
        committer(tmp_path, broker).commit_stream(1, stream_rows(tmp_path, 1, rng))
    assert load_journal(LocalFiles(tmp_path), PUBEND).stream == 0


def test_rows_are_numbered_for_each_pubend(tmp_path: Path) -> None:
    broker = FakeBroker(pubends={PUBEND, "r"})
    for number in range(2):
        found = staged(tmp_path, STREAM_FOLDER, [rows(10 * number, 6, (PUBEND, "r", PUBEND)), rows(10 * number + 6, 1)])
        committer(tmp_path, broker).commit_stream(number, found)
    assert numbers(broker.logs[PUBEND]) == [0, 2, 3, 5, 6, 10, 12, 13, 15, 16]
    assert numbers(broker.logs["r"]) == [1, 4, 11, 14]
    journal = load_journal(LocalFiles(tmp_path), PUBEND)
    assert journal.published == {PUBEND: 5, "r": 2}
    assert broker.numbers == {(PUBEND, identity_of(journal)): 10, ("r", identity_of(journal)): 4}


def test_the_rest_of_a_batch_for_two_pubends_goes_on_with_the_numbers_of_both(tmp_path: Path) -> None:
    at = iter(range(0, 10**9, 1_000))
    broker = FakeBroker(fuse=Fuse(18), pubends={PUBEND, "r"})
    many = staged(tmp_path, STREAM_FOLDER, [rows(0, 5_000, (PUBEND, PUBEND, "r"))])
    with pytest.raises(Crash):
        committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, many)
    broker.fuse.left = -1
    taken = sum(map(len, broker.logs.values()))
    assert 1_000 < taken < 5_000
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, [])
    assert numbers(broker.logs[PUBEND]) == [number for number in range(5_000) if number % 3 != 2]
    assert numbers(broker.logs["r"]) == list(range(2, 5_000, 3))
    assert 0 < broker.repeated < taken


def test_a_refusal_at_one_pubend_fails_the_batch_and_only_the_rest_follows(tmp_path: Path) -> None:
    broker = FakeBroker(pubends={PUBEND, "r"}, refused={3})
    found = staged(tmp_path, STREAM_FOLDER, [rows(0, 8, (PUBEND, "r"))])
    for _ in range(2):
        with pytest.raises(SinkError, match="r refuses"):
            committer(tmp_path, broker).commit_stream(0, found)
        assert numbers(broker.logs["r"]) == [1]
        assert not load_journal(LocalFiles(tmp_path), PUBEND).batch.is_settled
    broker.refused.clear()
    committer(tmp_path, broker).commit_stream(0, [])
    committer(tmp_path, broker).commit_stream(1, staged(tmp_path, STREAM_FOLDER, [rows(8, 2, (PUBEND, "r"))]))
    assert numbers(broker.logs[PUBEND]) == [0, 2, 4, 6, 8]
    assert numbers(broker.logs["r"]) == [1, 3, 5, 7, 9]


def test_a_row_for_a_pubend_that_does_not_exist_keeps_its_batch_from_counting(tmp_path: Path) -> None:
    broker = FakeBroker()
    with pytest.raises(SinkOptionError, match="no pubend r"):
        committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [rows(0, 4, (PUBEND, "r"))]))
    assert not broker.logs
    assert load_journal(LocalFiles(tmp_path), PUBEND).stream == -1
    committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [rows(0, 4)]))
    assert numbers(broker.log) == [0, 1, 2, 3]


def test_a_pubend_that_has_all_its_rows_need_not_be_there_for_the_rest(tmp_path: Path) -> None:
    at = iter(range(0, 10**9, 1_000))
    broker = FakeBroker(pubends={PUBEND, "r"}, refused={1_500})
    found = staged(tmp_path, STREAM_FOLDER, [rows(0, 1_000, ("r",)), rows(1_000, 1_000)])
    with pytest.raises(SinkError, match="q refuses"):
        committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, found)
    broker.refused.clear()
    broker.pubends.remove("r")
    committer(tmp_path, broker, now_ms=lambda: next(at)).commit_stream(0, [])
    assert numbers(broker.logs["r"]) + numbers(broker.log) == list(range(2_000))


def former_folder(root: Path, *, settled: int) -> SinkJournal:
    """A staging folder as versions left it whose journals had one pubend: 20 rows count, 100 came before them."""
    path, name = root / "staged/stream/old.rows", "staged/stream/old.rows"
    path.parent.mkdir(parents=True)
    data = b""
    for message in messages(100, 20):
        row = msgspec.msgpack.encode((dict(message.attributes), message.payload, message.content_type))
        data += len(row).to_bytes(4) + row
    path.write_bytes(data)
    (root / JOURNAL).write_text(f"""{{
 "format": 1, "writer": "0123456789abcdef", "pubend": "q", "overlay": "demo", "query": "one", "stream": 6,
 "sequence": 14, "batch": {{
  "number": 6, "name": "", "first": 101, "rows": 20, "settled": {settled}, "touched_ms": {time.time_ns() // 1_000_000},
  "files": [{{"path": "{name}", "rows": 20, "size": {len(data)}, "crc": {crc32(data)}}}]
 }}, "names": ["monday"], "problem": ""
}}""")
    return load_journal(LocalFiles(root), PUBEND)


@pytest.mark.parametrize(("settled", "taken"), [(0, 0), (0, 7), (5, 5), (5, 7), (5, 20), (20, 20)])
def test_a_journal_of_format_1_goes_on_with_its_numbers_and_its_identity(
    tmp_path: Path, settled: int, taken: int
) -> None:
    """Whatever of its last batch was noted as settled, and whatever more of it the broker has taken."""
    steps = 0
    while True:
        steps += 1
        root, rng = tmp_path / str(steps), Random(steps)
        journal = former_folder(root, settled=settled)
        identity = blake2b(b"0123456789abcdef/q", digest_size=16).digest()
        assert identity_of(journal) == identity
        broker = FakeBroker(fuse=Fuse(steps), pubends={PUBEND, "r"})
        broker.logs[PUBEND] = messages(0, 100 + taken)
        broker.numbers[PUBEND, identity] = 100 + taken
        is_over = False
        while not is_over:
            try:
                # The query has another plan now, and Spark does not know that batch 6 is done.
                for number in (6, 7):
                    found = staged(root, STREAM_FOLDER, [rows(20 * number, 20, (PUBEND, "r"))], "one")
                    committer(root, broker).commit_stream(number, found)
                is_over = True
            except Crash:
                broker.fuse.left = rng.choice((-1, steps))
        assert numbers(broker.logs[PUBEND]) == [*range(120), *range(140, 160, 2)]
        assert numbers(broker.logs["r"]) == list(range(141, 160, 2))
        assert broker.numbers == {(PUBEND, identity): 130, ("r", identity): 10}
        if broker.fuse.left > 0:
            break
    assert steps > 10


def batch(root: Path, broker: FakeBroker, name: str, content: Sequence[Row]) -> None:
    committer(root, broker).commit_batch(name, staged(root, BATCH_FOLDER, [content]))


def test_under_one_name_a_batch_write_is_published_once(tmp_path: Path) -> None:
    broker = FakeBroker()
    for name in ("monday", "tuesday", "monday", "", ""):
        batch(tmp_path, broker, name, rows(0, 2))
    assert numbers(broker.log) == [0, 1] * 4
    assert not list((tmp_path / "staged").rglob("*.rows"))


def test_a_batch_write_that_was_cut_off_is_completed_by_the_next(tmp_path: Path) -> None:
    broker = FakeBroker(fuse=Fuse(6))
    with pytest.raises(Crash):
        batch(tmp_path, broker, "monday", rows(0, 4))
    broker.fuse.left = -1
    batch(tmp_path, broker, "tuesday", rows(4, 2))
    assert numbers(broker.log) == list(range(6))


def test_a_batch_write_leaves_the_rows_of_others_alone(tmp_path: Path) -> None:
    broker = FakeBroker()
    other = staged(tmp_path, BATCH_FOLDER, [rows(9, 1)])
    batch(tmp_path, broker, "", rows(0, 1))
    committer(tmp_path, broker).commit_batch("", other)
    assert numbers(broker.log) == [0, 9]


def test_what_is_aborted_is_deleted_and_never_published(tmp_path: Path) -> None:
    broker = FakeBroker()
    found = staged(tmp_path, STREAM_FOLDER, [rows(0, 4)])
    committer(tmp_path, broker).discard(found)
    committer(tmp_path, broker).discard(found)
    assert not list((tmp_path / "staged").rglob("*.rows"))
    assert not broker.log


def test_an_empty_batch_needs_no_broker(tmp_path: Path) -> None:
    broker = FakeBroker()
    committer(tmp_path, broker).commit_stream(0, staged(tmp_path, STREAM_FOLDER, [[]]))
    assert broker.connections == 0
    assert load_journal(LocalFiles(tmp_path), PUBEND).stream == 0


def test_only_one_commits_at_a_time(tmp_path: Path) -> None:
    broker = FakeBroker()
    with LocalFiles(tmp_path).lock("_lock", "x"), pytest.raises(LakeBusyError):
        committer(tmp_path, broker).commit_stream(0, [])
