"""The connection of the sink at live brokers: any of them takes rows for all pubends, and knows the writer again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from penstock.client.client import Client
from penstock.client.sync import SyncClient, connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan, free_ports
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.publishing import OverlayPublishing, Writer, publishing_at
from penstock.pipeline.source.options import Connecting
from penstock.session.errors import ConnectionFailedError, RefusedError, UnknownPubendError
from penstock.session.received import Received
from pipeline.sink.conftest import DOOR_PLAN
from pipeline.sink.sinks import rows


def connecting(*urls: str, retry_ms: int = 30_000) -> Connecting:
    return Connecting(",".join(urls), retry_ms=retry_ms)


def writer(name: bytes = b"writer", overlay: str = "", **published: int) -> Writer:
    """A writer that has published this much, to pubends whose names have a dot for each underline."""
    return Writer(name, overlay, {pubend.replace("_", "."): count for pubend, count in published.items()})


def logged(overlay: DemoOverlay, pubend: str, name: str = "", token: str = "") -> list[object]:
    with connect_sync(overlay.url("b1"), name=name, token=token) as client:
        span = client.survey().spans[pubend]
        return [
            Received(pubend, tick, body).attributes["number"]
            for part in client.read(pubend, span.earliest, span.latest)
            for tick, body in zip(part.ticks, part.bodies, strict=True)
        ]


def test_numbers_are_taken_once_from_whatever_process_they_come_by_whatever_broker(overlay: DemoOverlay) -> None:
    doors = [connecting(overlay.url(broker)) for broker in ("b2", "b1", "b2")]
    for where, first in zip(doors, (0, 5, 0), strict=True):
        with publishing_at(where, writer(b1_more=first)) as publishing:
            publishing.publish(rows(first, 7, ("b1.more",)))
            publishing.publish(rows(first + 7, 3, ("b1.more",)))
            assert publishing.overlay == "demo"
    with publishing_at(doors[0], writer(b"another", b1_more=0)) as publishing:
        publishing.publish(rows(100, 1, ("b1.more",)))
    assert logged(overlay, "b1.more") == [*range(15), 100]


def test_a_pubend_that_nobody_has_is_named_with_those_there_are(overlay: DemoOverlay) -> None:
    for broker in ("b1", "b2"):
        with pytest.raises(SinkOptionError, match=r"has no pubend 'b1.no'; there are: b1.in, b1.more, b1.out"):
            publishing_at(connecting(overlay.url(broker)), writer(b1_in=0, b1_no=0)).__enter__()


def test_brokers_of_another_overlay_are_refused(overlay: DemoOverlay) -> None:
    with pytest.raises(SinkError, match="this is overlay demo, not other"):
        publishing_at(connecting(overlay.url("b2")), writer(overlay="other", b1_in=0)).__enter__()


def test_a_broker_that_stays_away_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(SinkError, match=f"no broker can be reached: .*{port}"):
        publishing_at(connecting(f"penstock://127.0.0.1:{port}", retry_ms=500), writer(q=0)).__enter__()


def test_best_effort_recognises_nothing_and_is_refused() -> None:
    with (
        DemoOverlay(OverlayPlan({"b1": ("q",)}, service="best-effort")) as overlay,
        pytest.raises(SinkOptionError, match="'q' is best effort and cannot deduplicate; guaranteed are: none"),
    ):
        publishing_at(connecting(overlay.url("b1")), writer(q=0)).__enter__()


@pytest.mark.live
def test_when_the_broker_dies_or_a_pubend_does_every_row_is_taken_once() -> None:
    rng = Random(1)
    with DemoOverlay(DOOR_PLAN) as overlay:
        where = connecting(overlay.url("door"), overlay.url("b2"))
        with publishing_at(where, writer(b1_out=0, b2_out=0)) as publishing:
            publishing.publish(rows(0, 400, ("b1.out", "b2.out")))
            overlay.kill("door")
            publishing.publish(rows(400, 400, ("b1.out", "b2.out")))
        overlay.start("door")
        # Now the pubend itself is away, and its rows may have arrived or not.
        hasty = connecting(overlay.url("door"), retry_ms=2_000)
        with publishing_at(hasty, writer(overlay="demo", b1_out=400, b2_out=400)) as publishing:
            overlay.kill("b1")
            chunk = rows(800, 400, ("b1.out", "b2.out"))
            rng.shuffle(chunk)
            with pytest.raises(SinkError, match=r"wait to be published: pubend b1.out has been out of reach .* 2 s"):
                publishing.publish(chunk)
        overlay.start("b1")
        with publishing_at(where, writer(overlay="demo", b1_out=400, b2_out=400)) as publishing:
            publishing.publish(chunk)
        for place, pubend in enumerate(("b1.out", "b2.out")):
            late = [row.message.attributes["number"] for row in chunk if row.pubend == pubend]
            assert logged(overlay, pubend) == [*range(place, 800, 2), *late]


@pytest.mark.live
def test_a_broker_that_has_not_heard_of_all_others_is_waited_for() -> None:
    with DemoOverlay(DOOR_PLAN) as overlay:
        for broker in DOOR_PLAN.pubends:
            overlay.kill(broker)
        overlay.start("door")
        with pytest.raises(SinkError, match=r"cannot reach pubend 'b1.out', if there is one; it knows: none"):
            publishing_at(connecting(overlay.url("door"), retry_ms=500), writer(b1_out=0)).__enter__()
        overlay.start("b1")
        with publishing_at(connecting(overlay.url("door")), writer(b1_out=0)) as publishing:
            publishing.publish(rows(0, 5, ("b1.out",)))
        assert logged(overlay, "b1.out") == list(range(5))


SPARK = {"name": f"spark-sink-{b'writer'.hex()}", "token": "one-that-is-long-enough"}


@dataclass(slots=True, frozen=True)
class GuardedPlan(OverlayPlan):
    """An overlay whose brokers refuse a message."""

    allowed: str = "TRUE"

    def toml(self, ports: Mapping[str, int]) -> str:
        client = f'[[clients]]\nname = "{SPARK["name"]}"\ntoken = "{SPARK["token"]}"\n'
        rule = f'[[access]]\nclients = "spark-%"\npublish = "{self.allowed}"\nsubscribe = true\n'
        return OverlayPlan.toml(self, ports) + client + rule


@pytest.mark.live
def test_a_refusal_at_one_pubend_is_an_error_and_the_rest_can_follow() -> None:
    with DemoOverlay(GuardedPlan({"b1": ("q", "r")}, allowed="number <> 7")) as overlay:
        where = Connecting(overlay.url("b1"), token=SPARK["token"])
        chunk = rows(0, 20, ("q", "r"))
        for _ in range(2):
            says = r"broker b1 refuses rows for pubends q, r: .*may not publish this"
            with publishing_at(where, writer(q=0, r=0)) as publishing, pytest.raises(SinkError, match=says):
                publishing.publish(chunk)
        assert logged(overlay, "r", **SPARK) == [1, 3, 5]
        overlay.kill("b1")
        text = overlay.file.read_text(encoding="utf-8")
        overlay.file.write_text(text.replace("number <> 7", "TRUE"), encoding="utf-8")
        overlay.start("b1")
        with publishing_at(where, writer(q=0, r=0)) as publishing:
            publishing.publish(chunk)
            publishing.publish(rows(20, 2, ("q", "r")))
        assert logged(overlay, "q", **SPARK) == list(range(0, 22, 2))
        assert logged(overlay, "r", **SPARK) == list(range(1, 22, 2))


class Refusing:
    """A client whose broker refuses messages, or goes away."""

    broker = "b1"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def call(self, _: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RefusedError("publish", "may not"), "broker b1 refuses rows for pubends q, r: .*may not"),
        (ConnectionFailedError("gone"), "rows for pubends q, r wait to be published: gone"),
    ],
)
def test_what_the_broker_did_not_take_is_told(error: Exception, says: str) -> None:
    client: Any = Refusing(error)
    publishing = OverlayPublishing(cast("SyncClient", client), cast("Client", client), "demo", patience_s=1)
    with pytest.raises(SinkError, match=says):
        publishing.publish(rows(0, 5, ("q", "r")))


def test_a_pubend_that_was_removed_meanwhile_is_told() -> None:
    client: Any = Refusing(UnknownPubendError("no pubend q"))
    publishing = OverlayPublishing(cast("SyncClient", client), cast("Client", client), "demo", patience_s=1)
    with pytest.raises(SinkOptionError, match="no pubend q"):
        publishing.publish(rows(0, 5))
