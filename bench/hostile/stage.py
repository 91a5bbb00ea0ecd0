"""What an attacker knows of the arena, and what it tells afterwards; both travel between processes as JSON."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

__all__ = ["Stage", "Told"]


class Stage(msgspec.Struct, frozen=True):
    """Where to attack."""

    ports: dict[str, int]
    """By broker, and ``admin``."""
    folder: str
    pids: dict[str, int]
    logs: dict[str, str]
    """By broker, the file with what it writes to standard error."""
    seconds: float
    """How long attacks go on that have no end of their own."""

    @property
    def port(self) -> int:
        """Where the first broker listens."""
        return self.ports["b1"]

    def context(self, name: str) -> ssl.SSLContext:
        """TLS with a certificate of that name."""
        folder = Path(self.folder)
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        return context


class Told(msgspec.Struct):
    """What an attack achieved."""

    text: str
    has_succeeded: bool = False
    """Whether the attacker got what it wanted, whatever became of the brokers."""
    figures: dict[str, float] = {}
