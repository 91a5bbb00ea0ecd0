from __future__ import annotations

from client.scripted import deliver
from penstock.client.counters import ClientCounters
from penstock.protocol.frames import PublishAck, Refused, Rewind, Subscribed
from penstock.session.inbox import Wanted
from penstock.session.settings import ClientSettings
from session.stage import LOOSE, Stage


def test_the_counters_are_those_of_the_session() -> None:
    stage = Stage(settings=ClientSettings(linger_ms=0, batch_bytes=1))
    stage.welcome(stage.open())
    stage.session.subscribe(Wanted("TRUE"))
    for pubend, count in (("quotes", 3), (LOOSE, 2)):
        for _ in range(count):
            stage.publish(b"x", pubend)
    stage.pump()
    stage.tell(1, PublishAck(1, 1, "quotes"), Refused("publish", 2, "no", 1, "quotes"), Rewind(2, 1, "quotes"))
    stage.tell(1, PublishAck(1, 1, LOOSE), Subscribed(1, "TRUE", (), (("quotes", 0),)))
    stage.tell(1, deliver(1), deliver(1), deliver(2))
    stage.lose(1)
    stage.run(100)
    stage.welcome(stage.line)
    assert ClientCounters.of(stage.session) == ClientCounters(
        published=5, acknowledged=2, settled=4, refused=1, lost=1, received=3, repeated=1, reconnects=1
    )
