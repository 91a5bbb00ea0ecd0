"""``penstock pipeline archive``: what is wrong is told before Spark starts (with it: ``test_scenario_archive``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from commands import Commands
from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

NOWHERE = "penstock://127.0.0.1:1"


def archive(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "archive", *options])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--selector", "a >"], "a >"),
        (["--every", "soon"], "'soon' is not a time such as 10s"),
        (["--missing", "maybe"], "missing is 'maybe'"),
        (["--from", "yesterday"], "'yesterday' is not one of earliest, latest"),
        (["--master", "moon"], "master 'moon' is not one of"),
        (["--keep-merged", "-1s"], "is not a time"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path: Path, options: list[str], complaint: str) -> None:
    result = archive("--broker", NOWHERE, "--lake", str(tmp_path / "lake"), *options)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not (tmp_path / "lake").exists()


def test_object_storage_is_refused_clearly(brokers: Commands) -> None:
    result = archive("--broker", brokers.url("sb1"), "--lake", "s3a://bucket/lake")
    assert result.exit_code == 2
    assert "only folders are supported so far" in result.stderr
