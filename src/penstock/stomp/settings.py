"""The settings of the STOMP side of a broker; units are in the names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.errors import MisuseError
from penstock.protocol.work_frames import DELAY_MS_MAX, DELIVERIES_MAX, PREFETCH_MAX, WORK_MS_MAX, WORK_MS_MIN

__all__ = ["INFER", "StompSettings"]

INFER: Final = "infer"
"""Headers that look like numbers or booleans become such attributes."""
_STRING: Final = "string"
_PORT_MAX: Final = 65_535
_KIBIBYTE: Final = 1024


@dataclass(slots=True, frozen=True)
class StompSettings:
    """How one broker serves STOMP clients; it does so if it has at least one of the two ports."""

    port: int = 0
    """Where it listens for STOMP over TCP, or TLS where the broker has a certificate; 0 for nowhere."""
    websocket_port: int = 0
    """Where it listens for STOMP over WebSocket, or secure WebSocket; 0 for nowhere."""
    origins: str = ""
    """Pages that may connect by WebSocket, by their origins, separated by spaces; ``*`` for all. If empty, those that
    come from the same host and port."""
    types: str = INFER
    """What becomes of headers: ``infer`` makes numbers and booleans of those that are written like these, ``string``
    leaves all of them texts. A hint (``volume;type=int``) overrides it for one header."""
    heartbeat_ms: int = 10_000
    """How often the broker wants to hear from clients that can send heart-beats."""
    headers_max: int = 300
    """Headers of one frame."""
    subscriptions_max: int = 10_000
    """Subscriptions of one connection; the quotas of its client count as well."""
    transactions_max: int = 16
    """Open transactions of one connection."""
    transaction_bytes: int = 1024 * _KIBIBYTE
    """How much all open transactions of a connection may have in them."""
    unacknowledged_max: int = 10_000
    """Messages of one subscription that may wait for an ACK; then it gets no more."""
    prefetch: int = 100
    """Messages of a queue that a subscription has at a time from each pubend, unless it says otherwise."""
    deliveries_max: int = 0
    """After so many attempts in vain a message of a queue is a dead letter; 0 for never. Needs ``dead_letters``."""
    work_ms: int = 30_000
    """How long a queue's message stays with a connection that the broker has lost sight of. Others keep theirs."""
    nack_delay_ms: int = 1_000
    """How long a message that was refused (NACK) waits until it is handed out again."""

    def __post_init__(self) -> None:
        for name in ("port", "websocket_port"):
            if not 0 <= getattr(self, name) <= _PORT_MAX:
                raise MisuseError(f"{name} {getattr(self, name)} is not in 0 .. {_PORT_MAX:,}")
        if self.port and self.port == self.websocket_port:
            raise MisuseError(f"websocket_port {self.websocket_port} is the port of STOMP over TCP, too")
        if self.types not in (INFER, _STRING):
            raise MisuseError(f"types {self.types!r} is neither 'infer' nor 'string'")
        for name in (
            "heartbeat_ms",
            "headers_max",
            "subscriptions_max",
            "transactions_max",
            "transaction_bytes",
            "unacknowledged_max",
        ):
            if getattr(self, name) <= 0:
                raise MisuseError(f"{name} {getattr(self, name)} is not positive")
        if not 0 < self.prefetch <= PREFETCH_MAX:
            raise MisuseError(f"prefetch {self.prefetch} is not in 1 .. {PREFETCH_MAX:,}")
        if not 0 <= self.deliveries_max <= DELIVERIES_MAX:
            raise MisuseError(f"deliveries_max {self.deliveries_max} is not in 0 .. {DELIVERIES_MAX:,}")
        if not WORK_MS_MIN <= self.work_ms <= WORK_MS_MAX:
            raise MisuseError(f"work_ms {self.work_ms} is not in {WORK_MS_MIN:,} .. {WORK_MS_MAX:,}")
        if not 0 <= self.nack_delay_ms <= DELAY_MS_MAX:
            raise MisuseError(f"nack_delay_ms {self.nack_delay_ms} is not in 0 .. {DELAY_MS_MAX:,}")

    @property
    def is_on(self) -> bool:
        """Whether the broker serves STOMP clients at all."""
        return bool(self.port or self.websocket_port)

    @property
    def origins_allowed(self) -> tuple[str, ...]:
        """The origins, one by one."""
        return tuple(self.origins.split())
