"""The acceptable-use policy (AUP) that an administrator sets, with a version ([Ajil] sections 4.1 and 4.2).

The paper broadcasts changes and does not say in which order they apply. Here every policy has a version and an author;
the highest version wins, in whatever order nodes hear of them. If two administrators change the policy at once, both
make the same version: then the author's name decides, and after it the content, so that all nodes agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from penstock.ajil.amounts import Unit, amount_text
from penstock.ajil.errors import AupError
from penstock.ajil.policy import FlatTax, GlobalPercentage, LocalPercentage, NaiveZero, SlowdownPolicy

__all__ = ["UNLIMITED", "Aup"]

Mode: TypeAlias = Literal["soft", "hard"]
Policy: TypeAlias = Literal["flat", "local", "global", "naive"]
Slowdown: TypeAlias = Literal["drop", "delay"]

_PRIORITIES_MAX: Final = 1_000
_NAME_CHARS_MAX: Final = 255
_INTEGER_MAX: Final = 2**63
_PRIORITIES_BYTES_MAX: Final = 50_000
"""Bytes of all groups that a policy names, with their numbers: the whole policy must fit into a message."""


def _is(default: float | str | None, about: str, *, low: float = 0, high: float = 1e15) -> Any:
    return field(default=default, metadata={"help": about, "low": low, "high": high})


@dataclass(slots=True, frozen=True)
class Aup:
    """One acceptable-use policy; all rates are per second, whatever the epoch."""

    limit_bytes_s: float | None = _is(None, "L: bytes per second of all groups together; none for no limit", low=1)
    limit_packets_s: float | None = _is(None, "L: packets per second of all groups together; none for no limit", low=1)
    epoch_ms: int = _is(1000, "length of an epoch", low=10, high=3_600_000)
    report_fraction: float = _is(0.01, "c: reports as a share of all packets", high=1)
    alpha: float = _is(0.5, "share of the groups in the reaction domain, the highest first; 0 for the top one", high=1)
    beta: float = _is(0.25, "share of a group's senders in the reaction domain; 0 for the top one", high=1)
    policy: str = _is("global", "what a slowdown cuts: flat, local, global or naive")
    tax_bytes_s: float = _is(1000.0, "flat: what is cut, in bytes per second", low=1)
    tax_packets_s: float = _is(10.0, "flat: what is cut, in packets per second", low=0.001)
    fraction: float = _is(0.1, "local: the share of the quota that is cut", low=0.001, high=1)
    smoothing: float = _is(1.0, "gamma: weight of the newest rate of a group", low=0.001, high=1)
    timeout_epochs: int = _is(200, "epochs without a report after which a group counts as silent", low=1, high=1e9)
    mode: str = _is("soft", "soft: nodes react; hard: nodes announce their demand and share the limit out")
    hard_share: float = _is(1.0, "hard: the share of the limit that is given out; less where reports get lost", low=0.1)
    slowdown: str = _is("delay", "what a sender does with what is over its quota: drop, or delay in a bounded buffer")
    priorities: Mapping[str, float] = field(
        default_factory=dict,
        metadata={"help": "by group: the share of a cut that it suffers, 0 to be exempt; 1 for those not named"},
    )
    exempt_max: float = _is(0.4, "exempt groups are exempt while they use no more than this share of the limit", high=1)
    version: int = _is(0, "the highest wins", high=2**53)
    author: str = _is("", "who made it; decides between equal versions")

    def __post_init__(self) -> None:
        for each in fields(self):
            if "low" in each.metadata:
                _check(each.name, getattr(self, each.name), str(each.type), each.metadata)
        for name, value, allowed in (
            ("policy", self.policy, get_args(Policy)),
            ("mode", self.mode, get_args(Mode)),
            ("slowdown", self.slowdown, get_args(Slowdown)),
        ):
            if value not in allowed:
                raise AupError(f"{name} is {value!r}, must be one of {', '.join(allowed)}")
        _check_priorities(self.priorities)

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.limit_bytes_s is not None or self.limit_packets_s is not None

    @property
    def order(self) -> tuple[int, str, bytes]:
        """Sort key: of two policies, the one with the greater order is in force."""
        return (self.version, self.author, msgspec.msgpack.encode(self, order="sorted"))

    def limit(self, unit: Unit) -> float | None:
        """How much all nodes together may send in an epoch; None without a limit."""
        limit_s = self.limit_packets_s if unit is Unit.PACKETS else self.limit_bytes_s
        return None if limit_s is None else limit_s * self.epoch_ms / 1000

    def slowdown_policy(self, unit: Unit) -> SlowdownPolicy:
        """The policy that decides how much a slowdown cuts."""
        match self.policy:
            case "flat":
                tax_s = self.tax_packets_s if unit is Unit.PACKETS else self.tax_bytes_s
                return FlatTax(tax_s * self.epoch_ms / 1000)
            case "local":
                return LocalPercentage(self.fraction)
            case "naive":
                return NaiveZero()
            case _:
                return GlobalPercentage()

    def successor(self, author: str, **changes: Any) -> Aup:
        """The next version, with changes by an author."""
        return replace(self, **{**changes, "version": self.version + 1, "author": author})

    def describe(self) -> str:
        """A short summary for people."""
        limits = [
            amount_text(limit_s, unit)
            for unit, limit_s in ((Unit.BYTES, self.limit_bytes_s), (Unit.PACKETS, self.limit_packets_s))
            if limit_s is not None
        ]
        if not limits:
            return "no limit"
        how = "hard" if self.mode == "hard" else f"{self.policy}, alpha {self.alpha:g}, beta {self.beta:g}"
        return f"{' and '.join(limits)} ({how})"


def _check(name: str, value: Any, kind: str, metadata: Mapping[str, Any]) -> None:
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "float | None": (int, float, type(None)),
    }
    if type(value) not in kinds[kind]:
        raise AupError(f"{name} is {value!r}, must be of type {kind}")
    if value is None:
        return
    if isinstance(value, str):
        if len(value) > _NAME_CHARS_MAX:
            raise AupError(f"{name} has {len(value)} characters, must have at most {_NAME_CHARS_MAX}")
        return
    low, high = metadata["low"], metadata["high"]
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        # Too large to be exact as a float, or to be printed.
        raise AupError(f"{name} has too many digits, must be {low:g} to {high:g}")
    if not isfinite(value) or not low <= value <= high:
        raise AupError(f"{name} is {value:g}, must be {low:g} to {high:g}")


def _check_priorities(priorities: Mapping[str, float]) -> None:
    if not isinstance(priorities, Mapping):
        raise AupError(f"priorities is {priorities!r}, must be a table of groups and numbers")
    if len(priorities) > _PRIORITIES_MAX:
        raise AupError(f"priorities names {len(priorities):,} groups, at most {_PRIORITIES_MAX:,} are allowed")
    for group, scale in priorities.items():
        if type(group) is not str or type(scale) not in (int, float) or not 0 <= scale <= 1:
            raise AupError(f"the priority of group {group!r} is {scale!r}, must be a number from 0 to 1")
    if sum(len(group.encode(errors="replace")) + 12 for group in priorities) > _PRIORITIES_BYTES_MAX:
        raise AupError(f"priorities has more than {_PRIORITIES_BYTES_MAX:,} bytes of names")


UNLIMITED: Final = Aup()
"""The policy in force until another one is announced."""
