"""The interface of balancing to its broker: the queries it makes and the commands it returns."""

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
    """An event that an operator may want to read about."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


Command: TypeAlias = Publish | Note


class BalancedHost(Protocol):
    """The broker, as balancing sees it."""

    @property
    def address(self) -> str:
        """Where clients reach the broker."""

    def covering_set(self, count_max: int) -> tuple[str, ...]:
        """The covering set of its clients' subscriptions, without the reserved space."""

    def has_movable(self) -> bool:
        """Whether any of its clients could move to another broker."""

    def begin_sampling(self, covering: Sequence[Selector], samples_max: int, may_go: MayGo) -> None:
        """Start recording which interests want which publications."""

    def is_sampled(self) -> bool:
        """Whether all samples are taken."""

    def end_sampling(self) -> Profile:
        """Stop sampling; returns what was recorded."""

    def client_of(self, connection: int) -> str:
        """The client of a connection."""

    def move(self, connections: Sequence[int], broker: str, address: str, session: int, *, now_ms: int) -> int:
        """Tell these clients to move; returns how many were told."""

    def watch(self, clusters: Sequence[str]) -> None:
        """Listen to the local PIE messages of these clusters, besides those of its own."""
