"""Runs a broker for real, with its sockets, links and store, a single timer, and an orderly shutdown.

Within a turn stimuli go to the broker. At its end the effects of all frames that arrived are carried out together, each
connection that has something to send gets one write, and the timer is checked once (``turns``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.balancing.metrics import HostFigures
from penstock.broker.broker import Broker
from penstock.broker.effects import Close, Effect, EndLife, Hold, Operate, Record, Resume, Wake
from penstock.broker.mechanisms.operating import Operation
from penstock.broker.ports import BrokerPort
from penstock.live.backup import Backup
from penstock.live.connection import Connection
from penstock.live.counters import Counters
from penstock.live.dialler import Diallers
from penstock.live.endings import Departures, wait_for_ends
from penstock.live.entrance import Door, Entrance
from penstock.live.errors import ConfigError, NodeFailedError, SupersededError
from penstock.live.homes import Homes
from penstock.live.listening import exposed_secrets, listen
from penstock.live.measuring import Measuring
from penstock.live.membership import OverlayChange, TlsState, change_for, read_again
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Overlay
from penstock.live.shipping.service import Shipping
from penstock.live.stomp_connection import StompConnection, StompDialect, stomp_farewell
from penstock.live.storage import Stimulus, Storage, check_served
from penstock.live.tenure import Tenure
from penstock.live.turns import Turns, Worker
from penstock.live.unfinished import Unfinished
from penstock.live.websocket import WebSocketProtocol, WebSocketSettings, require_websockets
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame
from penstock.protocol.stomp import StompLimits
from penstock.stomp import Rendering, StompPeer
from penstock.system.clock import Clock
from penstock.system.line_limit import LineLimit
from penstock.system.logs import log, log_bug

if TYPE_CHECKING:
    from penstock.live.admin import AdminServer

__all__ = ["BrokerNode"]

_AFTER_BUG_S: Final = 0.1
"""How long deadlines wait after a bug in handling one."""
_IDENTITY_BYTES: Final = 16
_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
_BY_STRANGERS: Final = frozenset({"client-refused"})
"""Records that anybody who reaches the port can cause, as often as they like."""


class BrokerNode:
    """One broker of an overlay, running; use it with ``async with``, or ``start`` and ``stop``."""

    def __init__(
        self,
        overlay: Overlay,
        name: str,
        *,
        rng: Random | None = None,
        broker: BrokerPort | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        """A home is made for one tenure, and does nothing any more once that is over."""
        self.overlay = overlay
        self.name: Final = name
        self.place = overlay.place_of(name)
        self._is_home = name in overlay.homes
        self._tenure = tenure
        self._is_silent = False
        self.clock: Final = Clock()
        self.counters = Counters()
        self._rng = rng if rng is not None else Random(SystemRandom().randrange(2**63))
        self._settings = overlay.settings_for(name)
        # Made at the start, from what the store recovers, unless the caller brings one.
        self._given = broker
        self.broker: BrokerPort
        self.incarnation = self.clock.started_ms
        self.turns: Final = Turns(give_up=self._give_up, settle=self._settle, on_end=self._arm)
        self._heard: list[Connection] = []
        """Connections with frames that the broker has heard in this turn, and whose effects are not carried out yet."""
        self._storage = Storage(
            overlay, name, tenure=tenure, turns=self.turns, stimulate=self.stimulate, fail=self._on_failed
        )
        self._measuring = Measuring(self._on_measured)
        self._shipping = Shipping(overlay, name, self, clock_ms=self.clock.now_ms, rng=self._rng)
        self.has_failed: Final = asyncio.Event()
        """Set when the node is to stop, after a failure or at the operator's request."""
        self.failure: NodeFailedError | None = None
        """The failure that stopped the node."""
        self._connections: dict[int, Connection] = {}
        self._departures = Departures(self.turns, self._on_departed)
        self._stranger_lines = LineLimit()
        self._last_number = 0
        self._entrance: Entrance | None = None
        self._rendering = Rendering()
        """The messages that STOMP clients got last."""
        self._unfinished = Unfinished()
        self._diallers = Diallers(self._make, on_failed=self._on_dial_failed, rng=self._rng)
        self._tls = TlsState(None)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._is_stopping = False
        self._stopping: asyncio.Task[None] | None = None
        self._admin: AdminServer | None = None
        self._unreachable: dict[str, str] = {}
        self.homes: Final = Homes(overlay, name, make=BrokerNode)
        """The homes for which this broker is a candidate."""

    # From outside.

    async def start(self) -> None:
        """Open the store, listen, and dial the neighbours; raises ``ConfigError`` if it may not or cannot."""
        assert self._entrance is None, "a node starts once"
        place = self.place
        self.overlay.check(self.name)
        self._tls = TlsState(place.tls, listens=not self._is_home)
        if place.database is not None and not self._is_home:
            # Opening a store in a database ends whoever has it: not for a broker that then cannot listen.
            for each in await listen(place, place.port):
                each.close()
        recovered, self.incarnation = await self._storage.open(started_ms=self.clock.started_ms)
        try:
            moved = [home.pubend for home in self.overlay.candidate_for(self.name)]
            for pubend, size_bytes in check_served(place, recovered, moved).items():
                self._note("pubend-unserved", pubend=pubend, size_bytes=size_bytes, advice="put it back, or forget it")
            await self._shipping.start(recovered, self.incarnation, storage=self._storage)
            self.broker = self._given or Broker(
                self._settings,
                incarnation=self.incarnation,
                rng=self._rng,
                recovered=recovered,
                stopwatch=time.perf_counter_ns if self._settings.balancing.is_on else None,
                beside=self.homes if self.overlay.candidate_for(self.name) else None,
            )
            self._entrance = Entrance(
                [] if self._is_home else await self._doors(),
                self._tls.serving,
                counters=self.counters,
                note=self._note,
            )
            self._entrance.limit(self._settings)
            self._entrance.open()
        except BaseException:
            await self._shipping.stop()
            await self._storage.close()
            raise
        doors = {"stomp": place.stomp.port, "stomp_websocket": place.stomp.websocket_port}
        self._note(
            "started",
            address="{}:{}".format(*self.address),
            incarnation=self.incarnation,
            **{name: port for name, port in doors.items() if port and not self._is_home},
        )
        for event, fields in exposed_secrets(self.overlay, place):
            self._note(event, **fields)
        await self._start_admin()
        self._diallers.call(self.overlay.dialled_by(self.name), self._tls.dialling)
        if self._settings.balancing.is_on:
            self._measuring.start(self._settings.balancing.measure_ms)
        self.turns.end_later()
        self.homes.start(self.address)

    def apply(self, overlay: Overlay) -> OverlayChange:
        """Apply a changed overlay; raises ``ConfigError``, and changes nothing, if that is not possible."""
        change = self.change_to(overlay)
        if change:
            place = overlay.place_of(self.name)
            self._tls.reload(place.tls)
            self._dispatch(self.broker.apply(overlay.settings_for(self.name), now_ms=self.clock.now_ms()))
            self._diallers.call(overlay.dialled_by(self.name), self._tls.dialling)
            self._note("overlay-applied", changes="; ".join(change.lines()))
            self.place = place
        self.overlay = overlay
        assert self._entrance is not None, "the node has not started"
        self._entrance.limit(overlay.settings_for(self.name))
        self.homes.apply(overlay)
        return change

    def change_to(self, overlay: Overlay) -> OverlayChange:
        """What a new overlay would change; raises ``ConfigError`` if it cannot be applied."""
        return change_for(self.name, self.overlay, overlay, port=self.address[1], tls=self._tls)

    def reread(self, *, digest: str = "", is_trial: bool = False) -> OverlayChange:
        """Apply the file that the node was started with, if it has that digest; or only report what would change."""
        overlay = read_again(self.overlay, digest)
        return self.change_to(overlay) if is_trial else self.apply(overlay)

    async def ship(self) -> dict[str, Any]:
        """Ship pending records to the lake; raises ``ShipError``, or ``ConfigError`` if there is no lake."""
        return await self._shipping.ship()

    def retire(self, names: Sequence[str]) -> None:
        """Have the broker drop filters that are in the lake, as far as they are its oldest."""
        self._dispatch(self.broker.retire(names, now_ms=self.clock.now_ms()))

    def operate(self, operation: Operation) -> None:
        """Have the broker carry out an operator's command; raises ``MisuseError`` if it cannot."""
        self._dispatch(self.broker.operate(operation, now_ms=self.clock.now_ms()))

    def back_up(self, folder: Path) -> Backup:
        """Begin to copy the store into a folder; raises ``ConfigError`` if that cannot be."""
        return self._storage.back_up(folder)

    def finish(self) -> None:
        """Make the program that runs this node stop it in order, as after a signal."""
        self.has_failed.set()

    async def stop(self) -> None:
        """Say goodbye to all peers, send and commit what is queued within a time limit, and clean up."""
        self._begin_to_stop()
        if self._stopping is not None:
            # Shielded: a cancelled caller must not stop the shutdown that others wait for.
            await asyncio.shield(self._stopping)

    def _begin_to_stop(self) -> None:
        if self._entrance is not None and self._stopping is None:
            self._is_stopping = True
            self._stopping = asyncio.create_task(self._stop(self._entrance), name=f"stop {self.name}")

    def fall_silent(self) -> None:
        """Handle and send nothing from now on: what this node knows may be out of date."""
        if self._is_silent:
            return
        self._is_silent = True
        self._note("fell-silent")
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            connection.abort()

    async def cut_off(self) -> None:
        """End at once, without a goodbye; what is not durable yet was never acknowledged."""
        self.fall_silent()
        if self._stopping is None:
            self._is_stopping = True
            self._stopping = asyncio.create_task(self._end(), name=f"end {self.name}")
        await asyncio.shield(self._stopping)

    async def _end(self) -> None:
        self._measuring.stop()
        self._storage.abandon()
        await self._diallers.stop()
        await wait_for_ends(self._connections)
        await self._shipping.stop()
        self.turns.stop()
        self._note("ended")

    def _may_not_act(self) -> bool:
        """Whether this node must not handle anything any more; if so, it falls silent."""
        if self._tenure is not None and not self._tenure.may_act():
            self.fall_silent()
        return self._is_silent

    async def _stop(self, entrance: Entrance) -> None:
        await self.homes.stop()
        if self._may_not_act():
            await self._end()
            return
        await entrance.close()
        self._measuring.stop()
        await self._diallers.stop()
        self._heard = []
        self._dispatch(self.broker.shutdown(now_ms=self.clock.now_ms()))
        self.turns.end()
        for connection in list(self._connections.values()):
            connection.close()
        await wait_for_ends(self._connections)
        await self._shipping.stop()
        await self._storage.close()
        if self._timer is not None:
            self._timer.cancel()
        self.turns.stop()
        if self._admin is not None:
            await self._admin.stop()
        self._note("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which it actually listens."""
        assert self._entrance is not None, "the node has not started"
        return self._entrance.address

    @property
    def opening_reason(self) -> str:
        """Why its store takes long to open; empty if it does not, or is open."""
        return self._storage.opening_reason

    @property
    def is_serving(self) -> bool:
        """Whether the node has started and is not shutting down."""
        is_there = self._entrance is not None and (self._entrance.is_open or self._is_home)
        return is_there and not self._is_stopping and not self._is_silent

    def status(self) -> NodeStatus:
        """The broker's own status, and the counters of the shell."""
        return NodeStatus(
            name=self.name,
            overlay=self.overlay.name,
            address="{}:{}".format(*self.address),
            uptime_ms=self.clock.now_ms() - self.clock.started_ms,
            serving=self.is_serving,
            broker=self.broker.status(),
            node=self.counters.as_dict(),
            store=self._storage.status() or {},
            stores=self.homes.stores(),
            shipping=self._shipping.status() or {},
        )

    # From connections.

    def on_made(self, connection: Connection) -> None:
        """Tell the broker of a new connection, unless it has to be refused."""
        self.counters.open_connections += 1
        self._connections[connection.number] = connection
        if self._may_not_act():
            connection.abort()
            return
        if connection.dialled:
            self.counters.dialled += 1
            self._unreachable.pop(connection.dialled, None)
        else:
            self.counters.accepted += 1
        if refusal := self._refusal(connection):
            self._note("refused", peer=connection.peer, reason=refusal[1])
            connection.refuse(*refusal)
            return
        number, now_ms = connection.number, self.clock.now_ms()
        effects = self.broker.connect(
            number,
            now_ms=now_ms,
            dialled=connection.dialled,
            certificate=connection.certificate,
            source=connection.source,
            is_movable=connection.is_movable,
        )
        connection.outbox = self.broker.outbox(number)
        self._dispatch(effects)

    def on_frames(self, connection: Connection, frames: list[Frame]) -> None:
        """Pass a batch of frames to the broker; what follows from it is done at the end of the turn."""
        if self._may_not_act():
            return
        if not self._heard:
            self.turns.end_later()
        self._heard.append(connection)
        try:
            self.broker.hear(connection.number, frames, now_ms=self.clock.now_ms())
        except ProtocolError as error:
            connection.refuse("protocol", str(error))
            self.on_broken(connection, str(error))
        except Exception as error:  # noqa: BLE001 - a bug must not take the other connections down
            self._give_up(connection, error)
        if connection.is_known:
            return
        # At once: nothing that a stranger sends after its first bad frame counts.
        self._settle()
        if self.broker.knows(connection.number):
            connection.know()

    def _settle(self) -> None:
        """Carry out what follows from all frames that arrived in this turn, at the expense of those who sent them."""
        heard = self._heard
        if not heard or self._may_not_act():
            return
        self._heard = []
        started_s = self.turns.clock()
        try:
            self._dispatch(self.broker.finish(now_ms=self.clock.now_ms()))
        except Exception as error:  # noqa: BLE001 - a bug must not keep what is queued from being sent
            self._on_bug(error)
        # Always: what a message costs decides how many of them may be handled in one go.
        each_s = (self.turns.clock() - started_s) / len(heard)
        for connection in heard:
            connection.charge(each_s)

    def on_progress(self, connection: Connection, unfinished_bytes: int) -> None:
        """More of a large frame has arrived."""
        self.broker.progress(connection.number, unfinished_bytes, now_ms=self.clock.now_ms())

    def on_broken(self, connection: Connection, reason: str) -> None:
        """The peer broke the protocol; its connection is ending."""
        self.counters.malformed += 1
        if connection.is_known:
            self._note("malformed", peer=connection.peer, connection=connection.number, reason=reason)
        else:
            fields = (("peer", connection.peer), ("connection", connection.number), ("reason", reason))
            self._note_stranger("malformed", "malformed", fields)
        self._dispatch(self.broker.disconnect(connection.number, now_ms=self.clock.now_ms()))

    def on_lost(self, connection: Connection, *, is_news: bool) -> None:
        """Forget a closed connection."""
        self.counters.open_connections -= 1
        self.counters.closed += 1
        self._connections.pop(connection.number, None)
        self.turns.forget(connection)
        if is_news:
            self._departures.add(connection.number)

    def _on_departed(self, number: int) -> None:
        if self._may_not_act():
            return
        self._dispatch(self.broker.disconnect(number, now_ms=self.clock.now_ms()))

    # From the store, and from shipping.

    def stimulate(self, stimulus: Stimulus) -> None:
        """Pass the broker a stimulus that comes from no connection."""
        if self._may_not_act():
            return
        try:
            self._dispatch(stimulus(self.broker, self.clock.now_ms()))
        except Exception as error:  # noqa: BLE001 - the next thing that the store says may still be understood
            self._on_bug(error)

    def _on_measured(self, figures: HostFigures) -> None:
        self._dispatch(self.broker.measured(figures, now_ms=self.clock.now_ms()))

    def _on_failed(self, failure: NodeFailedError) -> None:
        self.failure = failure
        self.has_failed.set()
        if self._is_home:
            # It may not be its own any more: whoever runs it tells it how to end.
            self.fall_silent()
        else:
            self._begin_to_stop()

    # Inside.

    async def _start_admin(self) -> None:
        place = self.place
        if not place.admin_port:
            return
        # Only where it is used: loading an HTTP server takes time.
        from penstock.live.admin import AdminServer

        try:
            admin = AdminServer.of(self, self.overlay, place)
            await admin.start()
        except ConfigError:
            await self.stop()
            raise
        self._admin = admin

    async def _doors(self) -> list[Door]:
        """Listen on all ports of the broker."""
        place = self.place
        doors = [Door(await listen(place, place.port), self._make)]
        try:
            if place.stomp.port:
                doors.append(Door(await listen(place, place.stomp.port), self._make_stomp, stomp_farewell))
            if place.stomp.websocket_port:
                require_websockets(f"broker {self.name}")
                sockets = await listen(place, place.stomp.websocket_port)
                doors.append(Door(sockets, self._make_websocket, lambda _code, _reason: b""))
        except BaseException:
            for door in doors:
                for each in door.sockets:
                    each.close()
            raise
        return doors

    def _make(self, dialled: str = "") -> Connection:
        self._last_number += 1
        return Connection(self._last_number, self, dialled=dialled)

    def _make_stomp(self) -> StompConnection:
        self._last_number += 1
        settings = self.place.stomp
        peer = StompPeer(
            settings,
            self._rendering,
            identity=self._rng.randbytes(_IDENTITY_BYTES),
            dead_letters=self.overlay.settings_for(self.name).dead_letters,
        )
        limits = StompLimits(headers_max=settings.headers_max)
        return StompConnection(self._last_number, self, StompDialect(peer, limits, self.clock), self._unfinished)

    def _make_websocket(self) -> WebSocketProtocol:
        return WebSocketProtocol(
            self._make_stomp(),
            WebSocketSettings(subprotocols=_SUBPROTOCOLS, origins=self.place.stomp.origins_allowed),
        )

    def _on_dial_failed(self, neighbour: str, reason: str) -> None:
        self.counters.dials_failed += 1
        # Logged once per reason, not once per attempt: a neighbour may be down for days.
        if self._unreachable.get(neighbour) != reason:
            self._unreachable[neighbour] = reason
            self._note("dial-failed", neighbour=neighbour, reason=reason)

    def _refusal(self, connection: Connection) -> tuple[str, str] | None:
        """The code and reason with which to refuse a connection; None to accept it."""
        if self._is_stopping:
            return "shutdown", f"broker {self.name} is shutting down"
        if connection.dialled and self.place.tls is not None and connection.certificate != connection.dialled:
            return (
                "denied",
                f"dialled {connection.dialled}, but the certificate is {connection.certificate or 'nameless'}",
            )
        return None

    def _dispatch(self, effects: Sequence[Effect]) -> None:
        connections, turn = self._connections, self.turns.woken
        strangers: dict[str, str] = {}
        for effect in effects:
            if isinstance(effect, Wake):
                if (woken := connections.get(effect.connection)) is not None:
                    turn[effect.connection] = woken
            elif isinstance(effect, Close):
                self._close(effect, strangers)
            elif isinstance(effect, Hold | Resume):
                self._hold(effect)
            elif isinstance(effect, Record):
                self._on_record(effect, strangers)
            elif isinstance(effect, Operate):
                self._shipping.operate(effect)
            elif isinstance(effect, EndLife):
                self._on_failed(SupersededError(f"broker {self.name} had to end: {effect.reason}"))
            else:
                self._storage.carry_out(effect)
        self.turns.end_later()

    def _close(self, effect: Close, strangers: dict[str, str]) -> None:
        self.counters.malformed += effect.code == "protocol"
        closed = self._connections.get(effect.connection)
        if closed is not None:
            if not closed.is_known:
                strangers[str(effect.connection)] = effect.code
            closed.close(lingers=effect.code != "full")

    def _hold(self, effect: Hold | Resume) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            if isinstance(effect, Hold):
                connection.hold()
            else:
                connection.resume()

    def _on_record(self, effect: Record, strangers: dict[str, str]) -> None:
        """Log a record; lines that strangers cause are limited.

        The record after a ``Close`` names a stranger by its connection number, since it has no other name.
        """
        code = strangers.get(str(effect.fields[0][1])) if strangers and effect.fields else None
        if effect.event in _BY_STRANGERS:
            self._note_stranger(effect.event, effect.event, effect.fields)
        elif code is None:
            log(effect.event, (("broker", self.name), *effect.fields))
        else:
            self._note_stranger(effect.event, f"{effect.event} {code}", effect.fields)
        self._shipping.on_record(effect)

    def _arm(self) -> None:
        """Set the timer, unless it already fires early enough: deadlines that move later cost nothing."""
        if self._timer is not None and not self.broker.may_be_due_before(self._armed_ms):
            return
        deadline_ms = self.broker.next_deadline()
        if deadline_ms is None or self._is_stopping:
            return
        if self._timer is not None:
            if self._armed_ms <= deadline_ms:
                return
            self._timer.cancel()
        delay_s = max(0, deadline_ms - self.clock.now_ms()) / 1_000
        self._armed_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._may_not_act():
            return
        now_ms, deadline_ms = self.clock.now_ms(), self.broker.next_deadline()
        if deadline_ms is not None and deadline_ms <= now_ms:
            try:
                self._dispatch(self.broker.on_deadline(now_ms=now_ms))
            except Exception as error:  # noqa: BLE001 - the next deadline may still be met
                self._on_bug(error)
                # Whatever failed is still due: without a pause this would repeat as fast as the loop turns.
                self._timer = asyncio.get_running_loop().call_later(_AFTER_BUG_S, self._on_timer)
                self._armed_ms = 0
        self.turns.end_later()

    def _give_up(self, connection: Worker, error: Exception) -> None:
        """Log a bug, and close the connection that met it, but no other."""
        assert isinstance(connection, Connection)
        self._on_bug(error, connection.peer)
        connection.refuse("internal", "internal error: this connection ran into a bug of the broker")
        self._dispatch(self.broker.disconnect(connection.number, now_ms=self.clock.now_ms()))

    def _on_bug(self, error: Exception, peer: str = "") -> None:
        self.counters.bugs += 1
        log_bug("bug", (("broker", self.name), ("peer", peer)), error)

    def _note_stranger(self, event: str, kind: str, fields: tuple[tuple[str, str | int], ...]) -> None:
        """Log a line that peers can cause without authenticating, unless there are too many of its kind."""
        left_out = self._stranger_lines.left_out(kind)
        if left_out is not None:
            more: tuple[tuple[str, str | int], ...] = (("left_out", left_out),) if left_out else ()
            log(event, (("broker", self.name), *fields, *more))

    def _note(self, event: str, **fields: str | int) -> None:
        log(event, (("broker", self.name), *fields.items()))
