"""What SUBSCRIBE frames ask for, in the headers of ActiveMQ and of RabbitMQ."""

from __future__ import annotations

import pytest

from penstock.protocol.stomp import StompError, StompFrame, Version
from penstock.stomp.subscriptions import Request, head
from stomp_stage import V1_0, V1_2


def request(version: Version = V1_2, /, **headers: str) -> Request:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
    return Request.parse(StompFrame("SUBSCRIBE", {"id": "s", "destination": "/topic/x"} | named), version)


def fault(version: Version = V1_2, /, **headers: str) -> str:
    with pytest.raises(StompError) as caught:
        request(version, **headers)
    return caught.value.header


def test_a_plain_subscription_asks_for_what_comes() -> None:
    found = request()
    assert (found.id, found.ack, found.name, found.start, found.missing, found.prefetch) == (
        "s",
        "auto",
        "",
        "latest",
        "fail",
        0,
    )


@pytest.mark.parametrize("headers", [{"activemq__subscriptionName": "d"}, {"durable": "true", "id": "d"}])
def test_both_ways_to_ask_for_a_durable_subscription_are_understood(headers: dict[str, str]) -> None:
    assert request(**headers).name == "d"


def test_a_queue_is_durable_by_itself() -> None:
    assert request(destination="/queue/x", durable="true").name == ""
    assert fault(destination="/queue/x", activemq__subscriptionName="d") == "activemq.subscriptionName"


@pytest.mark.parametrize("name", ["prefetch-count", "activemq.prefetchSize"])
def test_both_ways_to_ask_for_a_number_of_messages_are_understood(name: str) -> None:
    headers = {"id": "s", "destination": "/queue/x", name: "7"}
    assert Request.parse(StompFrame("SUBSCRIBE", headers), V1_2).prefetch == 7


@pytest.mark.parametrize(
    ("headers", "header"),
    [
        ({"ack": "never"}, "ack"),
        ({"id": ""}, "id"),
        ({"id": "x" * 256}, "id"),
        ({"destination": "x"}, "destination"),
        ({"prefetch-count": "many"}, "prefetch-count"),
        ({"prefetch-count": "-1"}, "prefetch-count"),
        ({"prefetch-count": "1" * 10}, "prefetch-count"),
        ({"penstock-start": "tomorrow"}, "penstock-start"),
        ({"penstock-missing": "ignore"}, "penstock-missing"),
    ],
)
def test_what_cannot_be_is_told_by_its_header(headers: dict[str, str], header: str) -> None:
    assert fault(**headers) == header


def test_an_id_is_needed_but_in_1_0() -> None:
    frame = StompFrame("SUBSCRIBE", {"destination": "/topic/x"})
    assert Request.parse(frame, V1_0).id == "/topic/x"
    for version in (Version.V1_1, V1_2):
        with pytest.raises(StompError) as caught:
            Request.parse(frame, version)
        assert caught.value.header == "id"


def test_a_destination_is_needed() -> None:
    with pytest.raises(StompError) as caught:
        Request.parse(StompFrame("SUBSCRIBE", {"id": "s"}), V1_2)
    assert caught.value.header == "destination"


def test_1_0_has_no_ids_that_it_could_not_write() -> None:
    assert fault(V1_0, id="a\rb") == "id"
    assert request(V1_2, id="a\rb").id == "a\rb"


def test_frames_begin_with_the_subscription() -> None:
    assert head(request(id="a:b"), V1_2) == (
        b"MESSAGE\nsubscription:a\\cb\n",
        b"MESSAGE\nsubscription:a\\cb\ndestination:/topic/x\n",
    )
