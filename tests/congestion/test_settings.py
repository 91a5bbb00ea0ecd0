from __future__ import annotations

from dataclasses import fields
from math import inf, nan
from typing import Any

import pytest

from penstock.congestion import CongestionError, CongestionSettings
from penstock.model.errors import MisuseError

# Table 1 of the paper, with thresholds of rates in tick-seconds per second.
TABLE_1 = {
    "nack_size_ms": 100,
    "nouca_ms": 2000,
    "increase_min_msg_s": 2.0,
    "increase_factor": 0.05,
    "decrease_factor": 0.5,
    "decrease_back_factor": 0.25,
    "smoothing": 0.1,
    "nonrecovering_margin": 0.05,
    "recovering_margin": 1.0,
    "lag_ms_max": 4000,
    "nack_window_ms": 100,
    "nack_increase": 0.1,
    "nack_decrease": 0.3,
}


@pytest.mark.parametrize(("name", "value"), TABLE_1.items())
def test_the_profile_paper_is_table_1(name: str, value: float) -> None:
    assert getattr(CongestionSettings(), name) == value
    assert getattr(CongestionSettings.paper(), name) == value


def test_what_is_beyond_the_paper_is_off_in_its_profile() -> None:
    paper = CongestionSettings.paper()
    assert (paper.cut, paper.nack_group, paper.minima_ms) == ("factor", False, 0)
    assert paper.dcq_interval_ms == paper.dcq_interval_limited_ms == paper.increase_step_ms == 1000
    # Silence as often as samples, or a pubend at a rate near 0 would be alerted for ever.
    assert paper.sample_ms == paper.silence_limited_ms == 500


def test_the_profile_swift_differs_and_can_be_changed() -> None:
    swift = CongestionSettings.swift(nouca_ms=900)
    assert (swift.profile, swift.cut, swift.sample_ms, swift.nouca_ms) == ("swift", "horizon", 250, 900)
    assert CongestionSettings.of_profile("swift", nouca_ms=900) == swift
    assert CongestionSettings.of_profile("paper") == CongestionSettings.paper() == CongestionSettings()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"recovering_margin": 0.0}, "recovering_margin is 0.0, must be above 0"),
        ({"recovering_margin": -0.2}, "recovering_margin is -0.2, must be above 0"),
        ({"recovering_margin": 1000.0}, "recovering_margin is 1000.0, must be"),
        ({"profile": "brisk"}, "no profile 'brisk', only paper, swift"),
        ({"cut": "deep"}, "cut is 'deep', must be one of factor, horizon"),
        ({"nack_window_ms": 50}, "nack_window_ms 50 is less than nack_size_ms 100"),
        ({"sample_ms": 250}, "sample_ms 250 is shorter than silence_limited_ms 500"),
        ({"smoothing": 0.0}, "smoothing is 0.0, must be 0.001 to 1"),
        ({"smoothing": 1.1}, "smoothing is 1.1, must be 0.001 to 1"),
        ({"decrease_factor": 1.0}, "decrease_factor is 1.0, must be 0.01 to 0.99"),
        ({"nonrecovering_margin": -0.01}, "nonrecovering_margin is -0.01, must be 0 to 0.99 ticksec/s"),
        ({"dcq_interval_ms": 0}, "dcq_interval_ms is 0, must be 10 to 1e+09 ms"),
        ({"dcq_interval_ms": 10.5}, "dcq_interval_ms is 10.5, must be of type int"),
        ({"rate_floor_msg_s": 0.0}, "rate_floor_msg_s is 0.0, must be 0.01"),
        ({"headroom_factor": 0.5}, "headroom_factor is 0.5, must be 1 to 100"),
        ({"increase_min_msg_s": nan}, "increase_min_msg_s is nan, must be"),
        ({"increase_min_msg_s": inf}, "increase_min_msg_s is inf, must be"),
        ({"pdcc": "yes"}, "pdcc is 'yes', must be of type bool"),
        ({"nouca_ms": True}, "nouca_ms is True, must be of type int"),
        ({"nack_decrease": 1.0}, "nack_decrease is 1.0, must be"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(CongestionError) as caught:
        CongestionSettings.paper(**changes)
    assert text in str(caught.value)
    assert isinstance(caught.value, MisuseError)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(CongestionError, match="no profile 'brisk'"):
        CongestionSettings.of_profile("brisk")


@pytest.mark.parametrize("cure", [{"silence_limited_ms": 250}, {"rate_floor_msg_s": 5.0}])
def test_sampling_often_is_allowed_with_a_cure(cure: dict[str, Any]) -> None:
    assert CongestionSettings.paper(sample_ms=250, **cure).sample_ms == 250


def test_every_parameter_says_what_it_is_and_has_its_unit_in_its_name() -> None:
    for each in fields(CongestionSettings):
        assert len(each.metadata["help"]) > 10
        for suffix, units in (("_ms", ("ms", "tickms")), ("_msg_s", ("msg/s",))):
            assert each.name.removesuffix("_max").endswith(suffix) == (each.metadata["unit"] in units), each.name
