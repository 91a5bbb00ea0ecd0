"""Metrics, health and status over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from typing import Any

import pytest

from live.support import FakeBroker, lone, run
from penstock.broker.operating import Operation
from penstock.congestion import CongestionSettings
from penstock.live.admin import AdminServer
from penstock.live.errors import ConfigError, RestartError
from penstock.live.membership import OverlayChange
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay, Security
from penstock.live.shipping.errors import ShipError

KEY = "key"


async def get(address: tuple[str, int], path: str, *headers: str, method: str = "GET") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*address)
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


class Subject:
    is_serving = True
    asked: tuple[str, bool] = ("", False)
    problem: Exception | None = None
    name = "b1"

    def __init__(self) -> None:
        self.overlay = lone()

    def apply(self, overlay: Overlay) -> OverlayChange:
        self.overlay = overlay
        return OverlayChange()

    def status(self) -> dict[str, Any]:
        raise AssertionError("not asked for here")

    def reread(self, *, digest: str = "", is_trial: bool = False) -> OverlayChange:
        self.asked = digest, is_trial
        if digest == "bad":
            raise RestartError("needs a restart of broker b1: port (1 to 2)")
        return OverlayChange() if digest == "same" else OverlayChange(brokers_added=("b9",))

    def operate(self, operation: Operation) -> None:
        raise NotImplementedError(operation)

    def finish(self) -> None:
        raise NotImplementedError

    async def ship(self) -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        return {"rows": 3}


def test_a_node_shows_metrics_health_and_status() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node, AdminServer(node) as admin:
            code, text = await get(admin.address, "/metrics")
            assert (code, "penstock_published_total 7.0" in text) == (200, True)
            code, text = await get(admin.address, "/status")
            assert (code, json.loads(text)["broker"]["subscriptions"]) == (200, 3)
            assert await get(admin.address, "/health") == (200, '{"status":"ok"}')
            assert (await get(admin.address, "/else"))[0] == 404

    run(scenario())


def test_who_is_on_the_way_out_is_not_healthy() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject) as admin:
            subject.is_serving = False
            assert await get(admin.address, "/health") == (503, '{"status":"stopping"}')

    run(scenario())


def test_a_token_protects_every_page() -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            assert (await get(admin.address, "/ship", method="POST"))[0] == 401
            for path in ("/metrics", "/health", "/status", "/overlay", "/tune"):
                assert (await get(admin.address, path))[0] == 401
                assert (await get(admin.address, path, "Authorization: Bearer other"))[0] == 401
            assert (await get(admin.address, "/health", f"Authorization: Bearer {KEY}"))[0] == 200

    run(scenario())


def test_a_node_is_asked_to_reread_its_file_and_says_what_came_of_it() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject) as admin:
            code, text = await get(admin.address, "/overlay?sha256=12", method="POST")
            told = json.loads(text)
            assert (code, told["result"], told["change"]["brokers_added"]) == (200, "applied", ["b9"])
            assert subject.asked == ("12", False)
            code, text = await get(admin.address, "/overlay")
            assert (code, json.loads(text)["result"], subject.asked) == (200, "changed", ("", True))
            assert json.loads((await get(admin.address, "/overlay?sha256=same"))[1])["result"] == "unchanged"
            code, text = await get(admin.address, "/overlay?sha256=bad", method="POST")
            refused = {"result": "refused", "reason": "needs a restart of broker b1: port (1 to 2)"}
            assert (code, json.loads(text)) == (409, refused)
            assert (await get(admin.address, "/overlay", method="DELETE"))[0] == 405

    run(scenario())


def test_a_node_is_asked_to_ship_and_says_what_came_of_it() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject) as admin:
            code, text = await get(admin.address, "/ship", method="POST")
            assert (code, json.loads(text)) == (200, {"result": "shipped", "shipped": {"rows": 3}})
            subject.problem = ConfigError("no lake")
            code, text = await get(admin.address, "/ship", method="POST")
            assert (code, json.loads(text)) == (409, {"result": "refused", "reason": "no lake"})
            subject.problem = ShipError("disk full")
            code, text = await get(admin.address, "/ship", method="POST")
            assert (code, json.loads(text)) == (503, {"result": "failed", "reason": "disk full"})
            assert (await get(admin.address, "/ship"))[0] == 405

    run(scenario())


def test_parameters_of_congestion_control_are_listed_tried_and_changed() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject) as admin:
            code, text = await get(admin.address, "/tune")
            told = json.loads(text)
            assert (code, told["result"], told["changed"]) == (200, "unchanged", {})
            assert told["parameters"][0]["name"] == "profile"
            code, text = await get(admin.address, "/tune?sample_ms=1500&sdcc=off")
            told = json.loads(text)
            assert (code, told["result"]) == (200, "changed")
            assert told["changed"] == {"sdcc": [True, False], "sample_ms": [CongestionSettings().sample_ms, 1500]}
            assert subject.overlay == lone(), "a question changes nothing"
            code, text = await get(admin.address, "/tune?sample_ms=1500", method="POST")
            assert (code, json.loads(text)["result"]) == (200, "applied")
            assert subject.overlay.settings_for("b1").congestion.sample_ms == 1500
            code, text = await get(admin.address, "/tune?sample_ms=fast", method="POST")
            refused = {"result": "refused", "reason": "sample_ms is 'fast', must be an integer"}
            assert (code, json.loads(text)) == (409, refused)
            assert subject.overlay.settings_for("b1").congestion.sample_ms == 1500

    run(scenario())


def test_signals_stay_with_the_program() -> None:
    async def scenario() -> None:
        before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        async with AdminServer(Subject()) as admin:
            await get(admin.address, "/health")
            assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before

    run(scenario())


def test_an_address_that_is_taken_is_said_so() -> None:
    async def scenario() -> None:
        async with AdminServer(Subject()) as admin:
            with pytest.raises(ConfigError, match=r"cannot listen at 127\.0\.0\.1:\d+: .*in use"):
                await AdminServer(Subject(), port=admin.address[1]).start()

    run(scenario())


def test_an_admin_server_that_was_not_started_can_be_stopped() -> None:
    run(AdminServer(Subject()).stop())


def test_a_node_with_an_admin_port_serves_it_itself() -> None:
    async def scenario() -> None:
        async with AdminServer(Subject()) as admin:
            address = admin.address
        overlay = lone(security=Security(admin_token=KEY))
        place = replace(overlay.brokers["b1"], admin_port=address[1])
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1", broker=FakeBroker()):
            assert (await get(address, "/health"))[0] == 401
            assert (await get(address, "/health", f"Authorization: Bearer {KEY}"))[0] == 200

    run(scenario())
