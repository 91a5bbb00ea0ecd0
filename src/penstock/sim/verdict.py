"""Judges guaranteed delivery from outside the brokers: nothing lost, once, in order, exactly as selected.

The laws hold over all connections of a subscription together:

- **once**: no message comes twice, however often it was sent, and no tick stands for two messages;
- **in order**: the ticks of a pubend ascend, and the messages of a publisher in a pubend come as they were published;
- **as selected**: by a naive evaluation of the parsed selector;
- **complete**: every message that was acknowledged, or came to anybody, comes to every matching subscription that was
  confirmed for its pubend before it was sent and still exists; and every message known to lie between the start and the
  position of a subscription has come to it, even if the subscription has ended. Messages that a client was told are
  lost may be missing only where logs may lapse, where a subscription wanted to begin further back than the log goes, or
  where it was away for longer than its grace period. A message with a lifetime may be missing once any broker's clock
  has come to its end;
- **in time**: no message is delivered that had already expired, by the clock of the broker that delivers it, both when
  the message was sent and when its receiver asked that broker for the subscription. While a client moves, two brokers
  may bring it.

Where a broker came back with an older copy of its disk, a message that was lost with it may be missing if the client
was told; if nobody could recognise the loss, nobody is owed it, nor others at ticks that were perhaps used before. A
publisher that had no acknowledgement of it sends it again: then it has another tick, may come twice, and after later
ones.

If the journals of the brokers' disks are given, every message that became durable counts as one that came to somebody,
and every acknowledged message must be in one of them. Completeness is only a law once the world has come to rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.model.tick import Tick, format_tick
from penstock.model.values import AttributeValue
from penstock.protocol.frames import LATEST
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.text import parse
from penstock.sim.client import SimClient
from penstock.sim.names import Life, breaches
from penstock.sim.node import SimBroker
from penstock.sim.older_copies import Loss
from penstock.sim.records import Delivery, Published, SubscriptionRecord

__all__ = ["Verdict", "judge"]

_PROBLEMS_MAX: Final = 20
_ID_BYTES: Final = 16


@dataclass(slots=True)
class Verdict:
    """Figures of a run; the last four are 0 where all laws hold."""

    published: int = 0
    """Messages that were sent to guaranteed pubends and not refused."""
    acknowledged: int = 0
    """Published messages that were acknowledged."""
    delivered: int = 0
    """Deliveries of published messages, for all subscriptions together."""
    lost: int = 0
    """Pairs of a subscription and a message owed to it that did not come."""
    duplicated: int = 0
    """Surplus deliveries, and ticks and messages that are not one to one."""
    reordered: int = 0
    """Deliveries that came after a later one."""
    wrongly_filtered: int = 0
    """Deliveries that nobody had asked for, or that nobody had published."""
    problems: list[str] = field(default_factory=list)
    """The first few breaches, readable."""

    @property
    def is_sound(self) -> bool:
        """Whether all laws hold."""
        return not (self.lost or self.duplicated or self.reordered or self.wrongly_filtered)


def judge(  # noqa: PLR0913 - each is a law of its own, or its excuse
    publishers: Iterable[SimClient],
    subscribers: Iterable[SimClient],
    *,
    excused: Collection[bytes] = (),
    journal: Iterable[tuple[str, int, bytes]] | None = None,
    may_lapse: bool = False,
    forgotten: Mapping[str, int] | None = None,
    grace_ms: int | None = None,
    brokers: Mapping[str, SimBroker] | None = None,
    rules: Mapping[str, str] | None = None,
    losses: Iterable[Loss] = (),
) -> Verdict:
    """Check what these clients saw against the laws; excused bodies may be missing, as their records were damaged.

    Durable names in ``forgotten`` were forgotten by all pubends, for good, at these times, and started over. Without
    the ``brokers``, whose clocks are looked at, no message may have a lifetime. The ``rules`` say, by name, what some
    publishers may publish; without them it does not matter what was refused. The ``losses`` came with older copies.
    """
    court = _Court(
        publishers,
        excused,
        may_lapse=may_lapse,
        forgotten=forgotten or {},
        grace_ms=grace_ms,
        brokers=brokers or {},
        losses=tuple(losses),
    )
    if journal is not None:
        court.read(journal)
    if rules is not None:
        court.check_refusals(rules)
    return court.judge(list(subscribers))


class _Message(NamedTuple):
    published: Published
    publisher: int
    is_owed: bool
    """Whether any subscription is owed it at all."""
    expires_at_ms: int | None


class _Court:
    """Everything that was published, and where it turned up."""

    def __init__(
        self,
        publishers: Iterable[SimClient],
        excused: Collection[bytes],
        *,
        may_lapse: bool,
        forgotten: Mapping[str, int],
        grace_ms: int | None,
        brokers: Mapping[str, SimBroker],
        losses: tuple[Loss, ...],
    ) -> None:
        self._brokers = brokers
        self._losses = losses
        self._gone = {(loss.pubend, tick): loss.is_recognised for loss in losses for tick in loss.ticks}
        """Pubend and tick of what was lost with older copies, and whether the pubend has noticed."""
        self._blind = [(loss.pubend, *loss.used) for loss in losses if not loss.is_recognised]
        """Ticks that may have been used twice, as nobody knew that they had been used before."""
        self._was_at: dict[tuple[str, int], int] = {}
        """The messages that were there."""
        self._redone: set[int] = set()
        """Those of them that were sent again."""
        latest_ms = max([each.wall_ms_max() for each in brokers.values()], default=0)
        self._may_lapse, self._forgotten = may_lapse, forgotten
        self._grace_us = None if grace_ms is None else grace_ms * 1_000
        ids = {body[:_ID_BYTES] for body in excused}
        self._messages: list[_Message] = []
        self._names: list[str] = []
        for number, client in enumerate(publishers):
            self._names.append(client.name)
            for each in client.published:
                end_ms = each.expires_at_ms
                is_owed = each.is_guaranteed and not each.is_refused and each.body[:_ID_BYTES] not in ids
                is_owed = is_owed and (end_ms is None or end_ms > latest_ms)
                self._messages.append(_Message(each, number, is_owed, end_ms))
        self._places = {each.published.body[:_ID_BYTES]: place for place, each in enumerate(self._messages)}
        self._attributes = [each.published.attributes for each in self._messages]
        self._matching: dict[str, set[int]] = {}
        # Where each message turned up, and what turned up at each tick; one to one if all is well.
        self._tick_of: dict[int, tuple[str, int]] = {}
        self._message_at: dict[tuple[str, int], int] = {}
        guaranteed = [each.published for each in self._messages if each.published.is_guaranteed]
        self._verdict = Verdict(
            published=sum(not each.is_refused for each in guaranteed),
            acknowledged=sum(each.acked_us is not None for each in guaranteed),
        )

    def read(self, journal: Iterable[tuple[str, int, bytes]]) -> None:
        """Take what became durable, whoever was told; every acknowledged message must be in it."""
        for pubend, tick, body in journal:
            place = self._places.get(body[:_ID_BYTES])
            if place is not None:
                self._check_tick(place, pubend, tick)
        for place, message in enumerate(self._messages):
            if (
                message.published.is_guaranteed
                and message.published.acked_us is not None
                and place not in self._tick_of
            ):
                self._verdict.lost += 1
                self._add_problem(f"{message.published.message_id} was acknowledged and never became durable")
            if message.published.is_guaranteed and message.published.is_unconfirmed:
                self._verdict.lost += 1
                self._add_problem(f"{message.published.message_id} was given up, though its pubend guarantees delivery")
        times = Counter(self._was_at.values())
        self._redone = {place for place, count in times.items() if count > 1 or self._tick_of[place] not in self._gone}
        self._check_log_order()

    def check_refusals(self, rules: Mapping[str, str]) -> None:
        """What a publisher may not publish is refused, and in no log; what it may publish is not refused."""
        for place, (published, publisher, _, _) in enumerate(self._messages):
            allowed = rules.get(self._names[publisher])
            is_forbidden = allowed is not None and _evaluation(allowed)(self._attributes[place]) is not True
            if is_forbidden and (place in self._tick_of or published.acked_us is not None):
                self._verdict.wrongly_filtered += 1
                self._add_problem(f"{published.message_id} may not be published, and was taken")
            # Of what is best effort, some is lost before anybody has looked at it.
            elif is_forbidden and published.is_guaranteed and published.was_sent and not published.is_refused:
                self._verdict.lost += 1
                self._add_problem(f"{published.message_id} may not be published, and nobody was told of a refusal")
            elif published.is_refused and not is_forbidden:
                self._verdict.lost += 1
                self._add_problem(f"{published.message_id} was refused, and may be published")

    def _check_log_order(self) -> None:
        """In the log of a pubend, the messages of a publisher are in the order in which it published them."""
        last: dict[tuple[str, int], int] = {}
        for (pubend, tick), place in sorted(self._message_at.items()):
            if place in self._redone:
                continue
            key = (pubend, self._messages[place].publisher)
            if place < last.get(key, -1):
                self._verdict.reordered += 1
                message_id = self._messages[place].published.message_id
                where = f"{pubend} {format_tick(Tick(tick))}"
                self._add_problem(f"{message_id} ({where}) comes after a later one of the same publisher in the log")
            last[key] = max(place, last.get(key, -1))

    def judge(self, subscribers: list[SimClient]) -> Verdict:
        """Check all laws for all subscriptions."""
        # What one got, all must get: so look first at everything that came to anybody.
        got = [(client, self._received(client)) for client in subscribers]
        for client in subscribers:
            self._verdict.duplicated += len(client.witness.breaches)
            for breach in client.witness.breaches:
                self._add_problem(f"{client.name}: {breach}")
        names: dict[tuple[str, int], list[Life]] = {}
        for client, by_subscription in got:
            times = _times(client)
            for record in client.subscriptions.values():
                if not record.refused_rightly:
                    self._verdict.lost += 1
                    self._add_problem(
                        f"{client.name}: subscription {record.number} was wrongly refused: {record.refused}"
                    )
                if record.durable:
                    ticks = {self._tick_of[place] for place in by_subscription[record.number]}
                    came = {where: us for where, us in times.get(record.number, {}).items() if where in ticks}
                    life = Life(client.name, record, ticks, client.lost, came)
                    names.setdefault(self._generation(record), []).append(life)
                else:
                    self._check_starts(client, record)
                    self._find_lost(client, record, by_subscription.get(record.number, set()))
        for (_, generation), lives in names.items():
            self._judge_name(lives, is_anew=generation > 0)
        return self._verdict

    # --- durable names

    def _generation(self, record: SubscriptionRecord) -> tuple[str, int]:
        """The name, and whether it had been forgotten before."""
        forgotten_us = self._forgotten.get(record.durable)
        is_anew = forgotten_us is not None and record.visits and record.visits[0].asked_us >= forgotten_us
        return record.durable, int(bool(is_anew))

    def _judge_name(self, lives: list[Life], *, is_anew: bool) -> None:
        owed: dict[str, list[int]] = {}
        for place in self._selected(lives[0].record):
            if place in self._tick_of and self._messages[place].is_owed:
                pubend, tick = self._tick_of[place]
                if self._may_be_used_twice(pubend, tick):
                    continue
                owed.setdefault(pubend, []).append(tick)
        for ticks in owed.values():
            ticks.sort()
        for breach in breaches(lives, owed, may_lapse=self._may_lapse, losses=self._losses):
            self._verdict.lost += breach.is_loss
            self._verdict.duplicated += not breach.is_loss
            self._add_problem(breach.what)
        if is_anew:
            self._check_anew(lives)

    def _check_anew(self, lives: list[Life]) -> None:
        """Check that a forgotten name starts over with new messages, if its first life wanted that."""
        begun = sorted(
            (start.confirmed_us, pubend, life.record.begins_now(pubend))
            for life in lives
            for session in life.record.visits
            for pubend, start in session.starts.items()
        )
        begins_now = {pubend: wanted for _, pubend, wanted in reversed(begun)}
        asked_us = min(life.record.visits[0].asked_us for life in lives if life.record.visits)
        got = {where for life in lives for where in life.got}
        for place, where in self._tick_of.items():
            acked_us = self._messages[place].published.acked_us
            is_old = acked_us is not None and acked_us < asked_us
            is_undone = any(loss.pubend == where[0] for loss in self._losses)
            if where in got and is_old and not is_undone and begins_now.get(where[0], True):
                self._verdict.duplicated += 1
                self._add_problem(f"{lives[0].record.durable}: {where} came though the name was forgotten in between")

    # --- where it begins

    def _check_starts(self, client: SimClient, record: SubscriptionRecord) -> None:
        """Check that it begins where it wanted; elsewhere only as it asked, and only if that is no longer kept."""
        for session in record.visits:
            for pubend, start in session.starts.items():
                wanted = session.stated.get(pubend, record.otherwise)
                if wanted in {LATEST, start.tick}:
                    continue
                is_right = wanted < start.tick and wanted < start.trimmed_below and record.missing == "latest"
                if record.missing == "earliest" or not wanted:
                    is_right = wanted < start.tick <= start.trimmed_below
                if not is_right:
                    self._verdict.lost += 1
                    begins = f"begins at {pubend} {format_tick(Tick(start.tick))}"
                    self._add_problem(
                        f"{client.name}: subscription {record.number} {begins}, not at {format_tick(Tick(wanted))} or "
                        "where the log begins"
                    )

    # --- what came

    def _received(self, client: SimClient) -> dict[int, set[int]]:
        """The messages that came for each subscription of a client; complains about those that break a law."""
        got: dict[int, set[int]] = {number: set() for number in client.subscriptions}
        loose: dict[int, set[int]] = {number: set() for number in client.subscriptions}
        selected = {number: self._selected(record) for number, record in client.subscriptions.items()}
        ticks: dict[tuple[int, str], int] = {}
        last: dict[tuple[int, str, int], int] = {}
        for delivery in client.deliveries:
            number, pubend, tick = delivery.subscription, delivery.pubend, delivery.tick
            place = self._places.get(delivery.body[:_ID_BYTES])
            if place is None or number not in got or place not in selected[number]:
                self._complain_of_selection(client, delivery, place)
            if place is None or number not in got:
                continue
            self._check_in_time(client, delivery, self._messages[place])
            if not self._messages[place].published.is_guaranteed:
                # It may be missing, but nobody may get it twice.
                if place in loose[number]:
                    self._verdict.duplicated += 1
                    self._problem(client, delivery, "came twice")
                loose[number].add(place)
                continue
            self._verdict.delivered += 1
            self._check_gone(client, delivery)
            self._check_tick(place, pubend, tick)
            if place in self._redone:
                got[number].add(place)
                continue
            if place in got[number]:
                self._verdict.duplicated += 1
                self._problem(client, delivery, "came twice")
                continue
            got[number].add(place)
            if tick <= ticks.get((number, pubend), -1):
                self._verdict.reordered += 1
                self._problem(client, delivery, f"came after {format_tick(Tick(ticks[number, pubend]))}")
            elif place < last.get((number, pubend, self._messages[place].publisher), -1):
                self._verdict.reordered += 1
                self._problem(client, delivery, "came after a later one of the same publisher")
            ticks[number, pubend] = max(tick, ticks.get((number, pubend), -1))
            last[number, pubend, self._messages[place].publisher] = place
        return got

    def _complain_of_selection(self, client: SimClient, delivery: Delivery, place: int | None) -> None:
        record = client.subscriptions.get(delivery.subscription)
        if record is None:
            why = "came for no subscription"
        elif not record.wants(delivery.pubend):
            why = f"is of a pubend other than {', '.join(record.pubends)}"
        elif place is not None:
            why = f"is refused, or not selected by {record.selector}"
        elif delivery.pubend in record.starts:
            why = "was published by nobody"
        elif record.wants(delivery.pubend) and _selects(record, delivery.attributes):
            # Brokers publish, too, and so may clients that are not judged.
            return
        else:
            why = f"is not selected by {record.selector}"
        self._verdict.wrongly_filtered += 1
        self._problem(client, delivery, why)

    def _check_gone(self, client: SimClient, delivery: Delivery) -> None:
        gone_us = client.subscriptions[delivery.subscription].gone_us
        if gone_us is not None and delivery.received_us > gone_us:
            self._verdict.wrongly_filtered += 1
            self._problem(client, delivery, "came for a subscription that is gone")

    def _check_in_time(self, client: SimClient, delivery: Delivery, message: _Message) -> None:
        end_ms = message.expires_at_ms
        if end_ms is None:
            return
        place = (delivery.subscription, delivery.pubend, delivery.tick)
        # When a broker decided to deliver it nobody knows; but not before both of these.
        earliest_ms = [
            self._brokers[broker].wall_ms(max(asked_us, message.published.sent_us))
            for broker, asked_us in client.witness.carriers.get(place, ())
        ]
        if earliest_ms and min(earliest_ms) >= end_ms:
            self._verdict.wrongly_filtered += 1
            self._problem(client, delivery, "came though it had expired")

    def _check_tick(self, place: int, pubend: str, tick: int) -> None:
        where = (pubend, tick)
        if where in self._gone:
            self._check_gone_tick(place, where)
            return
        if self._tick_of.get(place) in self._gone:
            self._tick_of[place] = where
        if self._tick_of.setdefault(place, where) != where or self._message_at.setdefault(where, place) != place:
            self._verdict.duplicated += 1
            message_id = self._messages[place].published.message_id
            self._add_problem(f"{message_id} and {pubend} {format_tick(Tick(tick))} are not one to one")
        elif self._messages[place].published.pubend != pubend:
            self._verdict.duplicated += 1
            published = self._messages[place].published
            self._add_problem(f"{published.message_id} is in {pubend}, but was published to {published.pubend}")

    def _may_be_used_twice(self, pubend: str, tick: int) -> bool:
        return any(name == pubend and first <= tick <= last for name, first, last in self._blind)

    def _check_gone_tick(self, place: int, where: tuple[str, int]) -> None:
        """A message turned up where one was lost: it must be that one, unless the pubend did not notice the loss."""
        self._tick_of.setdefault(place, where)
        if self._was_at.setdefault(where, place) != place and not self._may_be_used_twice(*where):
            self._verdict.duplicated += 1
            self._add_problem(f"{where[0]} {format_tick(Tick(where[1]))} was lost, and given to another message")

    # --- what did not come

    def _find_lost(self, client: SimClient, record: SubscriptionRecord, got: set[int]) -> None:
        for place in sorted(self._selected(record) - got):
            if self._is_owed(record, place) and not self._is_given_up(client, record, place):
                self._verdict.lost += 1
                self._describe_loss(client, record, place)

    def _is_owed(self, record: SubscriptionRecord, place: int) -> bool:
        message = self._messages[place]
        if not message.is_owed:
            return False
        published, where = message.published, self._tick_of.get(place)
        if where is not None and self._may_be_used_twice(*where):
            return False
        if where is not None:
            pubend, tick = where
            start = record.starts.get(pubend)
            if start is not None and start.tick <= tick < record.positions.get(pubend, 0):
                return True
        elif published.acked_us is None:
            return False
        if record.ended_us is not None or record.refused:
            return False
        start = record.starts.get(published.pubend)
        if start is None or start.confirmed_us > published.sent_us:
            return False
        # A subscription that wanted to begin now, and was confirmed, begins below everything sent later.
        return where is None or record.begins_now(where[0]) or where[1] >= record.starts[where[0]].tick

    def _is_given_up(self, client: SimClient, record: SubscriptionRecord, place: int) -> bool:
        """Whether the client was told that a message is lost, and it may be."""
        where = self._tick_of.get(place)
        if where is None:
            return False
        pubend, tick = where
        told = [lost for lost in client.lost if record.number in lost.numbers and lost.pubend == pubend]
        if not any(lost.first <= tick <= lost.last for lost in told):
            return False
        if where in self._gone:
            return True
        start = record.starts.get(pubend)
        is_old = start is not None and self._messages[place].published.sent_us <= start.confirmed_us
        return self._may_lapse or (pubend in record.asked and is_old) or self._was_away(record)

    def _was_away(self, record: SubscriptionRecord) -> bool:
        """Whether a subscription was absent for longer than anything is kept for it."""
        if self._grace_us is None:
            return False
        return any(
            before.ended_us is not None and after.asked_us - before.ended_us > self._grace_us
            for before, after in pairwise(record.visits)
        )

    def _describe_loss(self, client: SimClient, record: SubscriptionRecord, place: int) -> None:
        published, where = self._messages[place].published, self._tick_of.get(place)
        tick = f"{where[0]} {format_tick(Tick(where[1]))}" if where else f"{published.pubend}, got by nobody"
        how = "was acknowledged" if published.acked_us is not None else "came to others"
        self._add_problem(
            f"{client.name}: subscription {record.number} misses {published.message_id} ({tick}), which {how}"
        )

    # --- tools

    def _selected(self, record: SubscriptionRecord) -> set[int]:
        """The messages that a subscription selects; each distinct selector meets each message once."""
        selected = self._matches(record.selector)
        if record.pubends:
            selected = {place for place in selected if record.wants(self._messages[place].published.pubend)}
        return selected & self._matches(record.granted) if record.granted else selected

    def _matches(self, text: str) -> set[int]:
        found = self._matching.get(text)
        if found is None:
            evaluation = _evaluation(text)
            found = self._matching[text] = {
                place
                for place, attributes in enumerate(self._attributes)
                if evaluation(attributes) is True and not self._messages[place].published.is_refused
            }
        return found

    def _problem(self, client: SimClient, delivery: Delivery, what: str) -> None:
        where = f"{delivery.pubend} {format_tick(Tick(delivery.tick))}"
        self._add_problem(
            f"{client.name}: {delivery.message_id} ({where}) {what}, subscription {delivery.subscription}"
        )

    def _add_problem(self, text: str) -> None:
        if len(self._verdict.problems) < _PROBLEMS_MAX:
            self._verdict.problems.append(text)


def _times(client: SimClient) -> dict[int, dict[tuple[str, int], int]]:
    """When each message came, by subscription, pubend and tick."""
    came: dict[int, dict[tuple[str, int], int]] = {}
    for each in client.deliveries:
        came.setdefault(each.subscription, {}).setdefault((each.pubend, each.tick), each.received_us)
    return came


def _selects(record: SubscriptionRecord, attributes: dict[str, AttributeValue]) -> bool:
    texts = [record.selector, record.granted] if record.granted else [record.selector]
    return all(_evaluation(text)(attributes) is True for text in texts)


@lru_cache(maxsize=16_384)
def _evaluation(text: str) -> Evaluation:
    return compile_condition(parse(text))
