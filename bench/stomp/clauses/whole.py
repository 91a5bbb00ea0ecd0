"""Clauses about everything that a server sent while it was tried against all others; they come last."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Need, Section
from bench.stomp.raw import UnmetError
from bench.stomp.stage import Stage

__all__ = ["SECTION"]

SECTION: Final = Section("whole")
_SHOWN: Final = 3


@SECTION.clause(
    Need.MUST, "all frames of the server, in all checks, obey the grammar of the version", versions=EVERY_VERSION
)
def _grammar(stage: Stage) -> None:
    _none([*stage.record.flaws.get(stage.version, ())])


@SECTION.clause(Need.MUST, "after every ERROR, in all checks, the connection is closed", versions=SINCE_1_1)
def _errors_close(stage: Stage) -> str:
    _none([f"open after {each}" for each in stage.record.lingering.get(stage.version, ())])
    return f"{stage.record.errors.get(stage.version, 0)} errors"


def _none(found: list[str]) -> None:
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UnmetError("; ".join(found[:_SHOWN]) + more)
