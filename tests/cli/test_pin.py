"""``penstock pin``: all brokers are told, and one that is not reached is named."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from commands import running
from penstock.cli.app import app
from penstock.lab.demo_overlay import free_ports


def test_a_client_is_pinned_at_all_brokers_and_unpinned_again(tmp_path: Path) -> None:
    ports = free_ports(4)
    lines = ['overlay = "site"']
    for name, port, admin_port in (("b1", *ports[:2]), ("b2", *ports[2:])):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}"]
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join([*lines, "[[links]]", 'between = ["b2", "b1"]', ""]))

    with running(file, ["b1", "b2"]) as nodes:

        def pinned(command: str, client: str = "ticker") -> tuple[int, list[list[str]]]:
            result = CliRunner().invoke(app, [command, str(file), client])
            return result.exit_code, [node.broker.status().migration.pinned for node in nodes.values()]

        assert pinned("pin") == (0, [["ticker"], ["ticker"]])
        assert pinned("unpin") == (0, [[], []])
        assert pinned("pin", "") == (1, [[], []])
    result = CliRunner().invoke(app, ["pin", str(file), "ticker"])
    assert result.exit_code == 1
    assert result.output.count("unreachable") == 2
