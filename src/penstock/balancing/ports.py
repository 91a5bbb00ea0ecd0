"""What balancing asks of the broker around it, and what it answers with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from penstock.balancing.offload.instance import Profile
from penstock.model.values import AttributeValue
from penstock.selectors.selector import Selector

__all__ = ["BalancedHost", "Command", "MayGo", "Note", "Publish"]

MayGo: TypeAlias = Callable[[str], bool]
"""Whether a client may move to the partner."""


@dataclass(slots=True, frozen=True)
class Publish:
    """Publish this in the reserved space, best effort and ahead of data."""

    attributes: dict[str, AttributeValue]
    payload: bytes = b""


@dataclass(slots=True, frozen=True)
class Note:
    """Something that an operator may want to read."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


Command: TypeAlias = Publish | Note


class BalancedHost(Protocol):
    """The broker, as balancing sees it."""

    @property
    def address(self) -> str:
        """Where clients find it."""

    def covering_set(self, count_max: int) -> tuple[str, ...]:
        """The covering set of what its clients want, without the reserved space."""

    def begin_sampling(self, covering: Sequence[Selector], samples_max: int, may_go: MayGo) -> None:
        """Record from now on which interests want which publications."""

    def is_sampled(self) -> bool:
        """Whether all samples are taken."""

    def end_sampling(self) -> Profile:
        """What was recorded."""

    def client_of(self, connection: int) -> str:
        """The client of a connection."""

    def move(self, connections: Sequence[int], broker: str, address: str, session: int, *, now_ms: int) -> int:
        """Tell these clients to move; answers with how many were told."""

    def watch(self, clusters: Sequence[str]) -> None:
        """Hear the local PIE messages of these clusters, besides those of its own."""
