"""The options of Spark are the same for every command of the pipeline."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app


@pytest.mark.parametrize("option", ["--master", "--driver-memory", "--executor-memory", "--parallelism", "--event-log"])
def test_a_sweep_has_them_all(option: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "sweep", "--help"], env={"COLUMNS": "200"})
    assert option in result.stdout
