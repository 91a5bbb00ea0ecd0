"""Broker processes for demos and tests: started, linked, ended; and what they said when they did not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from penstock.client.client import connect
from penstock.lab.demo_overlay import DEMO_PLAN, BrokerProcessError, DemoOverlay, OverlayPlan, free_ports
from penstock.live.config import load_overlay

PAIR = OverlayPlan({"b1": ("b1.a",), "b2": ()}, [("b2", "b1")], {"heartbeat_ms": 100})


def test_a_plan_is_a_file_that_brokers_read(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(DEMO_PLAN.toml({name: 7_000 + number for number, name in enumerate(DEMO_PLAN.pubends)}))
    overlay = load_overlay(file)
    assert list(overlay.brokers) == ["pb1", "ib1", "sb1", "sb2"]
    assert overlay.neighbours_of("ib1") == ("pb1", "sb1", "sb2")
    file.write_text(PAIR.toml({"b1": 7_001, "b2": 7_002}))
    assert load_overlay(file).settings_for("b2").heartbeat_ms == 100


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20


def test_brokers_start_find_each_other_and_end_in_order() -> None:
    async def links(url: str) -> list[str]:
        async with connect(url) as client:
            return (await client.status()).links

    with DemoOverlay(PAIR) as overlay:
        asyncio.run(overlay.linked())
        assert asyncio.run(links(overlay.url("b1"))) == ["b2"]
        overlay.check()
        assert overlay.kill("b2") == -signal.SIGKILL
        overlay.start("b2")
        asyncio.run(overlay.linked())
        pids = [overlay.pid("b1"), overlay.pid("b2")]
        assert overlay.kill("b2", signal.SIGTERM) == 0
        folder = overlay.file.parent
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not folder.exists()


def test_with_detours_a_broker_dials_its_neighbours_elsewhere() -> None:
    with DemoOverlay(PAIR, detours=True) as overlay:
        elsewhere = overlay.detours["b2", "b1"]
        dialling, dialled = (load_overlay(overlay.file.with_name(f"overlay-{name}.toml")) for name in ("b2", "b1"))
        assert elsewhere not in (overlay.port("b1"), overlay.port("b2"))
        assert dialling.dialled_by("b2")[0].port == elsewhere
        assert dialled.place_of("b1").port == overlay.port("b1")
        assert dialling.place_of("b2").port == overlay.port("b2")


def test_with_tables_of_their_own_each_broker_reads_another_file() -> None:
    def tables(name: str) -> str:
        return f'[pubends."b1.a"]\nlast_values = "of-{name}"\n'

    with DemoOverlay(PAIR, tables=tables) as overlay:
        kept = [load_overlay(overlay.file_of(name)).place_of("b1").last_values for name in ("b1", "b2")]
        assert kept == [(("b1.a", "of-b1"),), (("b1.a", "of-b2"),)]
        assert load_overlay(overlay.file).place_of("b1").last_values == ()
        assert not overlay.detours


def test_a_broker_that_is_paused_goes_on_when_it_is_resumed_and_ends_with_the_others() -> None:
    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    with DemoOverlay(OverlayPlan({"b1": ()})) as overlay:
        pid = overlay.pid("b1")
        overlay.pause("b1")
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert state(pid) == "T"
        overlay.check()
        overlay.resume("b1")
        os.waitid(os.P_PID, pid, os.WCONTINUED)
        assert state(pid) != "T"
        overlay.pause("b1")
    assert not Path(f"/proc/{pid}").exists()


def test_a_broker_that_ends_by_itself_is_noticed() -> None:
    with DemoOverlay(OverlayPlan({"b1": ()})) as overlay:
        os.kill(overlay.pid("b1"), signal.SIGKILL)
        os.waitid(os.P_PID, overlay.pid("b1"), os.WEXITED | os.WNOWAIT)
        with pytest.raises(BrokerProcessError, match="b1 ended by itself with code -9"):
            overlay.check()


def test_a_broker_that_does_not_start_is_quoted() -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no such luck')")
    with (
        pytest.raises(BrokerProcessError, match=r"(?s)b1 did not start \(exit code 1\).*no such luck"),
        DemoOverlay(PAIR, command=command),
    ):
        pass


def test_settings_of_a_plan_may_be_words() -> None:
    plan = OverlayPlan({"b1": ("b1.a",)}, words={"retain_policy": "lapse"})
    assert 'retain_policy = "lapse"' in plan.toml({"b1": 7_001})


def test_the_files_of_an_overlay_stay_in_a_folder_that_was_given(tmp_path: Path) -> None:
    with DemoOverlay(OverlayPlan({"b1": ()}), folder=tmp_path) as overlay:
        assert overlay.file_of("b1") == tmp_path / "overlay.toml"
    assert (tmp_path / "overlay.toml").exists()
    assert (tmp_path / "b1.log").exists()


def test_a_broker_that_may_end_is_not_complained_about_and_one_that_hangs_up_goes_on() -> None:
    with DemoOverlay(OverlayPlan({"b1": ()})) as overlay:
        overlay.hang_up("b1")
        while "overlay-unchanged" not in overlay.log("b1"):
            overlay.check()
        os.kill(overlay.pid("b1"), signal.SIGKILL)
        os.waitid(os.P_PID, overlay.pid("b1"), os.WEXITED | os.WNOWAIT)
        overlay.check(besides=["b1"])
        assert overlay.kill("b1", 0) == -signal.SIGKILL


def test_brokers_with_admin_ports_have_one_each() -> None:
    with DemoOverlay(PAIR, detours=True, admin=True) as overlay:
        places = load_overlay(overlay.file).brokers
        assert {place.admin_port for place in places.values()}.isdisjoint({overlay.port("b1"), overlay.port("b2")})
        assert all(place.admin_port for place in places.values())
        assert load_overlay(overlay.file_of("b2")).place_of("b1").admin_port == places["b1"].admin_port
