from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request

from live.support import row, with_port
from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain, Operation, Pin, Unpin
from penstock.live.errors import ConfigError
from penstock.live.node_status import NodeStatus
from penstock.live.operations import operation_pages
from penstock.live.postgres.errors import DatabaseError
from penstock.model.errors import MisuseError
from statuses import node_status


class Homes:
    def __init__(self) -> None:
        self.moves: list[tuple[str, str]] = []

    async def move(self, pubend: str, to: str) -> None:
        if pubend != "q":
            raise ConfigError("no such pubend")
        if to != "sb2":
            raise DatabaseError("no database")
        self.moves.append((pubend, to))

    async def ship(self) -> dict[str, dict[str, Any]]:
        raise NotImplementedError


class Node:
    def __init__(self) -> None:
        self.overlay = with_port(row("sb1", "sb2"), "sb2", 7000)
        self.homes = Homes()
        self.done: list[Operation | str] = []

    def operate(self, operation: Operation) -> None:
        if operation == Pin("nobody"):
            raise MisuseError("cannot be")
        self.done.append(operation)

    def finish(self) -> None:
        self.done.append("finish")

    def status(self) -> NodeStatus:
        broker = {
            "clients": 4,
            "migration": {"drain": {"on": False, "left": 2}},
            "guaranteed": {"pubends": {"p": {}}},
            "candidacies": [{"pubend": "q", "candidates": ["b1", "b2"], "holder": "b2"}],
        }
        return node_status({"store": {"replicas": 1}}, broker)


def asked(node: Node, method: str, target: str) -> tuple[int, dict[str, Any]]:
    path, _, query = target.partition("?")
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}
    scope |= {"scheme": "http", "server": ("127.0.0.1", 1)}

    async def answered() -> tuple[int, dict[str, Any]]:
        answer = await operation_pages(node)[path](Request(scope))
        return answer.status_code, json.loads(bytes(answer.body))

    return asyncio.run(answered())


def test_operations_are_carried_out_and_the_drain_is_told() -> None:
    node = Node()
    drain = {"clients": 4, "on": False, "left": 2, "going": 0, "staying": {}, "reasons": []}
    assert asked(node, "GET", "/drain") == (200, {"result": "told", "drain": drain})
    assert asked(node, "POST", "/drain?to=sb2=9") == (200, {"result": "done", "drain": drain})
    for path in ("/drain", "/pin?client=a", "/unpin?client=a", "/finish"):
        assert asked(node, "POST", path)[0] == 200
    there = Target("sb2", "penstock://127.0.0.1:7000", 9)
    assert node.done == [Drain((there,)), Drain(()), Pin("a"), Unpin("a"), "finish"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/pin", "'' is not a valid client name"),
        ("/pin?client=nobody", "cannot be"),
        ("/drain?to=sb2", "'sb2' is not NAME=CLIENTS"),
        ("/drain?to=sb2=many", "'sb2=many' is not NAME=CLIENTS"),
        ("/drain?to=sb2=penstock://elsewhere:1=9", "'sb2=penstock://elsewhere:1=9' is not NAME=CLIENTS"),
        ("/drain?to=sb9=9", "no broker 'sb9' in overlay test; there are: sb1, sb2"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(path: str, reason: str) -> None:
    node = Node()
    code, told = asked(node, "POST", path)
    assert (code in (400, 409), told["result"], told["reason"]) == (True, "refused", reason)
    assert not node.done


def test_pubends_are_told_and_moved() -> None:
    node = Node()
    code, told = asked(node, "GET", "/pubend")
    assert (code, told["result"]) == (200, "told")
    own, other = told["pubends"]
    assert (own["pubend"], own["candidates"], own["holder"], own["replicas"]) == ("p", ["b1"], "b1", 1)
    assert (other["pubend"], other["candidates"], other["holder"], other["epoch"]) == ("q", ["b1", "b2"], "b2", 0)
    assert asked(node, "POST", "/pubend?pubend=q&to=sb2") == (200, {"result": "done"})
    assert node.homes.moves == [("q", "sb2")]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", (409, {"result": "refused", "reason": "no such pubend"})),
        ("?pubend=q&to=sb1", (503, {"result": "failed", "reason": "no database"})),
    ],
)
def test_a_pubend_that_cannot_be_moved_stays(query: str, answer: tuple[int, dict[str, str]]) -> None:
    node = Node()
    assert asked(node, "POST", f"/pubend{query}") == answer
    assert not node.homes.moves
