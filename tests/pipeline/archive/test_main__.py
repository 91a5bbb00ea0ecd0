"""The archive as a process without the command line: what is wrong is told in one line, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.pipeline.archive.__main__ import main

NOWHERE = "penstock://127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--every", "soon"], 2, "'soon' is not a time such as 10s"),
        (["--master", "moon"], 2, "master 'moon' is not one of"),
        # It tries for half a minute.
        pytest.param(["--once"], 1, "127.0.0.1:1", marks=pytest.mark.live),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    tmp_path: Path, options: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert main(["--broker", NOWHERE, "--lake", str(lake), *options]) == code
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.startswith("error: ")
    assert complaint in stderr
    assert stderr.count("\n") == 1
    assert not lake.exists()
