"""The package runs as the command does."""

from __future__ import annotations

import subprocess
import sys

import penstock


def test_the_package_is_the_command_line() -> None:
    told = subprocess.run([sys.executable, "-m", "penstock", "--version"], capture_output=True, text=True, check=True)
    assert penstock.__version__ in told.stdout
