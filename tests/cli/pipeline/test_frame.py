"""The frame of the commands on Spark: their common options, the session and its progress, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.cli.pipeline import frame
from penstock.cli.pipeline.frame import AsJson, Lake, at_work, note_unreadable, on_spark, tell
from penstock.pipeline.session import SessionSettings

ON_SPARK = ("sweep", "archive", "profile", "trace", "audit", "compact", "telemetry")
OPTIONS = ("--master", "--driver-memory", "--executor-memory", "--parallelism", "--event-log")


@pytest.mark.parametrize("command", ON_SPARK)
def test_every_job_has_the_options_of_spark(command: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", command, "--help"], env={"COLUMNS": "200"})
    assert [option for option in OPTIONS if option not in result.stdout] == []
    assert "--session" not in result.stdout


class Counted:
    def to_json(self) -> str:
        return '{"rows":3}'

    def lines(self) -> list[str]:
        return ["3 rows", "in 1 file"]


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[SessionSettings]:
    """With which settings Spark was to be started; it is not."""
    asked: list[SessionSettings] = []

    @contextmanager
    def noted(settings: SessionSettings) -> Iterator[str]:
        asked.append(settings)
        yield "spark"

    monkeypatch.setattr(frame, "using_session", noted)
    return asked


def count(*arguments: str) -> Result:
    """The command of a job as short as one can be."""
    command = typer.Typer()

    @command.command()
    @on_spark("penstock count")
    def counted(lake: Lake, *, often: int = 1, as_json: AsJson = False, session: SessionSettings) -> None:
        """Count rows."""
        with at_work(session) as (spark, reporter):
            reporter.note(f"{spark} counts {lake} {often} times")
        note_unreadable({"a.parquet": "no magic"})
        tell(Counted(), as_json=as_json, details=lambda: typer.echo("row by row"))

    return CliRunner().invoke(command, arguments)


def test_a_command_gets_its_own_options_and_one_session(sessions: list[SessionSettings], tmp_path: Path) -> None:
    result = count("lake", "--often", "2", "--master", "local[2]", "--parallelism", "4", "--event-log", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert sessions == [
        SessionSettings("local[2]", parallelism=4, event_log=tmp_path, app_name="penstock count"),
    ]
    assert result.stdout == "row by row\n3 rows\nin 1 file\n"
    notes = ["starting Spark on local[2]", "spark counts lake 2 times", "left out: a.parquet: no magic"]
    assert result.stderr.splitlines() == notes


def test_without_options_the_settings_are_the_usual_ones(sessions: list[SessionSettings]) -> None:
    assert count("lake", "--json").stdout == '{"rows":3}\n'
    assert sessions == [SessionSettings(app_name="penstock count")]


def test_the_help_is_that_of_the_command() -> None:
    told = count("--help").stdout
    assert "Count rows." in told
    assert "The folder of the lake." in told
