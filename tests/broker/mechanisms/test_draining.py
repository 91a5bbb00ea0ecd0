from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, star
from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain
from penstock.model.errors import MisuseError
from penstock.protocol import frames as f
from penstock.protocol.status import DrainStatus

TO = (Target("sb2", "at-sb2", 3), Target("sb3", "at-sb3", 1))


def hosts() -> Overlay:
    return star("pb", "sb1", "sb2", "sb3", pubends=("pb",), silent_ms=100_000, migration_ms=2_000)


def drain(overlay: Overlay, *targets: Target) -> None:
    overlay._act("sb1", overlay.brokers["sb1"].operate(Drain(targets), now_ms=overlay.now_ms))


def told(overlay: Overlay) -> DrainStatus:
    return overlay.brokers["sb1"].status().migration.drain


def orders(client: TestClient) -> list[f.Migrate]:
    return [frame for frame in client.heard if isinstance(frame, f.Migrate)]


def test_clients_go_to_whoever_has_the_fewest_and_it_is_told_how_far_it_is() -> None:
    overlay = hosts()
    clients = [overlay.client("sb1", f"c{number}") for number in range(4)]
    drain(overlay, *TO)
    assert [orders(client)[0].broker for client in clients] == ["sb3", "sb3", "sb2", "sb3"]
    assert (told(overlay).left, told(overlay).going) == (0, 4)
    for client in clients[:3]:
        client.say(f.Moved(orders(client)[0].session))
    overlay.wait(200)
    assert (told(overlay).left, told(overlay).going) == (3, 1)
    assert len({orders(client)[0].session for client in clients}) == 4


def test_who_could_not_go_is_asked_to_go_elsewhere_and_stays_at_last() -> None:
    overlay = hosts()
    client = overlay.client("sb1", "reader")
    drain(overlay, *TO)
    for count in (1, 2, 3):
        overlay.wait(600)
        assert len(orders(client)) == count
        client.say(f.MoveFailed(orders(client)[-1].session, "nobody there"))
    overlay.wait(5_000)
    assert [each.broker for each in orders(client)] == ["sb3", "sb2", "sb3"]
    assert told(overlay).staying == {"refusing": 1}
    assert told(overlay).reasons == ["reader: nobody there"]


def test_publishers_and_pinned_clients_stay() -> None:
    overlay = star("sb1", "sb2", pubends=("sb1",))
    publisher, pinned = overlay.client("sb1", "feed"), overlay.stranger("sb1")
    publisher.publish({"number": 1})
    pinned.say(f.Hello(f.PROTOCOL_VERSION, "client", "statue", "", pinned=True))
    drain(overlay, TO[0])
    assert told(overlay).staying == {"publishing": 1, "pinned": 1}
    assert told(overlay).going == 0
    assert not orders(publisher)
    assert not orders(pinned)


def test_who_cannot_be_moved_is_told_once_to_go() -> None:
    overlay = star("sb1", "sb2", pubends=("sb1",))
    fixed = overlay.stranger("sb1", is_movable=False)
    fixed.say(f.Hello(f.PROTOCOL_VERSION, "client", "statue", ""))
    assert "cannot be moved" in overlay.brokers["sb1"].migrations.obstacle(fixed.connection)
    drain(overlay, TO[0])
    overlay.wait(600)
    assert [each.broker for each in orders(fixed)] == [TO[0].broker]
    assert told(overlay).going == 1
    overlay.leave(fixed)
    assert (told(overlay).left, told(overlay).going) == (1, 0)


def test_nobody_is_let_in_until_it_is_called_off() -> None:
    overlay = hosts()
    drain(overlay, *TO)
    late = overlay.client("sb1", "late")
    assert late.heard == [f.Goodbye("draining", "broker sb1 is about to stop")]
    drain(overlay)
    again = overlay.client("sb1", "again")
    assert isinstance(again.heard[0], f.Welcome)
    overlay.wait(2_000)
    assert not orders(again)


def test_clients_go_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.mechanisms.draining._AT_ONCE_MAX", 2)
    overlay = hosts()
    clients = [overlay.client("sb1", f"c{number}") for number in range(5)]
    drain(overlay, TO[0])
    assert [len(orders(client)) for client in clients] == [1, 1, 0, 0, 0]
    for client in clients[:2]:
        client.say(f.Moved(orders(client)[0].session))
    overlay.wait(600)
    assert [len(orders(client)) for client in clients[2:]] == [1, 1, 0]


def test_a_broker_that_has_nowhere_to_send_them_refuses() -> None:
    overlay = hosts()
    with pytest.raises(MisuseError, match="no other broker that could take the clients of sb1"):
        drain(overlay, Target("sb1", "at-sb1"))
    assert told(overlay).on is False
