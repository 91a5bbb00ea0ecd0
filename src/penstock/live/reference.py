"""Lists all settings of an overlay file with defaults and descriptions, taken from the settings classes themselves."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from inspect import getsource
from textwrap import dedent
from typing import Any, Final

from penstock.ajil import Aup
from penstock.balancing.settings import BalancingSettings
from penstock.broker.settings import BrokerSettings
from penstock.congestion import CongestionSettings
from penstock.live.config import TEXT_TUNABLES, TUNABLES
from penstock.live.limiting import FILE_NAMES_OTHERWISE
from penstock.live.overlay import PubendSettings
from penstock.live.shipping.settings import ShipSettings
from penstock.stomp.settings import StompSettings
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

__all__ = ["SECTIONS", "Section", "Setting", "settings_of"]


@dataclass(slots=True, frozen=True)
class Setting:
    """One key of a table."""

    name: str
    default: str
    """The default as a file would have it; empty if there is none."""
    unit: str
    help: str


@dataclass(slots=True, frozen=True)
class Section:
    """One table of the file."""

    table: str
    about: str
    kind: type[Any]
    only: Sequence[str] = ()
    """The keys that a file may have; empty for all."""


SECTIONS: Final = (
    Section(
        "[defaults]",
        "For all brokers; in `[brokers.NAME]` for one.",
        BrokerSettings,
        (*TUNABLES, *TEXT_TUNABLES),
    ),
    Section("[pubends.NAME]", "For one guaranteed pubend, whichever broker has it.", PubendSettings),
    Section("[congestion]", "For all brokers; in `[brokers.NAME.congestion]` for one.", CongestionSettings),
    Section("[tracking]", "For all brokers; in `[brokers.NAME.tracking]` for one.", TrackingSettings),
    Section("[balancing]", "For all brokers; in `[brokers.NAME.balancing]` for one.", BalancingSettings),
    Section(
        "[limit]",
        'One for all brokers. `rate` (such as `"600KB"`, per second) and `packets` say the limit, `attribute` which '
        "attribute makes the group of a message, the table `priorities` which share of a cut a group suffers.",
        Aup,
        [each.name for each in fields(Aup) if each.name not in FILE_NAMES_OTHERWISE],
    ),
    Section("[token]", "One for all brokers; there is one, too, where brokers ship by token.", Plan),
    Section(
        "[stomp]",
        "For all brokers; in `[brokers.NAME.stomp]` for one. Without a port nothing is served.",
        StompSettings,
    ),
    Section("[ship]", "For all brokers; without it nothing is shipped.", ShipSettings),
)


def settings_of(section: Section) -> list[Setting]:
    """The keys of a table, in the order of the class."""
    texts = _texts(section.kind)
    return [
        Setting(each.name, _default(each), _unit(each), each.metadata.get("help") or texts[each.name])
        for each in fields(section.kind)
        if not section.only or each.name in section.only
    ]


def _texts(kind: type[Any]) -> dict[str, str]:
    """The docstring below each field of the class."""
    body = ast.parse(dedent(getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found[statement.target.id] = " ".join(str(text).split()).replace("``", "`")
    return found


def _unit(setting: Field[Any]) -> str:
    if "unit" in setting.metadata:
        return str(setting.metadata["unit"])
    parts = setting.name.split("_")
    return next((unit for unit in ("ms", "bytes") if unit in parts), "")


def _default(setting: Field[Any]) -> str:
    if setting.default is MISSING or setting.default is None:
        return ""
    value = setting.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)
