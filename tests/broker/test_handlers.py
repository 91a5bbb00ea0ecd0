"""Who may say what: one table for links, one for clients, and a breach of the protocol for everybody else."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.handlers import only
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Peer, PeerKind
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Heartbeat


def peer(kind: PeerKind) -> Peer:
    return Peer(1, Outbox(control_bytes_max=1_000, data_bytes_max=1_000), 0, 0, kind=kind)


@pytest.mark.parametrize("kind", list(PeerKind))
@pytest.mark.parametrize("allowed", list(PeerKind))
def test_a_frame_is_heard_from_one_kind_of_peer_only(allowed: PeerKind, kind: PeerKind) -> None:
    heard: list[Any] = []
    handler = only(allowed, lambda _, frame, now_ms: heard.append((frame, now_ms)))
    frame = Heartbeat(7)
    if kind is allowed:
        handler(peer(kind), frame, 5)
        assert heard == [(frame, 5)]
    else:
        with pytest.raises(ProtocolError, match=f"^Heartbeat frames are not accepted from a {kind.value}$"):
            handler(peer(kind), frame, 5)
        assert heard == []
