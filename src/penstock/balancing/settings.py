"""All parameters of balancing, with their units, checked on construction ([PADRES] sections 3 to 5).

The defaults are the paper's where it gives one. Those it leaves open (intervals, timeouts, bounds) are marked as ours.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, get_args

from penstock.model.errors import MisuseError
from penstock.model.names import is_plain_name
from penstock.model.values import RESERVED_PREFIX

__all__ = ["BalancingError", "BalancingSettings", "DelayModel", "Role"]

Role: TypeAlias = Literal["", "head", "edge"]
DelayModel: TypeAlias = Literal["fitted", "proportional"]


class BalancingError(MisuseError):
    """A parameter of balancing has a value that cannot work."""


def _is(default: bool | float | str, about: str, *, unit: str = "", low: float = 0, high: float = 1e12) -> Any:
    """A parameter with its help text, unit and range, both ends included."""
    return field(default=default, metadata={"unit": unit, "help": about, "low": low, "high": high})


@dataclass(slots=True, frozen=True)
class BalancingSettings:
    """The parameters of balancing at one broker."""

    is_on: bool = _is(default=False, about="whether this broker takes part in balancing")
    cluster: str = _is("", "the cluster it belongs to; empty: that of its only neighbour, or its own")
    role: str = _is("", "head or edge; empty: head if it is configured with more than one neighbour")
    heads: str = _is(
        "heads", "at a head, the group of heads that it shares its own clients with; empty: it keeps them (ours)"
    )
    output_bandwidth: int = _is(
        125_000_000, "what it can send to its clients, all together", unit="bytes/s", low=1, high=1e12
    )

    lower_overload: float = _is(0.90, "a utilisation above this: nothing is accepted", low=0.01, high=1.0)
    higher_overload: float = _is(0.95, "a utilisation above this: balance now", low=0.01, high=1.0)
    local_ratio_trigger: float = _is(0.1, "difference of utilisations in a cluster that is balanced", low=1e-3, high=1)
    local_delay_trigger: float = _is(
        0.1, "difference of normalised matching delays in a cluster that is balanced", low=1e-3, high=100
    )
    global_ratio_trigger: float = _is(0.15, "difference of utilisations between clusters", low=1e-3, high=1)
    global_delay_trigger: float = _is(
        0.15, "difference of normalised matching delays between clusters", low=1e-3, high=100
    )
    delay_norm_s: float = _is(0.1, "matching delays are compared as shares of this (N_f)", unit="s", low=1e-6)
    balance_threshold: float = _is(0.005, "a metric that differs by no more is balanced", low=1e-6, high=1)
    guard_share: float = _is(
        0.5, "steps may drive another metric apart freely up to this share of its trigger (ours)", high=1.0
    )
    inert_ms: int = _is(
        60_000, "time above the lower overload threshold after which it counts as the higher one (ours)", unit="ms"
    )
    stabilize_ms: int = _is(30_000, "after a session, no other for so long", unit="ms")
    stabilize_share: float = _is(
        0.05, "after a session, wait until no metric moves by more than this between detections", low=1e-3, high=10
    )

    samples_max: int = _is(50, "publications that PRESS samples (N)", low=1, high=100_000)
    sample_ms: int = _is(30_000, "the longest that it samples (T)", unit="ms", low=10)
    delay_model: str = _is("fitted", "matching delay over subscriptions: fitted line, or proportional as in the paper")

    measure_ms: int = _is(1_000, "between two measurements (ours)", unit="ms", low=10)
    smoothing_ms: int = _is(15_000, "what metrics are averaged over (ours)", unit="ms", low=10)
    detection_ms: int = _is(5_000, "between two runs of the detection (ours)", unit="ms", low=10)
    pie_ms: int = _is(10_000, "between two PIE messages (ours)", unit="ms", low=10)
    peer_ms: int = _is(35_000, "how long before a silent peer is forgotten (ours)", unit="ms", low=10)
    reply_ms: int = _is(5_000, "the longest wait for an answer (ours)", unit="ms", low=1)
    migration_ms: int = _is(500, "the longest wait for subscribers to arrive, for each of them", unit="ms", low=1)
    global_session_ms: int = _is(300_000, "the longest session of two clusters (ours)", unit="ms", low=10)
    fruitless_ms: int = _is(120_000, "how long not to ask a partner again after a fruitless session (ours)", unit="ms")
    return_ms: int = _is(600_000, "how long a subscriber is not sent back to a broker it left (ours)", unit="ms")
    moves_max: int = _is(10_000, "subscribers that move in one session (ours)", low=1, high=1_000_000)
    covering_max: int = _is(
        10_000, "most conjunctions of a covering set sent to a partner (ours)", low=1, high=1_000_000
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each, getattr(self, each.name))
        if self.lower_overload > self.higher_overload:
            raise BalancingError(
                f"lower_overload {self.lower_overload} is above higher_overload {self.higher_overload}"
            )
        if self.role not in get_args(Role):
            raise BalancingError(f"role is {self.role!r}, must be head, edge or empty")
        if self.cluster.startswith(RESERVED_PREFIX):
            raise BalancingError(
                f"cluster is {self.cluster!r}, must not begin with {RESERVED_PREFIX}: that is for groups of heads"
            )
        if self.heads and not is_plain_name(self.heads):
            raise BalancingError(
                f"heads is {self.heads!r}, must be empty or letters, digits, dots, hyphens, underscores"
            )
        if self.delay_model not in get_args(DelayModel):
            raise BalancingError(
                f"delay_model is {self.delay_model!r}, must be one of {', '.join(get_args(DelayModel))}"
            )
        if self.peer_ms < 2 * self.pie_ms:
            raise BalancingError(f"peer_ms {self.peer_ms} is less than two PIE intervals of {self.pie_ms} ms")
        if self.smoothing_ms < self.measure_ms:
            raise BalancingError(f"smoothing_ms {self.smoothing_ms} is less than measure_ms {self.measure_ms}")

    def role_of(self, degree: int) -> str:
        """The role of a broker configured with this many neighbours."""
        return self.role or ("head" if degree > 1 else "edge")

    def cluster_of(self, name: str, neighbours: tuple[str, ...]) -> str:
        """The cluster of a broker configured with these neighbours."""
        if self.cluster:
            return self.cluster
        return neighbours[0] if self.role_of(len(neighbours)) == "edge" and neighbours else name

    @property
    def group(self) -> str:
        """The name under which heads of a group report their own loads; empty without a group.

        It takes the place of a cluster in their messages, and no cluster can have such a name.
        """
        return f"{RESERVED_PREFIX}{self.heads}" if self.heads else ""


_KINDS: Final[dict[str, tuple[type, ...]]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}


def _check(each: Field[Any], value: object) -> None:
    if type(value) not in _KINDS[str(each.type)]:
        raise BalancingError(f"{each.name} is {value!r}, must be of type {each.type}")
    if isinstance(value, bool | str):
        return
    assert isinstance(value, int | float)
    low, high = each.metadata["low"], each.metadata["high"]
    if not isfinite(value) or not low <= value <= high:
        raise BalancingError(f"{each.name} is {value}, must be {low:g} to {high:g} {each.metadata['unit']}".rstrip())
