"""Metrics, health and status over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live.support import FakeBroker, guaranteed, lone, run, until
from penstock.broker.mechanisms.operating import Operation
from penstock.congestion import CongestionSettings
from penstock.live import admin as admin_module
from penstock.live.admin import CONNECTIONS_MAX, AdminServer
from penstock.live.admin_token import find_token
from penstock.live.backup import Backup
from penstock.live.errors import ConfigError, RestartError
from penstock.live.membership import OverlayChange
from penstock.live.node import BrokerNode
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Overlay, Security
from penstock.live.shipping.errors import ShipError

KEY = "key"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def get(
    address: tuple[str, int], path: str, *headers: str, method: str = "GET", token: str = KEY
) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*address)
    shown = [f"Authorization: Bearer {token}"] if token else []
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *shown, *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


class Homes:
    async def move(self, pubend: str, to: str) -> None:
        raise NotImplementedError(pubend, to)

    async def ship(self) -> dict[str, dict[str, Any]]:
        return {"q.home": {"rows": 1}}


class Subject:
    homes = Homes()
    is_serving = True
    asked: tuple[str, bool] = ("", False)
    problem: Exception | None = None
    name = "b1"

    def __init__(self) -> None:
        self.overlay = lone()

    def apply(self, overlay: Overlay) -> OverlayChange:
        self.overlay = overlay
        return OverlayChange()

    def status(self) -> NodeStatus:
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

    def back_up(self, folder: Path) -> Backup:
        raise NotImplementedError(folder)

    async def ship(self) -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        return {"rows": 3}


def test_a_node_shows_metrics_health_and_status() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node, AdminServer(node, token=KEY) as admin:
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
        async with AdminServer(subject, token=KEY) as admin:
            subject.is_serving = False
            assert await get(admin.address, "/health") == (503, '{"status":"stopping"}')

    run(scenario())


@pytest.mark.parametrize("key", [KEY, ""])
def test_without_the_token_only_health_and_metrics_without_names_are_shown(key: str) -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node, AdminServer(node, token=key) as admin:
            for shown in ("", "other"):
                for path in (
                    "/ship",
                    "/overlay",
                    "/tune",
                    "/limit",
                    "/drain",
                    "/finish",
                    "/pin?client=x",
                    "/unpin",
                    "/pubend",
                ):
                    assert (await get(admin.address, path, method="POST", token=shown))[0] in (401, 403)
                for path in ("/status", "/overlay", "/tune", "/limit", "/drain", "/pubend"):
                    assert (await get(admin.address, path, token=shown))[0] in (401, 403)
            assert (await get(admin.address, "/health", token=""))[0] == 200
            code, text = await get(admin.address, "/metrics", token="")
            assert (code, "penstock_published_total" in text, "durable=" in text) == (200, True, False)

    run(scenario())


def test_who_asks_for_metrics_again_and_again_without_a_token_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(admin_module, "_FRESH_S", 1_000.0)
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node, AdminServer(node, token=KEY) as admin:
            asked: list[int] = []
            status = node.status

            def counted() -> NodeStatus:
                asked.append(1)
                return status()

            monkeypatch.setattr(node, "status", counted)
            for _ in range(3):
                assert (await get(admin.address, "/metrics", token=""))[0] == 200
            assert len(asked) == 1
            for _ in range(3):
                assert (await get(admin.address, "/metrics"))[0] == 200
            assert len(asked) == 4

    run(scenario())


def test_beyond_loopback_metrics_need_the_token_too() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject, host="0.0.0.0", token=KEY) as admin:  # noqa: S104 - what it is about
            address = "127.0.0.1", admin.address[1]
            assert (await get(address, "/metrics", token=""))[0] == 401
            assert (await get(address, "/health", token=""))[0] == 200

    run(scenario())


@pytest.mark.parametrize("header", ["Host: attacker.example", "Origin: http://attacker.example"])
def test_a_page_in_a_browser_changes_nothing(header: str) -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject, token=KEY) as admin:
            lines = ["Host: localhost", f"Authorization: Bearer {KEY}", "Connection: close"]
            lines = [header, *[line for line in lines if not header.startswith(line.partition(":")[0])]]
            reader, writer = await asyncio.open_connection(*admin.address)
            writer.write("\r\n".join(["POST /overlay HTTP/1.1", *lines, "", ""]).encode())
            head = (await reader.read()).decode()
            writer.close()
            assert int(head.split()[1]) in (403, 421)
            assert subject.asked == ("", False)

    run(scenario())


def test_a_node_is_asked_to_reread_its_file_and_says_what_came_of_it() -> None:
    async def scenario() -> None:
        subject = Subject()
        async with AdminServer(subject, token=KEY) as admin:
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
        async with AdminServer(subject, token=KEY) as admin:
            code, text = await get(admin.address, "/ship", method="POST")
            assert (code, json.loads(text)) == (
                200,
                {"result": "shipped", "shipped": {"rows": 3}, "homes": {"q.home": {"rows": 1}}},
            )
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
        async with AdminServer(subject, token=KEY) as admin:
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
        async with AdminServer(Subject(), token=KEY) as admin:
            await get(admin.address, "/health")
            assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before

    run(scenario())


def test_an_address_that_is_taken_is_said_so() -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            with pytest.raises(ConfigError, match=r"cannot listen at 127\.0\.0\.1:\d+: .*in use"):
                await AdminServer(Subject(), token=KEY, port=admin.address[1]).start()

    run(scenario())


def test_an_admin_server_that_was_not_started_can_be_stopped() -> None:
    run(AdminServer(Subject(), token=KEY).stop())


def test_a_node_with_an_admin_port_serves_it_itself() -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            address = admin.address
        overlay = lone(security=Security(admin_token=KEY))
        place = replace(overlay.brokers["b1"], admin_port=address[1])
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1", broker=FakeBroker()):
            assert (await get(address, "/status", token=""))[0] == 401
            assert (await get(address, "/status"))[0] == 200


def test_a_node_makes_a_token_for_itself_that_commands_find(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            address = admin.address
        overlay = guaranteed(tmp_path / "data", admin_port=address[1])
        async with BrokerNode(overlay, "b1"):
            token = find_token(overlay, overlay.place_of("b1"))
            assert (await get(address, "/status", token=token))[0] == 200
            assert (await get(address, "/status"))[0] == 401

    run(scenario())


# Connections that send nothing.


async def opened(address: tuple[str, int], data: bytes = b"") -> Stream:
    stream = await asyncio.open_connection(*address)
    stream[1].write(data)
    return stream


async def is_over(stream: Stream) -> bool:
    try:
        return not await stream[0].read()
    except ConnectionError:
        return True


@pytest.mark.parametrize("data", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_however_many_say_nothing_health_is_told(data: bytes) -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            idle = [await opened(admin.address, data) for _ in range(2 * CONNECTIONS_MAX)]
            for _ in range(3):
                assert await get(admin.address, "/health") == (200, '{"status":"ok"}')
            # The first to come are the first to go.
            assert all([await is_over(each) for each in idle[:CONNECTIONS_MAX]])
            for _, writer in idle:
                writer.close()

    run(scenario())


def test_who_has_not_asked_in_time_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "REQUEST_S_MAX", 0.05)

    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            mute, slow = await opened(admin.address), await opened(admin.address, b"GET /health HTTP/1.1\r\n")
            for each in (mute, slow):
                assert await is_over(each)
                each[1].close()

    run(scenario())


def test_a_request_under_way_is_not_the_one_that_goes() -> None:
    class Slow(Subject):
        def __init__(self) -> None:
            super().__init__()
            self.asked_to_ship, self.may_ship = asyncio.Event(), asyncio.Event()

        async def ship(self) -> dict[str, int]:
            self.asked_to_ship.set()
            await self.may_ship.wait()
            return {"rows": 3}

    async def scenario() -> None:
        subject = Slow()
        async with AdminServer(subject, token=KEY) as admin:
            shipping = asyncio.create_task(get(admin.address, "/ship", method="POST"))
            await subject.asked_to_ship.wait()
            idle = [await opened(admin.address) for _ in range(2 * CONNECTIONS_MAX)]
            await until(lambda: idle[CONNECTIONS_MAX - 1][0].at_eof() or idle[0][0].at_eof())
            subject.may_ship.set()
            assert (await shipping)[0] == 200
            for _, writer in idle:
                writer.close()

    run(scenario())
