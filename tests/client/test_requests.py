"""Requests: one reply counts, failures and lost connections are told, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from client.scripted import PUBEND, QUICK, ScriptedBroker, acknowledgement, run, until
from penstock.client.client import Client, connect
from penstock.client.requests import chosen_pubend, serving_selector
from penstock.model.body import decode_attributes, encode_body
from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import Attributes
from penstock.protocol.frames import Deliver, Frame, InterestReply, InterestRequest, Publish, Subscribe
from penstock.session.errors import (
    ConnectionFailedError,
    NobodyServesError,
    RequestFailedError,
    RequestTimeoutError,
)

Answer = Callable[[Attributes], list[Attributes]]


def replying(answer: Answer, *, is_nobody: bool = False) -> ScriptedBroker:
    """A broker that sends these replies to each request, for subscription 1."""
    ticks = iter(range(1, 1_000))

    def on_publish(frame: Publish) -> list[Frame]:
        replies = [each for body in frame.bodies for each in answer(decode_attributes(body))]
        return [
            acknowledgement(frame),
            *(
                Deliver(0, [tick], [(1).to_bytes(4)], [encode_body(MessageId(9, 1, 1_000, tick), Message.system(each))])
                for each, tick in zip(replies, ticks, strict=False)
            ),
        ]

    return ScriptedBroker(
        {Publish: on_publish, InterestRequest: lambda frame: [InterestReply(frame.number, is_nobody)]}
    )


def reply_to(asked: Attributes, **more: object) -> Attributes:
    return {"$reply": asked["$reply_to"], "$request": asked["$request"], **more}  # type: ignore[dict-item]


def played(broker: ScriptedBroker, play: Callable[[Client], object]) -> None:
    async def main() -> None:
        async with broker, connect(broker.address, settings=QUICK) as client:
            await play(client)  # type: ignore[misc]

    run(main())


def test_the_first_reply_counts_and_later_ones_are_counted() -> None:
    broker = replying(lambda asked: [reply_to(asked, n=1), reply_to(asked, n=2)])

    async def play(client: Client) -> None:
        assert (await client.request({"x": 1}, timeout=30)).attributes == {"n": 1}, "an application may publish them"
        assert (await client.request({"x": 2}, timeout=30)).attributes["n"] == 1
        await until(lambda: client.late_replies == 2)
        (subscribed,) = broker.peer.of(Subscribe)
        asked = [decode_attributes(body) for frame in broker.peer.of(Publish) for body in frame.bodies]
        assert subscribed.selector == f"$reply = '{asked[0]['$reply_to']}'"
        assert asked[0]["$reply_to"] == asked[1]["$reply_to"]
        assert asked[0]["$request"] != asked[1]["$request"]
        assert {frame.pubend for frame in broker.peer.of(Publish)} == {PUBEND}

    played(broker, play)


def test_a_server_can_let_a_request_fail() -> None:
    async def play(client: Client) -> None:
        with pytest.raises(RequestFailedError, match="no such symbol"):
            await client.request({"x": 1}, timeout=30)

    played(replying(lambda asked: [reply_to(asked, **{"$failed": "no such symbol"})]), play)


def test_where_nobody_serves_that_is_told_at_once() -> None:
    async def play(client: Client) -> None:
        with pytest.raises(NobodyServesError):
            await client.request({"x": 1}, timeout=3_600)

    played(replying(lambda _: [], is_nobody=True), play)


def test_replies_to_others_do_not_count_and_time_runs_out() -> None:
    async def play(client: Client) -> None:
        with pytest.raises(RequestTimeoutError, match=r"no reply within 0\.05 s"):
            await client.request({"x": 1}, timeout=0.05)
        assert client.late_replies == 1

    played(replying(lambda asked: [reply_to(asked, **{"$request": "another"})]), play)


def test_a_request_whose_connection_breaks_fails_and_is_not_sent_again() -> None:
    broker = replying(lambda _: [])

    async def play(client: Client) -> None:
        asking = asyncio.create_task(client.request({"x": 1}, timeout=3_600))
        await until(lambda: broker.peers and broker.peer.of(InterestRequest) and broker.peer.of(Publish))
        broker.peer.cut()
        with pytest.raises(ConnectionFailedError, match="not sent again"):
            await asking

    played(broker, play)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, None, "2"])
def test_a_timeout_that_is_none_is_misuse(timeout: Any) -> None:
    async def play(client: Client) -> None:
        with pytest.raises(MisuseError, match="timeout"):
            await client.request({"x": 1}, timeout=timeout)

    played(replying(lambda _: []), play)


def test_requests_that_match_are_served_and_answered_once() -> None:
    broker = ScriptedBroker({})

    async def play(client: Client) -> None:
        serving = await client.serve("service = 'price'").ready()
        asked = Message.system({"service": "price", "$reply_to": "A", "$request": "A-1"}, b"payload", "text/plain")
        body = encode_body(MessageId(9, 1, 1_000, 1), asked)
        broker.peer.send(Deliver(0, [1], [(1).to_bytes(4)], [body]))
        request = await anext(serving)
        assert (request.attributes, request.payload, request.content_type) == (
            {"service": "price"},
            b"payload",
            "text/plain",
        )
        await request.reply({"price": 18}, b"x")
        with pytest.raises(MisuseError, match="answered before"):
            await request.fail("too late")
        await client.flush()
        (sent,) = [decode_attributes(each) for frame in broker.peer.of(Publish) for each in frame.bodies]
        assert sent == {"price": 18, "$reply": "A", "$request": "A-1"}
        (subscribed,) = broker.peer.of(Subscribe)
        assert subscribed.selector == "$reply_to IS NOT NULL AND service = 'price'"
        await serving.close()

    played(broker, play)


def test_best_effort_pubends_near_by_are_chosen_first() -> None:
    class Somebody:
        broker = "b2"
        pubends: dict[str, object] = {}  # noqa: RUF012

    from penstock.session.publishing import PubendPlace

    somebody = Somebody()
    assert chosen_pubend(somebody) == ""  # type: ignore[arg-type]
    somebody.pubends = {"g": PubendPlace("b2", is_guaranteed=True)}
    assert chosen_pubend(somebody) == ""  # type: ignore[arg-type]
    somebody.pubends |= {"a": PubendPlace("b1", is_guaranteed=False), "z": PubendPlace("b2", is_guaranteed=False)}
    assert chosen_pubend(somebody) == "z"  # type: ignore[arg-type]
    del somebody.pubends["z"]
    assert chosen_pubend(somebody) == "a"  # type: ignore[arg-type]


def test_only_requests_are_served() -> None:
    assert serving_selector("a = 1 OR b = 2") == "(a = 1 OR b = 2) AND $reply_to IS NOT NULL"
