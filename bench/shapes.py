"""Makes random control frames from their types: values that fit their fields, except for a share of odd ones.

The fields of a frame are read from its type, so a new field is fuzzed from the day it exists.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any, Final

from msgspec import inspect

from penstock.model.names import is_client_name
from penstock.protocol import frames as f
from penstock.protocol.control import Control

__all__ = ["BIG", "HOSTS", "KINDS", "PUBENDS", "SELECTORS", "STARTED_MS", "any_frame", "any_tick"]

STARTED_MS: Final = 1_700_000_000_000
"""About the time of ticks that brokers in this process may believe."""
BIG: Final = (0, 1, -1, 2**31, 2**32, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
HOSTS: Final = ("b1", "b2", "b2", "b3", "")
PUBENDS: Final = ("b1.a", "b1.log", "b1.log", "b2.a", "b2.log", "b2.log", "b3.log", "x", "$b2")
SELECTORS: Final = ("TRUE", "x > 1", "x < 3", "class = 'S'", "x = 2 OR class = ''", "x >", "NOT x IN (1, 2)")
_NAMES: Final = (
    "b1",
    "b2",
    "b3",
    "mallory",
    "durable-1",
    "durable-2",
    "orders",
    "client",
    "ajil",
    "balancing",
    "token",
)
_TEXTS: Final = ("", "a" * 201, "é\U0001f600", "\0", "\x1b[2J", "x > 1", "$b1", "a" * 5_000)
_TICKS: Final = ("tick", "first", "last", "position", "earliest", "latest", "otherwise", "below", "ticks", "settled")
_WORDS: Final = {
    "pubend": PUBENDS,
    "pubends": ("b2.a", "b2.log"),
    "best_effort": ("b2.a",),
    "pending": PUBENDS,
    "host": HOSTS,
    "to": HOSTS,
    "asker": HOSTS,
    "origin": HOSTS,
    "neighbours": HOSTS,
    "selector": SELECTORS,
    "added": SELECTORS,
    "removed": SELECTORS,
    "durable": ("", "durable-1", "durable-2", "orders"),
    "durables": ("durable-1", "orders", "b2"),
    "positions": PUBENDS,
    "hosts": HOSTS,
    "overlay": ("fuzz",),
    "role": ("client", "broker"),
    "mechanism": ("ajil", "balancing", "token", "congestion"),
}
_FEW: Final = 10
KINDS: Final[tuple[type[Any], ...]] = tuple(
    each for name in f.__all__ if isinstance(each := getattr(f, name), type) and issubclass(each, Control)
)
"""All kinds of control frames."""


def any_frame(rng: Random, kind: type[Any], *, odd_share: float = 0.02, **given: object) -> f.ControlFrame:
    """A frame of a kind, with some fields given; a share of ``odd_share`` of the other values is odd."""
    values = {
        name: given[name] if name in given else _value(rng, info, name, odd_share) for name, info in _FIELDS[kind]
    }
    frame: f.ControlFrame = kind(**values)
    return frame


def any_tick(rng: Random) -> int:
    """A tick from before to a little after the broker's time."""
    return (STARTED_MS + rng.randrange(-2_000, 20_000)) << 16 | rng.randrange(3)


def _value(rng: Random, info: inspect.Type, name: str, odd_share: float) -> Any:
    is_odd = rng.random() < odd_share
    if isinstance(info, inspect.Metadata):
        return _value(rng, info.type, name, odd_share)
    if isinstance(info, inspect.IntType):
        if not is_odd and info.le is not None and info.le < _FEW:
            # One of a few kinds.
            return rng.randint(info.ge or 0, info.le)
        return rng.choice(BIG) if is_odd else _number(rng, name)
    if isinstance(info, inspect.StructType):
        parts = {each.name: _value(rng, each.type, each.name, odd_share) for each in info.fields}
        return info.cls(**parts)
    if isinstance(info, inspect.StrType):
        return _text(rng, info, name, is_odd=is_odd)
    if isinstance(info, inspect.VarTupleType):
        count = rng.choice((0, 1, 1, 2, 3, 40)) if not is_odd else rng.choice((0, 300))
        return tuple(_value(rng, info.item_type, name, odd_share) for _ in range(count))
    if isinstance(info, inspect.TupleType):
        items = [_value(rng, each, name, odd_share) for each in info.item_types]
        # Valid ranges: two ticks in ascending order.
        return tuple(sorted(items)) if name == "ranges" else tuple(items)
    return _plain(rng, info, is_odd=is_odd)


def _text(rng: Random, info: inspect.StrType, name: str, *, is_odd: bool) -> str:
    if is_odd and name == "client":
        # Client names are checked when a frame is made, too.
        return rng.choice([each for each in _TEXTS if is_client_name(each)])
    if is_odd:
        return rng.choice(_TEXTS)
    words = _WORDS.get(name, _NAMES)
    return rng.choice([each for each in words if info.pattern is None or re.search(info.pattern, each)])


def _plain(rng: Random, info: inspect.Type, *, is_odd: bool) -> Any:
    if isinstance(info, inspect.BoolType):
        return rng.random() < 0.5
    if isinstance(info, inspect.FloatType):
        return rng.choice((0.0, -1.0, float("inf"), float("nan"), 1e308)) if is_odd else rng.choice((0.5, 1.0, 2.0))
    if isinstance(info, inspect.LiteralType):
        return rng.choice(info.values)
    if isinstance(info, inspect.BytesType):
        if info.min_length == info.max_length == 16 and not is_odd:
            # An identifier of a broker that exists, most of the time.
            return rng.randrange(4).to_bytes(4) + rng.randrange(4).to_bytes(4) + rng.randbytes(8)
        length_max = 40 if is_odd or info.max_length is None else min(info.max_length, 4_096)
        return rng.randbytes(rng.randint(info.min_length or 0, length_max))
    raise TypeError(f"no values are made up for {info}")


def _number(rng: Random, name: str) -> int:
    if name in _TICKS or name in ("ranges", "spans"):
        return any_tick(rng)
    if name in ("positions", "hosts", "durables", "starts"):
        return rng.choice((0, 1, 2, any_tick(rng)))
    return rng.randrange(5)


def _fields_of(kind: type[Any]) -> tuple[tuple[str, inspect.Type], ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return tuple((each.name, each.type) for each in info.fields)


_FIELDS: Final = {kind: _fields_of(kind) for kind in KINDS}
