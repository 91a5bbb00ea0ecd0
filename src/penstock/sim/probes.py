"""Rare paths that a campaign should take: a table of probes, and how often a world took each path.

A campaign that never took a path proves nothing about it. Each probe counts how often one was taken, from the brokers'
own counters, from the devices, and from what clients saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.protocol.frames import LATEST
from penstock.sim.client import SimClient
from penstock.sim.world import World

__all__ = ["NOWHERE", "PROBES", "missed", "observed"]

NOWHERE: Final = "nowhere"
"""A pubend that no overlay has, though subscriptions may name it."""
PROBES: Final[Mapping[str, str]] = {
    "torn_writes": "a crash destroyed a group of commits under way",
    "saved_unacknowledged": "a crash left a group durable that nobody had been told of",
    "unsynced_commits": "a crash found commits that no sync had begun to make durable",
    "publishes_repeated": "a publisher sent again what the pubend had taken in already",
    "damaged_records": "a read met a record that cannot be read",
    "trims": "a log was trimmed",
    "log_lapsed": "a log at its maximum gave up what some host had not confirmed",
    "hosts_lapsed": "a host was not heard of for so long that it holds nothing any more",
    "log_reads": "a question was answered from a log",
    "nacks_sent": "a host asked for ticks",
    "nacks_forwarded": "a broker in between asked further up",
    "nacks_suppressed": "the same ticks had been asked for just before, by somebody else",
    "answered_from_cache": "a question was answered from a cache",
    "answers_passed_on": "an answer went back to a neighbour that had asked",
    "knowledge_off_tree": "knowledge came from somebody who is not the parent",
    "knowledge_dropped": "knowledge did not fit an outbox",
    "versions_changed": "a neighbour was told that filters have changed",
    "old_silence_doubted": "silence was narrowed by an older filter than the one demanded",
    "catch_ups": "a subscription began behind the shared stream",
    "catch_ups_met": "a catch-up met the shared stream",
    "catch_ups_paused": "a catch-up waited for a client that did not read",
    "joined_at_once": "a subscription began on the shared stream",
    "lost_ticks": "a host learnt that ticks are lost",
    "history_lost": "a pubend learnt from others that its store lacks what was committed",
    "history_lost_late": "a pubend learnt that when it had begun",
    "clients_told_of_loss": "a client was told that ticks are lost",
    "held_back_by_disk": "publishers were told that the disk is full",
    "held_back_by_log": "publishers were told that a log has reached its maximum",
    "held_back_by_outboxes": "publishers were told that too much waits to be sent",
    "slow_clients_ended": "a client that did not read was disconnected",
    "positions_stated": "a subscription began at a position that it stated",
    "positions_refused": "a subscription stated a position in the future, and was refused",
    "opened": "a pubend was asked where a subscription may begin",
    "durables_claimed": "a durable name was claimed",
    "durables_taken": "a durable name was claimed that somebody had",
    "durables_forgotten": "a pubend forgot a durable name",
    "owners_ended": "a client was told that its durable name has another owner, or none",
    "long_absences": "a client was away for longer than anything but its durable positions is kept",
    "durables_moved": "a client came back to its durable name at another broker",
    "durables_resumed": "a client whose process lived went on with a durable subscription",
    "settled": "a pubend was told of what is acknowledged, and was to answer when that is kept",
    "settled_single": "a client named a single message as acknowledged, before others that were not",
    "settled_awaited": "an application was told that a message which it had acknowledged is kept",
    "settled_told": "a host was told of messages that were acknowledged before a subscription began",
    "came_again": "a message came again to a later life of a durable name, as it was not acknowledged",
    "to_some_pubends": "a message came to a subscription that wants some pubends only",
    "pubends_missing": "a subscription was confirmed though it names a pubend that nobody has",
    "replays_of_all": "a subscription began at the earliest that a pubend had",
    "replays_from_a_time": "a subscription began at a time of the past",
    "replays_moved": "a subscription began elsewhere, as where it wanted to is not kept any more",
    "replays_refused": "a subscription was refused, as where it wanted to begin is not kept any more",
    "named_pubends": "a message was published to a pubend by its name",
    "last_values_kept": "a message that was trimmed from a log was kept as a last value",
    "refused_at_the_door": "a message was refused that its publisher may not publish",
    "expired": "a message was dropped, as it had expired",
    "best_effort_delivered": "a message of the best-effort class came, in the midst of all this",
}
"""What each probe means, by its name."""


def observed(world: World) -> Counter[str]:
    """How often a world took each path, over all lives of its brokers."""
    counts: Counter[str] = Counter()
    for broker in world.nodes:
        device = broker.device
        counts.update(broker.counts())
        counts.update(torn_writes=device.torn, saved_unacknowledged=device.saved, unsynced_commits=device.unsynced)
    for client in world.clients.values():
        counts["clients_told_of_loss"] += len(client.lost)
        counts["slow_clients_ended"] += sum(goodbye.code == "slow" for goodbye in client.witness.goodbyes)
        counts["held_back_by_disk"] += sum("no space" in reason for reason in client.witness.holds)
        counts["held_back_by_log"] += sum("its maximum" in reason for reason in client.witness.holds)
        counts["held_back_by_outboxes"] += sum("waiting to be sent" in reason for reason in client.witness.holds)
        counts["named_pubends"] += sum(each.is_named for each in client.published)
        counts["refused_at_the_door"] += sum(each.is_refused for each in client.published)
        records = client.subscriptions.values()
        counts["positions_stated"] += sum(bool(each.asked and each.starts) for each in records)
        counts["positions_refused"] += sum("future" in each.refused for each in records)
        counts.update(_of_durables(client))
        counts.update(_of_replays(client))
        narrowed = {each.number for each in records if each.pubends}
        counts["to_some_pubends"] += sum(each.subscription in narrowed for each in client.deliveries)
        counts["pubends_missing"] += sum(NOWHERE in each.pending for each in records)
        guaranteed = {pubend for each in records for pubend in each.starts}
        counts["best_effort_delivered"] += sum(
            not each.pubend.startswith("$") and each.pubend not in guaranteed for each in client.deliveries
        )
    counts["came_again"] += _came_again(world.clients.values())
    return counts


def _of_durables(client: SimClient) -> Counter[str]:
    records = [each for each in client.subscriptions.values() if each.durable]
    return Counter(
        owners_ended=sum("was taken over" in each.refused for each in records),
        settled_single=sum(len(each.named) for each in records),
        settled_awaited=sum(len(each.kept) for each in records),
        durables_resumed=sum(bool(session.stated) for each in records for session in each.visits),
    )


def _of_replays(client: SimClient) -> Counter[str]:
    records = [each for each in client.subscriptions.values() if not each.durable]
    starts = [
        (each.asked.get(pubend, each.otherwise), start.tick)
        for each in records
        for pubend, start in each.starts.items()
    ]
    return Counter(
        replays_of_all=sum(not wanted for wanted, _ in starts),
        replays_from_a_time=sum(bool(each.starts and 0 < each.otherwise < LATEST) for each in records),
        replays_moved=sum(0 < wanted < tick for wanted, tick in starts),
        replays_refused=sum("not kept any more" in each.refused for each in records),
    )


def _came_again(clients: Iterable[SimClient]) -> int:
    """Deliveries to later lives of a durable name of messages that an earlier life had got."""
    lives: Counter[tuple[str, str, int]] = Counter()
    for client in clients:
        for each in client.deliveries:
            record = client.subscriptions.get(each.subscription)
            if record is not None and record.durable:
                lives[record.durable, each.pubend, each.tick] += 1
    return sum(count - 1 for count in lives.values())


def missed(counts: Iterable[Counter[str]], probes: Mapping[str, str] = PROBES) -> list[str]:
    """The probes that none of several worlds reached, each with its meaning."""
    reached = {name for each in counts for name, count in each.items() if count}
    return [f"{name}: {meaning}" for name, meaning in probes.items() if name not in reached]
