"""The settings of tracking, checked for whether they allow the requested accuracy ([Tracking] section 4.2).

Theorem 1 and corollary 2: with 2·Ts + Tj ≤ w·Tn the matching set has at most w + 1 filters, so the probability of a
false positive is at most that of w + 1 full filters. A broker whose settings violate this does not start.

MisuseError
└── TrackingSettingsError    a setting that cannot work, with what to change
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import ceil

from penstock.model.errors import MisuseError
from penstock.tracking.exact import RECORD_BYTES, exact_shape
from penstock.tracking.history import HistoryOptions
from penstock.tracking.keys import Phase
from penstock.tracking.sizing import FilterShape, choose_shape, efpp

__all__ = ["STRATEGIES", "MatchingBound", "TrackingSettings", "TrackingSettingsError"]

STRATEGIES = ("null", "exact", "bloom")
"""No tracking, exact records (the paper's ASYNC), Bloom filters (BF)."""


class TrackingSettingsError(MisuseError):
    """A setting of tracking has a value that cannot work."""


@dataclass(slots=True, frozen=True)
class MatchingBound:
    """The bound that theorem 1 gives for one phase."""

    phase: Phase
    filter_ms: float
    """Tn: the shortest time in which a filter is replaced."""
    matching_set: int
    """w + 1: the most filters that one timestamp can be in."""
    efpp: float
    """The highest probability of a false positive with that many full filters."""

    def __str__(self) -> str:
        return (
            f"{self.phase}: a filter lasts at least {self.filter_ms:.0f} ms, so at most {self.matching_set} match, "
            f"with a false positive probability of at most {self.efpp:.3g}"
        )


@dataclass(slots=True, frozen=True)
class TrackingSettings:
    """The settings of tracking at one broker."""

    strategy: str = "bloom"
    """One of ``null``, ``exact`` and ``bloom``."""
    efpp: float = 1e-5
    """The highest probability with which a history may claim a message it never saw."""
    matching_set_max: int = 2
    """The most filters that may have to be asked for one message."""
    buffer_bytes: int = 10_000
    """Memory of one history: its filter (and staging area, if ``staged_max`` is 0), or its exact records."""
    shape: FilterShape | None = None
    """The filter shape of all histories, as in Table 2; None to choose one that meets the other settings."""
    subscribers_checked: int = 1
    """How many subscribers are checked at a broker: the efpp is divided by this for each of them."""
    skew_tolerance_ms: int = 100
    """Ts: how far publishers' timestamps may be from the broker's clock."""
    jitter_ms: int = 200
    """Tj: how much transit times may differ between messages, including the skew among brokers."""
    persist_ms: int = 1_000
    """Tp: how much may be lost in a crash."""
    keep_filling: bool = True
    """Whether a filter stored before it is full keeps being filled."""
    publish_rate_max: int = 5_000
    """Peak messages per second of all publishers of a broker."""
    delivery_rate_max: int = 5_000
    """Peak deliveries per second to all subscribers of a broker, of messages with one origin."""
    per_subscriber: bool = False
    """Whether each subscriber has histories of its own, as in the paper."""
    staged_max: int = 512
    """Identifiers that a history stages before it hashes them all at once; 0 for as many as its buffer has room for.

    More is quicker: 0.4 µs each with the hundred or so that fit the paper's buffers, 0.2 with 512.
    """
    singletons_max: int = 64
    """The most old timestamps a filter may list."""
    histories_max: int = 4_096
    """The most histories in memory; beyond that, the one quiet for longest is sealed."""
    waiting_bytes_max: int = 16 * 1024 * 1024
    """The most bytes that may wait to be stored; filters beyond that are dropped, and leave a gap record."""
    filters_kept_max: int = 200_000
    """The most stored filters the broker can still be asked for; beyond that, the oldest are given up."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise TrackingSettingsError(f"tracking strategy {self.strategy!r} is not one of {', '.join(STRATEGIES)}")
        if not 0 < self.efpp < 1:
            raise TrackingSettingsError(f"efpp {self.efpp} is not between 0 and 1")
        for each in ("matching_set_max", "subscribers_checked", "persist_ms", "publish_rate_max", "delivery_rate_max"):
            self._check_positive(each)
        for each in ("singletons_max", "histories_max", "waiting_bytes_max", "filters_kept_max"):
            self._check_positive(each)
        for each in ("skew_tolerance_ms", "jitter_ms"):
            if getattr(self, each) < 0:
                raise TrackingSettingsError(f"{each} {getattr(self, each)} is negative")
        if self.singletons_max > 256:
            raise TrackingSettingsError(f"singletons_max {self.singletons_max} is over 256, which no header holds")
        if not 0 <= self.staged_max <= 65_536:
            raise TrackingSettingsError(f"staged_max {self.staged_max} is not in 0 .. 65536")
        if self.buffer_bytes < 128:
            raise TrackingSettingsError(f"buffer_bytes {self.buffer_bytes} is less than 128")
        if self.strategy == "bloom":
            self._check_accuracy()

    @property
    def late_ms(self) -> int:
        """Ts + Tj: how far a timestamp may be off before it counts as late."""
        return self.skew_tolerance_ms + self.jitter_ms

    @property
    def records_per_force(self) -> int:
        """Messages that one history records between two forced stores."""
        return self.options(Phase.ROUTE).shape.n

    def options(self, phase: Phase) -> HistoryOptions:
        """The options for histories of a phase."""
        is_bloom = self.strategy == "bloom"
        aggregated = phase is Phase.DELIVER and not self.per_subscriber
        shape = self._shape(phase) if is_bloom else exact_shape(self.buffer_bytes, has_subscribers=aggregated)
        spare = self.buffer_bytes - shape.size_bytes if is_bloom else self.buffer_bytes
        return HistoryOptions(
            kind="bloom" if is_bloom else "exact",
            shape=shape,
            late_ms=self.late_ms,
            singletons_max=self.singletons_max,
            staged_max=self.staged_max or min(max(spare // RECORD_BYTES, 16), 256),
            keep_filling=self.keep_filling and is_bloom,
        )

    def bounds(self) -> list[MatchingBound]:
        """The bounds of theorem 1, phase by phase, for the log."""
        return [self._bound(phase) for phase in Phase] if self.strategy == "bloom" else []

    def _shape(self, phase: Phase) -> FilterShape:
        if self.shape is not None:
            return self.shape
        asked = self._asked(phase)
        return choose_shape(asked, size_bytes_max=self.buffer_bytes, matching_set=self.matching_set_max)

    def _asked(self, phase: Phase) -> float:
        return self.efpp / self.subscribers_checked if phase is Phase.DELIVER else self.efpp

    def _bound(self, phase: Phase) -> MatchingBound:
        shape = self._shape(phase)
        rate = self.delivery_rate_max if phase is Phase.DELIVER else self.publish_rate_max
        filter_ms = shape.n * 1_000 / rate
        if not self.keep_filling:
            filter_ms = min(filter_ms, self.persist_ms)
        jitter_ms = 0 if phase is Phase.PUBLISH else self.jitter_ms
        matching_set = ceil((2 * self.skew_tolerance_ms + jitter_ms) / filter_ms) + 1
        return MatchingBound(phase, filter_ms, matching_set, efpp(shape.fpp, matching_set))

    def _check_accuracy(self) -> None:
        bound = self.violated()
        if bound is not None:
            raise TrackingSettingsError(
                f"tracking ({bound}) cannot keep to an efpp of {self._asked(bound.phase):.3g}: {self._remedies()}"
            )

    def violated(self) -> MatchingBound | None:
        """The first bound that misses the requested accuracy."""
        for bound in self.bounds():
            # Do not refuse a chosen shape for its last digits.
            if bound.efpp > self._asked(bound.phase) * (1 + 1e-9):
                return bound
        return None

    def _remedies(self) -> str:
        """Changes of a single setting that would be enough."""
        candidates: dict[str, list[int] | list[float]] = {
            "skew_tolerance_ms": [self.skew_tolerance_ms * share // 64 for share in range(63, -1, -1)],
            "jitter_ms": [self.jitter_ms * share // 64 for share in range(63, -1, -1)],
            "buffer_bytes": [self.buffer_bytes << shift for shift in range(1, 8)],
            "matching_set_max": list(range(self.matching_set_max + 1, 17)),
            "persist_ms": [self.persist_ms << shift for shift in range(1, 6)],
            "efpp": [self.efpp * factor for factor in (2, 5, 10, 20, 50, 100, 1_000, 10_000) if self.efpp * factor < 1],
        }
        found = [self._remedy(name, values) for name, values in candidates.items()]
        remedies = [each for each in found if each]
        return ", or ".join(remedies) if remedies else "more than one setting must change, begin with buffer_bytes"

    def _remedy(self, name: str, values: list[int] | list[float]) -> str | None:
        for value in values:
            try:
                if self._works_with(name, value):
                    return f"change {name} from {getattr(self, name)} to {value:g}"
            except MisuseError:
                # No filter is possible with this value.
                continue
        return None

    def _works_with(self, name: str, value: float) -> bool:
        # An unchecked copy: the check is done here.
        other = copy(self)
        object.__setattr__(other, name, value)
        return other.violated() is None

    def _check_positive(self, name: str) -> None:
        if getattr(self, name) <= 0:
            raise TrackingSettingsError(f"{name} {getattr(self, name)} is not positive")
