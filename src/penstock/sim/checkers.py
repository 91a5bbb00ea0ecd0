"""Checks from outside the brokers what clients receive: each message once, in order, as selected, and none missing.

The first three laws always hold. For best effort, completeness is a law only in a world without faults; with faults,
missing messages are reported. What a subscriber should get is found naively: its parsed condition is evaluated for
every message.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from penstock.model.message_id import MessageId
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.text import parse
from penstock.sim.client import SimClient
from penstock.sim.records import Published, SubscriptionRecord

__all__ = ["Missing", "broken_laws", "missing", "out_of_order", "repeated", "unselected", "witnessed"]


class Missing(NamedTuple):
    """A message that a subscriber should have got and did not."""

    client: str
    subscription: int
    message_id: MessageId
    sent_us: int


def broken_laws(clients: Iterable[SimClient]) -> list[str]:
    """Complaints about what these clients received; empty if all is well."""
    laws = (repeated, out_of_order, unselected, witnessed)
    return [complaint for client in clients for law in laws for complaint in law(client)]


def witnessed(client: SimClient) -> list[str]:
    """Complaints of the client's witness."""
    return [f"{client.name}: {breach}" for breach in client.witness.breaches]


def repeated(client: SimClient) -> list[str]:
    """Complaints about messages that a subscription got more than once."""
    seen: dict[tuple[int, bytes], None] = {}
    complaints = []
    for delivery in client.deliveries:
        key = (delivery.subscription, delivery.body[:16])
        if key in seen:
            complaints.append(f"{client.name}: {delivery.message_id} came twice for subscription {key[0]}")
        seen[key] = None
    return complaints


def out_of_order(client: SimClient) -> list[str]:
    """Complaints about messages of one publisher that came out of order."""
    # The bytes of identifiers sort in the order of creation; the first eight are the publisher and its broker.
    last: dict[tuple[int, bytes], bytes] = {}
    complaints = []
    for delivery in client.deliveries:
        raw = delivery.body[:16]
        key = (delivery.subscription, raw[:8])
        before = last.get(key, b"")
        if raw < before:
            late = f"{delivery.message_id} came after {MessageId.from_bytes(before)}"
            complaints.append(f"{client.name}: {late} for subscription {key[0]}")
        last[key] = max(raw, before)
    return complaints


def unselected(client: SimClient) -> list[str]:
    """Complaints about messages that their subscription does not select, or that came for none in force."""
    complaints = []
    for delivery in client.deliveries:
        record = client.subscriptions.get(delivery.subscription)
        if record is None:
            complaints.append(f"{client.name}: {delivery.message_id} came for no subscription")
        elif not record.wants(delivery.pubend):
            complaints.append(f"{client.name}: {delivery.message_id} is of {delivery.pubend}, which is not wanted")
        elif not _selects(record, delivery.attributes):
            complaints.append(f"{client.name}: {delivery.message_id} is not selected by {record.selector}")
        elif record.gone_us is not None and delivery.received_us > record.gone_us:
            complaints.append(
                f"{client.name}: {delivery.message_id} came for subscription {record.number}, which is gone"
            )
    return complaints


def missing(publishers: Iterable[SimClient], subscribers: Iterable[SimClient]) -> list[Missing]:
    """Messages that were sent while a matching subscription was in force, but did not come for it."""
    sent = [(published, published.attributes) for client in publishers for published in client.published]
    found: list[Missing] = []
    for client in subscribers:
        got = {(delivery.subscription, delivery.body[:16]) for delivery in client.deliveries}
        for record in client.subscriptions.values():
            found += [
                Missing(client.name, record.number, published.message_id, published.sent_us)
                for published, attributes in sent
                if _is_owed(record, published)
                and (record.number, published.body[:16]) not in got
                and record.wants(published.pubend)
                and _selects(record, attributes)
            ]
    return found


def _is_owed(record: SubscriptionRecord, published: Published) -> bool:
    return not published.is_refused and record.was_in_force(published.sent_us)


def _selects(record: SubscriptionRecord, attributes: dict[str, str | int | float | bool | None]) -> bool:
    if _evaluation(record.selector)(attributes) is not True:
        return False
    return not record.granted or _evaluation(record.granted)(attributes) is True


@lru_cache(maxsize=16_384)
def _evaluation(text: str) -> Evaluation:
    return compile_condition(parse(text))
