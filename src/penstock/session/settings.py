"""The settings of a client; units are in the names, and values are checked on construction."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import MisuseError

__all__ = ["ClientSettings"]

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
    close_ms: int = 5_000
    """How long closing waits for acknowledgements, and for the last bytes to leave."""
    backoff_first_ms: int = 50
    """Time before the first attempt to reconnect; it doubles with every attempt that fails."""
    backoff_max_ms: int = 10_000
    """Maximum time between attempts."""
    pinned: bool = False
    """Whether the client stays at its broker, even if the broker wants to move it to another one."""
    stop_at_refusal: bool = False
    """Whether nothing more is published after a message that the broker refuses. Then the broker has exactly those
    before it, and a program that numbers its messages durably can send the others again under the same numbers."""
    give_up_ms: int | None = None
    """A client that has been without a connection for this long fails; None to try for ever."""
    publisher: bytes = b""
    """Identity of the publisher, for programs that number their messages durably: a message that is sent again under
    the same number, even by another process, is taken once. If empty, the client makes up a random identity."""
    published: int = 0
    """Number of the last message that such a program has published: the next one gets the next number."""

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
        if self.give_up_ms is not None and self.give_up_ms < 0:
            raise MisuseError(f"give_up_ms {self.give_up_ms} is negative")
        if len(self.publisher) > _PUBLISHER_BYTES_MAX:
            raise MisuseError(f"publisher has {len(self.publisher)} bytes; at most {_PUBLISHER_BYTES_MAX} are allowed")
        if self.published < 0 or (self.published and not self.publisher):
            raise MisuseError(f"published is {self.published}; it must not be negative, and needs a named publisher")
