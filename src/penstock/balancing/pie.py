"""PIE, the load information that brokers publish, as attributes of the reserved space ([PADRES] section 3.2).

A local PIE message is one broker's, for the edges of its cluster; a global one is the average of a cluster, addressed
to each neighbouring head by name, so that it goes one cluster-hop and no further. A head without edges passes it on
once. What cannot be right (a load that is no number, a state that does not exist) is refused whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

from penstock.balancing.metrics import Load
from penstock.balancing.states import State
from penstock.model.errors import PeerError
from penstock.model.values import Attributes, AttributeValue

__all__ = ["LOAD_MAX", "PIE", "MalformedError", "Pie", "average", "is_name", "number_in", "text_in"]

PIE: Final = "PIE"
LOAD_MAX: Final = 1e6
"""Nobody is busier than this: whoever says so is not believed."""
_NAMES_MAX: Final = 10_000
_NAME_CHARS_MAX: Final = 200


class MalformedError(PeerError):
    """A control message of balancing that cannot be right."""


@dataclass(slots=True, frozen=True)
class Pie:
    """What one broker, or one cluster, says of its load."""

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
        """As attributes of a publication; a global one is addressed."""
        made: dict[str, AttributeValue] = {
            "$class": PIE,
            "$scope": "global" if self.is_global else "local",
            "$broker": self.broker,
            "$cluster": self.cluster,
            "$state": self.state.value,
            "$input": self.load.input,
            "$output": self.load.output,
            "$delay_s": self.load.delay_s,
            "$balanced": " ".join(self.balanced),
        }
        if self.is_global:
            made["$to"], made["$hops"] = to, self.hops
        return made

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Pie:
        """From a publication; raises ``MalformedError`` for what cannot be right."""
        try:
            state = State(attributes.get("$state"))
        except ValueError:
            raise MalformedError(f"state {attributes.get('$state')!r} does not exist") from None
        balanced = str(attributes.get("$balanced") or "").split()
        if len(balanced) > _NAMES_MAX:
            raise MalformedError(f"{len(balanced):,} names are over the limit of {_NAMES_MAX:,}")
        load = Load(*(number_in(attributes, name, high=LOAD_MAX) for name in ("$input", "$output", "$delay_s")))
        is_global = attributes.get("$scope") == "global"
        return cls(
            text_in(attributes, "$broker"),
            text_in(attributes, "$cluster"),
            state,
            load,
            tuple(balanced),
            is_global,
            int(number_in(attributes, "$hops", high=100)) if is_global else 0,
        )


def average(loads: Iterable[Load]) -> Load:
    """The load of a cluster: the mean of its edges'."""
    every = list(loads)
    count = max(len(every), 1)
    return Load(
        sum(each.input for each in every) / count,
        sum(each.output for each in every) / count,
        sum(each.delay_s for each in every) / count,
    )


def number_in(attributes: Mapping[str, object], name: str, *, high: float) -> float:
    """A number that is not negative and not above a limit."""
    value = attributes.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not 0 <= value <= high:
        raise MalformedError(f"{name} {value!r} is no number in 0 to {high:g}")
    return float(value)


def is_name(text: str) -> bool:
    """Whether a broker or a cluster can have this name: it becomes part of a selector, and is shown to operators."""
    return 0 < len(text) <= _NAME_CHARS_MAX and text.isprintable()


def text_in(attributes: Mapping[str, object], name: str) -> str:
    """A name."""
    value = attributes.get(name)
    if not isinstance(value, str) or not is_name(value):
        raise MalformedError(f"{name} {str(value)[:40]!r} is no name")
    return value
