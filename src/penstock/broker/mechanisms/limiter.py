"""A broker's part in one limit on all that is published in the overlay ([Ajil], decision record 11).

Every broker that hosts publishers is a node. A group is the value of an attribute, a channel is one publisher in one
group. A broker sees its own publishers only: it reports its share of a group, and shares are summed. Reports,
announcements and policies are publications of the reserved space, which no limit applies to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, log
from typing import Final

from msgspec.structs import replace

from penstock.ajil import AjilNode, Aup, Channel, MalformedError, Observation, Report, Tally, Unit, amount_text
from penstock.ajil.allowance import Allowance
from penstock.ajil.amounts import Indices
from penstock.ajil.messages import ControlMessage, decode, encode, fits
from penstock.ajil.settings import LimitSettings
from penstock.broker.effects import Record
from penstock.broker.mechanisms.interface import Answer, PublishSystem
from penstock.model.body import MalformedBodyError, decode_message
from penstock.model.message import Message
from penstock.model.ports import Rng
from penstock.model.values import Attributes
from penstock.protocol.status import LimitStatus, SlowedStatus
from penstock.selectors.selector import Selector

__all__ = ["GROUPS_MAX", "OTHER_GROUPS", "Limiter"]

GROUPS_MAX: Final = 10_000
"""Most groups that a broker tells apart; messages of all others count as one group."""
OTHER_GROUPS: Final = "(others)"
_CHANNELS_MAX: Final = 10_000
"""Most channels that are told apart: all are gone through in one turn when an epoch ends."""
_SENDER_GROUPS_MAX: Final = 1_000
"""Most groups of one publisher that are told apart; its messages of all others count as one group."""
_KNOWN_MAX: Final = 90_000
"""Most groups that a broker ever told apart or heard of; less than it can number."""
_CLASS: Final = "AJIL"
_STEPS: Final = 10
"""How many times in an epoch waiting messages may be admitted."""
_REACT_PART: Final = 0.2
"""The part of the next epoch after which the reports on the last one have arrived."""
_ENTRIES_MAX: Final = 50
"""Most groups in one report."""
_AWAY_EPOCHS_MAX: Final = 20
"""How long the quotas of a publisher that is gone are kept: who comes back must not get new ones."""
_QUIET_EPOCHS_MAX: Final = 250
"""A group or channel without traffic for this long is forgotten; longer than a report lives by default."""


class Limiter:
    """Counts what the publishers of one broker send, and decides how much each may send in each group."""

    name = "ajil"

    def __init__(self, broker: str, settings: LimitSettings, *, rng: Rng) -> None:
        self.selector: Selector | None = Selector.parse(f"$class = '{_CLASS}'")
        self._attribute = settings.attribute
        self._node = AjilNode(broker, settings.aup, rng=rng, shares=True)
        # Numbered first: when no more groups can be numbered, this one is left.
        self._node.monitor.groups.number(OTHER_GROUPS)
        self._tally = Tally(self._node, shares=True)
        self._places: dict[str, dict[str, int]] = {}
        """The place of each channel, by publisher and group."""
        self._away: dict[str, int] = {}
        """Publishers that are gone, and for how many epochs their channels are still kept."""
        self._allowances: dict[int, Allowance] = {}
        self._budget = Allowance()
        self._began_ms: int | None = None
        self._end_ms: int | None = None
        self._react_ms: int | None = None
        self._seen: Observation | None = None
        self._owed: dict[int, int] = {}
        """The number of waiting messages, by place."""
        self._held: dict[int, None] = {}
        """Places where something had to wait in this epoch: the publisher's own backlog behind it is not seen here."""
        self._slowed: dict[tuple[str, str], None] = {}
        self._set_quotas(Allowance.change)
        self.counts = {"reports_sent": 0, "reports_heard": 0, "malformed": 0, "held": 0}

    # --- for the intake

    @property
    def is_active(self) -> bool:
        """Whether there is a limit at all; without one nothing is counted."""
        return self._node.aup.is_limited

    def want(self, sender: str, bodies: Sequence[bytes], decoded: Sequence[Attributes]) -> None:
        """Counts messages that a publisher wants to send."""
        self._away.pop(sender, None)
        for body, attributes in zip(bodies, decoded, strict=True):
            _, place = self._channel(sender, attributes)
            self._tally.wanted(place, len(body))
            self._owed[place] = self._owed.get(place, 0) + 1

    def admit(self, sender: str, bodies: Sequence[bytes], decoded: Sequence[Attributes], *, now_ms: int) -> int:
        """Returns how many of a publisher's messages, from the first on, may go now, and counts them as sent."""
        self._follow(now_ms)
        part = self._part(now_ms)
        for number, (body, attributes) in enumerate(zip(bodies, decoded, strict=True)):
            group, place = self._channel(sender, attributes)
            allowance = self._allowances[place]
            if not allowance.fits(len(body), part=part) or not self._budget.take(len(body), part=part):
                self.counts["held"] += 1
                return number
            allowance.take(len(body), part=part)
            self._tally.sent(group, sender, len(body))
            self._owed[place] = self._owed.get(place, 0) - 1
        return len(bodies)

    def hold(self, sender: str, decoded: Iterable[Attributes]) -> None:
        """Notes that messages of a publisher have to wait."""
        self._held |= {self._channel(sender, attributes)[1]: None for attributes in decoded}

    def next_ms(self, *, now_ms: int) -> int:
        """When waiting messages may be tried again."""
        step_ms = max(self._node.aup.epoch_ms // _STEPS, 1)
        return min(now_ms + step_ms, self._end_ms if self._end_ms is not None and self._end_ms > now_ms else now_ms + 1)

    def reason(self, sender: str, attributes: Attributes) -> tuple[str, float]:
        """Says why a publisher has to wait with such a message, and how many bytes per second it may send."""
        (group, place), aup = self._channel(sender, attributes), self._node.aup
        seconds, to_keep = aup.epoch_ms / 1000, f"the limit of {aup.describe()}"
        if aup.mode == "hard":
            share_s = _coarse(float(self._node.budgets[Unit.BYTES]) / seconds)
            share = "a share" if share_s == inf else f"a share of {amount_text(share_s, Unit.BYTES)}"
            return f"broker {self._node.name} has {share} of {to_keep}", share_s
        for unit in Unit:
            quota_s = _coarse(self._node.quota(place, unit) / seconds)
            if quota_s < inf:
                slow = f"group {group!r} is slowed down to about {amount_text(quota_s, unit)} for this publisher"
                return f"{slow}, to keep {to_keep}", quota_s if unit is Unit.BYTES else inf
        # No limit: what waits may go at once.
        return "", inf

    def leave(self, sender: str) -> None:
        """Keeps the channels of a publisher that is gone for a while: with new ones it would have new quotas."""
        if sender not in self._places:
            return
        for place in self._places[sender].values():
            # What it had waiting is dropped.
            self._owed.pop(place, None)
            self._held.pop(place, None)
        self._away[sender] = _AWAY_EPOCHS_MAX

    def _forget(self, sender: str) -> None:
        """Closes the channels of a publisher."""
        self._away.pop(sender, None)
        for place in self._places.pop(sender, {}).values():
            self._close(place)

    # --- the policy

    @property
    def aup(self) -> Aup:
        """The policy in force."""
        return self._node.aup

    def apply(self, settings: LimitSettings) -> bool:
        """Applies the operator's policy; returns False if a newer one is in force."""
        self._attribute = settings.attribute
        is_new = self._node.adopt(settings.aup)
        if is_new:
            self._set_quotas(Allowance.change)
        return is_new

    # --- as a mechanism

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:  # noqa: ARG002
        """Announces the policy version on a new link, so that a node with a newer policy answers."""
        return self._publish([Report(self._node.name, self._node.aup.version, ())]) if up else []

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:  # noqa: ARG002
        """Ignores control messages: Ajil uses only publications."""
        return []

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:  # noqa: ARG002
        """Handles a report, announcement or policy of another node."""
        try:
            _, message = decode_message(body)
            heard = decode(message.payload)
            if heard.node == self._node.name:
                return []
            self.counts["reports_heard"] += 1
            is_new = self._node.hear(heard)
        except (MalformedError, MalformedBodyError):
            self.counts["malformed"] += 1
            return []
        if not is_new:
            return []
        self._set_quotas(Allowance.change)
        return [Record("limit-changed", (("policy", self.aup.describe()), ("version", self.aup.version)))]

    def next_deadline(self) -> int | None:
        """When the epoch ends, or the reports on the last one have arrived."""
        if self._node.aup.version == 0 and not self.is_active:
            return None
        if self._end_ms is None:
            return 0
        return self._end_ms if self._react_ms is None else min(self._react_ms, self._end_ms)

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        """Reacts, or ends an epoch."""
        self._follow(now_ms)
        answers: list[Answer] = []
        if self._react_ms is not None and now_ms >= self._react_ms:
            self._react_ms = None
            if self._seen is not None:
                self._node.react(self._seen)
                self._set_quotas(Allowance.change)
                answers += self._news()
        if self._end_ms is None or now_ms >= self._end_ms:
            if self._end_ms is not None:
                answers += self._end_epoch(now_ms)
            self._start_epoch(now_ms)
        return answers

    def status(self) -> LimitStatus:
        """The policy, the estimate, the slowed publishers, and the counters."""
        aup, node = self._node.aup, self._node
        seconds = aup.epoch_ms / 1000
        status = LimitStatus(
            policy=aup.describe(),
            version=aup.version,
            author=aup.author,
            estimate_bytes_s=round(float(node.estimates[Unit.BYTES]) / seconds),
            estimate_packets_s=round(float(node.estimates[Unit.PACKETS]) / seconds, 1),
            slowed_channels=len(node.slowed()),
            slowed=[
                SlowedStatus(
                    publisher=each.channel.sender,
                    group=each.channel.group,
                    unit=each.unit.words,
                    quota_s=round(each.quota_s, 1),
                    why="all together sent more than the limit, and it was among the top senders of a top group",
                )
                for each in node.slowed()
            ],
        )
        return replace(status, **self.counts)

    # --- epochs

    def _start_epoch(self, now_ms: int) -> None:
        length_ms = self._node.aup.epoch_ms
        self._began_ms = now_ms
        # At whole multiples of its length, like all other brokers; bounded, in case the clock was set.
        self._end_ms = now_ms + min(max(length_ms - now_ms % length_ms, length_ms // 2), length_ms)
        self._react_ms = now_ms + int(_REACT_PART * length_ms) if self._seen is not None else None
        carries = self._node.aup.mode != "hard"
        self._set_quotas(lambda allowance, *quotas: allowance.start(*quotas, carries=carries))

    def _follow(self, now_ms: int) -> None:
        """Moves the epoch back with a clock that was set back: nobody waits until the clock has caught up."""
        if self._began_ms is None or self._end_ms is None or now_ms >= self._began_ms:
            return
        back_ms = self._began_ms - now_ms
        self._began_ms, self._end_ms = now_ms, self._end_ms - back_ms
        self._react_ms = None if self._react_ms is None else self._react_ms - back_ms

    def _end_epoch(self, now_ms: int) -> list[Answer]:
        assert self._began_ms is not None
        waiting = list(self._held | {place: None for place, count in self._owed.items() if count > 0})
        self._held = {}
        for place, allowance in self._allowances.items():
            self._tally.round_off(place, *allowance.rounding)
        lasted_ms = max(now_ms - self._began_ms, 1)
        self._tally.scale(self._node.aup.epoch_ms / lasted_ms, held=waiting, part=self._part(now_ms))
        self._seen = seen = self._tally.observation(waiting)
        end = self._node.end_epoch(seen)
        said: list[ControlMessage] = []
        for first in range(0, len(end.reported), _ENTRIES_MAX):
            said += self._reports(end.reported[first : first + _ENTRIES_MAX])
        said += [each for each in (end.demand, end.policy) if each is not None]
        self._tally.clear()
        self._forget_quiet()
        self._away = {sender: epochs - 1 for sender, epochs in self._away.items()}
        for sender in [sender for sender, epochs in self._away.items() if epochs <= 0]:
            self._forget(sender)
        return self._publish(said)

    def _reports(self, reported: Indices) -> list[ControlMessage]:
        """The reports on these groups: several if long names do not fit into one."""
        report = self._tally.report(reported)
        if report is None or fits(report):
            return [] if report is None else [report]
        half = len(reported) // 2
        return [*self._reports(reported[:half]), *self._reports(reported[half:])]

    def _publish(self, said: Sequence[ControlMessage]) -> list[Answer]:
        self.counts["reports_sent"] += len(said)
        return [PublishSystem(Message.system({"$class": _CLASS}, encode(each))) for each in said]

    def _news(self) -> list[Answer]:
        """Records for the operator which publishers are newly slowed down, and which no longer are."""
        slowed = {(each.channel.sender, each.channel.group): None for each in self._node.slowed()}
        news: list[Answer] = [
            Record("publisher-slowed", (("publisher", sender), ("group", group), ("limit", self.aup.describe())))
            for sender, group in slowed
            if (sender, group) not in self._slowed
        ]
        news += [
            Record("publisher-free", (("publisher", sender), ("group", group)))
            for sender, group in self._slowed
            if (sender, group) not in slowed
        ]
        self._slowed = slowed
        return news

    # --- groups and channels

    def group_of(self, attributes: Attributes) -> str:
        """The group of a message with these attributes."""
        value = attributes.get(self._attribute)
        group = "" if value is None else str(value)[:255]
        known = self._node.monitor.groups
        if group in self._tally or (known.get(group) is not None and len(self._tally) < GROUPS_MAX):
            return group
        return group if len(self._tally) < GROUPS_MAX and len(known) < _KNOWN_MAX else OTHER_GROUPS

    def _channel(self, sender: str, attributes: Attributes) -> tuple[str, int]:
        """The group that a publisher's message counts for, and the place of that channel."""
        if len(self._allowances) >= _CHANNELS_MAX and self._away:
            self._forget(next(iter(self._away)))
        group, own = self.group_of(attributes), self._places.setdefault(sender, {})
        if group not in own and (len(own) >= _SENDER_GROUPS_MAX or len(self._allowances) >= _CHANNELS_MAX):
            group = OTHER_GROUPS
        place = own.get(group)
        if place is None:
            self._tally.join(group)
            place = own[group] = self._node.open_channel(Channel(sender, group))
            self._allowances[place] = Allowance()
        return group, place

    def _close(self, place: int) -> None:
        self._node.close_channel(place)
        del self._allowances[place]
        self._owed.pop(place, None)
        self._held.pop(place, None)
        if self._seen is not None:
            self._seen.forget(place)
        self._tally.forget(place)

    def _forget_quiet(self) -> None:
        quiet = {each for each in self._tally.groups if self._tally.quiet_epochs(each) > _QUIET_EPOCHS_MAX}
        for own in self._places.values() if quiet else ():
            for group in quiet & own.keys():
                self._close(own.pop(group))
        for group in quiet:
            self._tally.leave(group)

    def _part(self, now_ms: int) -> float:
        """How much of a quota may be used by now: the steps of the epoch that have begun."""
        if self._began_ms is None:
            return 1.0
        return min(((now_ms - self._began_ms) * _STEPS // self._node.aup.epoch_ms + 1) / _STEPS, 1.0)

    def _set_quotas(self, give: Callable[[Allowance, float, float], None]) -> None:
        for place, allowance in self._allowances.items():
            give(allowance, self._node.quota(place, Unit.BYTES), self._node.quota(place, Unit.PACKETS))
        give(self._budget, float(self._node.budgets[Unit.BYTES]), float(self._node.budgets[Unit.PACKETS]))


def _coarse(rate_s: float) -> float:
    """Rounds a rate to steps of a quarter, so that publishers are not told again of every small change."""
    return rate_s if rate_s in (0.0, inf) else 1.25 ** round(log(rate_s, 1.25))
