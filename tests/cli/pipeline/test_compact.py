"""``penstock pipeline compact``: what is wrong is told before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


def test_mistakes_are_told_before_anything_starts(tmp_path: Path) -> None:
    for options, complaint in (
        ([str(tmp_path / "none")], "there is no lake"),
        ([str(tmp_path), "--keep", "soon"], "'soon' is not a time"),
    ):
        result = CliRunner().invoke(app, ["pipeline", "compact", *options])
        assert result.exit_code == 2, (options, result.output)
        assert complaint in result.stderr
