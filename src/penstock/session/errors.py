"""The errors that a client raises when it talks to a broker.

PenstockError
└── ClientError
    ├── AddressError             the address is invalid (also a MisuseError)
    ├── ClientClosedError        the client or subscription was closed before (also a MisuseError)
    ├── ConnectionFailedError    no broker could be reached, or the connection was lost
    ├── ForkedError              the client was opened before a fork, by another process (also a MisuseError)
    ├── RefusedError             the broker refused a request, and said why
    │   └── TakenOverError       somebody else uses the durable subscription now, or has had it forgotten
    └── WouldBlockError          the publish window is full, and the caller did not want to wait
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError
from penstock.model.message_id import MessageId

__all__ = [
    "AddressError",
    "ClientClosedError",
    "ClientError",
    "ConnectionFailedError",
    "ForkedError",
    "RefusedError",
    "TakenOverError",
    "WouldBlockError",
]


class ClientError(PenstockError):
    """Base class of what a client raises on purpose, except for errors in a message or a selector."""


class AddressError(ClientError, MisuseError):
    """The address of a broker is invalid."""


class ClientClosedError(ClientError, MisuseError):
    """The client, or the subscription, has been closed."""


class ConnectionFailedError(ClientError):
    """No broker could be reached, or the connection to it was lost.

    If published messages may be lost, ``count`` says how many; ``messages`` names them, or the first of very many.
    """

    def __init__(self, problem: str, *, messages: tuple[MessageId, ...] = (), count: int = 0) -> None:
        super().__init__(problem)
        self.messages, self.count = messages, count


class ForkedError(ClientError, MisuseError):
    """The client was opened before a fork, in the parent process; each process must open its own."""


class RefusedError(ClientError):
    """The broker refused a request; ``reason`` is what it said.

    If published messages were refused, ``count`` says how many; ``messages`` names them, or the first of very many,
    with the reason of each.
    """

    def __init__(
        self, request: str, reason: str, *, messages: tuple[tuple[MessageId, str], ...] = (), count: int = 0
    ) -> None:
        super().__init__(f"the broker refused to {request}: {reason}")
        self.request, self.reason = request, reason
        self.messages, self.count = messages, count


class TakenOverError(RefusedError):
    """Somebody else has subscribed under the same durable name, or has had it forgotten."""


class WouldBlockError(ClientError):
    """The publish window is full, or there is no connection at the moment."""
