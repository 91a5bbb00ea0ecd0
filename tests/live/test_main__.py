"""A broker as a process without the command line: it says when it listens, and ends in order or with a reason."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "penstock.live"]
LIMIT_S = 60.0


def overlay_file(folder: Path) -> Path:
    file = folder / "overlay.toml"
    file.write_text('overlay = "test"\n[brokers.b1]\nport = 0\n')
    return file


def test_a_broker_says_where_it_listens_and_ends_with_0(tmp_path: Path) -> None:
    command = [*COMMAND, str(overlay_file(tmp_path)), "--name", "b1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.rpartition(":")[2])
        assert line == f"broker b1 listens at penstock://127.0.0.1:{port}\n"
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stdout) == (0, "")
    assert "stopped" in stderr


def test_a_mistake_is_told_in_one_line_and_ends_with_2(tmp_path: Path) -> None:
    command = [*COMMAND, str(overlay_file(tmp_path)), "--name", "b2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
