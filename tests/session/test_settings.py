from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.session.settings import ClientSettings


@pytest.mark.parametrize(
    "change",
    [
        {"batch_bytes": 0},
        {"queue_bytes": -1},
        {"queue_messages": 0},
        {"connect_ms": 0},
        {"close_ms": 0},
        {"linger_ms": -1},
        {"acknowledge_ms": -1},
        {"backoff_first_ms": 0},
        {"backoff_first_ms": 100, "backoff_max_ms": 99},
        {"give_up_ms": -1},
        {"connect_timeout_ms": -1},
        {"publisher": b"x" * 33},
        {"published": -1, "publisher": b"x"},
        {"published": 1},
        {"published": {"a": 1, "b": -1}, "publisher": b"x"},
        {"published": {"a": 1}},
    ],
)
def test_a_setting_that_cannot_work_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(change))):
        ClientSettings(**change)


def test_the_last_number_is_the_same_for_all_pubends_or_one_for_each() -> None:
    same = ClientSettings(publisher=b"x", published=7)
    assert (same.published_to("a"), same.published_to("b")) == (7, 7)
    each = ClientSettings(publisher=b"x", published={"a": 7})
    assert (each.published_to("a"), each.published_to("b")) == (7, 0), "nothing was published to the others"


def test_the_guide_lists_every_setting_with_its_default() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    table = guide.partition("## Settings\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| \w", table, re.MULTILINE))
    assert listed == {each.name: shown(each.default) for each in fields(ClientSettings)}


def shown(default: object) -> str:
    """A default as the guide writes it."""
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    return f"`{default!r}`".replace("'", '"')
