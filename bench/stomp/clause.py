"""What a clause of the STOMP specifications is, and what can come out when a server is tried against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bench.stomp.raw import UnmetError
from bench.stomp.stage import NotApplicableError, SkippedError, Stage

__all__ = ["EVERY_VERSION", "EXTENSION", "SINCE_1_1", "Check", "Clause", "Need", "Section", "State", "Verdict", "judge"]

EVERY_VERSION: Final = ("1.2", "1.1", "1.0")
SINCE_1_1: Final = ("1.2", "1.1")
EXTENSION: Final = "extension"
"""Stands for the version in the identifier of what no specification says."""

Check = Callable[[Stage], str | None]
"""Tries one clause: returns what it saw, if that is worth telling; raises ``UnmetError`` if the clause is broken."""


class Need(Enum):
    """How strongly a clause binds a server."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"
    EXTENSION = "extension"


class State(Enum):
    """What came out."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"


@dataclass(slots=True, frozen=True)
class Verdict:
    """What came out for one clause at one server."""

    state: State
    seen: str = ""

    def __str__(self) -> str:
        return f"{self.state.value}: {self.seen}" if self.seen else self.state.value


@dataclass(slots=True, frozen=True)
class Clause:
    """One thing that must hold."""

    identifier: str
    """Version, section and short name, as ``1.2/ack/cumulative``."""
    need: Need
    text: str
    """One sentence that says what must hold."""
    check: Check
    version: str = "1.2"
    """The version that the check speaks."""


class Section:
    """Clauses about one subject, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.clauses: list[Clause] = []

    def clause(self, need: Need, text: str, *, versions: Sequence[str] = ("1.2",)) -> Callable[[Check], Check]:
        """Register a check under the name of its function, once for each version."""

        def register(check: Check) -> Check:
            self.add(check.__name__.removeprefix("_").replace("_", "-"), need, text, check, versions=versions)
            return check

        return register

    def add(self, name: str, need: Need, text: str, check: Check, *, versions: Sequence[str] = ("1.2",)) -> None:
        """Register a check, once for each version."""
        for version in versions:
            spoken = "1.2" if version == EXTENSION else version
            self.clauses.append(Clause(f"{version}/{self.name}/{name}", need, text, check, spoken))


def judge(clause: Clause, stage: Stage) -> Verdict:
    """Try a clause."""
    try:
        return Verdict(State.PASSED, clause.check(stage) or "")
    except NotApplicableError as reason:
        return Verdict(State.NOT_APPLICABLE, str(reason))
    except SkippedError as reason:
        return Verdict(State.SKIPPED, str(reason))
    except UnmetError as error:
        return Verdict(State.FAILED, str(error))
    except (ArithmeticError, LookupError, OSError, ValueError) as error:
        # What the server sent was so odd that the check itself broke.
        return Verdict(State.FAILED, f"the check broke: {error!r}")
    finally:
        stage.close()
