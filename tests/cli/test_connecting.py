"""Who a command is: its token, its name, and its certificates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.connecting import Party
from penstock.live.errors import TlsError
from penstock.model.errors import MisuseError


def test_a_party_makes_a_client_with_its_name() -> None:
    assert Party(name="me").client("penstock://127.0.0.1:1").name == "me"


def test_a_certificate_needs_an_authority() -> None:
    with pytest.raises(MisuseError, match="--ca"):
        Party(certificate=Path("c.pem"), key=Path("c.key")).client("penstocks://127.0.0.1:1")


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="nowhere"):
        Party(ca=tmp_path / "nowhere.pem").client("penstocks://127.0.0.1:1")


@pytest.mark.parametrize("name", ["trace", "status", "publish", "subscribe"])
def test_a_command_that_only_shows_its_help_loads_no_client(name: str) -> None:
    program = f"import sys, penstock.cli.{name}; print('penstock.client.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
