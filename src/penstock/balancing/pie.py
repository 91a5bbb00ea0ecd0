"""PIE messages: the load that brokers publish, as attributes in the reserved space ([PADRES] section 3.2).

A local PIE message has one broker's load, for the edges of its cluster; a global one has the average of a cluster,
addressed to each neighbouring head by name, so that it goes one cluster-hop and no further. A head without edges passes
it on once. A message with an invalid field (a load that is no number, an unknown state) is refused whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

from penstock.balancing.metrics import Load
from penstock.balancing.states import State
from penstock.model.errors import PeerError
from penstock.model.metrics import BALANCED
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue

__all__ = ["LOAD_MAX", "PIE", "MalformedError", "Pie", "average", "is_cluster", "is_name", "number_in", "text_in"]

PIE: Final = "PIE"
LOAD_MAX: Final = 1e6
"""The highest plausible load; a message that claims more is refused."""
_BALANCED_CHARS_MAX: Final = 16_384
"""Most characters of the names that a PIE message has: brokers keep one of each of a thousand peers."""
_NAME_CHARS_MAX: Final = 200


class MalformedError(PeerError):
    """A control message of balancing is invalid."""


@dataclass(slots=True, frozen=True)
class Pie:
    """The load that one broker or cluster reports."""

    broker: str
    cluster: str
    state: State
    load: Load
    balanced: tuple[str, ...] = ()
    """The edges it is balanced with."""
    is_global: bool = False
    hops: int = 0
    """Heads without edges that have passed it on."""

    def attributes(self, to: str = "") -> dict[str, AttributeValue]:
        """The message as attributes of a publication; a global one is addressed."""
        made: dict[str, AttributeValue] = {
            "$class": PIE,
            "$scope": "global" if self.is_global else "local",
            "$broker": self.broker,
            "$cluster": self.cluster,
            "$state": self.state.value,
            **{f"${each.key}": each.of(self.load) for each in BALANCED},
            "$balanced": _joined(self.balanced),
        }
        if self.is_global:
            made["$to"], made["$hops"] = to, self.hops
        return made

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Pie:
        """Reads a PIE message from a publication; raises ``MalformedError`` if it is invalid."""
        try:
            state = State(attributes.get("$state"))
        except ValueError:
            raise MalformedError(f"state {attributes.get('$state')!r} does not exist") from None
        names = str(attributes.get("$balanced") or "")
        if len(names) > _BALANCED_CHARS_MAX:
            raise MalformedError(f"names of {len(names):,} characters are over the limit of {_BALANCED_CHARS_MAX:,}")
        load = Load(**{each.key: number_in(attributes, f"${each.key}", high=LOAD_MAX) for each in BALANCED})
        is_global = attributes.get("$scope") == "global"
        return cls(
            text_in(attributes, "$broker"),
            text_in(attributes, "$cluster"),
            state,
            load,
            tuple(names.split()),
            is_global,
            int(number_in(attributes, "$hops", high=100)) if is_global else 0,
        )


def _joined(names: Iterable[str]) -> str:
    """As many of the names as a message may have."""
    found = ""
    for name in names:
        longer = f"{found} {name}" if found else name
        if len(longer) > _BALANCED_CHARS_MAX:
            break
        found = longer
    return found


def average(loads: Iterable[Load]) -> Load:
    """The load of a cluster: the mean over its edges."""
    every = list(loads)
    count = max(len(every), 1)
    return Load(**{each.key: sum(map(each.of, every)) / count for each in BALANCED})


def number_in(attributes: Mapping[str, object], name: str, *, high: float) -> float:
    """A number among the attributes, from 0 to a limit."""
    value = attributes.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not 0 <= value <= high:
        raise MalformedError(f"{name} {value!r} is no number in 0 to {high:g}")
    return float(value)


def is_name(text: str) -> bool:
    """Whether a broker or a cluster can have this name: it becomes part of a selector, and is shown to operators."""
    return 0 < len(text) <= _NAME_CHARS_MAX and text.isprintable()


def is_cluster(text: str) -> bool:
    """Whether a cluster of edges can have this name; those of groups of heads begin with a dollar sign."""
    return is_name(text) and not text.startswith(RESERVED_PREFIX)


def text_in(attributes: Mapping[str, object], name: str) -> str:
    """A name among the attributes."""
    value = attributes.get(name)
    if not isinstance(value, str) or not is_name(value):
        raise MalformedError(f"{name} {str(value)[:40]!r} is no name")
    return value
