"""All parameters of congestion control, with their units, checked on construction ([Gryphon] table 1).

The defaults are the paper's. Table 1 prints the thresholds of horizon rates as "50 tickms" and "1000 tickms"; they are
0.05 and 1.0 tick-seconds per second. Values that the paper leaves open, and the profile ``swift``, are marked as ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from math import isfinite
from typing import Any, Final, Literal, Self, TypeAlias, cast, get_args

from penstock.model.errors import MisuseError

__all__ = ["CongestionError", "CongestionSettings", "Cut", "SettingValue"]

SettingValue: TypeAlias = bool | int | float | str
Cut: TypeAlias = Literal["factor", "horizon"]


class CongestionError(MisuseError):
    """A parameter of congestion control has a value that cannot work."""


def _is(default: SettingValue, about: str, *, unit: str = "", low: float = 0, high: float = 1e9) -> Any:
    """A parameter with its help text and its allowed range, both ends included."""
    return field(default=default, metadata={"unit": unit, "help": about, "low": low, "high": high})


@dataclass(slots=True, frozen=True)
class CongestionSettings:
    """The parameters of PDCC and SDCC at one broker."""

    profile: str = _is("paper", "the profile that the other values come from, before single ones were changed")
    pdcc: bool = _is(default=True, about="whether pubends follow the slowest broker (PDCC)")
    sdcc: bool = _is(
        default=True, about="whether the NACK window follows the recovery rate (SDCC); else it is the receive window"
    )

    dcq_interval_ms: int = _is(1000, "between two DCQs while the pubend is not limited", unit="ms", low=10)
    dcq_interval_limited_ms: int = _is(
        1000, "time between two DCQs while the pubend is limited (ours)", unit="ms", low=10
    )
    nouca_ms: int = _is(2000, "without UCA before the rate is increased (t_nouca)", unit="ms", low=10)
    increase_min_msg_s: float = _is(2.0, "the least increase, per step (r_min)", unit="msg/s", low=0.01)
    increase_factor: float = _is(0.05, "increase, as a share of what was gained since the last decrease (f_incr)")
    increase_step_ms: int = _is(1000, "between two increases; no less than a DCQ interval (ours)", unit="ms", low=10)
    decrease_factor: float = _is(0.5, "the rate is never cut below this share of it (f_decr1)", low=0.01, high=0.99)
    decrease_back_factor: float = _is(
        0.25, "the share of what was gained since the last decrease that a cut leaves (f_decr2)", high=0.99
    )
    cut: str = _is("factor", "how a rate is cut: by factor as in the paper, or by the horizon rate alerted (ours)")
    cut_factor_max: float = _is(0.97, "cut by horizon: the most that a cut leaves (ours)", low=0.01, high=1.0)
    drain_ms: int = _is(2000, "cut by horizon: time in which a cut lets the lag drain (ours)", unit="ms", low=10)
    recovering_share: float = _is(0.31, "what a recovery spares, as a share of the rate before it (ours)", high=0.4)
    recovering_halving_ms: int = _is(
        120_000, "in which the share that a recovery spares halves (ours)", unit="ms", low=1000
    )
    rate_floor_msg_s: float = _is(0.5, "no pubend is limited to less (ours)", unit="msg/s", low=0.01)
    burst_ms: int = _is(20, "how much of the allowed rate may come in one burst (ours)", unit="ms", low=1, high=1000)
    headroom_factor: float = _is(
        2.0, "where another limit binds, the rate allowed is at most this times the actual", low=1.0, high=100.0
    )
    release_ms: int = _is(
        60_000, "the limit is lifted after this long without a UCA and without being needed (ours)", unit="ms"
    )

    sample_ms: int = _is(500, "between two samples of the doubt horizon (ours)", unit="ms", low=10)
    smoothing: float = _is(0.1, "weight of the newest sample in the horizon rate (alpha)", low=0.001, high=1.0)
    nonrecovering_margin: float = _is(
        0.05, "a broker alerts when its horizon rate is below 1 by this (dt_nonrec)", unit="ticksec/s", high=0.99
    )
    recovering_margin: float = _is(
        1.0,
        "a recovering broker alerts unless its horizon rate is above 1 by this (dt_rec)",
        unit="ticksec/s",
        low=-1e9,
        high=100.0,
    )
    lag_ms_max: int = _is(4000, "a broker alerts when it lags behind the pubend by this (dt_s)", unit="tickms", low=1)
    alert_lag_ms: int = _is(
        200, "a broker that is not recovering and lags by less has nothing to alert, however slow (ours)", unit="tickms"
    )
    recovering_ms: int = _is(2000, "a broker is recovering for this long after it ignored ticks (ours)", unit="ms")
    silence_limited_ms: int = _is(
        500, "explicit silence of a pubend while it is limited (ours; t_silence otherwise)", unit="ms", low=10
    )

    minima_ms: int = _is(0, "after which an intermediate broker gives up minima; 0 for never (ours)", unit="ms")

    nack_size_ms: int = _is(100, "least size of a NACK, and step of the NACK window (size_NACK)", unit="tickms", low=1)
    nack_window_ms: int = _is(100, "initial size of the NACK window (nwnd_0)", unit="tickms", low=1)
    nack_increase: float = _is(0.1, "rise of the recovery rate that opens the NACK window (alpha_NACK)", low=0.001)
    nack_decrease: float = _is(0.3, "fall of the recovery rate that narrows it (beta_NACK)", low=0.001, high=0.999)
    nack_stuck_max: int = _is(
        5, "steady measurements in a row at the smallest NACK window before it starts over (ours)", low=1
    )
    nack_group: bool = _is(
        default=False, about="whether streams in recovery over one link use equal NACK windows (ours)"
    )
    nack_idle_ms: int = _is(
        10_000, "time without ticks in doubt before the NACK window starts over (ours)", unit="ms", low=10
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each, getattr(self, each.name))
        if self.recovering_margin <= 0:
            raise CongestionError(
                f"recovering_margin is {self.recovering_margin}, must be above 0: a broker whose horizon moves no "
                "faster than time never recovers"
            )
        if self.profile not in _PROFILES:
            raise CongestionError(f"no profile {self.profile!r}, only {', '.join(_PROFILES)}")
        if self.cut not in get_args(Cut):
            raise CongestionError(f"cut is {self.cut!r}, must be one of {', '.join(get_args(Cut))}")
        if self.nack_window_ms < self.nack_size_ms:
            raise CongestionError(f"nack_window_ms {self.nack_window_ms} is less than nack_size_ms {self.nack_size_ms}")
        if self.sample_ms < self.silence_limited_ms and self.rate_floor_msg_s * self.sample_ms < 1000:
            raise CongestionError(
                f"sample_ms {self.sample_ms} is shorter than silence_limited_ms {self.silence_limited_ms}: a pubend at "
                f"a rate_floor_msg_s of {self.rate_floor_msg_s} moves less often than it is sampled, and would be "
                "alerted for ever; shorten the silence with the sample, or raise the floor"
            )

    @classmethod
    def paper(cls, **changes: SettingValue) -> Self:
        """The paper's parameters (table 1), with these changes."""
        return cls(**cast("dict[str, Any]", changes))

    @classmethod
    def swift(cls, **changes: SettingValue) -> Self:
        """Beyond the paper: samples and asks more often, and cuts by the horizon rate."""
        return cls(**cast("dict[str, Any]", {"profile": "swift", **_PROFILES["swift"], **changes}))

    @classmethod
    def of_profile(cls, profile: str, **changes: SettingValue) -> Self:
        """The profile of this name, with these changes."""
        if profile not in _PROFILES:
            raise CongestionError(f"no profile {profile!r}, only {', '.join(_PROFILES)}")
        return cls(**cast("dict[str, Any]", {"profile": profile, **_PROFILES[profile], **changes}))


_PROFILES: Final[Mapping[str, Mapping[str, SettingValue]]] = {
    "paper": {},
    "swift": {
        "dcq_interval_ms": 500,
        "dcq_interval_limited_ms": 500,
        "nouca_ms": 750,
        "increase_min_msg_s": 1.0,
        "increase_factor": 0.25,
        "increase_step_ms": 500,
        "cut": "horizon",
        "recovering_share": 0.1,
        "recovering_halving_ms": 600_000,
        "rate_floor_msg_s": 1.0,
        "decrease_factor": 0.25,
        "sample_ms": 250,
        "smoothing": 0.3,
        "silence_limited_ms": 250,
        "alert_lag_ms": 200,
        "drain_ms": 3000,
        "lag_ms_max": 1000,
        "minima_ms": 1000,
        "nack_group": True,
    },
}


def _check(each: Field[Any], value: object) -> None:
    kinds: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
    if type(value) not in kinds[str(each.type)]:
        raise CongestionError(f"{each.name} is {value!r}, must be of type {each.type}")
    if isinstance(value, bool | str):
        return
    assert isinstance(value, int | float)
    low, high = each.metadata["low"], each.metadata["high"]
    if not isfinite(value) or not low <= value <= high:
        raise CongestionError(f"{each.name} is {value}, must be {low:g} to {high:g} {each.metadata['unit']}".rstrip())
