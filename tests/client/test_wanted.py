from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.wanted import Sharing, checked_durable, checked_start, group_of, wanted
from penstock.model.errors import MisuseError
from penstock.model.tick import Tick, tick_counter, tick_ms
from penstock.protocol.frames import LATEST
from penstock.session.inbox import Wanted
from penstock.session.work import Shared


def test_without_a_word_it_begins_with_what_comes_now() -> None:
    assert wanted("TRUE") == wanted("TRUE", start="latest") == Wanted("TRUE", {}, LATEST, "fail", "", is_manual=False)


def test_everything_that_can_be_said_is_kept() -> None:
    asked = wanted("a = 1", start={"p": 5}, missing="earliest", durable="app", acknowledge="manual")
    assert asked == Wanted("a = 1", {"p": 5}, LATEST, "earliest", "app", is_manual=True)
    assert wanted("TRUE", start="earliest").otherwise == 0
    assert wanted("TRUE", start="last", key="symbol") == Wanted("TRUE", otherwise=0, last_by="symbol")


@given(st.datetimes(datetime(1970, 1, 2), datetime(4000, 1, 1)), st.integers(-23, 23))  # noqa: DTZ001
def test_a_time_is_the_first_tick_of_its_millisecond_in_whatever_zone(time: datetime, hours: int) -> None:
    start = time.replace(tzinfo=timezone(timedelta(hours=hours)))
    tick = Tick(wanted("TRUE", start=start).otherwise)
    assert datetime.fromtimestamp(tick_ms(tick) // 1_000, UTC) == start.replace(microsecond=0)
    assert tick_ms(tick) % 1_000 == start.microsecond // 1_000
    assert tick_counter(tick) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"start": datetime(2026, 1, 1)}, "start 2026-01-01T00:00:00 has no time zone"),  # noqa: DTZ001
        ({"start": datetime(1969, 1, 1, tzinfo=UTC)}, "before 1970"),
        ({"start": datetime(9999, 1, 1, tzinfo=UTC)}, "too far in the future"),
        ({"start": "newest"}, "start 'newest' is not latest, earliest"),
        ({"start": 7}, "start 7 is not latest"),
        ({"start": ["p"]}, "is not latest"),
        ({"missing": "ignore"}, "missing 'ignore' is not one of earliest, latest, fail"),
        ({"acknowledge": "never"}, "acknowledge 'never' is not one of auto, manual"),
        ({"acknowledge": "manual"}, "manual acknowledgement needs a durable subscription"),
        ({"durable": "my app"}, "durable name 'my app' is not 1 to 200 letters"),
        ({"durable": b"app"}, "is not 1 to 200 letters"),
        ({"start": "last"}, "start='last' needs a key"),
        ({"start": "last", "key": 7}, "start='last' needs a key"),
        ({"start": "earliest", "key": "symbol"}, "key 'symbol' is only for start='last'"),
        ({"key": "symbol"}, "key 'symbol' is only for start='last'"),
        ({"start": "last", "key": "symbol", "durable": "app"}, "not for durable subscriptions and groups"),
        ({"start": "last", "key": "symbol", "group": Shared("g")}, "not for durable subscriptions and groups"),
        ({"start": "last", "key": "symbol", "missing": "latest"}, "leaves nothing to missing"),
    ],
)
def test_what_cannot_be_is_the_callers_fault(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        wanted("TRUE", **options)


def test_durable_names_are_short_and_plain() -> None:
    for name in ("a", "x" * 200, "team-1/reports_2:daily.v3"):
        assert checked_durable(name) == name
    for name in ("", "x" * 201, "naïve", "a\n", "*"):
        with pytest.raises(MisuseError):
            checked_durable(name)


@pytest.mark.parametrize("start", [{"p": -1}, {"p": True}, {"p": "1"}, {"p": 1.0}, {"p": 2**62}, {"": 1}, {1: 1}])
def test_a_start_that_cannot_be_is_the_callers_fault(start: dict[Any, Any]) -> None:
    with pytest.raises(MisuseError):
        checked_start(start)


def test_a_start_is_copied() -> None:
    start = {"p": 0, "q": 2**62 - 1}
    assert checked_start(start) == start
    assert checked_start(start) is not start
    assert checked_start(None) == {}


def test_pubends_are_names_each_once() -> None:
    assert wanted("TRUE", pubends=["orders", "trades", "orders"]).pubends == ("orders", "trades")
    assert wanted("TRUE").pubends == ()


@pytest.mark.parametrize(
    ("pubends", "words"),
    [
        ("orders", "is a text: pass a list"),
        ([], "is empty"),
        (["or ders"], "'or ders' is not"),
        ([""], "'' is not"),
        ([7], "7 is not"),
        ([f"p{number}" for number in range(101)], "101 pubends are more than the 100"),
    ],
)
def test_what_is_no_list_of_pubends_is_misuse(pubends: list[str], words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        wanted("TRUE", pubends=pubends)


def test_a_start_at_a_pubend_that_is_not_wanted_is_misuse() -> None:
    with pytest.raises(MisuseError, match="pubend trades, which is not one of those wanted"):
        wanted("TRUE", pubends=["orders"], start={"trades": 5})


def shared(name: Any = "g", **wishes: Any) -> Shared:
    made = group_of(name, Sharing(**wishes))  # type: ignore[typeddict-item]
    assert made is not None
    return made


def test_what_is_wanted_of_a_group_is_kept() -> None:
    group = shared(shared_by="key", work_ms=100, deliveries_max=1_000, prefetch=1)
    assert group == Shared("g", "key", 100, 1_000, 1)
    assert wanted("TRUE", group=group).shared is group
    assert group_of(None, {}) is None


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        ({"name": "no name"}, "no name"),
        ({"work_ms": 99}, "work_ms is 99; it must be 100 to 86,400,000"),
        ({"work_ms": 1.5}, "work_ms is 1.5"),
        ({"deliveries_max": -1}, "deliveries_max is -1"),
        ({"deliveries_max": True}, "deliveries_max is True"),
        ({"prefetch": 0}, "prefetch is 0; it must be 1 to 1,000"),
        ({"prefetch": 1_001}, "prefetch is 1001"),
        ({"shared_by": "k" * 256}, "is not the name of an attribute"),
        ({"name": None, "work_ms": 1_000}, "work_ms needs the name of a group"),
        ({"name": ""}, "shared '' is not the name of a group"),
        ({"name": 5}, "shared 5 is not the name of a group"),
    ],
)
def test_what_no_group_can_be_is_refused(wishes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        shared(**wishes)


@pytest.mark.parametrize("options", [{"durable": "d"}, {"start": {"p": 5}}])
def test_a_group_has_no_other_name_and_begins_at_one_place(options: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match="a group has no durable name besides its own"):
        wanted("TRUE", group=shared(), **options)
