"""``penstock match``: matches a file of selectors and a file of messages against each other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, BinaryIO, Final

import msgspec
import numpy as np
import numpy.typing as npt
import typer

from penstock.cli.console import console
from penstock.cli.match_inputs import STANDARD_INPUT, NamedSelector, Source, read_messages, read_selectors
from penstock.cli.match_work import Outcome, Task, Wanted, outcomes
from penstock.cli.progress import ProgressReporter
from penstock.model.errors import MisuseError

__all__ = ["EXAMPLES", "match"]

EXAMPLES = """
Selectors, one per line: SQL (`symbol = 'YHOO' AND volume > 15`), PADRES (`[symbol,eq,'YHOO'],[volume,>,15]`), a JSON
string, or a JSON object `{"id": "mine", "selector": "volume > 15"}`. Messages, one per line: flat JSON objects or
PADRES publications (`[symbol,'YHOO'],[volume,500]`); or a CSV file of quotes. Files may be gzipped; blank lines and
lines that begin with `#` are skipped.

Examples:

- `penstock match --selectors subscriptions.txt --messages messages.jsonl`
- `penstock match --selectors subscriptions.txt --messages quotes.csv.gz --count --jobs 2`
- `penstock quotes --count 1000 | penstock match --selectors subscriptions.txt --messages - --count --json`
"""


@dataclass(slots=True)
class _Totals:
    """Totals over all chunks."""

    selectors: list[NamedSelector]
    started_s: float = field(default_factory=time.perf_counter)
    messages: int = 0
    matches: int = 0
    counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.selectors), dtype=np.int64)

    def add(self, outcome: Outcome) -> None:
        self.messages += outcome.messages
        self.matches += outcome.matches
        if outcome.counts is not None:
            self.counts += outcome.counts

    def figures(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.started_s
        per_message_us = seconds / self.messages * 1e6 if self.messages else 0.0
        return {
            "messages": self.messages,
            "selectors": len(self.selectors),
            "matches": self.matches,
            "seconds": round(seconds, 3),
            "us_per_message": round(per_message_us, 2),
        }

    def tell(self) -> None:
        figures = self.figures()
        console.note(
            f"{self.messages:,} messages, {len(self.selectors):,} selectors, {self.matches:,} matches"
            f" in {figures['seconds']:.2f} s ({figures['us_per_message']:.1f} µs per message)"
        )


def match(
    *,
    selectors: Annotated[str, typer.Option(metavar="FILE", help="Selectors, one per line; `-` is standard input.")],
    messages: Annotated[str, typer.Option(metavar="FILE", help="Messages, one per line; `-` is standard input.")],
    count: Annotated[
        bool, typer.Option("--count", help="Print how often each selector matched, not every pair.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Processes; if not given, one per processor when the input is large."),
    ] = None,
) -> None:
    """Match selectors and messages: print pairs `message-number<TAB>selector`, or counts `selector<TAB>count`.

    Selectors are shown by id, or else by number; selectors and messages are numbered from 1.
    """
    if selectors == messages == STANDARD_INPUT:
        raise MisuseError("selectors and messages cannot both come from standard input")
    wanted = _wanted(count=count, as_json=as_json)
    totals = _Totals(read_selectors(Source(selectors)))
    with Source(messages).open() as stream, ProgressReporter(quiet_unless_terminal=True) as reporter:
        message_format, chunks = read_messages(Source(messages), stream)
        answers = outcomes(Task(totals.selectors, message_format, wanted), chunks, jobs)
        reporter.stage("matching", total=Source(messages).size_bytes())
        _PRINTERS[wanted](_added_up(answers, totals, stream, reporter))
    _print_end(totals, count=count, as_json=as_json)


def _wanted(*, count: bool, as_json: bool) -> Wanted:
    if count:
        return Wanted.COUNTS
    return Wanted.JSON_PAIRS if as_json else Wanted.PAIRS


def _added_up(
    answers: Iterator[Outcome], totals: _Totals, stream: BinaryIO, reporter: ProgressReporter
) -> Iterator[str]:
    """Yield the text of each answer, and update the totals and the progress bar."""
    read_bytes = 0
    for outcome in answers:
        totals.add(outcome)
        # The stream is closed once its last line was read, maybe before the last answer.
        if not stream.closed and stream.seekable():
            position = stream.tell()
            reporter.advance(position - read_bytes)
            read_bytes = position
        yield outcome.text


def _print_nothing(texts: Iterable[str]) -> None:
    for _ in texts:
        pass


def _print_pairs(texts: Iterable[str]) -> None:
    for text in filter(None, texts):
        console.line(text)


def _print_json_pairs(texts: Iterable[str]) -> None:
    console.write('{"pairs": [')
    between = "\n"
    for text in filter(None, texts):
        console.write(between + text)
        between = ",\n"
    console.write("\n],")


_PRINTERS: Final = {
    Wanted.COUNTS: _print_nothing,
    Wanted.PAIRS: _print_pairs,
    Wanted.JSON_PAIRS: _print_json_pairs,
}


def _print_end(totals: _Totals, *, count: bool, as_json: bool) -> None:
    counted = (
        list(zip((named.name for named in totals.selectors), totals.counts.tolist(), strict=True)) if count else []
    )
    if not as_json:
        console.write("".join(f"{name}\t{times}\n" for name, times in counted))
        totals.tell()
        return
    figures: dict[str, object] = {**totals.figures()}
    if count:
        figures["counts"] = [{"selector": name, "count": times} for name, times in counted]
    text = msgspec.json.format(msgspec.json.encode(figures), indent=1 if count else 0).decode()
    # The pairs, if any, have opened the object already.
    console.line(text if count else text.removeprefix("{"))
