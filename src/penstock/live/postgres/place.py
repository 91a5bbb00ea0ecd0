"""Where the PostgreSQL store of a broker is: a database that may have several servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from penstock.live.postgres.connecting import shown_url
from penstock.live.postgres.fenced import FencedConnection
from penstock.live.postgres.store import DatabaseStore
from penstock.live.stores import OnWait
from penstock.live.tenure import Tenure

__all__ = ["DatabasePlace"]

_AnyStore = TypeVar("_AnyStore", bound=DatabaseStore)


@dataclass(slots=True, frozen=True)
class DatabasePlace:
    """The database of a broker's store."""

    url: str = field(repr=False)
    overlay: str
    broker: str
    tenure: Tenure | None = None
    """The epoch that the caller holds; None to begin the next one, which ends a store that is open elsewhere."""
    replicas_min: int = 0
    """How many synchronous standbys must have a commit before it is durable."""
    answer_ms: int = 10_000
    """How long the database may take to answer before another connection is tried."""

    @property
    def shown(self) -> str:
        """The database, for people."""
        return shown_url(self.url)

    def open(self, on_wait: OnWait) -> DatabaseStore:
        """Open or make the store; raises ``StoreRefusedError`` if that may not be, or is not possible."""
        return self._opened(DatabaseStore, on_wait)

    def _opened(self, kind: type[_AnyStore], on_wait: OnWait) -> _AnyStore:
        connection = FencedConnection(
            self.url,
            self.overlay,
            self.broker,
            answer_ms=self.answer_ms,
            replicas_min=self.replicas_min,
            on_wait=on_wait,
        )
        connection.open(self.tenure)
        try:
            return kind(connection)
        except BaseException:
            connection.close()
            raise
