"""Who may say what: every frame has exactly one place, and nobody says what only others may."""

from __future__ import annotations

from typing import get_args

import pytest

from overlay import chain
from penstock.broker import frames as f
from penstock.broker.errors import ProtocolError
from penstock.broker.handlers import only
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Peer, PeerKind

TO_CLIENTS = {
    *(f.Welcome, f.Subscribed, f.Unsubscribed, f.Refused, f.PublishAck, f.HeldBack, f.Lost, f.Forgotten),
    *(f.SurveyReply, f.PubendNames, f.StatusReply, f.Deliver, f.Horizons),
}


def test_a_handler_hears_peers_of_its_kind_only() -> None:
    heard: list[object] = []
    handler = only(PeerKind.LINK, lambda peer, frame, now_ms: heard.append((peer.name, frame, now_ms)))
    peer = Peer(1, Outbox(control_bytes_max=1, data_bytes_max=1), 0, 0, kind=PeerKind.LINK, name="b2")
    handler(peer, f.Heartbeat(), 5)
    assert heard == [("b2", f.Heartbeat(), 5)]
    peer.kind = PeerKind.CLIENT
    with pytest.raises(ProtocolError, match="a Heartbeat from a client"):
        handler(peer, f.Heartbeat(), 5)


def test_every_frame_is_for_brokers_or_for_clients() -> None:
    broker = chain("pb").brokers["pb"]
    everything = {*get_args(f.ControlFrame), *get_args(f.DataFrame)}
    assert everything - TO_CLIENTS == {*broker._handlers}
