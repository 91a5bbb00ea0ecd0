"""Where a broker listens, and the exposed secrets it warns of when it starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live.support import lone, place_of, run
from penstock.broker.access import Access
from penstock.live.errors import ConfigError
from penstock.live.listening import exposed_secrets, listen
from penstock.live.overlay import Overlay, Security
from penstock.live.tls import TlsFiles

HUSH = "hush"


def test_an_address_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        (listening,) = await listen(place_of("b1", 1), 0)
        with listening:
            port = listening.getsockname()[1]
            place = place_of("b2", 2)
            object.__setattr__(place, "port", port)
            complaint = f"broker b2 cannot listen at 127.0.0.1:{port}: Address already in use"
            with pytest.raises(ConfigError, match=complaint):
                await listen(place, place.port)

    run(scenario())


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_what_is_no_address_is_named(host: str) -> None:
    async def scenario() -> None:
        place = place_of("b1", 1)
        object.__setattr__(place, "host", host)
        object.__setattr__(place, "bind", host)
        with pytest.raises(ConfigError, match="not a valid address"):
            await listen(place, place.port)

    run(scenario())


def warned(overlay: Overlay) -> list[str]:
    return [event for event, _ in exposed_secrets(overlay, overlay.place_of("b1"))]


@pytest.mark.parametrize(
    "secrets",
    [
        {"security": Security(link_token=HUSH)},
        {"security": Security(admin_token=HUSH)},
        {"access": Access({"x": HUSH})},
    ],
)
def test_a_file_with_tokens_that_all_can_read_is_named(secrets: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.touch()
    file.chmod(0o644)
    overlay = lone(source=file, **secrets)
    ((event, fields),) = exposed_secrets(overlay, overlay.place_of("b1"))
    assert (event, fields["file"]) == ("secret-readable", str(file))
    assert "chmod" in fields["advice"]
    file.chmod(0o640)
    assert warned(overlay) == []


def test_a_file_without_secrets_may_be_read(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.touch()
    file.chmod(0o644)
    assert warned(lone(source=file)) == []
    assert warned(lone(source=tmp_path / "gone", security=Security(link_token=HUSH))) == []


def test_a_key_that_all_can_read_is_named(tmp_path: Path) -> None:
    key = tmp_path / "b1.key"
    key.touch()
    key.chmod(0o644)
    overlay = lone()
    place = replace(overlay.place_of("b1"), tls=TlsFiles(tmp_path / "ca.pem", tmp_path / "b1.pem", key))
    assert warned(replace(overlay, brokers={"b1": place})) == ["secret-readable"]
    key.chmod(0o600)
    assert warned(replace(overlay, brokers={"b1": place})) == []


def test_tokens_on_the_way_are_named_beyond_loopback() -> None:
    overlay = lone()
    place = replace(overlay.place_of("b1"), host="10.0.0.1")
    assert warned(replace(overlay, brokers={"b1": place})) == ["unencrypted"]
    assert warned(overlay) == []
