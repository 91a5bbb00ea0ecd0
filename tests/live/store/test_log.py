"""The logs of a broker: what was committed is read, also after damage, a full disk and a new start."""

from __future__ import annotations

import os
import shutil
import subprocess
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from live.store.support import DAMAGED_VALUES, append, everything, numbered, opened, sequences, tamper, ticks_of
from penstock.broker.durable import Recovered, RecoveredPubend
from penstock.live.store import (
    Append,
    CorruptRecordError,
    CorruptValueError,
    LogStore,
    SetValue,
    StoreFailedError,
    StoreFullError,
    StoreRefusedError,
    Trim,
)
from penstock.live.store.database import FILE_NAME
from penstock.model.tick import TICK_MAX, Tick, TickRange


def test_a_pubend_without_a_log_has_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.pubends() == []
        assert (store.first_tick("p"), store.last_tick("p"), store.lease("p")) == (None, None, None)
        assert (store.message_count("p"), store.size_bytes("p"), store.trimmed_below("p")) == (0, 0, 0)
        assert store.read("p", Tick(0), TICK_MAX, bytes_max=1) == []
        assert sequences(store) == {}
        assert store.value("v") is None
        assert store.file_bytes() > 0


def test_all_that_was_committed_is_there_after_a_new_start(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("q"), Append("p", numbered(1, 5), Tick(50), {b"x": 3}), SetValue("v", b"one")])
        store.commit([SetValue("v", b"two"), SetValue("w", b""), SetValue("gone", b"")])
        store.commit([SetValue("gone", None), Append("p", numbered(2**63, 2**63))])
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.pubends() == ["p", "q"]
            assert everything(store) == numbered(1, 5) + numbered(2**63, 2**63)
            assert (store.first_tick("p"), store.last_tick("p"), store.lease("p")) == (1, 2**63, 50)
            assert (store.message_count("p"), store.size_bytes("p")) == (6, 60)
            assert sequences(store) == {b"x": 3}
            assert [store.value(name) for name in ("v", "w", "gone")] == [b"two", b"", None]


def test_a_broker_finds_all_it_must_know_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.recovered() == Recovered()
        store.commit([Append("q", lease=Tick(7)), Append("p", numbered(1, 9), Tick(50), {b"x": 3, b"y": 0})])
        store.commit([Trim("p", Tick(4)), Append("q", sequences={b"x": 1}), SetValue("v", b"one"), SetValue("w", b"")])
    with opened(tmp_path) as store:
        assert store.recovered() == Recovered(
            {
                "p": RecoveredPubend(50, 9, 4, 4, ((9, 60),), {b"x": 3, b"y": 0}),
                "q": RecoveredPubend(7, None, None, 0, (), {b"x": 1}),
            },
            {"v": b"one", "w": b""},
        )


def test_a_part_of_a_log_says_how_far_it_goes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 5, 10)
        append(store, 15, 20)
        whole = store.read_part("p", Tick(1), Tick(30), bytes_max=1_000)
        assert (len(whole.messages), whole.last, whole.damaged) == (12, TICK_MAX, None), "there is no more at all"
        assert store.read_part("p", Tick(1), Tick(12), bytes_max=1_000).last == 14, "up to the next message"
        assert store.read_part("p", Tick(1), Tick(16), bytes_max=1_000).last == 16, "which may be the next tick"
        cut = store.read_part("p", Tick(1), Tick(30), bytes_max=65)
        assert (ticks_of(cut.messages), cut.last) == ([5, 6, 7, 8, 9, 10], 10)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00' WHERE place=2")
    with opened(tmp_path) as store:
        part = store.read_part("p", Tick(1), Tick(30), bytes_max=1_000)
        assert (len(part.messages), part.last) == (6, 14)
        assert part.damaged is not None
        assert part.damaged.ticks == (15, 20)
        assert store.read_part("p", Tick(17), Tick(30), bytes_max=1).last == 16


def test_the_last_tick_outlives_its_message(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        store.trim("p", Tick(11))
    with opened(tmp_path) as store:
        assert (store.first_tick("p"), store.last_tick("p"), store.message_count("p")) == (None, 10, 0)
        assert store.trimmed_below("p") == 11


def test_the_first_and_the_last_tick_there_are_can_be_used(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", [(Tick(0), b"first"), (TICK_MAX, b"last")])])
        assert everything(store, bytes_max=100) == [(0, b"first"), (TICK_MAX, b"last")]


def test_a_range_is_read_across_batches(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for first in range(1, 100, 10):
            append(store, first, first + 9)
        assert ticks_of(store.read("p", Tick(8), Tick(23), bytes_max=1_000)) == list(range(8, 24))
        assert ticks_of(store.read("p", Tick(14), Tick(14), bytes_max=1_000)) == [14]
        assert store.read("p", Tick(101), Tick(200), bytes_max=1_000) == []
        assert store.read("p", Tick(9), Tick(8), bytes_max=1_000) == []


def test_a_read_stops_at_its_bytes_but_gives_one_message(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        append(store, 11, 20)
        assert ticks_of(store.read("p", Tick(1), Tick(20), bytes_max=159)) == list(range(1, 16))
        assert ticks_of(store.read("p", Tick(3), Tick(20), bytes_max=1)) == [3]


def test_large_bodies_are_stored_and_read_one_at_a_time(tmp_path: Path) -> None:
    size = 8 << 20
    with opened(tmp_path) as store:
        append(store, 1, 6, size=size)
        tracemalloc.start()
        for tick in range(1, 7):
            assert store.read("p", Tick(tick), TICK_MAX, bytes_max=1) == numbered(tick, tick, size=size)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 5 * size


def test_a_damaged_record_is_named_and_the_rest_is_served(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for first in (1, 11, 21):
            append(store, first, first + 9)
    tamper(tmp_path, "UPDATE bodies SET stored=zeroblob(length(stored)) WHERE place=2")
    with opened(tmp_path) as store:
        assert ticks_of(store.read("p", Tick(1), TICK_MAX, bytes_max=1_000)) == list(range(1, 11))
        with pytest.raises(CorruptRecordError, match=r"pubend 'p'.*ticks 11 to 20 \(10 messages\)") as caught:
            store.read("p", Tick(12), TICK_MAX, bytes_max=1_000)
        behind = Tick(caught.value.ticks.last + 1)
        assert ticks_of(store.read("p", behind, TICK_MAX, bytes_max=1_000)) == list(range(21, 31))
        assert store.damaged("p") == [TickRange(Tick(11), Tick(20))]
        append(store, 31, 31)


def test_a_record_whose_bytes_are_gone_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
    tamper(tmp_path, "DELETE FROM bodies")
    with opened(tmp_path) as store:
        assert store.damaged("p") == [TickRange(Tick(1), Tick(10))]


def test_a_damaged_value_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([SetValue("v", b"good")])
    tamper(tmp_path, DAMAGED_VALUES)
    with opened(tmp_path) as store:
        with pytest.raises(CorruptValueError, match="'v'"):
            store.value("v")
        # One of them must not keep the logs from being served.
        store.commit([SetValue("w", b"good")])
        assert store.recovered().values == {"v": b"", "w": b"good"}
        assert store.damaged_values() == ["v"]


@pytest.mark.parametrize("seed", range(30))
def test_bad_sectors_are_never_served_as_messages(tmp_path: Path, seed: int) -> None:
    """Whatever page is overwritten: what is read is right, what is not is named or the store refuses as a whole."""
    with opened(tmp_path) as store:
        written = [each for first in range(1, 200, 10) for each in append(store, first, first + 9, size=2_000)]
    rng, file = Random(seed), tmp_path / FILE_NAME
    with file.open("r+b") as raw:
        raw.seek(rng.randrange(file.stat().st_size // 512) * 512)
        raw.write(rng.randbytes(512))
    try:
        with opened(tmp_path) as store:
            bad = store.damaged("p")
            good = [each for each in written if not any(ticks.covers(each[0]) for ticks in bad)]
            for tick, body in good:
                assert store.read("p", tick, tick, bytes_max=1) == [(tick, body)]
            append(store, 1_001, 1_001)
            store.trim("p", Tick(1_001))
            assert ticks_of(everything(store)) == [1_001]
    except (StoreRefusedError, StoreFailedError):
        pass


def fill(store: LogStore, first: int) -> int:
    """Append until the store is full; gives the tick that did not fit."""
    for tick in range(first, first + 10_000):
        try:
            append(store, tick, tick, size=20_000)
        except StoreFullError:
            return tick
    raise AssertionError("the store was never full")


def test_a_full_store_refuses_and_stays_as_it_was_until_there_is_space(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=1 << 20) as store:
        refused = fill(store, 1)
        before = (store.last_tick("p"), store.message_count("p"), store.size_bytes("p"))
        with pytest.raises(StoreFullError, match=r"is full.*nothing of the commit was written"):
            store.commit([Append("q", numbered(1, 1)), Append("p", numbered(refused, refused, size=1 << 20))])
        assert (store.last_tick("p"), store.message_count("p"), store.size_bytes("p")) == before
        assert store.pubends() == ["p"]
        assert ticks_of(everything(store, bytes_max=10**6)) == list(range(1, refused))
        store.trim("p", Tick(refused // 2))
        later = fill(store, refused)
        assert later > refused
    with opened(tmp_path) as store:
        assert ticks_of(everything(store, bytes_max=10**6)) == list(range(refused // 2, later))
        append(store, later, later)


def test_a_full_store_takes_last_values_in_place_of_the_messages_that_it_trims_whatever_room_they_need(
    tmp_path: Path,
) -> None:
    """Each message has a key of its own, so all of them are kept, and named values take more room than batches."""
    with opened(tmp_path, bytes_max=1 << 20) as store:
        first = 1
        try:
            while True:
                append(store, first, first + 99, size=60)
                first += 100
        except StoreFullError:
            pass
        for tick in range(1, first, 300):
            bodies = [(each, bytes(60)) for each in range(tick, min(tick + 300, first))]
            kept = [SetValue(f"last/p/{each:018}/symbol", body) for each, body in bodies]
            store.commit([Trim("p", Tick(bodies[-1][0] + 1)), *kept])
        assert store.message_count("p") == 0
        assert len(store.recovered().values) == first - 1
        with pytest.raises(StoreFullError):
            store.commit([Append("p", numbered(first, first, size=1 << 20))])
    with opened(tmp_path, bytes_max=1 << 20) as store:
        assert len(store.recovered().values) == first - 1


@contextmanager
def small_disk(place: Path, *, size: str = "4m") -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_refuses_until_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(2 << 20))
        with opened(disk / "store") as store:
            refused = fill(store, 1)
            assert store.last_tick("p") == refused - 1
            assert ticks_of(everything(store, bytes_max=10**6)) == list(range(1, refused))
            with pytest.raises(StoreFullError):
                append(store, refused, refused, size=1 << 20)
            ballast.unlink()
            append(store, refused, refused, size=20_000)
        with opened(disk / "store") as store:
            assert ticks_of(everything(store, bytes_max=10**6)) == list(range(1, refused + 1))


def test_a_full_disk_lets_the_store_trim_and_go_on_in_the_space_it_won(tmp_path: Path) -> None:
    with small_disk(tmp_path, size="32m") as disk, opened(disk / "store", reserve_bytes=20 << 20) as store:
        refused = fill(store, 1)
        (disk / "others").write_bytes(bytes(shutil.disk_usage(disk).free))
        store.trim("p", Tick(refused - 100))
        assert store.trimmed_below("p") == refused - 100
        # The space of the reserve is not for messages, that of trimmed messages is.
        (disk / "more").write_bytes(bytes(shutil.disk_usage(disk).free))
        full_again = fill(store, refused)
        assert full_again > refused + 100
        store.trim("p", Tick(full_again - 10))
        assert ticks_of(everything(store, bytes_max=10**6)) == list(range(full_again - 10, full_again))
        subprocess.run(["mount", "-o", "remount,size=80m", str(disk)], check=True)
        append(store, full_again, full_again)
        assert (disk / "store" / "reserve").stat().st_size == 20 << 20


def test_after_another_failure_of_the_disk_no_commit_is_tried(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 1)
        store._database.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreFailedError, match="open it anew"):
            append(store, 2, 2)
        store._database.execute("PRAGMA query_only=OFF")
        with pytest.raises(StoreFailedError):
            append(store, 2, 2)
        assert store.last_tick("p") == 1
    with opened(tmp_path) as store:
        append(store, 2, 2)
