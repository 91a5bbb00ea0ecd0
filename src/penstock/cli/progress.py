"""Shows the progress of a long command on standard error: a bar on a terminal, a line per stage elsewhere.

The bar is drawn when steps are reported and never by a thread: a thread would distort what the lab measures.
"""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from penstock.cli.console import console

__all__ = ["ProgressReporter"]


class ProgressReporter:
    """A reporter for the lab and for long commands; a context manager, so that the bar goes away whatever happens."""

    def __init__(self, *, quiet_unless_terminal: bool = False) -> None:
        self._terminal = console.errors.is_terminal
        self._lines = not self._terminal and not quiet_unless_terminal
        self._task: TaskID | None = None
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console.errors,
            auto_refresh=False,
            transient=True,
            disable=not self._terminal,
        )

    def __enter__(self) -> ProgressReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin the next stage, with its number of steps if known."""
        if self._lines:
            console.note(title)
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(title, total=total)
        self._progress.refresh()

    def advance(self, steps: int = 1) -> None:
        """Advance the stage by some steps."""
        assert self._task is not None, "no stage was begun"
        self._progress.advance(self._task, steps)
        self._progress.refresh()

    def note(self, text: str) -> None:
        """Print a message for the user."""
        console.note(text)
