"""Defines what an attacker knows of the arena, and what it reports; both travel between processes as JSON."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

__all__ = ["Stage", "Told"]


class Stage(msgspec.Struct, frozen=True):
    """Where to attack."""

    ports: dict[str, int]
    """Ports by broker, and ``admin``, ``stomp`` and ``web`` of the first."""
    folder: str
    pids: dict[str, int]
    logs: dict[str, str]
    """The file with a broker's standard error, by broker."""
    seconds: float
    """How long attacks without an end of their own last."""
    inputs: int = 20_000
    """How many inputs an attack with generated ones throws."""
    seed: int = 0
    """Which ones."""

    @property
    def port(self) -> int:
        """The port of the first broker."""
        return self.ports["b1"]

    @property
    def stomp(self) -> int:
        """The port for STOMP of the first broker."""
        return self.ports["stomp"]

    @property
    def web(self) -> int:
        """Its port for STOMP over WebSocket."""
        return self.ports["web"]

    def context(self, name: str) -> ssl.SSLContext:
        """A TLS context with the certificate of this name."""
        folder = Path(self.folder)
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        return context


class Told(msgspec.Struct):
    """What an attack achieved."""

    text: str
    has_succeeded: bool = False
    """Whether the attacker achieved its aim, whatever became of the brokers."""
    figures: dict[str, float] = {}
