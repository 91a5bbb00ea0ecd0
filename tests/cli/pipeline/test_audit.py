"""``penstock pipeline audit``: what is wrong is told before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

TIMES = {"--from": "2026-11-15T00:00:00Z", "--to": "2026-11-16T00:00:00Z"}


@pytest.mark.parametrize(
    ("lake", "times", "complaint"),
    [
        ("none", {}, "there is no lake"),
        (".", {"--from": "yesterday"}, "'yesterday' is not a time"),
        (".", {"--from": "2026-11-15"}, "does not say its zone"),
        (".", {"--from": "2026-11-17T00:00:00Z"}, "has no time in it"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    lake: str, times: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    options = [word for option in {**TIMES, **times}.items() for word in option]
    result = CliRunner().invoke(app, ["pipeline", "audit", str(tmp_path / lake), *options])
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
