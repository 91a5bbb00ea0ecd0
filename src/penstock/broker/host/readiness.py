"""Decides when a subscription is in force: when every broker on the path from every pubend knows of it.

After a change of its filter a host sends a probe up each pubend's tree. Control frames keep their order on a link, and
the change was flooded before the probe: every broker that forwards the probe has the change. The pubend answers with
its tick, down the tree: from that tick on the path includes the change. A subscription that a wider one covers changes
nothing, but has to wait for the wider one all the same. A pubend that does not answer in time is reported as pending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.broker.due import Due

__all__ = ["Readiness", "Waiting"]

_RETRY_MS = 500
"""How long until an unanswered probe is repeated, because links and routes may have changed."""


@dataclass(slots=True, frozen=True)
class Waiting:
    """A subscription that is not confirmed yet."""

    connection: int
    number: int
    version: int
    due_ms: int
    pubends: tuple[str, ...] = ()
    """The only pubends that have to confirm it; none for all."""


class Readiness:
    """The version of this broker's filter that each pubend has confirmed, and the subscriptions waiting for it."""

    def __init__(self, *, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._confirmed: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._waiting: deque[Waiting] = deque()
        """In order of arrival, which is also the order of their versions and deadlines."""
        self._narrowed: deque[Waiting] = deque()
        """Those to some pubends, in the same order: one may be ready before others that came earlier."""
        self._retry_ms: int | None = None
        self.due = Due(self.next_deadline)
        self._needed = -1
        """The version that subscriptions need, including those already confirmed with some pubends pending."""

    @property
    def is_waiting(self) -> bool:
        """Whether any subscription is not confirmed yet."""
        return bool(self._waiting or self._narrowed)

    @property
    def has_narrowed(self) -> bool:
        """Whether any subscription to some pubends only is not confirmed yet."""
        return bool(self._narrowed)

    def wait(self, connection: int, number: int, version: int, pubends: tuple[str, ...] = (), *, now_ms: int) -> None:
        """Adds a subscription that waits for this version of the filter, at some pubends or at all."""
        waiting = Waiting(connection, number, version, now_ms + self._wait_ms, pubends)
        (self._narrowed if pubends else self._waiting).append(waiting)
        self._needed = version
        if self._retry_ms is None:
            self._retry_ms = now_ms + _RETRY_MS
        self.due.by(now_ms + min(self._wait_ms, _RETRY_MS))

    def need(self, version: int) -> None:
        """Notes that this version of the filter is needed, though no client waits for it."""
        self._needed = max(self._needed, version)

    def confirm(self, pubend: str, version: int, tick: int) -> None:
        """A pubend has confirmed a version."""
        if version > self._confirmed.get(pubend, -1):
            self._confirmed[pubend] = version
            self._starts[pubend] = tick

    def start_tick(self, pubend: str) -> int:
        """The tick from which the path from a pubend includes the version it confirmed last."""
        return self._starts.get(pubend, 0)

    def drop(self, connection: int, number: int | None = None) -> None:
        """Drops a client that is gone, or one of its subscriptions."""
        self._waiting = _without(self._waiting, connection, number)
        self._narrowed = _without(self._narrowed, connection, number)

    def unconfirmed(self, pubends: list[str]) -> list[tuple[str, int]]:
        """The pubends to be probed, with the version to confirm."""
        needed = self._needed
        return [(pubend, needed) for pubend in pubends if self._confirmed.get(pubend, -1) < needed]

    def take_ready(
        self, pubends: list[str], *, now_ms: int, has_begun: Callable[[Waiting], bool] = lambda _: True
    ) -> list[tuple[Waiting, tuple[str, ...]]]:
        """Returns the subscriptions that need not wait any longer, each with the pubends that are pending."""
        ready: list[tuple[Waiting, tuple[str, ...]]] = []
        kept: list[Waiting] = []
        confirmed = [self._confirmed.get(pubend, -1) for pubend in pubends]
        by_all = min(confirmed, default=None)
        while self._waiting:
            first = self._waiting[0]
            if by_all is not None and by_all < first.version and now_ms < first.due_ms:
                break
            self._waiting.popleft()
            if now_ms < first.due_ms and not has_begun(first):
                kept.append(first)
                continue
            pending = [name for name, version in zip(pubends, confirmed, strict=True) if version < first.version]
            ready.append((first, tuple(pending)))
        self._waiting.extendleft(reversed(kept))
        return ready

    def take_ready_narrowed(
        self, awaited: Callable[[Waiting], list[str]], *, now_ms: int, has_begun: Callable[[Waiting], bool]
    ) -> list[tuple[Waiting, tuple[str, ...]]]:
        """Returns those to some pubends that need not wait any longer, given what each of them waits for."""
        ready: list[tuple[Waiting, tuple[str, ...]]] = []
        kept: deque[Waiting] = deque()
        for waiting in self._narrowed:
            names = awaited(waiting)
            pending = [name for name in names if self._confirmed.get(name, -1) < waiting.version]
            if now_ms < waiting.due_ms and (pending or not has_begun(waiting)):
                kept.append(waiting)
            else:
                ready.append((waiting, tuple(pending)))
        self._narrowed = kept
        return ready

    def next_deadline(self) -> int | None:
        """When to probe again, or to give up waiting."""
        wishes = [each[0].due_ms for each in (self._waiting, self._narrowed) if each]
        if self._retry_ms is not None:
            wishes.append(self._retry_ms)
        return min(wishes, default=None)

    def rest(self) -> None:
        """Stops retrying until something changes: all pubends have confirmed everything."""
        self._retry_ms = None

    def stir(self, *, now_ms: int) -> None:
        """Resumes retrying: pubends or paths have changed, and some may have to be probed."""
        if self._retry_ms is None and self._needed >= 0:
            self._retry_ms = now_ms + _RETRY_MS
            self.due.by(self._retry_ms)

    def is_time_to_retry(self, *, now_ms: int) -> bool:
        """Whether to probe again now."""
        if self._retry_ms is None or now_ms < self._retry_ms:
            return False
        self._retry_ms = now_ms + _RETRY_MS
        return True


def _without(waiting: deque[Waiting], connection: int, number: int | None) -> deque[Waiting]:
    return deque(each for each in waiting if each.connection != connection or number not in {None, each.number})
