"""The connection of the sink at a live broker: found by its pubend, and recognised by its identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from penstock.client.sync import SyncClient, connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan, free_ports
from penstock.model.message import Message
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.publishing import OverlayPublishing, publishing_at
from penstock.pipeline.source.options import Connecting
from penstock.session.errors import ConnectionFailedError, RefusedError
from pipeline.sink.sinks import messages


def connecting(*urls: str) -> Connecting:
    return Connecting(",".join(urls), retry_ms=500)


def logged(overlay: DemoOverlay, pubend: str) -> list[object]:
    from penstock.session.received import Received

    with connect_sync(overlay.url("b1")) as client:
        span = client.survey().spans[pubend]
        return [
            Received(pubend, tick, body).attributes["number"]
            for part in client.read(pubend, span.earliest, span.latest)
            for tick, body in zip(part.ticks, part.bodies, strict=True)
        ]


def test_numbers_are_taken_once_from_whatever_process_they_come(overlay: DemoOverlay) -> None:
    where = connecting(overlay.url("b2"), overlay.url("b1"))
    for first, published in ((0, 0), (5, 5), (0, 0)):
        with publishing_at(where, "b1.more", b"writer", published) as publishing:
            publishing.publish(messages(first, 7))
            publishing.publish(messages(first + 7, 3))
            assert publishing.overlay == "demo"
    with publishing_at(where, "b1.more", b"another", 0) as publishing:
        publishing.publish(messages(100, 1))
    assert logged(overlay, "b1.more") == [*range(15), 100]


def test_a_pubend_that_nobody_has_is_named_with_those_there_are(overlay: DemoOverlay) -> None:
    where = connecting(overlay.url("b2"), overlay.url("b1"))
    with pytest.raises(SinkOptionError, match=r"has pubend 'b1.no'; they have: b1.in, b1.out, b1.more"):
        publishing_at(where, "b1.no", b"writer", 0).__enter__()


def test_a_broker_that_stays_away_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(SinkError, match="no broker with pubend q can be reached"):
        publishing_at(connecting(f"penstock://127.0.0.1:{port}"), "q", b"writer", 0).__enter__()


def test_best_effort_recognises_nothing_and_is_refused() -> None:
    with (
        DemoOverlay(OverlayPlan({"b1": ("q",)}, service="best-effort")) as overlay,
        pytest.raises(SinkOptionError, match="'q' is best effort"),
    ):
        publishing_at(connecting(overlay.url("b1")), "q", b"writer", 0).__enter__()


class Refusing:
    """A client whose broker refuses messages, or goes away."""

    broker = "b1"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def publish_many(self, some: Sequence[Message], *, pubend: str) -> None:
        assert (len(some), pubend) == (5, "q")

    def flush(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RefusedError("publish", "may not"), "broker b1 refuses rows for pubend q: .*may not"),
        (ConnectionFailedError("gone"), "rows for pubend q wait to be published: gone"),
    ],
)
def test_what_the_broker_did_not_take_is_told(error: Exception, says: str) -> None:
    client: Any = Refusing(error)
    with pytest.raises(SinkError, match=says):
        OverlayPublishing(cast("SyncClient", client), "q", "demo").publish(messages(0, 5))
