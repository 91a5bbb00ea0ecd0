"""Says what we want of Penstock beside its peers, and whether the medians of a comparison are enough.

A target names rows by the titles of the full sizes, so that quick runs are judged only where their sizes are the same.
A verdict is for readers: a target that is missed does not make the command fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.peers.rounds import Row
from penstock.cli.console import shown_number

__all__ = ["TARGETS", "Figure", "Target", "Verdict", "targets_of", "verdicts"]

_OURS: Final = "Penstock"
_UNTRACKED: Final = "Penstock, nothing recorded"
_TOPICS: Final = "200 → 500, 5,000 messages/s"
_WORK: Final = "50,000 jobs, 8 workers"
_CLIENTS: Final = "100,000 messages"
_STOMP: Final = "Penstock by STOMP"


@dataclass(slots=True, frozen=True)
class Figure:
    """Where a figure is found: a row and a column of the comparison."""

    group: str
    workload: str
    contender: str
    name: str


@dataclass(slots=True, frozen=True)
class Target:
    """A bound on a figure of ours, or on its ratio to another one."""

    text: str
    ours: Figure
    bound: float
    other: Figure | None = None
    """What ours is divided by."""
    is_at_most: bool = False
    """Whether the bound is the highest value that is enough, and not the lowest."""

    @property
    def wanted(self) -> str:
        """The bound for people."""
        sign = "≤" if self.is_at_most else "≥"
        return f"{sign} {shown_number(self.bound)}{' ×' if self.other else ''}"


@dataclass(slots=True, frozen=True)
class Verdict:
    """What was measured for a target; None if a row is missing or has no valid round."""

    target: Target
    measured: float | None

    @property
    def word(self) -> str:
        """The verdict for people."""
        if self.measured is None:
            return "not measured"
        bound = self.target.bound
        is_met = self.measured <= bound if self.target.is_at_most else self.measured >= bound
        return "met" if is_met else "missed"


def verdicts(rows: Sequence[Row], targets: Sequence[Target] | None = None) -> list[Verdict]:
    """A verdict on each target, by default on all of ``TARGETS``, from the medians of these rows."""
    medians = {
        Figure(row.group, row.workload, row.contender, name): spread.median
        for row in rows
        for name, spread in row.figures.items()
    }
    return [Verdict(target, _measured(target, medians)) for target in (TARGETS if targets is None else targets)]


def _measured(target: Target, medians: Mapping[Figure, float]) -> float | None:
    ours = medians.get(target.ours)
    if target.other is None or ours is None:
        return ours
    other = medians.get(target.other)
    return ours / other if other else None


def _targets() -> Iterator[Target]:
    yield from _topic_targets()
    yield from _fan_out_targets()
    yield from _selector_targets()
    yield from _stomp_targets()
    yield from _durable_targets()
    yield from _work_targets()
    for service in ("best effort", "guaranteed"):
        yield Target(
            f"client library, {service}: messages/s beside nats-py",
            Figure("clients", _CLIENTS, f"penstock, {service}", "messages_per_s"),
            1.0,
            Figure("clients", _CLIENTS, "nats-py", "messages_per_s"),
        )


def _topic_targets() -> Iterator[Target]:
    cpu = Figure("topics", _TOPICS, _OURS, "cpu_us")
    for text, contender, bound in (
        ("topics: CPU beside NATS", "NATS", 1.0),
        ("topics: CPU beside mosquitto", "mosquitto", 1.8),
        ("topics: CPU beside nothing recorded", _UNTRACKED, 1.05),
    ):
        yield Target(text, cpu, bound, Figure("topics", _TOPICS, contender, "cpu_us"), is_at_most=True)
    yield Target("topics: p99 in ms", Figure("topics", _TOPICS, _OURS, "p99_ms"), 1.0, is_at_most=True)


def _fan_out_targets() -> Iterator[Target]:
    for count, bound in ((1, 500_000), (10, 3_000_000), (100, 3_000_000)):
        ours = Figure("fan-out", f"1 → {count}", _UNTRACKED, "deliveries_per_s")
        yield Target(f"fan-out 1 → {count}, nothing recorded: deliveries/s", ours, bound)
        if count > 1:
            nats = Figure("fan-out", f"1 → {count}", "NATS", "deliveries_per_s")
            yield Target(f"fan-out 1 → {count}, nothing recorded: deliveries/s beside NATS", ours, 0.9, nats)


def _selector_targets() -> Iterator[Target]:
    for workload, bound in (
        ("100 / 10", 5.0),
        ("1,000 / 10", 15.0),
        ("10,000 / 10", 60.0),
        ("10,000 / 10, no match", 300.0),
        ("1,000 / 1,000", 5.0),
    ):
        ours, other = (Figure("selectors", workload, each, "messages_per_s") for each in (_OURS, "ActiveMQ"))
        yield Target(f"selectors {workload}: messages/s beside ActiveMQ", ours, bound, other)


def _stomp_targets() -> Iterator[Target]:
    for workload, bound in (("100 / 10", 2.5), ("1,000 / 10", 8.0), ("10,000 / 10", 40.0)):
        ours, other = (Figure("stomp-selectors", workload, each, "messages_per_s") for each in (_STOMP, "ActiveMQ"))
        yield Target(f"STOMP, selectors {workload}: messages/s beside ActiveMQ", ours, bound, other)
    cpu, other_cpu = (Figure("stomp-topics", _TOPICS, each, "cpu_us") for each in (_STOMP, "ActiveMQ"))
    yield Target("STOMP, topics: CPU beside ActiveMQ", cpu, 1.0, other_cpu, is_at_most=True)
    held = Figure("stomp-connections", "1,000 / 1,000", _STOMP, "held")
    yield Target("STOMP: connections held", held, 1_000)


def _durable_targets() -> Iterator[Target]:
    for workload, bound in (("pipelined", 3.0), ("one message at a time", 1.0)):
        ours, other = (Figure("acknowledged", workload, each, "messages_per_s") for each in (_OURS, "RabbitMQ"))
        yield Target(f"acknowledged, {workload}: messages/s beside RabbitMQ", ours, bound, other)
    yield Target("topics, durable: p99 in ms", Figure("durable-topics", _TOPICS, _OURS, "p99_ms"), 8.0, is_at_most=True)


def _work_targets() -> Iterator[Target]:
    jobs, jobs_of_rabbit = (Figure("work", _WORK, each, "jobs_per_s") for each in (_OURS, "RabbitMQ"))
    yield Target("work queue: jobs/s beside RabbitMQ", jobs, 1.0, jobs_of_rabbit)
    cpu, cpu_of_rabbit = (Figure("work", _WORK, each, "cpu_us") for each in (_OURS, "RabbitMQ"))
    yield Target("work queue: CPU beside RabbitMQ", cpu, 1.0, cpu_of_rabbit, is_at_most=True)


def targets_of(groups: Collection[str]) -> list[Target]:
    """The targets about these groups."""
    return [each for each in TARGETS if each.ours.group in groups]


TARGETS: Final = tuple(_targets())
"""Everything we want, in the order of the tables."""
