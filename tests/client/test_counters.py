from __future__ import annotations

from client.scripted import deliver
from penstock.client.counters import ClientCounters
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import PROTOCOL_VERSION, Frame, PubendNames, PublishAck, Refused, Subscribed, Welcome
from penstock.session.inbox import Wanted
from penstock.session.session import Session
from penstock.session.settings import ClientSettings


def test_the_counters_are_those_of_the_session() -> None:
    session = Session(ClientSettings(linger_ms=0, batch_bytes=1), name="me")
    welcome = Welcome(PROTOCOL_VERSION, "b", "o", 1, 1, 0, 1_000, 1_000)
    session.on_connected(now_ms=0)
    session.on_data(encode_frame(welcome) + encode_frame(PubendNames(((0, "p"),))), now_ms=0, wall_ms=0)
    session.subscribe(Wanted("TRUE"))
    for _ in range(4):
        session.publish(b"x", "", now_ms=0)
    session.take_frames(now_ms=0)
    answers: list[Frame] = [PublishAck(1, 1), Refused("publish", 2, "no"), Subscribed(1, "TRUE", (), (("p", 0),))]
    answers += [deliver(1), deliver(1), deliver(2)]
    session.on_data(b"".join(map(encode_frame, answers)), now_ms=0, wall_ms=0)
    session.on_disconnected()
    session.on_connected(now_ms=0)
    session.on_data(encode_frame(welcome), now_ms=0, wall_ms=0)
    assert ClientCounters.of(session, reconnects=1) == ClientCounters(
        published=4, acknowledged=1, settled=4, refused=1, lost=2, received=3, repeated=1, reconnects=1
    )
