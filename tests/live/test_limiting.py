from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from penstock.ajil import Aup
from penstock.ajil.settings import LimitSettings
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.limiting import read_limit, set_limit, with_limit
from penstock.live.overlay import Overlay
from penstock.live.toml_table import read_toml

BROKER = '[brokers.b1]\nport = 7001\npubends = ["b1.a"]\n'


def overlay(tmp_path: Path, limit: str) -> Overlay:
    file = tmp_path / "overlay.toml"
    file.write_text(f'overlay = "site"\n{limit}\n{BROKER}')
    return load_overlay(file)


def test_without_a_table_there_is_no_limit(tmp_path: Path) -> None:
    assert overlay(tmp_path, "").limit is None


def test_the_table_is_read_and_reaches_brokers(tmp_path: Path) -> None:
    text = '[limit]\nrate = "600KB"\npackets = 50\nattribute = "symbol"\nalpha = 0.25\nmode = "hard"\nepoch_ms = 200\n'
    read = overlay(tmp_path, text + "priorities = { cards = 0.0 }")
    aup = Aup(
        limit_bytes_s=600_000,
        limit_packets_s=50,
        alpha=0.25,
        mode="hard",
        epoch_ms=200,
        priorities={"cards": 0},
        version=1,
        author="file",
    )
    assert read.limit == LimitSettings(aup, "symbol")
    assert read.settings_for("b1").limit == read.limit


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('rate = "lots"', "limit.rate: 'lots' is not an amount"),
        ("alpha = 3.0", "limit.alpha: alpha is 3, must be 0 to 1"),
        ('colour = "red"', "limit.colour: unknown key"),
        ('policy = "kind"', "limit.policy: policy is 'kind'"),
        ('attribute = ""', "limit.attribute: attribute is ''"),
        ("priorities = { cards = 7.0 }", "limit.priorities"),
    ],
)
def test_a_complaint_names_file_line_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overlay(tmp_path, f"[limit]\n{text}")
    assert complaint in str(caught.value)


class Node:
    """Something that can be tuned."""

    name = "b1"

    def __init__(self, found: Overlay) -> None:
        self.overlay = found

    def apply(self, overlay: Overlay) -> None:
        self.overlay = overlay


def test_a_running_broker_is_given_a_policy_as_json(tmp_path: Path) -> None:
    node = Node(overlay(tmp_path, '[limit]\nattribute = "symbol"'))
    aup = Aup(limit_bytes_s=1000, version=7, author="ann")
    assert set_limit(node, msgspec.json.encode(aup).decode()) == aup
    assert node.overlay.limit == LimitSettings(aup, "symbol")


@pytest.mark.parametrize("text", ["", "[]", '{"alpha": 9}', '{"colour": 1}'])
def test_what_is_no_policy_is_refused(tmp_path: Path, text: str) -> None:
    node = Node(overlay(tmp_path, ""))
    with pytest.raises(ConfigError, match="no policy"):
        set_limit(node, text)
    assert node.overlay.limit is None


def test_it_is_read_from_a_root_table(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text('[limit]\nrate = "1KB"')
    table = read_toml(file)
    assert read_limit(table.table("limit")).aup.limit_bytes_s == 1000
    assert with_limit(Overlay("x", {}), read_toml(file)).limit is not None
