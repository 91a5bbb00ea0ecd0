"""A sweep by the command: an interruption from the keyboard loses nothing.

Ctrl-C in the middle of a sweep ends it with its exit code and one clean line; the same command then finishes it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHAOS = ["pipeline", "sweep", "delivery-chaos", "--set", "runs=1", "--json", "-"]
LIMIT_S = 120.0


@contextmanager
def command(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def swept(seeds: str, out: Path) -> dict[str, Any]:
    """A sweep in this process, by the session that runs."""
    options = ["--seeds", seeds, "--master", "local[2]", "--out", str(out), "--figures", str(out)]
    done = CliRunner().invoke(app, [*CHAOS, *options])
    assert done.exit_code == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.live
def test_an_interruption_ends_cleanly_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    endless = ["--seeds", "1..500", "--master", "local[2]", "--out", str(out)]
    with command(*CHAOS, *endless, folder=tmp_path) as process:
        pause = threading.Event()
        for _ in range(int(LIMIT_S / 0.05)):
            if list(out.glob("parts/*.parquet")) or process.poll() is not None:
                break
            pause.wait(0.05)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, told
    assert shown == ""
    assert told.splitlines() == ["starting Spark on local[2]", "500 runs of delivery-chaos"]
    assert not list(tmp_path.glob("spark-warehouse")) + list(tmp_path.glob("artifacts"))
    resumed = swept("1..2", out)
    assert resumed["resumed"] > 0
    assert (resumed["runs"], resumed["failures"]) == (2, [])
