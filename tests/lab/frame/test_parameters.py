"""Parameters are typed, bounded and never guessed."""

from __future__ import annotations

import pytest

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.parameters import Parameter, parameter_values

DECLARED = (
    Parameter("size", 100, "how many", quick=10, minimum=1, maximum=1_000),
    Parameter("rate", 0.5, "how fast"),
    Parameter("name", "x", "what"),
    Parameter("fair", default=True, help="or not"),
)


def test_defaults_hold_until_set_and_the_last_setting_wins() -> None:
    assert parameter_values(DECLARED, []) == {"size": 100, "rate": 0.5, "name": "x", "fair": True}
    assert parameter_values(DECLARED, ["size=5", "rate=2", "name=a=b", "fair=no", "size = 1_000"]) == {
        "size": 1_000,
        "rate": 2.0,
        "name": "a=b",
        "fair": False,
    }


def test_a_quick_run_has_its_own_defaults() -> None:
    assert parameter_values(DECLARED, ["rate=1"], quick=True) == {"size": 10, "rate": 1.0, "name": "x", "fair": True}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("speed=1", r"no parameter 'speed'; known parameters: size \(integer\), rate \(number\), name \(text\), fair"),
        ("size", "'size' is not of the form key=value; known parameters: size"),
        ("size=ten", "parameter size: 'ten' is not of type integer"),
        ("size=1.5", "parameter size: '1.5' is not of type integer"),
        ("size=0", "parameter size: 0 is below the minimum of 1"),
        ("size=1001", "parameter size: 1,001 is above the maximum of 1,000"),
        ("rate=nan", "parameter rate: nan is not finite"),
        ("fair=maybe", "parameter fair: 'maybe' is not of type true or false"),
    ],
)
def test_a_bad_setting_says_what_is_known(setting: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        parameter_values(DECLARED, [setting])


def test_an_experiment_without_parameters_says_so() -> None:
    with pytest.raises(ParameterError, match="this experiment has no parameters"):
        parameter_values((), ["a=1"])
