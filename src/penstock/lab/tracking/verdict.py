"""Judges traces by what is known to be true ([Tracking] sections 3.3 and 4.3).

Everything that is true must be found, unless the answer says that something is missing there. False findings must be as
rare as the filters promise: each broker that was asked in vain, and each subscriber that cannot have wanted the
message, is a chance to be wrong, and the answer gives its probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

from penstock.tracking.answers import BrokerAnswer, Evidence, Trace

__all__ = ["Chances", "TracingVerdict", "Truth"]

_UNSURE: Final = (Evidence.GAP, Evidence.UNKNOWN)


@dataclass(slots=True)
class Truth:
    """What really happened to one message."""

    hops: list[str]
    """Brokers that had the message."""
    receivers: list[tuple[str, str]]
    """Broker and name of each client that it reached."""
    unwanted: Sequence[tuple[str, str]] = ()
    """Broker and name of each client that cannot have received it, as it did not ask for it."""


@dataclass(slots=True)
class Chances:
    """Chances to be wrong, and the actual errors."""

    count: int = 0
    wrong: int = 0
    predicted: float = 0.0
    """The expected number of errors, by the filters' own account."""
    variance: float = 0.0
    """Variance of the difference, estimated by trace: brokers that had the same messages err together."""

    def add_trace(self, probabilities: Sequence[float], wrong: int) -> None:
        """Add a trace with these probabilities of errors, and its number of actual errors."""
        predicted = sum(probabilities)
        self.count += len(probabilities)
        self.wrong += wrong
        self.predicted += predicted
        self.variance += (wrong - predicted) ** 2

    @property
    def standard_error(self) -> float:
        """How far the number of errors may be off by chance."""
        return sqrt(self.variance)

    @property
    def standard_errors(self) -> float:
        """How many standard errors the number of errors is above the prediction."""
        return (self.wrong - self.predicted) / self.standard_error if self.variance else 0.0


@dataclass(slots=True)
class TracingVerdict:
    """The verdict on many traces."""

    traced: int = 0
    hops: int = 0
    """Brokers that really had the messages."""
    receivers: int = 0
    """Clients that messages really reached."""
    excused: int = 0
    """Hops and receivers that were not found, where the answer says that records are missing."""
    extra_hops: int = 0
    """Brokers that were found, but never had the message."""
    extra_receivers: int = 0
    """Clients that were found, but the message never reached: false, or lost on the way to the client."""
    expected: float = 0.0
    """The most false positives that the answers admit."""
    incomplete: int = 0
    """Answers that say that something may be missing."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Traces that name a gap, by its reason."""
    claims: Chances = field(default_factory=Chances)
    """Brokers that never had a message, and whether they claim it."""
    deliveries: Chances = field(default_factory=Chances)
    """Subscribers who never wanted a message, at brokers that had it, and whether they are named as receivers."""
    refused: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    """Hops and receivers that are true, but neither found nor excused: there must be none."""

    def judge(self, trace: Trace, truth: Truth, answers: Iterable[BrokerAnswer] = ()) -> None:
        """Judge a trace; the answers are those of single brokers, from which it was made."""
        found, told = set(trace.routed_by), set(trace.receivers)
        unsure = {*trace.unreachable, *(hop.broker for hop in trace.hops if hop.claim in _UNSURE)}
        untold = {hop.broker for hop in trace.hops if hop.answer is not None and hop.answer.delivered in _UNSURE}
        self.traced += 1
        self.hops += len(truth.hops)
        self.receivers += len(truth.receivers)
        self.incomplete += not trace.is_complete
        self.expected += trace.error_probability
        for reason in {gap.reason for gap in trace.gaps}:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        for broker in truth.hops:
            if broker not in found:
                self._miss(broker in unsure, f"{trace.message_id} was at {broker}")
        for broker, client in truth.receivers:
            if (broker, client) not in told:
                self._miss(broker in unsure | untold, f"{trace.message_id} reached {client} at {broker}")
        self.extra_hops += len(found - set(truth.hops))
        self.extra_receivers += len(told - set(truth.receivers))
        self._weigh(list(answers), truth)

    def _miss(self, is_excused: bool, what: str) -> None:
        if is_excused:
            self.excused += 1
        else:
            self.misses.append(what)

    def _weigh(self, answers: list[BrokerAnswer], truth: Truth) -> None:
        """Count the chances that brokers had to be wrong."""
        elsewhere = [each for each in answers if each.broker not in truth.hops and each.claim not in _UNSURE]
        wrong = sum(each.claim is Evidence.YES for each in elsewhere)
        self.claims.add_trace([each.path_fpp for each in elsewhere], wrong)
        there = [each for each in answers if each.broker in truth.hops and each.claim is Evidence.YES]
        chances = [
            # The answer gives the probability that any of the clients it checked is named by chance.
            (1 - (1 - each.delivery_fpp) ** (1 / each.receivers_checked), client in each.receivers)
            for each in there
            for broker, client in truth.unwanted
            if broker == each.broker and each.receivers_checked
        ]
        self.deliveries.add_trace([fpp for fpp, _ in chances], sum(wrong for _, wrong in chances))
