"""Which frames a broker accepts from whom, and which of its parts handles each: tables for links and for clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.broker.peers import Peer, PeerKind
from penstock.protocol import frames as f
from penstock.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from penstock.broker.clients.desk import Desk
    from penstock.broker.clients.intake import Intake
    from penstock.broker.clients.log_desk import LogDesk
    from penstock.broker.clients.trace_desk import TraceDesk
    from penstock.broker.clients.visitors import Visitors
    from penstock.broker.guaranteed import Guaranteed
    from penstock.broker.mechanisms.carrying import Mechanisms
    from penstock.broker.mechanisms.congestion import Congestion
    from penstock.broker.mechanisms.migration import Migrations
    from penstock.broker.neighbours.neighbourhood import Neighbourhood
    from penstock.broker.transit.routing import Router
    from penstock.broker.work_desk import WorkDesk

__all__ = [
    "Handler",
    "carry_handlers",
    "client_handlers",
    "link_handlers",
    "only",
    "stream_handlers",
    "trace_handlers",
    "work_handlers",
]

Handler: TypeAlias = Callable[[Peer, Any, int], None]
"""Handles a frame from a peer, at a given time."""


def link_handlers(neighbourhood: Neighbourhood, router: Router, mechanisms: Mechanisms) -> dict[type, Handler]:
    """Handlers for what brokers tell each other about the overlay, and for best-effort messages."""
    return _all_of(
        PeerKind.LINK,
        {
            f.FilterUpdate: lambda peer, frame, now_ms: neighbourhood.on_filter_update(peer, frame, now_ms=now_ms),
            f.FilterAck: lambda peer, frame, _: neighbourhood.on_filter_ack(peer, frame),
            f.FilterProbe: _from_host(router, lambda _, frame, now_ms: neighbourhood.on_probe(frame, now_ms=now_ms)),
            f.FilterApplied: _from_pubend(
                router, lambda _, frame, now_ms: neighbourhood.on_applied(frame, now_ms=now_ms)
            ),
            f.Forward: lambda peer, frame, _: router.forward(frame, peer.name),
            f.Remembered: lambda peer, frame, now_ms: neighbourhood.on_remembered(peer, frame, now_ms=now_ms),
            f.MechanismMessage: mechanisms.on_message,
        },
    )


def stream_handlers(
    guaranteed: Guaranteed, logs: LogDesk, congestion: Congestion, router: Router
) -> dict[type, Handler]:
    """Handlers for frames about guaranteed streams: from hosts up a pubend's tree, from the pubend down."""
    upward: dict[type, Handler] = {
        f.Nack: lambda peer, frame, now_ms: guaranteed.on_nack(peer, frame, now_ms=now_ms),
        f.StreamOpen: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamForget: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamList: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamSettle: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.LogRequest: lambda _, frame, __: logs.on_request(frame),
        f.CongestionAlert: lambda _, frame, now_ms: congestion.on_alert(frame, now_ms=now_ms),
    }
    downward: dict[type, Handler] = {
        f.StreamOpened: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamTaken: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamForgotten: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamListed: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.StreamSettled: lambda _, frame, now_ms: guaranteed.on_stream_frame(frame, now_ms=now_ms),
        f.LogSpan: lambda _, frame, __: logs.on_span(frame),
        f.LogAnswer: lambda _, frame, __: logs.on_answer(frame),
        f.CongestionQuery: lambda _, frame, now_ms: congestion.on_query(frame, now_ms=now_ms),
    }
    return _all_of(
        PeerKind.LINK,
        {
            # These two check the sender themselves: versions announced on a connection count whoever is the parent, and
            # one frame carries the positions of several hosts.
            f.KnowledgeMessage: lambda peer, frame, now_ms: guaranteed.on_knowledge(peer, frame, now_ms=now_ms),
            f.Positions: lambda peer, frame, now_ms: guaranteed.on_positions(peer, frame, now_ms=now_ms),
            **{kind: _from_host(router, handler) for kind, handler in upward.items()},
            **{kind: _from_pubend(router, handler) for kind, handler in downward.items()},
        },
    )


def carry_handlers(intake: Intake, visitors: Visitors, work: WorkDesk, router: Router) -> dict[type, Handler]:
    """Handlers for what brokers carry to pubends for their publishers and groups, and for the answers."""

    def on_carried(_: Peer, frame: f.Carried, now_ms: int) -> None:
        if not work.on_carried(frame, now_ms=now_ms):
            intake.carrying.on_carried(frame, now_ms=now_ms)

    return _all_of(
        PeerKind.LINK,
        {
            f.Carry: _from_host(router, lambda peer, frame, now_ms: visitors.on_carry(frame, peer.name, now_ms=now_ms)),
            f.Carried: _from_pubend(router, on_carried),
        },
    )


def trace_handlers(traces: TraceDesk, router: Router) -> dict[type, Handler]:
    """Handlers for what clients and brokers ask and answer about the path of a message."""

    def on_question(peer: Peer, frame: f.TraceQuestion, now_ms: int) -> None:
        # Questions to a broker travel up the tree of its system stream.
        if router.is_from_host(peer.name, f"${frame.to}", frame.asker):
            traces.on_question(frame, now_ms=now_ms)

    return {
        f.TraceRequest: only(
            PeerKind.CLIENT, lambda peer, frame, now_ms: traces.on_request(peer, frame, now_ms=now_ms)
        ),
        f.TraceQuestion: only(PeerKind.LINK, on_question),
        f.TraceAnswer: only(PeerKind.LINK, lambda _, frame, now_ms: traces.on_answer(frame, now_ms=now_ms)),
    }


def work_handlers(work: WorkDesk, router: Router) -> dict[type, Handler]:
    """Handlers for work queues: what members say, and what passes between hosts and pubends."""

    def hear(_: Peer, frame: Any, now_ms: int) -> None:
        work.hear(frame, now_ms=now_ms)

    def hear_handed(peer: Peer, frame: Any, now_ms: int) -> None:
        work.hear_handed(frame, peer.name, now_ms=now_ms)

    upward = (f.WorkAsk, f.WorkLeave, f.WorkVerdicts)
    downward = (f.WorkJoined, f.WorkOutcomes)
    return {
        f.Verdicts: only(PeerKind.CLIENT, lambda peer, frame, now_ms: work.verdicts(peer, frame, now_ms=now_ms)),
        **_all_of(PeerKind.LINK, {kind: _from_host(router, hear) for kind in upward}),
        **_all_of(PeerKind.LINK, {kind: _from_pubend(router, hear) for kind in downward}),
        **_all_of(PeerKind.LINK, {f.Handed: _from_pubend(router, hear_handed)}),
    }


def client_handlers(
    desk: Desk,
    intake: Intake,
    guaranteed: Guaranteed,
    logs: LogDesk,
    migrations: Migrations,
) -> dict[type, Handler]:
    """Handlers for frames of clients that a single part can answer."""
    positions = guaranteed.positions
    return _all_of(
        PeerKind.CLIENT,
        {
            f.Publish: intake.publish,
            f.Rewound: lambda peer, frame, _: intake.rewound(peer, frame),
            f.Skipped: lambda peer, frame, _: intake.skip(peer, frame),
            f.Acknowledge: lambda peer, frame, _: positions.acknowledge(peer, frame),
            f.Settle: lambda peer, frame, _: guaranteed.on_settle(peer, frame),
            f.Forget: lambda peer, frame, now_ms: desk.forget(peer, frame, now_ms=now_ms),
            f.DurablesRequest: lambda peer, frame, now_ms: desk.list_durables(peer, frame, now_ms=now_ms),
            f.InterestRequest: lambda peer, frame, _: desk.tell_interest(peer, frame),
            f.ReadRequest: lambda peer, frame, now_ms: logs.on_read_request(peer, frame, now_ms=now_ms),
            f.Moved: lambda peer, frame, now_ms: migrations.on_moved(peer, frame, now_ms=now_ms),
            f.MoveFailed: lambda peer, frame, _: migrations.on_failed(peer, frame),
            f.SurveyRequest: lambda peer, frame, now_ms: logs.on_survey_request(peer, frame, now_ms=now_ms),
        },
    )


def only(kind: PeerKind, handler: Handler) -> Handler:
    """Restricts a handler to peers of this kind; a frame from anybody else is a ``ProtocolError``."""

    def guarded(peer: Peer, frame: Any, now_ms: int) -> None:
        if peer.kind is not kind:
            raise ProtocolError(f"{type(frame).__name__} frames are not accepted from a {peer.kind.value}")
        handler(peer, frame, now_ms)

    return guarded


def _from_host(router: Router, handler: Handler) -> Handler:
    """Restricts a handler of frames from a host to a pubend: ignores those not from the neighbour towards the host."""

    def guarded(peer: Peer, frame: Any, now_ms: int) -> None:
        # An alert need not name a host.
        if router.is_from_host(peer.name, frame.pubend, frame.host or peer.name):
            handler(peer, frame, now_ms)

    return guarded


def _from_pubend(router: Router, handler: Handler) -> Handler:
    """Restricts a handler of frames from a pubend: ignores those not from the neighbour towards the pubend."""

    def guarded(peer: Peer, frame: Any, now_ms: int) -> None:
        if router.is_from_pubend(peer.name, frame.pubend):
            handler(peer, frame, now_ms)

    return guarded


def _all_of(kind: PeerKind, handlers: dict[type, Handler]) -> dict[type, Handler]:
    return {frame: only(kind, handler) for frame, handler in handlers.items()}
