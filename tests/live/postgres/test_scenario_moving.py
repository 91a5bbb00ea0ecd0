"""A pubend moves from the folder of a broker to a home in a database, and back, and nobody misses anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from commands import LIMIT_S, running
from penstock.cli.app import app
from penstock.client.sync import connect_sync
from penstock.lab.databases import DatabaseServer
from penstock.lab.demo_overlay import free_ports


class Site:
    """Brokers pb1 and sb1, run again and again with the pubend quotes at different places."""

    def __init__(self, folder: Path, overlay: str) -> None:
        self.folder, self._overlay = folder, overlay
        self._ports = free_ports(2)

    def file(self, data: str = "", url: str = "") -> Path:
        """The overlay file for quotes in a folder of pb1, or in a database."""
        lines = [f'overlay = "{self._overlay}"', "[brokers.pb1]", f"port = {self._ports[0]}"]
        lines += [f'data = "{data}"', 'pubends = ["quotes"]'] if data else []
        lines += ["[brokers.sb1]", f"port = {self._ports[1]}", "[[links]]", 'between = ["sb1", "pb1"]']
        lines += ["[pubends.quotes]", 'brokers = ["pb1", "sb1"]', f'data = "{url}"'] if url else []
        file = self.folder / "overlay.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def use(self, file: Path, *, publish: range, read: range) -> None:
        """Publish numbers at pb1, and have the durable subscription at sb1 read and acknowledge others."""
        with running(file, ["pb1", "sb1"]):
            reader = connect_sync(f"penstock://127.0.0.1:{self._ports[1]}", name="reader")
            feed = connect_sync(f"penstock://127.0.0.1:{self._ports[0]}", name="feed")
            with reader, feed, reader.subscribe("n > 0", durable="billing", acknowledge="manual") as found:
                found.ready()
                for number in publish:
                    feed.publish({"n": number}, pubend="quotes")
                feed.flush()
                for number in read:
                    message = found.get(LIMIT_S)
                    assert message.attributes["n"] == number
                    found.acknowledge(message)


def copied(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["store", "copy", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def test_a_durable_subscription_goes_on_over_both_moves(
    tmp_path: Path, server: DatabaseServer, request: pytest.FixtureRequest
) -> None:
    overlay = request.node.name
    site = Site(tmp_path, overlay)
    site.use(site.file("data/one"), publish=range(1, 31), read=range(1, 11))
    told = copied(tmp_path / "data" / "one", server.url, "--pubend", "quotes")
    assert (told["to"]["broker"], told["pubends"]["quotes"]["messages"]) == ("quotes.home", 30)
    site.use(site.file(url=server.url), publish=range(31, 36), read=range(11, 33))
    named = ("--overlay", overlay, "--broker", "quotes.home", "--for", "pb1")
    told = copied(server.url, tmp_path / "data" / "two", *named)
    assert told["pubends"]["quotes"]["messages"] == 35
    site.use(site.file("data/two"), publish=range(36, 41), read=range(33, 41))
