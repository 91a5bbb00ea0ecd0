"""Checks what an application asks for with a subscription, and translates it into the protocol's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict, cast, get_args

from penstock.model.errors import MisuseError
from penstock.model.limits import NAME_CHARS_MAX, SUBSCRIBED_PUBENDS_MAX
from penstock.model.names import is_durable_name, is_plain_name
from penstock.model.tick import tick_at
from penstock.protocol.frames import LATEST, Missing
from penstock.protocol.work_frames import DELIVERIES_MAX, PREFETCH_MAX, WORK_MS_MAX, WORK_MS_MIN
from penstock.session.inbox import Wanted
from penstock.session.work import Shared

if TYPE_CHECKING:
    from penstock.selectors.selector import Selector

__all__ = [
    "Acknowledging",
    "Missing",
    "Start",
    "checked_durable",
    "checked_pubends",
    "checked_start",
    "selector_text",
    "wanted",
]

Start: TypeAlias = Literal["latest", "earliest", "last"] | datetime | Mapping[str, int]
"""Where to begin: with what is published from now on, with all there is, with the newest message of each key, at a
time, or at a tick of each pubend."""
Acknowledging: TypeAlias = Literal["auto", "manual"]
"""Who acknowledges what was read from a durable subscription: the client, or the application."""


class Sharing(TypedDict, total=False):
    """What an application may say about a group that it joins."""

    shared_by: str
    """The attribute by which order is kept: of messages with the same value, one at a time is handed out."""
    work_ms: int
    """How long a member may take for a message."""
    deliveries_max: int
    """How often a message is handed out in vain before it becomes a dead letter; 0 for as often as it takes."""
    prefetch: int
    """How many messages of each pubend this member has at a time."""


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
    pubends: Iterable[str] | None = None,
    group: Shared | None = None,
    key: str = "",
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
    if start == "last" or key:
        _check_last(start, key, is_plain=not durable and group is None and missing == "fail")
        # Pubends that nobody knows of yet begin with all they have: the newest message of a key may be there.
        return Wanted(selector, otherwise=0, pubends=checked_pubends(pubends), last_by=key)
    first_ticks, otherwise = _ticks(start)
    if group is not None and (durable or first_ticks):
        raise MisuseError(
            "a group has no durable name besides its own, and begins at the latest, the earliest or a time"
        )
    name = checked_durable(durable) if durable else ""
    asked = Wanted(
        selector, first_ticks, otherwise, missing, name, acknowledge == "manual", checked_pubends(pubends), group
    )
    strange = [pubend for pubend in first_ticks if not asked.wants(pubend)]
    if strange:
        raise MisuseError(f"start has a tick of pubend {strange[0]}, which is not one of those wanted")
    return asked


def _check_last(start: object, key: object, *, is_plain: bool) -> None:
    if start != "last":
        raise MisuseError(f"key {key!r} is only for start='last'")
    if not isinstance(key, str) or not 0 < len(key) <= NAME_CHARS_MAX:
        raise MisuseError(f"start='last' needs a key, the name of an attribute, not {key!r}")
    if not is_plain:
        raise MisuseError("start='last' is not for durable subscriptions and groups, and leaves nothing to missing")


def group_of(shared: str | None, sharing: Sharing) -> Shared | None:
    """Checks what an application wants of a group, if it wants one; raises ``MisuseError`` if that is invalid."""
    if shared is None:
        if sharing:
            raise MisuseError(f"{next(iter(sharing))} needs the name of a group (shared)")
        return None
    if not isinstance(shared, str) or not is_durable_name(shared):
        raise MisuseError(f"shared {shared!r} is not the name of a group: 1 to 200 letters, digits, - _ . : or /")
    made = Shared(shared, **sharing)
    for name, value, low, high in (
        ("work_ms", made.work_ms, WORK_MS_MIN, WORK_MS_MAX),
        ("deliveries_max", made.deliveries_max, 0, DELIVERIES_MAX),
        ("prefetch", made.prefetch, 1, PREFETCH_MAX),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise MisuseError(f"{name} is {value!r}; it must be {low:,} to {high:,}")
    if not isinstance(made.shared_by, str) or len(made.shared_by) > NAME_CHARS_MAX:
        raise MisuseError(f"shared_by {made.shared_by!r} is not the name of an attribute")
    return made


def checked_durable(name: str) -> str:
    """The name of a durable subscription; raises ``MisuseError`` if it is invalid."""
    if not isinstance(name, str) or not is_durable_name(name):
        raise MisuseError(f"durable name {name!r} is not 1 to 200 letters, digits, - _ . : or /")
    return name


def checked_pubends(pubends: Iterable[str] | None) -> tuple[str, ...]:
    """The names of pubends, each once, and none for all; raises ``MisuseError`` if they are invalid.

    >>> checked_pubends(["orders", "trades", "orders"])
    ('orders', 'trades')
    """
    if pubends is None:
        return ()
    if isinstance(pubends, str):
        raise MisuseError(f"pubends {pubends!r} is a text: pass a list of names")
    names = tuple(dict.fromkeys(pubends))
    if not names:
        raise MisuseError("pubends is empty: leave it out for all pubends")
    for name in names:
        if not isinstance(name, str) or not is_plain_name(name):
            raise MisuseError(f"pubend {name!r} is not 1 to 100 letters, digits, - _ or .")
    if len(names) > SUBSCRIBED_PUBENDS_MAX:
        raise MisuseError(f"{len(names)} pubends are more than the {SUBSCRIBED_PUBENDS_MAX} that may be named")
    return names


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
        raise MisuseError(f"start {start!r} is not latest, earliest, last, a time, or ticks by pubend")
    return {}, words[cast("str", start)]


def _tick_of(time: datetime) -> int:
    if time.utcoffset() is None:
        raise MisuseError(f"start {time.isoformat()} has no time zone")
    ms = (time - _1970) // timedelta(milliseconds=1)
    # Checked before the tick is made, which cannot hold more.
    if not 0 <= ms <= _TICK_MAX >> 16:
        raise MisuseError(f"start {time.isoformat()} is before 1970, or too far in the future")
    return tick_at(ms)
