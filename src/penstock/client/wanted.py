"""Checks what an application asks for with a subscription, and translates it into the protocol's terms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from penstock.model.errors import MisuseError
from penstock.model.names import is_durable_name
from penstock.model.tick import tick_at
from penstock.protocol.frames import LATEST, Missing
from penstock.session.inbox import Wanted

if TYPE_CHECKING:
    from penstock.selectors.selector import Selector

__all__ = ["Acknowledging", "Missing", "Start", "checked_durable", "checked_start", "selector_text", "wanted"]

Start: TypeAlias = Literal["latest", "earliest"] | datetime | Mapping[str, int]
"""Where to begin: with what is published from now on, with all there is, at a time, or at a tick of each pubend."""
Acknowledging: TypeAlias = Literal["auto", "manual"]
"""Who acknowledges what was read from a durable subscription: the client, or the application."""

_TICK_MAX: Final = LATEST - 1
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


def selector_text(selector: str | Selector) -> str:
    """The text of a selector, as sent to brokers; raises ``SelectorError`` if it is not a selector."""
    # Imported here: a program that only publishes needs no parser.
    from penstock.selectors.selector import Selector

    return str(selector if isinstance(selector, Selector) else Selector.parse(selector))


def wanted(
    selector: str,
    *,
    start: Start | None = None,
    missing: Missing = "fail",
    durable: str = "",
    acknowledge: Acknowledging = "auto",
) -> Wanted:
    """Checks the arguments of a subscription; raises ``MisuseError`` if they are invalid.

    >>> wanted("TRUE", start="earliest").otherwise
    0
    >>> wanted("TRUE", start=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).otherwise == tick_at(1_000)
    True
    """
    if missing not in get_args(Missing):
        raise MisuseError(f"missing {missing!r} is not one of {', '.join(get_args(Missing))}")
    if acknowledge not in get_args(Acknowledging):
        raise MisuseError(f"acknowledge {acknowledge!r} is not one of {', '.join(get_args(Acknowledging))}")
    if acknowledge == "manual" and not durable:
        raise MisuseError("manual acknowledgement needs a durable subscription: without a name no position is kept")
    first_ticks, otherwise = _ticks(start)
    name = checked_durable(durable) if durable else ""
    return Wanted(selector, first_ticks, otherwise, missing, name, acknowledge == "manual")


def checked_durable(name: str) -> str:
    """The name of a durable subscription; raises ``MisuseError`` if it is invalid."""
    if not isinstance(name, str) or not is_durable_name(name):
        raise MisuseError(f"durable name {name!r} is not 1 to 200 letters, digits, - _ . : or /")
    return name


def checked_start(start: Mapping[str, int] | None) -> dict[str, int]:
    """A copy of the first ticks wanted by pubend; raises ``MisuseError`` if they are invalid."""
    checked = dict(start or {})
    for pubend, tick in checked.items():
        if not isinstance(pubend, str) or not pubend:
            raise MisuseError(f"pubend {pubend!r} of a start is not a name")
        if not isinstance(tick, int) or isinstance(tick, bool) or not 0 <= tick <= _TICK_MAX:
            raise MisuseError(f"start {tick!r} of pubend {pubend} is not a tick in 0 .. 2**62 - 1")
    return checked


def _ticks(start: Start | None) -> tuple[dict[str, int], int]:
    """The first ticks wanted by pubend, and the first tick wanted of all other pubends."""
    if isinstance(start, datetime):
        return {}, _tick_of(start)
    if start is None or isinstance(start, Mapping):
        return checked_start(start), LATEST
    words = {"latest": LATEST, "earliest": 0}
    # Unhashable values are wrong, too.
    if not isinstance(start, str) or start not in words:
        raise MisuseError(f"start {start!r} is not latest, earliest, a time, or ticks by pubend")
    return {}, words[cast("str", start)]


def _tick_of(time: datetime) -> int:
    if time.utcoffset() is None:
        raise MisuseError(f"start {time.isoformat()} has no time zone")
    ms = (time - _1970) // timedelta(milliseconds=1)
    # Checked before the tick is made, which cannot hold more.
    if not 0 <= ms <= _TICK_MAX >> 16:
        raise MisuseError(f"start {time.isoformat()} is before 1970, or too far in the future")
    return tick_at(ms)
