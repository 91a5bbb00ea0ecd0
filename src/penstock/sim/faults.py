"""Random faults for a simulated overlay; each blow is repaired some time later.

Crashes, orderly stops, cut, stalled and slow links, one-way partitions, disks that are slow, full or damaged, clocks
that are set while a broker is down. Nothing lasts longer than `LASTS_MS_MAX`, so that logs keep enough for absent
clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from penstock.sim.device import Device
from penstock.sim.link import Link
from penstock.sim.world import World

__all__ = ["LASTS_MS_MAX", "Blow", "Faults"]

LASTS_MS_MAX: Final = 12_000
"""The longest time until a blow is repaired."""
_LASTS_MS: Final = (20, 200, 1_000, 3_000, 7_000, LASTS_MS_MAX)
_CLOCKS_MS: Final = (0, 0, 0, 3_000, -3_000, 3_600_000, -3_600_000)
"""How wrong wall clocks may be when a broker starts."""
_SLOW_US: Final = (100_000, 400_000, 1_500_000)
_Pair = tuple[str, str]


class Blow(NamedTuple):
    """A fault or a repair."""

    at_ms: int
    what: str


class Faults:
    """The faults of one world."""

    def __init__(self, world: World, pairs: list[_Pair]) -> None:
        self._world, self._chance = world, world.faults
        self._pairs = pairs
        self._latencies_us: dict[_Pair, int] = {}
        """The original latency of links that were ever slowed down."""
        self.counts: Counter[str] = Counter()
        """How often each kind of blow fell."""
        self.timeline: list[Blow] = []
        """Blows and repairs, with their times."""
        self.excused: list[bytes] = []
        """Bodies whose records were damaged: nobody can deliver them."""

    def strike(self) -> None:
        """Strike one blow, to be repaired some time later."""
        self._chance.choice(self._blows())()

    def repair(self) -> None:
        """Repair everything at once."""
        self._note("everything is repaired")
        for name, broker in self._world.brokers.items():
            self._mend_disk(broker.device)
            if not broker.is_up:
                self._world.restart(name, clock_offset_ms=self._chance.choice(_CLOCKS_MS))
        for pair, latency_us in self._latencies_us.items():
            self._world.link(*pair).slow_down(latency_us)
        for one, other in self._world.links:
            self._world.heal(one, other)
        for pair in self._pairs:
            self._relink(pair)

    def send_clients_away(self) -> None:
        """Cut a few clients off for some seconds, whatever else happens."""
        for pair in self._chance.sample(self._client_links, min(3, len(self._client_links))):
            self.note("cut_client", f"the link {pair[0]} {pair[1]} is cut, loud")
            self._world.cut(*pair, loud=True)
            mend = partial(self._world.heal, *pair)
            self._world.clock.after(self._chance.choice((3_000, 7_000, LASTS_MS_MAX)) * 1_000, mend)

    def roll(self) -> None:
        """Restart all brokers one after the other, as for a new version, within the longest time of a blow."""
        self.note("rolling_restart", "all brokers are restarted, one after the other")
        apart_ms = LASTS_MS_MAX // (len(self._world.brokers) + 1)
        for place, name in enumerate(self._world.brokers):
            at_ms = place * self._chance.choice((apart_ms, apart_ms // 2))
            self._world.clock.after(at_ms * 1_000, partial(self._stop_if_up, name))
            self._world.clock.after((at_ms + self._chance.choice((20, 700))) * 1_000, partial(self._restart, name))

    def _roll(self) -> None:
        if self._chance.random() < 0.3:
            self.roll()

    def _stop_if_up(self, name: str) -> None:
        if self._world.brokers[name].is_up:
            self._world.stop(name)

    @property
    def _client_links(self) -> list[_Pair]:
        return [pair for pair, link in self._world.links.items() if pair[0] in self._world.clients and link.is_wanted]

    def _blows(self) -> list[Callable[[], None]]:
        return [
            self._cut,
            self._cut,
            self._cut_one_way,
            self._stall,
            self._flap,
            self._delay,
            self._unlink,
            self._crash,
            self._crash,
            self._crash_twice,
            self._crash_all,
            self._stop,
            self._roll,
            self._promote,
            self._slow_disk,
            self._slow_disk_and_crash,
            self._fill_disk,
            self._damage,
            self._cut_client,
            self._cut_client,
            self._stall_client,
        ]

    # --- links

    def _cut(self) -> None:
        self._cut_link(self._chance.choice(self._pairs), "cut", one_way=False)

    def _cut_one_way(self) -> None:
        self._cut_link(self._chance.choice(self._pairs), "one_way", one_way=True)

    def _cut_client(self) -> None:
        self._cut_link(self._chance.choice(self._client_links), "cut_client", one_way=self._flip())

    def _cut_link(self, pair: _Pair, kind: str, *, one_way: bool) -> None:
        one, other = pair if self._flip() else pair[::-1]
        loud = self._flip()
        self.note(kind, f"the link {one} {other} is cut{', one way' if one_way else ''}{', loud' if loud else ''}")
        self._world.cut(one, other, loud=loud, one_way=one_way)
        self._later(f"the link {one} {other} is mended", partial(self._world.heal, *pair))

    def _flap(self) -> None:
        """Cut and mend a link again and again, so that routes change back and forth."""
        pair = self._chance.choice(self._pairs)
        self.note("flap", f"the link {pair[0]} {pair[1]} flaps")
        for turn in range(1, 5):
            at_ms = turn * self._chance.choice((30, 300, 1_500))
            self._world.clock.after(at_ms * 1_000, partial(self._world.cut, *pair, loud=True))
            self._world.clock.after((at_ms + 20) * 1_000, partial(self._world.heal, *pair))

    def _unlink(self) -> None:
        """Remove a link from the settings of running brokers, and add it again later."""
        pair = self._chance.choice(self._pairs)
        if pair not in self._world.removed:
            self.note("unlink", f"the link {pair[0]} {pair[1]} is removed from the overlay")
            self._world.unlink(*pair)
            self._later(f"the link {pair[0]} {pair[1]} is added again", partial(self._relink, pair))

    def _relink(self, pair: _Pair) -> None:
        if pair in self._world.removed:
            self._world.relink(*pair)

    def cut_client(self, client: str, broker: str) -> None:
        """Cut the link between a client and a broker, if there is one."""
        if (client, broker) in self._world.links:
            self._cut_link((client, broker), "cut_client", one_way=self._flip())

    def _stall(self) -> None:
        self._stall_link(self._chance.choice(self._pairs), "stall")

    def _stall_client(self) -> None:
        self._stall_link(self._chance.choice(self._client_links), "stall_client")

    def _stall_link(self, pair: _Pair, kind: str) -> None:
        self.note(kind, f"the link {pair[0]} {pair[1]} stalls")
        self._world.link(*pair).stall()
        self._later(f"the link {pair[0]} {pair[1]} goes on", partial(self._world.heal, *pair))

    def _delay(self) -> None:
        pair = self._chance.choice(self._pairs)
        link = self._world.link(*pair)
        latency_us = self._chance.choice(_SLOW_US)
        self.note("delay", f"the link {pair[0]} {pair[1]} takes {latency_us // 1_000} ms")
        # It may be slow already, because of a blow that ends earlier.
        before_us = self._latencies_us.setdefault(pair, link.options.latency_us)
        link.slow_down(latency_us)
        self._later(f"the link {pair[0]} {pair[1]} is quick again", partial(_quicken, link, before_us))

    # --- brokers

    def _crash(self) -> None:
        name = self._one_that_is_up()
        if name:
            self.note("crash", f"{name} crashes")
            self._world.crash(name, loud=self._flip())
            self._later("", partial(self._restart, name))

    def _crash_twice(self) -> None:
        """Crash a broker again soon after its start, when it knows little and nothing is confirmed yet."""
        name = self._one_that_is_up()
        if name:
            self.note("crash_twice", f"{name} crashes")
            self._world.crash(name, loud=True)
            self._restart(name)
            wait_ms = self._chance.choice((1, 5, 40, 400, 1_200))
            self._world.clock.after(wait_ms * 1_000, partial(self.crash, name))

    def _crash_all(self) -> None:
        """Cut the power: only the disks are left of the whole overlay."""
        if self._chance.random() < 0.7:
            return
        self.note("crash_all", "all brokers crash")
        for name in [name for name, broker in self._world.brokers.items() if broker.is_up]:
            self._world.crash(name, loud=self._flip())
            self._later("", partial(self._restart, name))

    def crash(self, name: str) -> None:
        """Crash this broker, if it is up, and restart it some time later."""
        if self._world.brokers[name].is_up:
            self._note(f"{name} crashes")
            self._world.crash(name, loud=self._flip())
            self._later("", partial(self._restart, name))

    def _stop(self) -> None:
        name = self._one_that_is_up()
        if name:
            self.note("stop", f"{name} stops")
            self._world.stop(name)
            self._later("", partial(self._restart, name))

    def _promote(self) -> None:
        """Restart a broker; its best-effort pubends are guaranteed from then on."""
        names = [name for name, broker in self._world.brokers.items() if broker.is_up and broker.settings.best_effort]
        if not names:
            return
        name = self._chance.choice(names)
        self.note("promote", f"{name} {'stops' if (in_order := self._flip()) else 'crashes'} to guarantee everything")
        if in_order:
            self._world.stop(name)
        else:
            self._world.crash(name, loud=self._flip())
        broker = self._world.brokers[name]
        broker.apply(replace(broker.settings, best_effort=()))
        self._later("", partial(self._restart, name))

    def _restart(self, name: str) -> None:
        if not self._world.brokers[name].is_up:
            offset_ms = self._chance.choice(_CLOCKS_MS)
            self.counts["clock_step"] += bool(offset_ms)
            self._note(f"{name} starts{f', its clock off by {offset_ms:,} ms' if offset_ms else ''}")
            self._world.restart(name, clock_offset_ms=offset_ms)

    # --- disks

    def _slow_disk(self) -> None:
        name, device = self._one_device()
        device.slowness = self._chance.choice((10.0, 300.0))
        self.note("slow_disk", f"the disk of {name} is {device.slowness:.0f} times slower")
        self._later(f"the disk of {name} is quick again", partial(_quick, device))

    def _slow_disk_and_crash(self) -> None:
        """Slow a disk down and crash while commits wait, so that something is torn or lost."""
        name, device = self._one_device()
        device.slowness = 100.0
        self.note("slow_disk", f"the disk of {name} is 100 times slower, and a crash follows")
        self._world.clock.after(self._chance.choice((30, 150, 350)) * 1_000, partial(self.crash, name))
        self._later(f"the disk of {name} is quick again", partial(_quick, device))

    def _fill_disk(self) -> None:
        name, device = self._one_device()
        if self._flip():
            device.is_full = True
        else:
            device.capacity_bytes = device.disk.size_bytes + 1_000
        self.note("full_disk", f"the disk of {name} is full{'' if device.is_full else ' but for 1,000 bytes'}")
        self._later(f"the disk of {name} has space again", partial(_empty, device))

    def _damage(self) -> None:
        """Make one of the messages on a disk unreadable."""
        if self._chance.random() < 0.7:
            return
        broker = self._chance.choice(list(self._world.brokers.values()))
        pubends = [pubend for pubend in broker.settings.pubends if broker.disk.ticks(pubend)]
        if pubends:
            pubend = self._chance.choice(pubends)
            tick = self._chance.choice(broker.disk.ticks(pubend))
            self.note("damage", f"the record {tick} of {pubend} is damaged")
            self.excused.append(broker.disk.damage(pubend, tick))

    @staticmethod
    def _mend_disk(device: Device) -> None:
        _quick(device)
        _empty(device)

    # --- chance

    def _later(self, what: str, repair: Callable[[], None]) -> None:
        def mend() -> None:
            if what:
                self._note(what)
            repair()

        self._world.clock.after(self._chance.choice(_LASTS_MS) * 1_000, mend)

    def _one_that_is_up(self) -> str:
        names = [name for name, broker in self._world.brokers.items() if broker.is_up]
        return self._chance.choice(names) if names else ""

    def _one_device(self) -> tuple[str, Device]:
        # Brokers without pubends have disks too, but nothing to write.
        names = [name for name, broker in self._world.brokers.items() if broker.settings.pubends]
        # All pubends may have candidates.
        names = names or list(self._world.brokers)
        name = self._chance.choice(names)
        return name, self._world.brokers[name].device

    def _flip(self) -> bool:
        return self._chance.random() < 0.5

    def note(self, kind: str, what: str) -> None:
        """Count an event, and add it to the timeline."""
        self.counts[kind] += 1
        self._note(what)

    def _note(self, what: str) -> None:
        self.timeline.append(Blow(self._world.elapsed_ms, what))


def _quicken(link: Link, latency_us: int) -> None:
    link.slow_down(latency_us)


def _quick(device: Device) -> None:
    device.slowness = 1.0


def _empty(device: Device) -> None:
    device.is_full, device.capacity_bytes = False, None
