"""Merges what the candidates of pubends say: who runs each home, in which epoch, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.protocol.status import BrokerStatus, CandidacyStatus

__all__ = ["HOLDINGS", "Holding", "holding_of", "holding_rows", "holdings", "problem_lines", "shown_replicas"]

HOLDINGS: Final = {
    "pubend": "left",
    "candidates": "left",
    "runs at": "left",
    "epoch": "right",
    "replicas": "right",
    "problem": "left",
}


@dataclass(slots=True, frozen=True)
class Holding:
    """A pubend with candidates, as all of them together see it."""

    pubend: str
    candidates: tuple[str, ...] = ()
    """In order of preference."""
    holder: str = ""
    """The candidate that says it runs the home; empty if none does."""
    heard: str = ""
    """The candidate that others believe to run the home, if none says so itself and that one did not answer."""
    epoch: int = 0
    replicas: int = -1
    """How many synchronous standbys each commit waits for; -1 if unknown."""
    wanted: str = ""
    """The candidate to which the home is about to move; empty for none."""
    held_back: str = ""
    """Why publishers have to wait; empty if they do not."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why candidates could not reach the database or run the home the last time, by candidate."""


def holdings(statuses: Mapping[str, BrokerStatus]) -> list[Holding]:
    """All pubends with candidates, from statuses by broker."""
    told: dict[str, dict[str, CandidacyStatus]] = {}
    for broker, status in statuses.items():
        for each in status.candidacies:
            told.setdefault(each.pubend, {})[broker] = each
    return [holding_of(pubend, by_broker) for pubend, by_broker in sorted(told.items())]


def holding_of(pubend: str, told: Mapping[str, CandidacyStatus]) -> Holding:
    """What candidates say about one pubend, by candidate."""
    first = next(iter(told.values()), CandidacyStatus(pubend))
    # Two may claim it if they were asked at different times: the later epoch counts.
    running = max((name for name, each in told.items() if each.epoch), key=lambda name: told[name].epoch, default="")
    best = told.get(running, CandidacyStatus(pubend))
    heard = "" if running else next((each.holder for each in told.values() if each.holder not in ("", *told)), "")
    return Holding(
        pubend,
        candidates=tuple(first.candidates),
        holder=running,
        heard=heard,
        epoch=best.epoch,
        replicas=best.replicas,
        wanted=next((each.wanted for each in told.values() if each.wanted not in ("", running)), ""),
        held_back=best.held_back,
        problems={name: each.problem for name, each in told.items() if each.problem},
    )


def holding_rows(found: Sequence[Holding]) -> Iterator[tuple[str, ...]]:
    """A row for each pubend with candidates."""
    for each in found:
        epoch = str(each.epoch) if each.epoch else ""
        problem = "\n".join(problem_lines(each))
        yield each.pubend, "\n".join(each.candidates), _where(each), epoch, shown_replicas(each.replicas), problem


def shown_replicas(replicas: int) -> str:
    """A number of replicas; empty if it is unknown."""
    return str(replicas) if replicas >= 0 else ""


def problem_lines(holding: Holding) -> list[str]:
    """Why publishers wait, and what is wrong at which candidate."""
    waiting = [f"publishers wait: {holding.held_back}"] if holding.held_back else []
    return [*waiting, *(f"{name}: {problem}" for name, problem in holding.problems.items())]


def _where(holding: Holding) -> str:
    at = holding.holder or (f"{holding.heard}, not asked" if holding.heard else "nobody")
    return f"{at}, moves to {holding.wanted}" if holding.wanted else at
