"""What an application may choose about its client; units in the names, checked on construction."""

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
    """A published message waits so long for others that go with it; 0 sends at once."""
    batch_bytes: int = 64 * _KIBIBYTE
    """A batch with so many bytes does not wait any longer."""
    queue_bytes: int = 16 * _KIBIBYTE * _KIBIBYTE
    """When so much waits in one subscription to be read by the application, nothing more is read from the socket."""
    queue_messages: int = 65_536
    """The same, as a number of messages."""
    acknowledge_ms: int = 1_000
    """Time between acknowledgements of a durable subscription, unless very much was read; 0 for no pause."""
    connect_ms: int = 5_000
    """One attempt to connect and to be welcomed takes no longer."""
    close_ms: int = 5_000
    """Closing waits so long for acknowledgements, and for the last bytes to leave."""
    backoff_first_ms: int = 50
    """Time before the first new attempt when a connection was lost; it doubles with every attempt that fails."""
    backoff_max_ms: int = 10_000
    """Time between attempts, at most."""
    pinned: bool = False
    """Whether the client stays at its broker, also if that would have it go to another one."""
    stop_at_refusal: bool = False
    """Whether nothing more is published behind a message that the broker refuses. Then the broker has exactly those
    before it, and a program that numbers its messages durably can send the others again under the same numbers."""
    give_up_ms: int | None = None
    """A client that was without a connection for so long fails; none to try for ever."""
    publisher: bytes = b""
    """Who publishes, for programs that number their messages durably: what is sent again under the same number, even by
    another process, is taken once. Of this client alone, by chance, if not given."""
    published: int = 0
    """The number of the message that such a program has published last: the next one has the next number."""

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
            raise MisuseError(f"published is {self.published}, which only a named publisher may say, from 0 on")
