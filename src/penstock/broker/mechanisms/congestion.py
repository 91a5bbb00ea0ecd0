"""Congestion control in one broker: queries down the trees, alerts up, and the rates of its own pubends.

[Gryphon] section 3, as specified in decision record 8. As pubend a broker sends queries (DCQ) and shapes what is
published; as host it measures its doubt horizons and raises alerts (UCA); in between it forwards queries and
consolidates alerts. Both kinds of message overtake data on every link. Deviation: the pubend's own broker consolidates
the alerts of its children as the others do, so that one alert per query reaches the pubend in any tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.broker.due import Due
from penstock.broker.host.edges import Edges
from penstock.broker.pubend.log import PubendLog
from penstock.broker.rooms import Rooms
from penstock.broker.transit.carrier import Carrier
from penstock.congestion.consolidation import UcaConsolidation
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.pubend import PubendControl
from penstock.protocol.frames import HeldBack
from penstock.protocol.status import CongestionStatus, FlowStatus, RateStatus
from penstock.protocol.stream_frames import CongestionAlert, CongestionQuery

__all__ = ["Congestion"]

_WINDOW_S: Final = 0.5
"""How much publishers may have in flight: what the rate allows in this time."""

Figure: TypeAlias = float | int | str | bool | None


class Congestion:
    """One broker's part in controlling congestion."""

    def __init__(self, rooms: Rooms, logs: Mapping[str, PubendLog], edges: Edges, carrier: Carrier) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._router = rooms.router
        self._topology = rooms.topology
        self._logs = logs
        self._edges = edges
        self._carrier = carrier
        self.controls = {name: PubendControl(self._settings.congestion, now_ms=0) for name in logs}
        """The rate control of each pubend of this broker."""
        self._consolidations: dict[str, UcaConsolidation] = {}
        self._limited: dict[str, None] = {}
        self._measured_ms = 0
        """When horizons were last measured: a status is of that time, whenever it is asked for."""
        self.due = Due(self.next_deadline)
        self._told: dict[str, tuple[float, int]] = {}
        """By pubend: the rate and number of publishers last told to those that wait."""
        self.counts = {"dcqs_sent": 0, "dcqs_passed": 0, "ucas_raised": 0, "ucas_passed": 0, "ucas_heard": 0}

    def tune(self, *, now_ms: int) -> None:
        """Applies changed parameters."""
        settings = self._settings.congestion
        for control in self.controls.values():
            control.tune(settings, now_ms=now_ms)
        for edge in self._edges.edges.values():
            edge.tune(settings)
        for consolidation in self._consolidations.values():
            consolidation.settings = settings
        self.due.ask()
        self._edges.sampling.ask()
        self._on_rates()

    # --- frames of neighbours

    def on_query(self, frame: CongestionQuery, *, now_ms: int) -> None:
        """Handles a pubend's query for congested hosts."""
        self.counts["dcqs_passed"] += 1
        self._spread(frame, now_ms)

    def on_alert(self, frame: CongestionAlert, *, now_ms: int) -> None:
        """Handles an alert from a congested host downstream."""
        if self._topology.is_guaranteed(frame.pubend):
            uca = Uca(frame.seq, frame.min_nonrec, frame.min_rec, frame.lag_ms, frame.host)
            self._alert(frame.pubend, uca, now_ms)

    # --- time

    def next_deadline(self) -> int | None:
        """When to send the next query; ``Edges`` knows when to measure horizons."""
        if not self._settings.congestion.pdcc:
            return None
        wishes = [control.next_deadline() for control in self.controls.values()]
        return min([each for each in wishes if each is not None], default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Measures horizons, sends queries, and adapts rates."""
        self._measured_ms = now_ms
        for edge in self._edges.edges.values():
            edge.control.on_deadline(edge.stream.horizon, edge.stream.ignored_ticks, now_ms=now_ms)
        for pubend, control in self.controls.items():
            dcq = control.on_deadline(self._logs[pubend].promised, now_ms=now_ms)
            if dcq is not None:
                self.counts["dcqs_sent"] += 1
                self._spread(CongestionQuery(pubend, dcq.seq, dcq.position), now_ms)
        self._on_rates()

    # --- figures

    def status(self) -> CongestionStatus:
        """The rates of pubends, and the progress of this host's streams."""
        now_ms = self._measured_ms
        return CongestionStatus(
            {pubend: _rate_status(control, now_ms) for pubend, control in self.controls.items()},
            {
                pubend: FlowStatus(
                    horizon_rate=round(edge.control.horizon_rate.rate, 3),
                    lag_ms=edge.control.alerts.lag_ms,
                    recovering=edge.control.is_recovering(now_ms=now_ms),
                    nack_window_ms=edge.control.nacks.window_ms,
                )
                for pubend, edge in self._edges.edges.items()
            },
        )

    def limit(self, pubend: str, publishers: int) -> HeldBack:
        """The notice for publishers that have to wait for a pubend's rate; unchanged as long as little changes."""
        rate = self.controls[pubend].rate_msg_s
        if rate is None:
            # No limit: what waits may go at once.
            return HeldBack("")
        told = self._told.get(pubend)
        if told is None or not 0.8 <= rate / told[0] <= 1.25 or told[1] != publishers:
            told = self._told[pubend] = (rate, publishers)
        rate, publishers = told
        window = max(int(rate * _WINDOW_S * self._logs[pubend].mean_bytes / publishers), 1)
        return HeldBack(self._why_limited(pubend, rate), window)

    def _why_limited(self, pubend: str, rate: float) -> str:
        uca = self.controls[pubend].pdcc.last_uca
        who = f", since broker {uca.host} falls behind" if uca is not None and uca.host else ""
        return f"pubend {pubend} is limited to {rate:.3g} messages/s{who}"

    def check_invariants(self) -> None:
        """Fails if the rates are not sound."""
        for control in self.controls.values():
            control.check_invariants()

    # --- inside

    def _spread(self, frame: CongestionQuery, now_ms: int) -> None:
        """Forwards a query, and answers it for this broker's own clients."""
        for child in self._carrier.children(frame.pubend):
            self._connections.say(child, frame)
        edge = self._edges.edges.get(frame.pubend)
        if edge is not None:
            dcq = Dcq(frame.seq, frame.position)
            uca = edge.control.on_dcq(dcq, edge.stream.horizon, edge.stream.ignored_ticks, now_ms=now_ms)
            if uca is not None:
                self.counts["ucas_raised"] += 1
                self._alert(frame.pubend, uca.by(self._settings.name), now_ms)

    def _alert(self, pubend: str, uca: Uca, now_ms: int) -> None:
        consolidation = self._consolidations.setdefault(pubend, UcaConsolidation(self._settings.congestion))
        passed = consolidation.on_uca(uca)
        if passed is None:
            return
        control = self.controls.get(pubend)
        if control is not None:
            self.counts["ucas_heard"] += 1
            control.on_uca(passed, now_ms=now_ms)
            self._on_rates()
            return
        parent = self._connections.links.get(self._router.place_in(pubend).parent or "")
        if parent is not None:
            self.counts["ucas_passed"] += 1
            alert = CongestionAlert(pubend, passed.seq, passed.min_nonrec, passed.min_rec, passed.lag_ms, passed.host)
            self._connections.say(parent, alert)

    def _on_rates(self) -> None:
        """Applies changed rates: a limited pubend announces silence more often, and the operator is told."""
        for pubend, control in self.controls.items():
            self._logs[pubend].speak_every(control.silence_ms(self._settings.silence_ms))
            is_limited = control.rate_msg_s is not None
            if is_limited and pubend not in self._limited:
                self._limited[pubend] = None
                self._connections.record(
                    "pubend-limited", pubend=pubend, reason=self._why_limited(pubend, control.rate_msg_s or 0.0)
                )
            elif not is_limited and self._limited.pop(pubend, 0) is None:
                self._connections.record("pubend-unlimited", pubend=pubend)


def _rate_status(control: PubendControl, now_ms: int) -> RateStatus:
    pdcc, uca = control.pdcc, control.pdcc.last_uca
    rate = control.rate_msg_s
    return RateStatus(
        rate_msg_s=round(pdcc.actual_msg_s(now_ms=now_ms), 1),
        allowed_msg_s=None if rate is None else round(rate, 1),
        decreases=pdcc.decreases,
        increases=pdcc.increases,
        uca_seq=0 if uca is None else uca.seq,
        uca_rate=None if uca is None else round(min(uca.min_nonrec, uca.min_rec), 3),
        uca_host="" if uca is None else uca.host,
    )
