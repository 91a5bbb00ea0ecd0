"""A writer that is killed at any moment loses nothing that it told of."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from live.store.support import everything, opened, sequences, ticks_of
from penstock.model.tick import Tick

# Tells of each commit after it returned: last tick, sequence number and value of that commit.
WRITER = """
import sys
from pathlib import Path
from random import Random
from penstock.live.store import Append, KeepRecord, LogStore, SetValue
rng = Random(int(sys.argv[2]))
store = LogStore.open(Path(sys.argv[1]), overlay="o", broker="b1")
last = store.last_tick("p") or 0
while True:
    count = rng.randrange(1, 200)
    messages = [(tick, tick.to_bytes(8) * rng.randrange(40)) for tick in range(last + 1, last + count + 1)]
    last += count
    store.commit([Append("p", messages, last + 5, {b"publisher": last}), SetValue("v", last.to_bytes(8)),
                  KeepRecord("mark", last.to_bytes(8)), KeepRecord(f"gap/{last}", bytes(9000)),
                  KeepRecord(f"gap/{last - count}", None)])
    if rng.random() < 0.1:
        store.trim("p", max(0, last - 2000))
    print(last, flush=True)
"""


def killed(path: Path, seed: int, lines: int) -> int:
    """Run a writer until it has told so many lines, kill it, and give the last tick it told of."""
    told = b""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(seed)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for number, line in enumerate(writer.stdout, start=1):
            told = line
            if number == lines:
                writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    return int(told)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_told_is_there_in_order_and_without_holes(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    for turn in range(5):
        told = killed(tmp_path, 10 * seed + turn, rng.randrange(1, 150))
        with opened(tmp_path) as store:
            assert not store.recovery.clean
            last = store.last_tick("p")
            assert last is not None
            assert last >= told
            first = max(1, store.trimmed_below("p"))
            assert first <= max(1, last - 2_000)
            messages = everything(store, bytes_max=1 << 20)
            assert ticks_of(messages) == list(range(first, last + 1))
            assert all(body == tick.to_bytes(8) * (len(body) // 8) for tick, body in messages)
            # What was committed with the messages is exactly as new as they are.
            assert (store.lease("p"), sequences(store).get(b"publisher")) == (last + 5, last)
            assert store.value("v") == Tick(last).to_bytes(8)
            assert store.recovered().kept == {"mark": last.to_bytes(8), f"gap/{last}": bytes(9_000)}
