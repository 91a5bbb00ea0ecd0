"""Holds what came out for every clause at every server, and shows it: on the terminal, as Markdown, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bench.stomp.clause import Need, State, Verdict
from bench.stomp.explanations import EXPLANATIONS, explanation
from penstock.cli.console import console, printable

__all__ = ["Row", "Table"]

_INTRODUCTION: Final = (
    "# STOMP, clause by clause",
    "",
    "Each row is a sentence of the specifications of STOMP 1.0, 1.1 and 1.2 or, where it begins with `extension`, what",
    "users of other brokers expect besides. It is tried with raw sockets (rows that begin with a version), then with",
    "client libraries. `python -m bench.stomp.conformance --activemq --penstock --markdown FILE` makes this page.",
    "",
)


@dataclass(slots=True)
class Row:
    """One clause, by raw sockets or by a library, and what came out."""

    identifier: str
    need: Need
    text: str
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By server."""


class Table:
    """All rows of a run."""

    def __init__(
        self, servers: Sequence[str], *, known: Mapping[tuple[str, str], str] = EXPLANATIONS, about: Sequence[str] = ()
    ) -> None:
        self.servers = tuple(servers)
        self.rows: dict[str, Row] = {}
        self.about = list(about)
        """Lines on when and where this was, and what was left out."""
        self._known = known

    def add(self, identifier: str, need: Need, text: str) -> None:
        """A row without verdicts."""
        self.rows.setdefault(identifier, Row(identifier, need, text))

    def set(self, identifier: str, server: str, verdict: Verdict) -> None:
        """What came out."""
        self.rows[identifier].verdicts[server] = verdict

    def explained(self, identifier: str) -> str:
        """Why servers fail here, as far as somebody has said so."""
        told = {name: explanation(identifier, name, self._known) for name in self._failing(self.rows[identifier])}
        return " ".join(f"{name}: {text}" for name, text in told.items() if text)

    def unexplained(self, server: str) -> list[str]:
        """The clauses that fail at a server, and nobody has said why."""
        failing = [row.identifier for row in self.rows.values() if server in self._failing(row)]
        return [each for each in failing if not explanation(each, server, self._known)]

    def needless(self) -> list[tuple[str, str]]:
        """Explanations of failures that do not happen, where all clauses they speak of were tried."""
        used = {(identifier, name) for identifier, row in self.rows.items() for name in self._failing(row)}
        tried = {(row.identifier, name) for row in self.rows.values() for name in row.verdicts}
        return [key for key in self._known if key in tried and key not in used]

    def counts(self, server: str) -> dict[str, int]:
        """How often each thing came out."""
        counted = Counter(row.verdicts[server].state.value for row in self.rows.values() if server in row.verdicts)
        return {state.value: counted[state.value] for state in State}

    def show(self) -> None:
        """Print everything to the terminal."""
        columns = dict.fromkeys(("clause", "need", "what must hold", *self.servers, "difference explained"), "left")
        console.table("STOMP conformance", columns, iter(self._cells()))
        for line in self.summary():
            console.line(line)

    def summary(self) -> list[str]:
        """What came out, in a line for each server."""
        lines = list(self.about)
        for server in self.servers:
            counts = ", ".join(f"{number} {state}" for state, number in self.counts(server).items() if number)
            unexplained = len(self.unexplained(server))
            lines.append(
                f"{server}: {counts or 'nothing tried'}" + (f"; {unexplained} unexplained" if unexplained else "")
            )
        return lines

    def markdown(self) -> str:
        """The table as a page of the manual."""
        heading = ["clause", "need", "what must hold", *self.servers, "difference explained"]
        lines = [*_INTRODUCTION, *(f"- {line}" for line in self.summary())]
        lines += ["", _line(heading), _line(["---"] * len(heading))]
        lines += [_line(map(_markdown_cell, cells)) for cells in self._cells()]
        return "\n".join(lines) + "\n"

    def json_text(self) -> str:
        """The table for programs."""
        rows = [
            {
                "clause": row.identifier,
                "need": row.need.value,
                "text": row.text,
                "verdicts": {
                    name: {
                        "state": verdict.state.value,
                        "seen": verdict.seen,
                        "explanation": explanation(row.identifier, name, self._known) if self._fails(verdict) else "",
                    }
                    for name, verdict in row.verdicts.items()
                },
            }
            for row in self.rows.values()
        ]
        content = {"about": self.about, "counts": {each: self.counts(each) for each in self.servers}, "clauses": rows}
        return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.rows.values():
            verdicts = [str(row.verdicts.get(server, "-")) for server in self.servers]
            yield (row.identifier, row.need.value, row.text, *verdicts, self.explained(row.identifier))

    def _failing(self, row: Row) -> list[str]:
        return [name for name, verdict in row.verdicts.items() if self._fails(verdict)]

    @staticmethod
    def _fails(verdict: Verdict) -> bool:
        return verdict.state is State.FAILED


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(text: str) -> str:
    """A text that neither ends its cell nor is taken for markup.

    >>> _markdown_cell("a|b\\n<c>")
    'a\\\\|b &lt;c>'
    """
    shown = printable(text).replace("\n", " ").replace("<", "&lt;")
    for special in ("|", "*", "_", "`"):
        shown = shown.replace(special, f"\\{special}")
    return shown
