"""The settings of a client; units are in the names, and values are checked on construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.model.errors import MisuseError

__all__ = ["Choice", "ClientSettings"]

Choice: TypeAlias = Literal["near", "hash"]

_KIBIBYTE = 1024
_PUBLISHER_BYTES_MAX = 32


@dataclass(slots=True, frozen=True)
class ClientSettings:
    """The settings of one client.

    >>> ClientSettings(linger_ms=0).batch_bytes
    65536
    """

    linger_ms: int = 1
    """How long a published message waits for others to share its batch; 0 sends at once."""
    batch_bytes: int = 64 * _KIBIBYTE
    """A batch of this many bytes is sent without further waiting."""
    queue_bytes: int = 16 * _KIBIBYTE * _KIBIBYTE
    """When this much waits unread in one subscription, nothing more is read from the socket."""
    queue_messages: int = 65_536
    """When this many messages wait unread in one subscription, nothing more is read from the socket."""
    acknowledge_ms: int = 1_000
    """Time between acknowledgements of a durable subscription, unless very much was read; 0 for no pause."""
    connect_ms: int = 5_000
    """Time limit for one attempt to connect and be welcomed."""
    connect_timeout_ms: int | None = 30_000
    """How long opening a client tries to get its first connection, however many attempts that takes; 0 to try each
    address once, None to try for ever. Afterwards ``give_up_ms`` counts."""
    close_ms: int = 5_000
    """How long closing waits for acknowledgements, and for the last bytes to leave."""
    backoff_first_ms: int = 50
    """Maximum time before the first attempt to reconnect; doubles with every round in which all addresses fail."""
    backoff_max_ms: int = 10_000
    """Maximum time between rounds."""
    pinned: bool = False
    """Whether the client stays at its broker, even if the broker wants to move it to another one."""
    stop_at_refusal: bool = False
    """Whether nothing more is published after a message that the broker refuses. Then the broker has exactly those
    before it, and a program that numbers its messages durably can send the others again under the same numbers."""
    give_up_ms: int | None = None
    """A client that has lost its connection fails if it finds no other for this long; None to try for ever."""
    publisher: bytes = b""
    """Identity of the publisher, for programs that number their messages durably: a message that is sent again under
    the same number, even by another process, is taken once. If empty, the client makes up a random identity."""
    published: int | Mapping[str, int] = 0
    """Number of the last message that such a program has published to a pubend, or of each pubend by name: the next one
    gets the next number."""
    choice: Choice = "near"
    """How to choose the pubend of messages for which the application names none: ``near`` for one of the broker's own,
    if it has any, ``hash`` for one of all in the overlay. Among these, guaranteed ones come before best-effort ones.
    Either way by the publisher's identity, and only once."""

    def __post_init__(self) -> None:
        for each in ("batch_bytes", "queue_bytes", "queue_messages", "connect_ms", "close_ms", "backoff_first_ms"):
            if getattr(self, each) <= 0:
                raise MisuseError(f"{each} {getattr(self, each)} is not positive")
        for each in ("linger_ms", "acknowledge_ms"):
            if getattr(self, each) < 0:
                raise MisuseError(f"{each} {getattr(self, each)} is negative")
        if self.backoff_max_ms < self.backoff_first_ms:
            raise MisuseError(
                f"backoff_max_ms {self.backoff_max_ms} is less than backoff_first_ms {self.backoff_first_ms}"
            )
        for each in ("give_up_ms", "connect_timeout_ms"):
            if getattr(self, each) is not None and getattr(self, each) < 0:
                raise MisuseError(f"{each} {getattr(self, each)} is negative")
        if self.choice not in ("near", "hash"):
            raise MisuseError(f"choice {self.choice!r} is neither 'near' nor 'hash'")
        if len(self.publisher) > _PUBLISHER_BYTES_MAX:
            raise MisuseError(f"publisher has {len(self.publisher)} bytes; at most {_PUBLISHER_BYTES_MAX} are allowed")
        numbers = [self.published] if isinstance(self.published, int) else [*self.published.values()]
        if any(each < 0 for each in numbers) or (any(numbers) and not self.publisher):
            raise MisuseError(f"published is {self.published}; it must not be negative, and needs a named publisher")

    def published_to(self, pubend: str) -> int:
        """Number of the last message that was published to a pubend before this client."""
        return self.published if isinstance(self.published, int) else self.published.get(pubend, 0)
