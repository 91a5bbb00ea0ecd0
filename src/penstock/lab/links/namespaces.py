"""Links in the kernel: a network namespace for each broker, a pair of virtual devices for each link, limited by ``tc``.

This needs root, ``ip`` and ``tc``. Every broker has one address, on the loopback device of its namespace; neighbours
reach it over their link, and this machine over a separate, unlimited link. A token bucket filter limits each direction
of a link. A cut takes the device down, silently. All namespaces are removed at the end, whatever happens, along with
their devices and routes.

Sockets in these namespaces have small send buffers, so that a sender soon waits, as with relays. A link holds as much
as such a buffer: dropped packets would cost TCP most of a narrow link, and only bandwidth should be limited.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from penstock.lab.links.limits import LinkLimits
from penstock.model.errors import PenstockError

__all__ = ["NamespaceError", "Namespaces", "why_no_namespaces"]

_NETWORK: Final = "198.18"
"""Reserved for benchmarks; never routed."""
_BROKERS_MAX: Final = 99
_SEND_BYTES_MAX: Final = 32_768
_SEND_BYTES: Final = f"4096 16384 {_SEND_BYTES_MAX}"


class NamespaceError(PenstockError):
    """A namespace or a device could not be made or changed."""


def why_no_namespaces() -> str:
    """Why this machine cannot have links between namespaces; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [each for each in ("ip", "tc") if shutil.which(each) is None]:
        return f"{' and '.join(missing)} (iproute2) not found"
    try:
        with Namespaces(("a", "b"), [("a", "b")], LinkLimits(there_bytes_s=100_000)):
            return ""
    except NamespaceError as error:
        return str(error)


@dataclass(slots=True, frozen=True)
class _End:
    """One end of a link: the device in the namespace of a broker, towards its neighbour."""

    broker: str
    device: str
    neighbour: str


class Namespaces:
    """Namespaces for brokers, and links between them; use it with ``with``."""

    def __init__(
        self, brokers: Sequence[str], links: Sequence[tuple[str, str]], limits: LinkLimits | None = None
    ) -> None:
        assert len(brokers) <= _BROKERS_MAX, f"{len(brokers)} brokers have not enough addresses"
        self._limits = limits or LinkLimits()
        self._mark = secrets.token_hex(2)
        self._brokers = tuple(brokers)
        self._addresses: dict[str, str] = {}
        self._ends: dict[tuple[str, str], tuple[_End, _End]] = {}
        for number, (left, right) in enumerate(links):
            near, far = (f"l{self._mark}{number}{side}" for side in "ab")
            self._ends[left, right] = _End(left, near, right), _End(right, far, left)

    def __enter__(self) -> Self:
        try:
            part = _unused_part()
            self._addresses = {name: f"{part}.{number}" for number, name in enumerate(self._brokers, start=1)}
            for number, name in enumerate(self._brokers, start=1):
                self._add_broker(name, f"m{self._mark}{number}", f"{part}.{number + _BROKERS_MAX + 1}")
            for near, far in self._ends.values():
                self._add_link(near, far)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything, including what a failure has left half made."""
        for name in self._brokers:
            # A namespace that was not made, or is gone already, is no reason to leave the others behind.
            with suppress(NamespaceError):
                _ip("netns", "delete", self.namespace(name))

    def namespace(self, broker: str) -> str:
        """The name of a broker's namespace."""
        return f"penstock-{self._mark}-{broker}"

    def address(self, broker: str) -> str:
        """The address at which neighbours and this machine reach a broker."""
        return self._addresses[broker]

    def limit(self, link: tuple[str, str], *, there_bytes_s: float, back_bytes_s: float) -> None:
        """Set the bandwidth of each direction of a link; 0 for no limit."""
        limits = LinkLimits(there_bytes_s, back_bytes_s, buffer_bytes=self._limits.buffer_bytes)
        for direction, end in zip(("there", "back"), self._ends[link], strict=True):
            self._shape(end, limits, direction)

    def cut(self, link: tuple[str, str]) -> None:
        """Take the link down."""
        end = self._ends[link][0]
        self._in(end.broker, "link", "set", "dev", end.device, "down")

    def restore(self, link: tuple[str, str]) -> None:
        """Bring the link up, with the routes that went down with it."""
        for end in self._ends[link]:
            self._bring_up(end)

    def passed_bytes(self, link: tuple[str, str]) -> int:
        """Bytes that have left the first end of a link, including the headers of TCP and IP."""
        end = self._ends[link][0]
        told = self._in(end.broker, "-s", "-j", "link", "show", "dev", end.device)
        return int(msgspec.json.decode(told)[0]["stats64"]["tx"]["bytes"])

    def _add_broker(self, name: str, device: str, machine: str) -> None:
        namespace, address = self.namespace(name), self._addresses[name]
        _ip("netns", "add", namespace)
        _ip("link", "add", device, "type", "veth", "peer", "name", "machine", "netns", namespace)
        self._in(name, "link", "set", "dev", "lo", "up")
        self._in(name, "address", "add", f"{address}/32", "dev", "lo")
        self._in(name, "link", "set", "dev", "machine", "up")
        self._in(name, "route", "add", f"{machine}/32", "dev", "machine", "src", address)
        _ip("address", "add", f"{machine}/32", "dev", device)
        _ip("link", "set", "dev", device, "up")
        _ip("route", "add", f"{address}/32", "dev", device, "src", machine)
        setting = f"echo {_SEND_BYTES} > /proc/sys/net/ipv4/tcp_wmem"
        _run("ip", "netns", "exec", namespace, "sh", "-c", setting)

    def _add_link(self, near: _End, far: _End) -> None:
        namespaces = self.namespace(near.broker), self.namespace(far.broker)
        peer = ("peer", "name", far.device, "netns", namespaces[1])
        self._in(near.broker, "link", "add", near.device, "type", "veth", *peer)
        for direction, end in (("there", near), ("back", far)):
            self._bring_up(end)
            self._shape(end, self._limits, direction)

    def _bring_up(self, end: _End) -> None:
        self._in(end.broker, "link", "set", "dev", end.device, "up")
        route = (f"{self._addresses[end.neighbour]}/32", "dev", end.device, "src", self._addresses[end.broker])
        self._in(end.broker, "route", "replace", *route)

    def _shape(self, end: _End, limits: LinkLimits, direction: str) -> None:
        rate, namespace = limits.rate(direction), self.namespace(end.broker)
        with suppress(NamespaceError):
            # There may be no limit to remove. A limit changed in place has been seen to stop a link for good.
            _run("tc", "-n", namespace, "qdisc", "delete", "dev", end.device, "root")
        if not rate:
            return
        burst, waiting = limits.burst_bytes(direction), max(limits.buffer_bytes, _SEND_BYTES_MAX)
        shape = ("tbf", "rate", f"{round(rate * 8)}bit", "burst", str(burst), "limit", str(waiting))
        _run("tc", "-n", namespace, "qdisc", "add", "dev", end.device, "root", *shape)

    def _in(self, broker: str, *arguments: str) -> bytes:
        return _ip("-n", self.namespace(broker), *arguments)


def _unused_part() -> str:
    """Find a network of 256 addresses that this machine does not use."""
    taken = set(re.findall(rf"{_NETWORK}\.(\d+)\.", _ip("-o", "-4", "address", "show").decode()))
    free = [number for number in range(256) if str(number) not in taken]
    if not free:
        raise NamespaceError(f"all networks of {_NETWORK}.0.0 are in use")
    return f"{_NETWORK}.{secrets.choice(free)}"


def _ip(*arguments: str) -> bytes:
    return _run("ip", *arguments)


def _run(*command: str) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - our own commands, no shell
    except OSError as error:
        raise NamespaceError(f"{command[0]} cannot be run: {error.strerror or error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise NamespaceError(f"{' '.join(command)}: {said or f'ended with {done.returncode}'}")
    return done.stdout
