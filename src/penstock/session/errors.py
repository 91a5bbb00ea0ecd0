"""The errors that a client raises when it talks to a broker.

PenstockError
└── ClientError
    ├── AddressError             the address is invalid (also a MisuseError)
    ├── ClientClosedError        the client or subscription was closed before (also a MisuseError)
    ├── ConnectionFailedError    no broker could be reached, or the connection was lost
    ├── ForkedError              the client was opened before a fork, by another process (also a MisuseError)
    ├── NobodyServesError        nobody wants this request
    ├── PublishTimeoutError      messages could not be queued, or were not acknowledged, in time (also a TimeoutError)
    ├── RefusedError             the broker refused a request, and said why
    │   └── TakenOverError       somebody else uses the durable subscription now, or has had it forgotten
    ├── RequestFailedError       whoever serves a request could not answer it
    ├── RequestTimeoutError      no reply came in time
    ├── UnknownPubendError       the overlay has no pubend of that name, or none at all (also a MisuseError)
    ├── WorkLostError            what was said of a message of a group does not count any more
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
    "NobodyServesError",
    "PublishTimeoutError",
    "RefusedError",
    "RequestFailedError",
    "RequestTimeoutError",
    "TakenOverError",
    "UnknownPubendError",
    "WorkLostError",
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


class NobodyServesError(ClientError):
    """Nobody in the overlay has a subscription that wants this request."""


class RequestFailedError(ClientError):
    """Whoever serves a request could not answer it; the text is the reason."""


class RequestTimeoutError(ClientError):
    """No reply to a request came in time."""


class PublishTimeoutError(ClientError, TimeoutError):
    """Messages could not be queued, or were not acknowledged, in the time that the caller allowed.

    ``messages`` names those that ``publish_many`` had queued before: they are sent. The one after them, and the others,
    were not queued, and are not sent later.
    """

    def __init__(self, problem: str, *, messages: tuple[MessageId, ...] = ()) -> None:
        super().__init__(problem)
        self.messages = messages


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


class UnknownPubendError(ClientError, MisuseError):
    """The overlay has no pubend of that name, or none at all."""


class WorkLostError(ClientError):
    """What was said of a message of a group does not count: its time was over, or this client was away for too long."""

    def __init__(self, message: MessageId, *, is_done: bool) -> None:
        why = "it was done some time ago, nobody knows by whom" if is_done else "it is not this member's any more"
        super().__init__(f"message {message}: {why}")
        self.message = message
        self.is_done = is_done
        """Whether the message was done some time ago, by nobody knows whom."""


class WouldBlockError(ClientError):
    """The publish window is full, or there is no connection at the moment."""
