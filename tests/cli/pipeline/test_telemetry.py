"""``penstock pipeline telemetry``: what is wrong is told before Spark starts (with it: ``test_scenario_telemetry``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "telemetry", *options])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no rows in its table telemetry yet"),
        (["--to", "noon"], "is not a time"),
        (["--master", "moon"], "master 'moon' is not one of"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path: Path, options: list[str], says: str) -> None:
    result = run(str(tmp_path), *options)
    assert result.exit_code == 2
    assert says in result.stderr
