"""``penstock pipeline`` lists what runs on Spark, without importing Spark."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from penstock.cli.app import app


def test_the_commands_are_listed() -> None:
    result = CliRunner().invoke(app, ["pipeline", "--help"])
    assert result.exit_code == 0
    assert "sweep" in result.stdout


def test_other_commands_do_not_wait_for_spark_to_be_imported() -> None:
    heavy = ["pyspark", "pyarrow", "pandas", "matplotlib"]
    code = f"import sys, penstock.cli; print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
