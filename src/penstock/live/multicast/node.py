"""A member of multicast groups that respects the common limit: real UDP, IPv4 or IPv6 ([Ajil] sections 3 and 4.2).

Data go to the groups unsealed. Reports, announcements and policies go to one control group, sealed. Packets over a
channel's quota are dropped, or wait in a bounded buffer, as the policy says. Nothing is retransmitted and nothing is
acknowledged: the next report makes up for a lost one.

Epochs begin at whole multiples of their length by the wall clock, as in the paper (synchronised clocks); their
length is measured by the monotonic clock, so that a step of the wall clock makes one epoch at most half as long again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from penstock.ajil import UNLIMITED, AjilNode, Aup, Channel, MalformedError, Observation, Policy, Report, Tally, Unit
from penstock.ajil.allowance import Allowance
from penstock.ajil.messages import ControlMessage, decode, encode
from penstock.live.multicast.address import GroupAddress, interface_number, receiving_socket, sending_socket
from penstock.live.multicast.packets import Packet, decode_packet, encode_packet
from penstock.model.errors import LimitError, MisuseError
from penstock.system.forking import tell_after_fork, where_opened
from penstock.system.seal import ForgedError, ReplayedError, Seal, SealError

__all__ = ["CONTROL_GROUP", "MulticastNode"]

CONTROL_GROUP: Final = "239.255.77.77:7771"
_STEPS: Final = 10
"""Times per epoch at which waiting packets may be sent."""
_REACT_PART: Final = 0.15
"""The part of an epoch to wait until the reports on the last one have arrived."""
_ENTRIES_MAX: Final = 20
"""Groups in one report datagram, so that it is not fragmented."""
_INBOX_MAX: Final = 10_000
_INBOX_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payload that may wait for the application; beyond this, or too many packets, the oldest are dropped."""
_READ_MAX: Final = 200
"""Datagrams read from a socket at a time."""


class MulticastNode:
    """Joins groups, sends within its quotas, and tells others what it sees; use it with ``async with``."""

    def __init__(
        self,
        groups: Iterable[str],
        aup: Aup = UNLIMITED,
        *,
        name: str = "",
        control: str = CONTROL_GROUP,
        key: bytes = b"",
        interface: str = "",
        hops: int = 1,
        buffer_bytes: int = 1024 * 1024,
    ) -> None:
        self._given_name, self._key = name, key
        self._groups = {str(address): address for address in map(GroupAddress.parse, groups)}
        self._control = GroupAddress.parse(control)
        self._interface = interface
        self._hops = hops
        self._buffer_max = buffer_bytes
        self._budget = Allowance()
        self.clock: Callable[[], float] = time.time
        """The wall clock, in seconds; it may be set while the node runs."""
        self._become(aup)
        self._sockets: list[socket.socket] = []
        self._senders: dict[socket.AddressFamily, socket.socket] = {}
        self._waiting: dict[str, deque[bytes]] = {group: deque() for group in self._groups}
        self._waiting_bytes = 0
        self._held: set[str] = set()
        """Groups in which packets had to wait in this epoch."""
        self._room = asyncio.Event()
        self._inbox: deque[Packet] = deque()
        self._inbox_bytes = 0
        self._arrived = asyncio.Event()
        self._began_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._process = 0
        self._is_copy = False
        self.on_epoch: Callable[[Observation], None] | None = None
        """Called with the observation at the end of every epoch."""
        self.counts = dict.fromkeys(
            (
                "sent",
                "sent_bytes",
                "received",
                "received_bytes",
                "dropped",
                "inbox_dropped",
                "reports_sent",
                "reports_heard",
                "malformed",
                "forged",
                "replayed",
                "send_errors",
            ),
            0,
        )
        tell_after_fork(self)

    def _become(self, aup: Aup) -> None:
        """Take a name and numbers that no other node has, not even a copy made by a fork."""
        self.name = self._given_name or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        if len(self.name.encode()) > 255:
            raise MisuseError(f"the name {self.name[:20]!r}... has more than 255 bytes")
        self._node = AjilNode(self.name, aup, rng=Random(secrets.randbits(64)))
        self._tally = Tally(self._node)
        self._places: dict[str, int] = {}
        self._allowances: dict[str, Allowance] = {}
        for group in self._groups:
            self._tally.join(group)
            self._places[group] = self._node.open_channel(Channel(self.name, group))
            self._allowances[group] = Allowance()
        self._seal = Seal(self._key, secrets.randbits(64), now_ms=lambda: int(self.clock() * 1000))

    def on_forked(self) -> None:
        """Handle being the copy in a forked child: a node of its own if it had not started, and unusable if it had."""
        self._is_copy = bool(self._process)
        if not self._is_copy:
            self._become(self.aup)
            return
        for each in (*self._sockets, *self._senders.values()):
            each.close()
        self._sockets = []
        self._senders = {}
        self._task = None

    # --- life

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._check_process()
        self._process = os.getpid()
        try:
            for group, address in self._groups.items():
                self._listen(loop, address, lambda data, group=group: self._on_packet(group, data))  # type: ignore[misc]
            self._listen(loop, self._control, self._on_control)
            for family in {each.family for each in (*self._groups.values(), self._control)}:
                self._senders[family] = sending_socket(family, self._interface, hops=self._hops)
        except BaseException:
            self._close(loop)
            raise
        self._say(Report(self.name, self.aup.version, ()))
        self._start_epoch()
        self._task = asyncio.create_task(self._run(), name=f"multicast {self.name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._close(asyncio.get_running_loop())

    def _check_process(self) -> None:
        if self._is_copy:
            raise MisuseError(where_opened("node", self._process))

    def _listen(self, loop: asyncio.AbstractEventLoop, group: GroupAddress, handle: Callable[[bytes], None]) -> None:
        made = receiving_socket(group, self._interface)
        self._sockets.append(made)
        loop.add_reader(made.fileno(), self._read, made, handle)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        for each in self._sockets:
            loop.remove_reader(each.fileno())
            each.close()
        for each in self._senders.values():
            each.close()
        self._sockets, self._senders = [], {}

    # --- sending

    async def send(self, group: str, payload: bytes) -> bool:
        """Send to a group, now or as soon as the quota allows; False if the policy is to drop it.

        Blocks while the buffer of waiting packets is full.
        """
        self._check_process()
        while not self._takes(len(payload)):
            self._room.clear()
            await self._room.wait()
        return self.send_nowait(group, payload)

    def send_nowait(self, group: str, payload: bytes) -> bool:
        """Send to a group without blocking; False if the policy is to drop it, or the buffer is full."""
        self._check_process()
        name = str(GroupAddress.parse(group)) if group not in self._groups else group
        if name not in self._groups:
            raise MisuseError(f"group {group} was not joined; joined are {', '.join(self._groups) or 'none'}")
        datagram = encode_packet(self.name.encode(), payload)
        self._tally.wanted(self._places[name], len(datagram))
        if not self._waiting[name] and self._may_send(name, len(datagram)):
            self._put(name, datagram)
            return True
        if self.aup.slowdown == "drop" or not self._takes(len(payload)):
            self.counts["dropped"] += 1
            return False
        self._held.add(name)
        self._waiting[name].append(datagram)
        self._waiting_bytes += len(datagram)
        return True

    def _takes(self, size: int) -> bool:
        return self._waiting_bytes == 0 or self._waiting_bytes + size <= self._buffer_max

    def _may_send(self, group: str, size: int) -> bool:
        part = self._part()
        allowance = self._allowances[group]
        if not allowance.fits(size, part=part) or not self._budget.take(size, part=part):
            return False
        return allowance.take(size, part=part)

    def _part(self) -> float:
        """The part of a quota that may be used by now, by the steps of the epoch that have begun."""
        passed = (time.monotonic() - self._began_s) * 1000 / self.aup.epoch_ms
        return min((int(passed * _STEPS) + 1) / _STEPS, 1.0)

    def _put(self, group: str, datagram: bytes) -> None:
        address = self._groups[group]
        try:
            self._senders[address.family].sendto(datagram, address.target(interface_number(self._interface)))
        except OSError:
            # A full socket, or no route for now: like a lost packet.
            self.counts["send_errors"] += 1
            return
        self.counts["sent"] += 1
        self.counts["sent_bytes"] += len(datagram)
        self._tally.sent(group, self.name, len(datagram))

    def _release(self) -> None:
        """Send waiting packets, as far as quotas allow."""
        for group, waiting in self._waiting.items():
            while waiting and self._may_send(group, len(waiting[0])):
                datagram = waiting.popleft()
                self._waiting_bytes -= len(datagram)
                self._put(group, datagram)
        self._room.set()

    # --- receiving

    async def receive(self) -> Packet:
        """Wait for the next packet that others send to a group of this node."""
        self._check_process()
        while not self._inbox:
            self._arrived.clear()
            await self._arrived.wait()
        packet = self._inbox.popleft()
        self._inbox_bytes -= len(packet.payload)
        return packet

    def __aiter__(self) -> AsyncIterator[Packet]:
        return self._packets()

    async def _packets(self) -> AsyncIterator[Packet]:
        while True:
            yield await self.receive()

    def _read(self, made: socket.socket, handle: Callable[[bytes], None]) -> None:
        for _ in range(_READ_MAX):
            try:
                data = made.recv(65_536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.counts["send_errors"] += 1
                return
            try:
                handle(data)
            except ForgedError:
                self.counts["forged"] += 1
            except ReplayedError:
                self.counts["replayed"] += 1
            except (MalformedError, SealError, LimitError):
                # Not a valid message, or more names than anybody can have.
                self.counts["malformed"] += 1

    def _on_packet(self, group: str, data: bytes) -> None:
        packet = decode_packet(group, data)
        if packet.sender == self.name:
            return
        self.counts["received"] += 1
        self.counts["received_bytes"] += len(data)
        self._tally.sent(group, packet.sender, len(data))
        self._inbox.append(packet)
        self._inbox_bytes += len(packet.payload)
        while len(self._inbox) > _INBOX_MAX or self._inbox_bytes > _INBOX_BYTES_MAX:
            self.counts["inbox_dropped"] += 1
            self._inbox_bytes -= len(self._inbox.popleft().payload)
        self._arrived.set()

    def _on_control(self, data: bytes) -> None:
        message = decode(self._seal.open(data))
        if message.node == self.name:
            return
        self.counts["reports_heard"] += 1
        self._node.hear(message)
        if isinstance(message, Report) and message.version < self.aup.version and not message.entries:
            # A newcomer need not wait for the policy until the epoch ends.
            self.announce()

    # --- the policy

    @property
    def aup(self) -> Aup:
        """The policy in force here."""
        return self._node.aup

    def limit(self, aup: Aup) -> bool:
        """Adopt a policy, and tell all others; False if a newer one is in force."""
        is_new = self._node.adopt(aup)
        if is_new:
            self._say(Policy.of(self.name, aup))
        return is_new

    def announce(self) -> None:
        """Tell all others again which policy is in force here."""
        self._say(Policy.of(self.name, self.aup))

    @property
    def members_heard(self) -> int:
        """How many other members were heard recently."""
        return self._node.nodes_heard

    def status(self) -> dict[str, Any]:
        """The policy, the estimate, which groups are slowed down, and the counters."""
        seconds = self.aup.epoch_ms / 1000
        return {
            "name": self.name,
            "policy": self.aup.describe(),
            "version": self.aup.version,
            "estimate_bytes_s": round(float(self._node.estimates[Unit.BYTES]) / seconds),
            "slowed": [
                {"group": each.channel.group, "unit": each.unit.words, "quota_s": round(each.quota_s)}
                for each in self._node.slowed()
            ],
            "waiting_bytes": self._waiting_bytes,
            **self.counts,
        }

    # --- epochs

    async def _run(self) -> None:
        while True:
            await self._steps()
            seen = self._end_epoch()
            self._start_epoch()
            await asyncio.sleep(_REACT_PART * self.aup.epoch_ms / 1000)
            self._node.react(seen)
            self._set_quotas(Allowance.change)

    async def _steps(self) -> None:
        """Wait for the end of the epoch, and send waiting packets."""
        length_s = self.aup.epoch_ms / 1000
        left_s = length_s - self.clock() % length_s
        # The end by the wall clock, but after 0.5 to 1.5 times the usual length.
        end_s = min(max(time.monotonic() + left_s, self._began_s + length_s / 2), self._began_s + 1.5 * length_s)
        while (now_s := time.monotonic()) < end_s:
            self._release()
            await asyncio.sleep(min(length_s / _STEPS, max(end_s - now_s, 0.001)))

    def _end_epoch(self) -> Observation:
        delayed = [self._places[group] for group, waiting in self._waiting.items() if waiting or group in self._held]
        self._held.clear()
        for group, allowance in self._allowances.items():
            self._tally.round_off(self._places[group], *allowance.rounding)
        lasted_s = max(time.monotonic() - self._began_s, 1e-3)
        self._tally.scale(self.aup.epoch_ms / 1000 / lasted_s, held=delayed, part=self._part())
        seen = self._tally.observation(None if self.aup.slowdown == "drop" else delayed)
        end = self._node.end_epoch(seen)
        for first in range(0, len(end.reported), _ENTRIES_MAX):
            report = self._tally.report(end.reported[first : first + _ENTRIES_MAX])
            if report is not None:
                self._say(report)
        for message in (end.demand, end.policy):
            if message is not None:
                self._say(message)
        if self.on_epoch is not None:
            self.on_epoch(seen)
        self._tally.clear()
        return seen

    def _start_epoch(self) -> None:
        self._began_s = time.monotonic()
        carries = self.aup.mode != "hard"
        self._set_quotas(lambda allowance, *quotas: allowance.start(*quotas, carries=carries))
        self._release()

    def _set_quotas(self, give: Callable[[Allowance, float, float], None]) -> None:
        node = self._node
        for group, allowance in self._allowances.items():
            place = self._places[group]
            give(allowance, node.quota(place, Unit.BYTES), node.quota(place, Unit.PACKETS))
        give(self._budget, float(node.budgets[Unit.BYTES]), float(node.budgets[Unit.PACKETS]))

    def _say(self, message: ControlMessage) -> None:
        sender = self._senders.get(self._control.family)
        if sender is None:
            return
        try:
            datagram = self._seal.seal(encode(message))
            sender.sendto(datagram, self._control.target(interface_number(self._interface)))
        except OSError:
            self.counts["send_errors"] += 1
            return
        self.counts["reports_sent"] += 1
