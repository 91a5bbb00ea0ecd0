"""What a changed overlay file means for a running broker: what is different, what is refused, what is done."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live.certificates import Authority
from live.support import FakeBroker, FramePeer, guaranteed, lone, row, run, until, with_port
from penstock.broker.access import Access
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError, ExposedError, RestartError, StorageError, TlsError
from penstock.live.membership import OverlayChange, TlsState, change_between, change_for, read_again
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay, Security
from penstock.live.shipping.settings import ShipSettings
from penstock.live.tls import client_context

HUSH = "hush"
FILE = """overlay = "test"
[brokers.b1]
port = 7001
[brokers.b2]
port = 7002
[[links]]
between = ["b2", "b1"]
"""


def changed(overlay: Overlay, name: str, **changes: Any) -> Overlay:
    return replace(overlay, brokers={**overlay.brokers, name: replace(overlay.brokers[name], **changes)})


def test_a_difference_is_told_for_people_and_programs_and_without_secrets() -> None:
    before = row("b1", "b2", "b3")
    after = changed(row("b1", "b2", "b4"), "b2", host="10.0.0.1", port=9)
    after = replace(after, security=Security(link_token=HUSH), access=Access({"x": HUSH}))
    change = change_between(before, after)
    assert change
    assert change.lines() == [
        "broker b4 added",
        "broker b3 removed",
        "broker b2 changed: port, host",
        "link b4 to b2 added",
        "link b3 to b2 removed",
        "security changed",
        "access changed",
    ]
    assert change.as_dict()["brokers_changed"] == {"b2": ("port", "host")}
    assert HUSH not in str(change.as_dict())


def test_the_same_overlay_is_no_change_wherever_its_lines_are(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(FILE)
    before = load_overlay(file)
    file.write_text("# a comment\n" + FILE)
    assert not change_between(before, load_overlay(file))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"port": 9}, r"port \(7001 to 9\)"),
        ({"bind": "127.0.0.2"}, r"listens_at \(127.0.0.1 to 127.0.0.2\)"),
        ({"admin_port": 9}, r"admin_port \(0 to 9\)"),
        ({"data": Path("elsewhere")}, r"data \(None to elsewhere\); tracking \(.*\)"),
        ({"number": 5}, r"number \(1 to 5\)"),
        ({"pubends": (), "best_effort": ()}, r"pubends \(b1\.a to none\); best_effort \(b1\.a to none\)"),
        ({"tunables": {"lease_ms": 9_000}}, r"heartbeat_ms \(50 to 1000\); lease_ms \(5000 to 9000\)"),
    ],
)
def test_what_a_running_broker_cannot_change_is_refused_by_name(changes: dict[str, Any], reason: str) -> None:
    overlay = row("b1", "b2")
    after = changed(overlay, "b1", **changes)
    with pytest.raises(RestartError, match=f"^needs a restart of broker b1: {reason}$"):
        change_for("b1", overlay, after, port=7001, tls=TlsState(None))
    assert change_for("b2", overlay, after, port=7002, tls=TlsState(None)).brokers_changed[0][0] == "b1"


def test_another_lake_needs_a_restart(tmp_path: Path) -> None:
    before = guaranteed(tmp_path)
    after = replace(before, ship=ShipSettings(tmp_path / "lake"))
    assert change_between(before, after).lines() == ["ship changed"]
    with pytest.raises(RestartError, match=r"^needs a restart of broker b1: ship$"):
        change_for("b1", before, after, port=0, tls=TlsState(None))


def test_other_reasons_to_refuse() -> None:
    overlay, tls = row("b1", "b2"), TlsState(None)

    def refused(after: Overlay, error: type[ConfigError], reason: str) -> None:
        with pytest.raises(error, match=reason):
            change_for("b1", overlay, after, port=7001, tls=tls)

    refused(row("b2", "b3"), RestartError, "broker b1 is not in the overlay any more; stop it")
    refused(replace(overlay, security=Security(admin_token=HUSH)), RestartError, "admin_token$")
    refused(replace(overlay, security=Security(mutual=True)), RestartError, "mutual TLS on or off")
    refused(replace(overlay, name="other"), RestartError, r"overlay \(test to other\)")
    refused(changed(overlay, "b1", tunables={"silent_ms": 1}), ConfigError, "silent_ms 1 is less than two heartbeats")
    open_to_all = lone()
    exposed = changed(open_to_all, "b1", bind="0.0.0.0")  # noqa: S104 - what the check is about
    with pytest.raises(ExposedError):
        change_for("b1", exposed, exposed, port=7001, tls=tls)
    needy = changed(open_to_all, "b1", best_effort=())
    with pytest.raises(StorageError):
        change_for("b1", needy, needy, port=7001, tls=tls)


def test_a_file_is_read_again_only_if_it_is_the_one_that_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(FILE)
    overlay = load_overlay(file)
    assert read_again(overlay, overlay.digest) == overlay
    assert read_again(overlay) == overlay
    file.write_text(FILE + "# more\n")
    with pytest.raises(ConfigError, match=r"overlay\.toml at the broker is another file .* copy it first"):
        read_again(overlay, overlay.digest)
    with pytest.raises(ConfigError, match="overlay test was not read from a file"):
        read_again(lone())


def test_a_node_tells_its_broker_and_keeps_what_it_is_when_it_refuses() -> None:
    async def scenario() -> None:
        broker, overlay = FakeBroker(), lone()
        async with BrokerNode(overlay, "b1", broker=broker) as node:
            assert not node.apply(overlay)
            assert broker.count("apply") == 0
            with pytest.raises(RestartError):
                node.apply(changed(overlay, "b1", port=1))
            assert (broker.count("apply"), node.overlay) == (0, overlay)
            after = replace(overlay, access=Access({"x": HUSH}))
            assert node.change_to(after).lines() == ["access changed"]
            assert broker.count("apply") == 0
            assert node.apply(after) == OverlayChange(shared=("access",))
            assert broker.asked[-1] == ("apply", after.settings_for("b1"))
            assert node.overlay is after
            assert not node.apply(with_port(after, "b1", node.address[1])) or node.place.port == node.address[1]

    run(scenario())


def test_a_node_calls_new_neighbours_and_leaves_removed_ones() -> None:
    async def scenario() -> None:
        two = row("b1", "b2")
        async with BrokerNode(two, "b1") as first:
            two = with_port(two, "b1", first.address[1])
            async with BrokerNode(replace(two, links=()), "b2") as second:
                assert second.status().broker.links == []
                first.apply(two)
                assert second.apply(two).lines() == ["link b2 to b1 added"]
                await until(lambda: first.status().broker.links == ["b2"])
                second.apply(replace(two, links=()))
                await until(lambda: first.status().broker.links == [])
                assert second.counters.bugs == first.counters.bugs == 0

    run(scenario())


def test_files_of_tls_are_read_again_and_bad_ones_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("b1")
    overlay = changed(lone(access=Access({"x": "y"})), "b1", tls=files)

    async def shown_to_a_client(node: BrokerNode) -> int:
        context = client_context(replace(files, certificate=None, key=None))
        peer = await FramePeer.dial(node.address, context=context)
        found: dict[str, Any] = peer._writer.get_extra_info("peercert")
        await peer.close()
        return int(str(found["serialNumber"]), 16)

    async def scenario() -> None:
        async with BrokerNode(overlay, "b1") as node:
            before = await shown_to_a_client(node)
            assert not node.apply(overlay)
            authority.issue("b1")
            assert node.apply(overlay).lines() == ["files of TLS changed"]
            assert await shown_to_a_client(node) != before
            assert not node.apply(overlay)
            assert files.key is not None
            files.key.write_text("nonsense")
            with pytest.raises(TlsError):
                node.apply(overlay)
            files.key.unlink()
            with pytest.raises(TlsError):
                node.apply(overlay)
            with pytest.raises(RestartError, match="TLS on or off"):
                node.apply(changed(overlay, "b1", tls=None))
            await until(lambda: node.counters.open_connections == 0)
        assert len(asyncio.all_tasks()) == 1

    run(scenario())


# --- pubends with candidates

CANDIDATES = (
    FILE
    + """[brokers.b3]
port = 7003
[[links]]
between = ["b3", "b1"]
[pubends.q]
brokers = ["b1", "b2"]
data = "postgresql://user:hush@db1,db2/site"
"""
)


def loaded(folder: Path, *changes: tuple[str, str], text: str = CANDIDATES) -> Overlay:
    """The file of the candidates, with some of its text replaced."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "overlay.toml"
    file.write_text(text)
    return load_overlay(file)


def obstacles(name: str, before: Overlay, after: Overlay) -> str:
    """Why a broker cannot apply the change; empty if it can."""
    try:
        change_for(name, before, after, port=before.place_of(name).port, tls=TlsState(None))
    except RestartError as error:
        return str(error).removeprefix(f"needs a restart of broker {name}: ")
    return ""


def test_a_candidate_that_comes_needs_a_restart_and_nobody_else_does(tmp_path: Path) -> None:
    before = loaded(tmp_path)
    after = loaded(tmp_path, ('brokers = ["b1", "b2"]', 'brokers = ["b3", "b1", "b2"]'))
    assert change_between(before, after).lines() == ["pubend q changed: candidates"]
    found = [obstacles(name, before, after) for name in ("b1", "b2", "b3")]
    assert found == ["", "", "it becomes a candidate for q"]
    assert [obstacles(name, after, before) for name in ("b1", "b2", "b3")] == [
        "",
        "",
        "it is no candidate for q any more",
    ]


def test_a_pubend_with_candidates_comes_and_goes_at_all_other_brokers(tmp_path: Path) -> None:
    before, after = loaded(tmp_path, text=CANDIDATES.partition("[pubends.q]")[0]), loaded(tmp_path)
    assert change_between(before, after).lines() == ["pubend q with candidates added"]
    assert change_between(after, before).lines() == ["pubend q with candidates removed"]
    assert change_between(before, after).as_dict()["pubends_added"] == ("q",)
    assert obstacles("b2", before, after) == "it becomes a candidate for q"
    assert obstacles("b3", before, after) == obstacles("b3", after, before) == ""


@pytest.mark.parametrize(
    ("change", "what", "obstacle"),
    [
        (("db1,db2", "db1,db3"), "database", "the database of q, for which all its candidates must be stopped .*"),
        (
            ('brokers = ["b1", "b2"]', 'brokers = ["b1", "b2"]\nprofile = "swift"'),
            "lease, database",
            r"lease_ms of q \(2000 to 500\), for which all its candidates must be stopped .*",
        ),
        (
            ('brokers = ["b1", "b2"]', 'brokers = ["b1", "b2"]\nreplicas_min = 1'),
            "database",
            r"replicas_min of q \(0 to 1\)",
        ),
        (
            ('brokers = ["b1", "b2"]', 'brokers = ["b1", "b2"]\nlast_values = "symbol"'),
            "last_values",
            r"last_values \(.*\) of q",
        ),
    ],
)
def test_how_a_home_is_held_and_stored_needs_a_restart_of_its_candidates(
    tmp_path: Path, change: tuple[str, str], what: str, obstacle: str
) -> None:
    before, after = loaded(tmp_path), loaded(tmp_path, change)
    assert change_between(before, after).lines() == [f"pubend q changed: {what}"]
    for name in ("b1", "b2"):
        assert re.fullmatch(obstacle, obstacles(name, before, after))
        assert HUSH not in obstacles(name, before, after)
    assert obstacles("b3", before, after) == ""


def test_what_holds_for_all_brokers_changes_in_homes_too_and_without_a_restart(tmp_path: Path) -> None:
    before = loaded(tmp_path)
    after = loaded(tmp_path, text=CANDIDATES + "[congestion]\nsample_ms = 700\n")
    assert [obstacles(name, before, after) for name in ("b1", "b2", "b3")] == ["", "", ""]
    assert change_between(before, after).pubends_changed == (("q", ("tunables",)),)


class Told:
    """Stands for the homes that run beside a node."""

    def __init__(self) -> None:
        self.overlays: list[Overlay] = []

    def apply(self, overlay: Overlay) -> None:
        self.overlays.append(overlay)


def test_a_node_passes_what_it_applies_on_to_its_homes() -> None:
    async def scenario() -> None:
        overlay = lone()
        async with BrokerNode(overlay, "b1", broker=FakeBroker()) as node:
            told, homes = Told(), node.homes
            node.homes = told  # type: ignore[assignment, misc]
            after = replace(overlay, access=Access({"x": HUSH}))
            node.apply(after)
            with pytest.raises(RestartError):
                node.apply(changed(overlay, "b1", port=1))
            node.homes = homes  # type: ignore[misc]
            assert told.overlays == [after]

    run(scenario())
