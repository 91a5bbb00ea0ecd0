"""Exchanges with neighbours: handshakes, link states, the filters of all hosts, and probes of paths.

In the handshake, the two ends of a link prove to each other that both have the link token, without showing it. Each end
sends a challenge with its hello, and proves itself by an HMAC (SHA-256) over both challenges and both names, in its
role. So an impostor that listens at the port of a neighbour that is down learns nothing that opens a link elsewhere or
later. The end that dialled proves itself first: a stranger that dials in gets nothing to guess tokens against. An
attacker who can change traffic can still take over a proven link; only TLS prevents that.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final

import msgspec

from penstock.broker.due import Due
from penstock.broker.effects import EndLife, Hold, Resume
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.host.readiness import Readiness
from penstock.broker.neighbours.filters import HostChange
from penstock.broker.peers import Farewell, LinkSequence, Peer
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.model.ports import Rng
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    ControlFrame,
    FilterAck,
    FilterApplied,
    FilterProbe,
    FilterUpdate,
    Frame,
    Hello,
    LinkProof,
    LinkState,
    Remembered,
)

__all__ = ["Held", "Neighbourhood", "challenge_for", "is_proof", "proof_of"]

_UNPROVEN: Final = "authentication failed"
_CHALLENGE: Final = "challenge"
_DIALLED: Final = "dialled"
_ACCEPTED: Final = "accepted"
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Held:
    """A link whose frames wait until a change of a host's filter is in force.

    Frames that follow the change on the link may rely on it: a forwarded probe says that the change is known here.
    """

    peer: Peer
    host: str
    change: HostChange | None
    """The change that takes several steps, if this link brought it; None if it brings the next one of that host."""
    frames: list[Frame]
    """The frames received since, in order."""


class Neighbourhood:
    """Talks to the neighbours of one broker."""

    def __init__(
        self,
        rooms: Rooms,
        readiness: Readiness,
        guaranteed: Guaranteed,
        *,
        incarnation: int,
        rng: Rng,
    ) -> None:
        settings = self._settings = rooms.settings
        self._incarnation = incarnation
        self._memory = rooms.memory
        self._rng = rng
        self._secret = b""
        """Makes the challenges of this life unpredictable; drawn for the first of them."""
        self._connections = rooms.connections
        self._topology = rooms.topology
        self._filters = rooms.filters
        self._router = rooms.router
        self._pubends = rooms.pubends
        self._readiness = readiness
        self._guaranteed = guaranteed
        self._unacknowledged: dict[int, Peer] = {}
        self.held: dict[int, Held] = {}
        """Links whose frames wait until a change of a filter is in force, by connection."""
        self._step_ms: int | None = None
        self.due = Due(self.next_deadline)
        self._never_met = dict.fromkeys(settings.neighbours)
        self._former: list[Farewell] = []
        """Links to lives of homes of which a later one is known."""

    # --- links come and go

    def expect(self, added: list[str], removed: list[str]) -> None:
        """Changes the neighbours: subscriptions wait for the new ones, and not for those removed."""
        for name in removed:
            self._never_met.pop(name, None)
        self._never_met.update(dict.fromkeys(added))

    def say_hello(self, peer: Peer) -> None:
        """Sends the first frame of this broker on a link."""
        settings = self._settings
        if settings.link_credential:
            if not self._secret:
                self._secret = self._rng.randrange(1 << 256).to_bytes(32)
            peer.challenge = challenge_for(peer, self._secret)
        hello = Hello(
            PROTOCOL_VERSION, "broker", settings.name, settings.overlay, self._incarnation, challenge=peer.challenge
        )
        self._connections.say(peer, hello)

    def greet(self, peer: Peer, hello: Hello) -> str | None:
        """Handles the hello of a broker: returns why it is no neighbour, or None; it may still have to prove it."""
        problem = self._problem_with(peer, hello)
        peer.incarnation = hello.incarnation
        if problem is None and self._settings.link_credential:
            peer.greeting = hello
            if peer.dialled:
                self._connections.say(peer, LinkProof(proof_of(peer, self._settings)))
            else:
                self.say_hello(peer)
        return problem

    def on_proof(self, peer: Peer, frame: LinkProof) -> str | None:
        """Checks the proof of a neighbour: returns why it fails, or None; answers the end that dialled with our own."""
        if peer.greeting is None or not peer.challenge:
            raise ProtocolError("a proof before a hello")
        if not is_proof(frame.proof, peer, self._settings):
            return _UNPROVEN
        if not peer.dialled:
            self._connections.say(peer, LinkProof(proof_of(peer, self._settings)))
        return None

    def _problem_with(self, peer: Peer, hello: Hello) -> str | None:
        settings = self._settings
        if hello.overlay != settings.overlay:
            return f"this is overlay {settings.overlay}, not {hello.overlay}"
        if hello.name not in settings.neighbours:
            return f"broker {settings.name} has no link with {hello.name}"
        if hello.name in settings.homes and hello.incarnation < self._topology.incarnation_of(hello.name):
            return f"a later life of {hello.name} is known"
        if peer.dialled and peer.dialled != hello.name:
            return f"this should be {peer.dialled}, not {hello.name}"
        # A home runs in the same process as the broker that it has its link to, and has no certificate of its own.
        proven = settings.name if hello.name in settings.homes else hello.name
        if (settings.access.certificates or peer.certificate) and peer.certificate != proven:
            return f"the certificate is for {peer.certificate or 'nobody'}, not {proven}"
        # Refused if only one end has a link token.
        return None if bool(hello.challenge) == bool(settings.link_credential) else _UNPROVEN

    def link_up(self, peer: Peer, name: str) -> None:
        """A neighbour has connected: sends it all that is known, and floods the new link."""
        peer.name, peer.sequence = name, LinkSequence()
        peer.outbox.bound(self._settings.link_outbox_bytes)
        self._connections.link_up(peer)
        self._never_met.pop(name, None)
        if not peer.dialled and not peer.challenge:
            self.say_hello(peer)
        self._flood_state(self._topology.neighbour_up(name), but=name)
        for state in self._topology.states:
            self._connections.say(peer, state)
        for change in self._filters.whole():
            self._say_change(peer, change)
        self._connections.record("link-up", neighbour=name)

    def link_down(self, name: str) -> None:
        """A neighbour is gone: floods that the link is down."""
        self._guaranteed.before_ways_change()
        self._flood_state(self._topology.neighbour_down(name))
        self._connections.record("link-down", neighbour=name)

    def forget(self, peer: Peer) -> None:
        """Forgets a connection that is gone."""
        self._unacknowledged.pop(peer.connection, None)
        self.held.pop(peer.connection, None)

    # --- what neighbours say

    def on_link_state(self, peer: Peer, state: LinkState, *, now_ms: int) -> None:
        """Learns a link state, and floods it if it is new."""
        self._guaranteed.before_ways_change()
        news = self._topology.learn(state)
        if state.origin in self._settings.homes:
            self._supersede(state)
        if news is not None:
            if news is state:
                self._memory.learn(state)
            self._readiness.stir(now_ms=now_ms)
            # A contradiction of stale news about ourselves also goes back to its sender.
            self._flood_state(news, but=peer.name if news is state else "")

    def on_remembered(self, peer: Peer, frame: Remembered, *, now_ms: int) -> None:
        """A broker says what it remembers of another's pubends: takes it, or forwards it."""
        if not self._router.is_from_host(peer.name, f"${frame.to}", frame.host):
            return
        if frame.to == self._settings.name:
            self._guaranteed.beginnings.on_remembered(frame, now_ms=now_ms)
        else:
            self._memory.pass_on(frame)

    def tell_known(self) -> None:
        """Floods what this life knows of former ones, if that is news."""
        state = self._guaranteed.beginnings.take_known()
        if state is not None:
            self._guaranteed.before_ways_change()
            self._flood_state(state)

    def _supersede(self, state: LinkState) -> None:
        """A home was heard of: ends what belongs to an earlier life of it, here or at the other end of a link."""
        if self._topology.is_superseded:
            self._connections.add_effect(EndLife(f"a later life of {self._settings.name} runs elsewhere"))
            return
        link = self._connections.links.get(state.origin)
        if link is not None and link.incarnation < state.incarnation:
            self._former.append(Farewell(link, "superseded", f"a later life of {state.origin} runs elsewhere"))

    def take_former(self) -> list[Farewell]:
        """Returns the links to end because a later life of the home at their other end is known."""
        former = self._former
        self._former = []
        return former

    def on_filter_update(self, peer: Peer, update: FilterUpdate, *, now_ms: int) -> None:
        """Learns a part of a change of some host's filter, and floods the change when it is in force."""
        assert peer.sequence is not None
        if self._topology.is_superseded:
            # What is said of our host is about the later life.
            return
        if update.version >= 0 and self._filters.is_changing(update.host):
            self._hold(Held(peer, update.host, None, [update]), now_ms)
            return
        self._filters.read_ahead(update)
        change = peer.sequence.take(update)
        if change is not None:
            news = self._filters.learn(change)
            if news is None and self._filters.is_changing(change.host):
                self._hold(Held(peer, change.host, change, []), now_ms)
                return
            # A contradiction of stale news about ourselves also goes back to its sender.
            self.flood(news, but=peer.name if news is change else "")
            self._step_later(now_ms)
        self._unacknowledged[peer.connection] = peer

    def next_deadline(self) -> int | None:
        """When to continue changes of filters that take several steps."""
        return self._step_ms

    def on_deadline(self, *, now_ms: int) -> list[Held]:
        """Continues changes of filters; returns the links that need not wait any longer."""
        if self._step_ms is None or now_ms < self._step_ms:
            return []
        news = self._filters.step() if self._filters.has_steps else None
        if news is not None:
            bringer = next((each.peer for each in self.held.values() if each.change is news), None)
            self.flood(news, but=bringer.name if bringer is not None else "")
            if bringer is not None:
                self._unacknowledged[bringer.connection] = bringer
        resumed = [each for each in self.held.values() if not self._waits(each, news)]
        for each in resumed:
            del self.held[each.peer.connection]
            self._connections.add_effect(Resume(each.peer.connection))
        for each in self.held.values():
            # It is not silent: we hold its frames.
            each.peer.heard_ms = now_ms
        self._step_later(now_ms)
        return resumed

    def _waits(self, held: Held, news: HostChange | None) -> bool:
        if held.change is not None and held.change is news:
            # In force; nobody relies on what is still to be removed from the index.
            return False
        return self._filters.is_changing(held.host)

    def _hold(self, held: Held, now_ms: int) -> None:
        self.held[held.peer.connection] = held
        self._unacknowledged.pop(held.peer.connection, None)
        self._connections.add_effect(Hold(held.peer.connection))
        self._step_later(now_ms)

    def _step_later(self, now_ms: int) -> None:
        self._step_ms = None
        if self._filters.has_steps or self.held:
            self._step_ms = now_ms + 1
            self.due.by(self._step_ms)

    def on_filter_ack(self, peer: Peer, frame: FilterAck) -> None:
        """The neighbour has applied our filter updates up to a number."""
        assert peer.sequence is not None
        peer.sequence.acknowledge(frame.sequence)

    def on_probe(self, probe: FilterProbe, *, now_ms: int) -> None:
        """A host asks whether the path from a pubend knows its filter: forwards the probe, or answers at the pubend."""
        if self._topology.origin_of(probe.pubend) != self._settings.name:
            self.say_to(self._router.place_in(probe.pubend).parent, probe)
            return
        if self._guaranteed.beginnings.waits(probe.pubend):
            # The host asks again.
            return
        incarnation, version = self._filters.version_of(probe.host)
        if (incarnation, version) >= (probe.incarnation, probe.version):
            tick = self._guaranteed.next_tick(probe.pubend) or self._pubends.last_tick(probe.pubend) + 1
            self._guaranteed.expect(probe.pubend, probe.host, tick, now_ms=now_ms)
            self.on_applied(FilterApplied(probe.host, incarnation, version, probe.pubend, tick), now_ms=now_ms)

    def on_applied(self, frame: FilterApplied, *, now_ms: int) -> None:
        """Forwards the answer to a probe down the tree, or takes it if it is for this broker."""
        if frame.host != self._settings.name:
            self.say_to(self._router.place_in(frame.pubend).towards(frame.host), frame)
        elif frame.incarnation == self._filters.incarnation:
            self._readiness.confirm(frame.pubend, frame.version, frame.tick)
            if self._guaranteed.knows(frame.pubend):
                self._guaranteed.confirm(frame.pubend, frame.version, frame.tick, now_ms=now_ms)

    # --- what neighbours are told

    def acknowledge(self) -> None:
        """Acknowledges the filter updates of this turn, once per link."""
        if not self._unacknowledged:
            return
        for peer in self._unacknowledged.values():
            assert peer.sequence is not None
            self._connections.say(peer, FilterAck(peer.sequence.received))
        self._unacknowledged = {}

    def flood(self, change: HostChange | None, but: str = "") -> None:
        """Sends a change of a filter to all neighbours but one."""
        if change is not None:
            for name, peer in self._connections.links.items():
                if name != but:
                    self._say_change(peer, change)

    def probe(self) -> None:
        """Probes the pubends whose confirmation some subscription still waits for."""
        awaited = self.awaited()
        # A pubend that is probed keeps its log for this host, which reports on streams that it wants only.
        wanted = [pubend for pubend in awaited if self._guaranteed.edges.wants(pubend)]
        asking = dict(self._readiness.unconfirmed(wanted))
        asking |= dict.fromkeys(self._guaranteed.unopened(awaited), self._filters.version)
        for pubend, version in asking.items():
            probe = FilterProbe(self._settings.name, self._filters.incarnation, version, pubend)
            self.say_to(self._router.place_in(pubend).parent, probe)
        if not asking and not self.out_of_reach():
            self._readiness.rest()

    def awaited(self) -> list[str]:
        """What a subscription has to wait for: reachable pubends, and neighbours not heard from since the start."""
        names = [pubend for pubend in self._others_pubends() if self._router.place_in(pubend).reached]
        graph = self._topology.graph()
        # A home that others have a link with has been heard of.
        never_met = [name for name in self._never_met if not (name in self._settings.homes and graph.get(name))]
        return names + [f"pubends behind broker {name} (not connected yet)" for name in never_met]

    def out_of_reach(self) -> list[str]:
        """Pubends that exist but cannot be reached now: nobody waits for them, but subscribers are told."""
        return [pubend for pubend in self._others_pubends() if not self._router.place_in(pubend).reached]

    def _others_pubends(self) -> list[str]:
        return self._topology.pubends_within(frozenset(self._topology.graph()) - {self._settings.name})

    def say_to(self, neighbour: str | None, frame: ControlFrame) -> None:
        """Sends a frame to a neighbour, if there is a link with it."""
        peer = self._connections.links.get(neighbour or "")
        if peer is not None:
            self._connections.say(peer, frame)

    def _say_change(self, peer: Peer, change: HostChange) -> None:
        assert peer.sequence is not None
        for update in peer.sequence.number(change):
            self._connections.say(peer, update)

    def _flood_state(self, state: LinkState, but: str = "") -> None:
        for name, peer in self._connections.links.items():
            if name != but:
                self._connections.say(peer, state)


def challenge_for(peer: Peer, secret: bytes) -> bytes:
    """The challenge for the other end of a connection: never repeated in a life of a broker, and unpredictable.

    It does not depend on the token: strangers see it, and could try their guesses on it.
    """
    return hmac_digest(secret, _encode((_CHALLENGE, peer.connection)), sha256)


def proof_of(peer: Peer, settings: BrokerSettings) -> bytes:
    """The proof with which this broker answers the hello of the other end."""
    return _proof(peer, settings, role=_DIALLED if peer.dialled else _ACCEPTED)


def is_proof(proof: bytes, peer: Peer, settings: BrokerSettings) -> bool:
    """Whether this is a neighbour's answer to the challenge of this broker."""
    return compare_digest(proof, _proof(peer, settings, role=_ACCEPTED if peer.dialled else _DIALLED))


def _proof(peer: Peer, settings: BrokerSettings, *, role: str) -> bytes:
    assert peer.greeting is not None
    own, other = (settings.name, peer.challenge), (peer.greeting.name, peer.greeting.challenge)
    ends = (own, other) if peer.dialled else (other, own)
    return _digest(settings, (role, settings.overlay, *ends))


def _digest(settings: BrokerSettings, words: tuple[object, ...]) -> bytes:
    return hmac_digest(settings.link_credential.encode(), _encode(words), sha256)
