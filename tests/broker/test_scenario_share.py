"""Subscribers that are far behind catch up in slices: none takes long, live messages pass between, nothing is lost."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker.broker import Broker
from penstock.broker.effects import Effect
from penstock.broker.host.edge import CatchUp
from penstock.broker.host.edges import SURPRISE_MAX
from penstock.broker.share import SHARE_EFFORT_MAX, Share
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000
BEHIND = 3_000
SMALL_CACHE_BYTES = 5_000
"""Holds only the end of the log."""


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The effort of each slice that has ended, of all brokers."""
    efforts: list[int] = []
    begin = Share.begin

    def noted(share: Share, *, now_ms: int) -> None:
        efforts.append(SHARE_EFFORT_MAX - share.effort_left)
        begin(share, now_ms=now_ms)

    monkeypatch.setattr(Share, "begin", noted)
    return efforts


def with_a_long_log(*names: str, **settings: object) -> Overlay:
    overlay = chain(*names, guaranteed=True, silent_ms=PATIENT_MS, **{"cache_bytes": SMALL_CACHE_BYTES} | settings)
    publisher = overlay.client("pb")
    for start in range(0, BEHIND, 100):
        publisher.publish(*({"number": number, "tenth": number % 10} for number in range(start, start + 100)))
        overlay.wait(1)
    overlay.wait(2_000)
    return overlay


def follower(overlay: Overlay, broker: str, selector: str, name: str = "D") -> TestClient:
    """A durable subscriber that begins with the oldest message."""
    client = overlay.client(broker)
    client.durable(1, name, selector, otherwise=0)
    return client


def begin_a_commit(overlay: Overlay) -> None:
    """Publishes a message whose commit is done at the next ``sync``; reads go on, later commits wait behind it."""
    publisher = overlay.client("pb")
    overlay.syncs = False
    publisher.publish({"number": BEHIND})
    overlay.syncs = True


def wait_for_the_first(overlay: Overlay, client: TestClient) -> None:
    for _ in range(1_000):
        if client.numbers():
            return
        overlay.wait(1)
    pytest.fail("no catch-up has begun")


def catch_up_of(overlay: Overlay, broker: str) -> CatchUp | None:
    edge = overlay.brokers[broker]._guaranteed.edges.edges.get("pb.a")
    return edge.catch_ups[0] if edge is not None and edge.catch_ups else None


@pytest.mark.parametrize("place", ["pb", "sb"])
def test_one_that_is_far_behind_catches_up_in_many_slices(place: str, slices: list[int]) -> None:
    overlay = with_a_long_log("pb", "sb")
    client = follower(overlay, place, "number >= 0")
    overlay.wait(10_000)
    assert client.numbers() == list(range(BEHIND))
    assert not client.all(f.Lost)
    # What is begun with a little left is finished.
    assert max(slices) < 2 * SHARE_EFFORT_MAX
    assert len([each for each in slices if each]) > BEHIND // 500


def test_many_that_are_far_behind_share_the_slices(slices: list[int]) -> None:
    overlay = with_a_long_log("pb")
    clients = [follower(overlay, "pb", f"tenth = {place}", f"D{place}") for place in range(10)]
    overlay.wait(10_000)
    for place, client in enumerate(clients):
        assert client.numbers() == list(range(place, BEHIND, 10))
    assert max(slices) < 2 * SHARE_EFFORT_MAX


def test_members_that_suddenly_want_all_messages_do_not_take_many_slices_at_once(slices: list[int]) -> None:
    overlay = with_a_long_log("pb")
    clients = [follower(overlay, "pb", f"number >= {BEHIND // 2}", f"D{place}") for place in range(30)]
    overlay.wait(10_000)
    for client in clients:
        assert client.numbers() == list(range(BEHIND // 2, BEHIND))
    assert max(slices) < (SURPRISE_MAX + 1) * SHARE_EFFORT_MAX


def test_live_messages_pass_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    overlay = with_a_long_log("pb")
    served = overlay.client("pb")
    served.subscribe(1, f"number >= {BEHIND}")
    publisher = overlay.client("pb")
    overlay.wait(2_000)
    behind: list[int] = []
    on_deadline = Broker.on_deadline

    def beside(broker: Broker, *, now_ms: int) -> list[Effect]:
        if (catch_up := catch_up_of(overlay, "pb")) is not None:
            live = BEHIND + len(behind)
            publisher.publish({"number": live})
            assert served.numbers()[-1:] == [live], "a live message waits for no catch-up"
            behind.append(catch_up.position)
        return on_deadline(broker, now_ms=now_ms)

    client = follower(overlay, "pb", "number >= 0")
    monkeypatch.setattr(Broker, "on_deadline", beside)
    overlay.wait(10_000)
    monkeypatch.undo()
    overlay.wait(1_000)
    assert len(behind) > BEHIND // 500
    assert behind == sorted(behind)
    assert client.numbers() == list(range(BEHIND + len(behind)))
    assert served.numbers() == list(range(BEHIND, BEHIND + len(behind)))


@pytest.mark.parametrize("cache_bytes", [SMALL_CACHE_BYTES, 16 << 20])
def test_a_catch_up_gets_no_more_than_it_can_deliver_whatever_the_cache_knows(
    cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = with_a_long_log("pb", cache_bytes=cache_bytes)
    beyond_a_gap: list[int] = []
    ready: list[int] = []
    on_deadline = Broker.on_deadline

    def watched(broker: Broker, *, now_ms: int) -> list[Effect]:
        effects = on_deadline(broker, now_ms=now_ms)
        if (catch_up := catch_up_of(overlay, "pb")) is not None:
            beyond_a_gap.append(catch_up.stream.pending_bytes)
            ready.append(len(catch_up.ready))
        return effects

    monkeypatch.setattr(Broker, "on_deadline", watched)
    client = follower(overlay, "pb", "number >= 0")
    overlay.wait(10_000)
    assert client.numbers() == list(range(BEHIND))
    assert max(beyond_a_gap) == 0
    assert max(ready) < 600


def test_a_host_keeps_no_more_than_its_window_for_a_client_that_does_not_read() -> None:
    window_bytes = 20_000
    overlay = with_a_long_log("pb", "sb", client_outbox_bytes=8_000, receive_window_bytes=window_bytes)
    client = follower(overlay, "sb", "number >= 0")
    client.reads = False
    most = 0
    while len(client.numbers()) < BEHIND:
        for _ in range(5):
            overlay.wait(100)
            if (catch_up := catch_up_of(overlay, "sb")) is not None:
                most = max(most, catch_up.ready_bytes)
        client.reads = True
        overlay._carry("sb", client.connection)
        client.reads = False
    assert client.numbers() == list(range(BEHIND))
    # And one answer of at most 32 KiB.
    assert window_bytes < most < window_bytes + 40_000


def test_a_commit_that_takes_for_ever_slows_a_catch_up_and_does_not_stop_it() -> None:
    overlay = with_a_long_log("pb")
    begin_a_commit(overlay)
    client = overlay.client("pb")
    client.say(f.Subscribe(1, "number >= 0", otherwise=0))
    wait_for_the_first(overlay, client)
    overlay.wait(15)
    assert len(client.numbers()) < BEHIND // 3, "slices wait for the commit"
    overlay.wait(1_000)
    assert client.numbers() == list(range(BEHIND))
    overlay.sync()
    overlay.wait(1_000)
    assert client.numbers() == list(range(BEHIND + 1))


def test_a_catch_up_continues_when_the_commit_is_done() -> None:
    overlay = with_a_long_log("pb")
    begin_a_commit(overlay)
    client = overlay.client("pb")
    client.say(f.Subscribe(1, "number >= 0", otherwise=0))
    wait_for_the_first(overlay, client)
    assert len(client.numbers()) < BEHIND // 3
    overlay.sync()
    overlay.wait(1)
    assert client.numbers() == list(range(BEHIND + 1))


def test_catch_ups_take_turns() -> None:
    overlay = with_a_long_log("pb")
    # Many members each, so that a slice is short.
    groups = [[overlay.client("pb", f"c{group}.{member}") for member in range(40)] for group in range(3)]
    begin_a_commit(overlay)
    for group in groups:
        for client in group:
            client.say(f.Subscribe(1, "number >= 0", otherwise=0))
        # Apart, so that each group has a catch-up of its own.
        overlay.wait(60)
    overlay.wait(150)
    received = [len(group[0].numbers()) for group in groups]
    assert min(received) > 0, received
    assert min(received) < BEHIND, "all are done: the test shows nothing"
    overlay.wait(5_000)
    assert all(client.numbers() == list(range(BEHIND)) for group in groups for client in group)
