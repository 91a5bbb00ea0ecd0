from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionError, CongestionSettings, changed, listing

PAPER = CongestionSettings.paper()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("recovering_margin", "0.5", 0.5),
        ("recovering_margin", " 2 ", 2.0),
        ("nouca_ms", "1500", 1500),
        ("pdcc", "off", False),
        ("sdcc", "No", False),
        ("pdcc", "1", True),
        ("cut", "horizon", "horizon"),
    ],
)
def test_a_parameter_is_changed_by_its_name(name: str, text: str, value: object) -> None:
    settings = changed(PAPER, {name: text})
    assert getattr(settings, name) == value
    assert {each.name for each in fields(settings) if getattr(settings, each.name) != getattr(PAPER, each.name)} <= {
        name
    }


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"recovering_margin": "0"}, "must be above 0"),
        ({"recovering_margin": "fast"}, "recovering_margin is 'fast', must be a number"),
        ({"nouca_ms": "1.5"}, "nouca_ms is '1.5', must be an integer"),
        ({"pdcc": "maybe"}, "pdcc is 'maybe', must be on or off"),
        ({"speed": "1"}, "no parameter 'speed', only profile, pdcc"),
        ({"profile": "brisk"}, "no profile 'brisk'"),
        ({"sample_ms": "250"}, "shorten the silence with the sample"),
    ],
)
def test_a_change_that_cannot_be_is_refused(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(CongestionError, match=problem):
        changed(PAPER, texts)


def test_changes_that_belong_together_are_judged_together() -> None:
    settings = changed(PAPER, {"sample_ms": "250", "silence_limited_ms": "250"})
    assert (settings.sample_ms, settings.silence_limited_ms) == (250, 250)


def test_a_profile_replaces_all_values_but_the_switches_and_what_is_changed_with_it() -> None:
    before = CongestionSettings.paper(nouca_ms=5000, pdcc=False)
    after = changed(before, {"lag_ms_max": "700", "profile": "swift"})
    assert after == CongestionSettings.swift(pdcc=False, lag_ms_max=700)


def test_the_listing_tells_everything_that_can_be_changed() -> None:
    settings = CongestionSettings.swift(nouca_ms=900)
    rows = {each.name: each for each in listing(settings)}
    assert list(rows) == [each.name for each in fields(CongestionSettings)]
    assert (rows["nouca_ms"].value, rows["nouca_ms"].unit) == (900, "ms")
    assert rows["nouca_ms"].default == CongestionSettings.swift().nouca_ms
    assert "t_nouca" in rows["nouca_ms"].help
    assert rows["cut"].unit == ""


@given(st.sampled_from([CongestionSettings.paper(), CongestionSettings.swift()]), st.data())
def test_what_is_listed_can_be_set(settings: CongestionSettings, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(listing(settings)))
    text = {True: "on", False: "off"}.get(row.value, "") if isinstance(row.value, bool) else str(row.value)
    assert changed(settings, {row.name: text}) == settings
