"""Gives all ``penstock pipeline`` commands the same frame: Spark's options, a session with progress, a summary.

A new job is two files: the job in ``penstock.pipeline``, which takes a session and a reporter and returns a
summary, and its command here, which the package lists::

    @on_spark("penstock count")
    def count(lake: Lake, *, as_json: AsJson = False, session: SessionSettings) -> None:
        with at_work(session) as (spark, reporter):
            summary = count_rows(spark, lake, reporter)
        tell(summary, as_json=as_json)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, get_type_hints

import typer

from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.pipeline.session import SessionSettings, using_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AsJson", "Lake", "Master", "Summary", "at_work", "note_unreadable", "on_spark", "tell"]

Lake: TypeAlias = Annotated[str, typer.Argument(metavar="LAKE", help="The folder of the lake.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Master: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Where Spark runs: `local[*]` is here on all cores; or `spark://HOST:PORT`.")
]
Command: TypeAlias = Callable[..., None]

_SESSION: Final = "session"
"""The argument of a command that receives the settings of Spark."""


class Summary(Protocol):
    """The result of a job, for programs and for people."""

    def to_json(self) -> str:
        """The whole summary."""

    def lines(self) -> Sequence[str]:
        """The summary for people."""


def on_spark(app_name: str) -> Callable[[Command], Command]:
    """Give a command the options of Spark, passed as one argument ``session``; clusters show ``app_name``."""

    def made(command: Command) -> Command:
        options = _parameters(_settings)
        own = {name: each for name, each in _parameters(command).items() if name != _SESSION}

        @wraps(command)
        def run(**given: Any) -> None:
            settings = _settings(**{name: given.pop(name) for name in options})
            command(**given, session=replace(settings, app_name=app_name))

        # Typer makes its options from this signature.
        shown = Signature([*own.values(), *options.values()])
        run.__signature__ = shown  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in shown.parameters.items()}
        return run

    return made


def _settings(
    *,
    master: Master = "local[*]",
    driver_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for Spark's Java beside this command, such as `2g`.")
    ] = "1g",
    executor_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for each executor of a cluster, such as `2g`.")
    ] = "1g",
    parallelism: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks at a time; as many as there are cores, if not said.")
    ] = None,
    event_log: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for Spark's event log, for its history server.")
    ] = None,
) -> SessionSettings:
    return SessionSettings(master, driver_memory, executor_memory, parallelism, event_log)


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Parameters by name, with their annotations resolved from text to objects."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(annotation=hints[name]) for name, parameter in signature(function).parameters.items()
    }


@contextmanager
def at_work(session: SessionSettings) -> Iterator[tuple[SparkSession, ProgressReporter]]:
    """Start Spark, and a reporter that shows the progress of a job."""
    with ProgressReporter() as reporter:
        reporter.stage(f"starting Spark on {session.master}")
        with using_session(session) as spark:
            yield spark, reporter


def note_unreadable(files: Mapping[str, str], *, what: str = "left out") -> None:
    """Say which files of a lake a job could not read, and what it did about them."""
    for path, problem in files.items():
        console.note(f"{what}: {path}: {problem}")


def tell(summary: Summary, *, as_json: bool, details: Callable[[], None] = lambda: None) -> None:
    """Print a summary as JSON, or for people, with ``details`` before it."""
    if as_json:
        console.line(summary.to_json())
        return
    details()
    for line in summary.lines():
        console.line(line)
