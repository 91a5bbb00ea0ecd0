"""Lists all attacks by name: where each takes place, who carries it out, and what honest clients must not notice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bench.hostile import clients, hoarders, insiders, rogues, stomp_clients, strangers, web_clients
from bench.hostile.arena import ArenaPlan
from bench.hostile.stage import Stage, Told
from bench.hostile.stomp_noise import noise
from bench.hostile.storm import storm

__all__ = ["ATTACKS", "NOISE", "STORM", "Attack"]

NOISE: Final = "stomp-noise"
STORM: Final = "storm"

_ALONE: Final = """
overlay = "arena"
[brokers.b1]
port = $b1
admin_port = $admin
pubends = ["b1.a"]
"""
_PAIR: Final = (
    _ALONE
    + """
[brokers.b2]
port = $b2
[[links]]
between = ["b2", "b1"]
"""
)
_CLOSED: Final = """
[[clients]]
name = "honest"
token = "honest-token"
[[clients]]
name = "feed"
token = "feed-token"
[[clients]]
name = "victim"
token = "victim-token"
[[clients]]
name = "weak"
token = "weak-token"
[[access]]
clients = "weak"
subscribe = "x = 1"
[[access]]
clients = "%"
publish = true
subscribe = true
"""
_SHARED: Final = """
[security]
link_token = "link-secret-link-secret-link-secret"
"""
_TLS: Final = """
[security.tls]
ca = "ca.pem"
certificate = "{name}.pem"
key = "{name}.key"
mutual = true
"""

_CHAIN: Final = (
    _PAIR
    + """
[brokers.b3]
port = $b3
[[links]]
between = ["b3", "b2"]
"""
)
_PLAIN: Final = ArenaPlan(_ALONE)
_STOMP: Final = """
[brokers.b1.stomp]
port = $stomp
websocket_port = $web
"""
_SPOKEN: Final = ArenaPlan(_ALONE + _STOMP)
_NOISY: Final = ArenaPlan(
    _ALONE.replace('["b1.a"]', '["b1.a", "b1.loose"]\nbest_effort = ["b1.loose"]\nretain_ms = 30_000') + _STOMP
)
_CHAINED: Final = ArenaPlan(_CHAIN + _SHARED, ("b1", "b2"), waits_for_links=True)
_NEIGHBOURED: Final = ArenaPlan(_PAIR + _SHARED, ("b1",))
_LINKED: Final = ArenaPlan(_PAIR, ("b1", "b2"), waits_for_links=True)
_FULL: Final = ArenaPlan(_ALONE + 'retain_bytes_max = 1_000_000\nretain_policy = "hold"\n')
_GUARDED: Final = ArenaPlan(_ALONE + _CLOSED)
_IMPATIENT: Final = ArenaPlan(_ALONE + "heartbeat_ms = 500\nsilent_ms = 2_000\ncredit_bytes = 16_000_000\n")
_NARROW: Final = ArenaPlan(_ALONE + "silent_ms = 2_000\nheld_back_bytes = 8_000_000\n")


@dataclass(slots=True, frozen=True)
class Attack:
    """One attack."""

    title: str
    run: Callable[[Stage], Awaitable[Told]]
    plan: ArenaPlan = _PLAIN
    rate_s: int = 200
    """Rate of the honest publisher, in messages per second; 0 if no honest client can take part."""
    token: str = ""
    """The token of the honest clients."""
    p99_ms_max: float = 0.0
    """The allowed 99th percentile of honest waits; 0 for the bound that holds for every wait."""
    limit_s: float = 90.0
    """The attack ends after this time, whatever it has achieved."""
    may_not_start: bool = False
    """Whether the remedy is that a broker refuses to start with this file."""


ATTACKS: Final[dict[str, Attack]] = {
    "number": Attack("a publish frame numbered 2^63", clients.large_number),
    "body": Attack("a body of 10,485,740 bytes to a guaranteed pubend", clients.large_body, _LINKED),
    "nameless": Attack(
        "mutual TLS, certificate without a common name, as a broker",
        insiders.nameless_broker,
        ArenaPlan(_PAIR + _TLS, ("b1",), tls=True),
        rate_s=0,
        may_not_start=True,
    ),
    "no-link-token": Attack(
        "tokens and access lists, but no link token: as a broker",
        insiders.false_broker,
        ArenaPlan(_PAIR + _CLOSED, ("b1",)),
        rate_s=0,
        may_not_start=True,
    ),
    "idle": Attack("1,010 idle connections at 1,024 files", strangers.idle, ArenaPlan(_ALONE, files_max=1_024)),
    "handshakes": Attack(
        "1,010 TLS handshakes never begun at 1,024 files",
        strangers.unfinished_handshakes,
        ArenaPlan(_ALONE + _TLS, files_max=1_024, tls=True),
    ),
    "credit": Attack("400 MB without credit", clients.ignored_credit),
    "hold": Attack("300 MB while publishers have to wait", clients.ignored_hold, _FULL, rate_s=0),
    "subscriptions": Attack("600 subscriptions of 1.8 MB at once", clients.costly_subscriptions, _LINKED),
    "patterns": Attack("200 LIKE patterns of 14,000 characters on 65,536", clients.costly_patterns, _LINKED),
    "content-type": Attack("a content type beyond its body", clients.false_content_type),
    "identifier": Attack("an identifier of all ones", clients.unreadable_identifier),
    "forged": Attack("another publisher's identifier", clients.forged_identifier),
    "payload": Attack("a payload of 9 MiB, 8 allowed", clients.large_payload),
    "drain": Attack("a drain to elsewhere from a foreign page", strangers.foreign_drain),
    "takeover": Attack(
        "another client's durable name, acknowledged",
        clients.stolen_name,
        _GUARDED,
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
    ),
    "heartbeat": Attack("100 strangers: heartbeat, then 7 MiB", strangers.heartbeat_first),
    "admin": Attack("70 idle connections to the admin port", strangers.idle_admin),
    "claim": Attack(
        "an access list without tokens: any name",
        strangers.claimed_name,
        ArenaPlan(_ALONE + '[[access]]\nclients = "admin"\nsubscribe = true\n'),
        rate_s=0,
        may_not_start=True,
    ),
    "quota": Attack("20,000 subscriptions of one client", clients.many_subscriptions),
    "names": Attack(
        "6,000 durable names of one client",
        clients.many_names,
        _GUARDED,
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
    ),
    "positions": Attack("positions at 100,000 invented pubends", clients.many_positions),
    "slow-line": Attack("a message of 8 MiB at 2 MB/s", hoarders.slow_line, _IMPATIENT),
    "dribble": Attack("a frame of 8 MiB, 1 KB a second", hoarders.dribbled_frame, _IMPATIENT),
    "deaf": Attack("three subscribers that never read, and publishers that wait", hoarders.silent_subscribers, _NARROW),
    "status": Attack("a status of 49 KB, 20,000 times, never read", hoarders.unread_status),
    "empty": Attack("empty messages behind a refused one", hoarders.empty_messages),
    "invented": Attack("positions at 300,000 invented pubends, begun and ended", hoarders.invented_positions),
    "ghosts": Attack("the same by coming and going", hoarders.left_positions),
    "selectors": Attack("400 subscriptions of 15,500 characters", hoarders.long_selectors, limit_s=150.0),
    "past": Attack("400 subscriptions of 64 KB, begun and ended", hoarders.past_selectors),
    "system": Attack(
        "names of others in the system's publications",
        hoarders.system_names,
        _GUARDED,
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
    ),
    "escapes": Attack("terminal escapes in names", insiders.escaped_name),
    "long-name": Attack("a client name of 60,000 characters", clients.long_name),
    "files": Attack("the store's files, for a local user", insiders.open_files),
    "link-token": Attack(
        "listening at a neighbour's port",
        insiders.told_link_token,
        ArenaPlan(_PAIR.replace('["b2", "b1"]', '["b1", "b2"]') + _SHARED, ("b1",)),
        rate_s=0,
    ),
    "tokens": Attack(
        "wrong tokens, one after the other",
        strangers.wrong_tokens,
        _GUARDED,
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
    ),
    "replay": Attack("a sealed datagram again, after 10,001 senders", insiders.replayed_datagrams, rate_s=0),
    "readable": Attack("tokens in a file that all can read", insiders.unwarned_file, _GUARDED, rate_s=0),
    "rogue": Attack(
        "a neighbour with the right token that lies",
        insiders.rogue_knowledge,
        _NEIGHBOURED,
    ),
    "rogue-durable": Attack(
        "a rogue neighbour moves, forgets and claims another's durable subscription",
        rogues.stolen_subscription,
        ArenaPlan(_PAIR + _CLOSED + _SHARED, ("b1",)),
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
    ),
    "rogue-silence": Attack("silence for ever from a rogue beside the way", rogues.false_silence, _CHAINED),
    "rogue-hosts": Attack("a rogue's positions of 30,000 invented hosts", rogues.invented_hosts, _CHAINED),
    "rogue-answers": Attack("a rogue's answers that are not UTF-8, passed on", rogues.unreadable_answers, _CHAINED),
    "rogue-pubends": Attack("24,600 pubends that a rogue makes up", rogues.invented_pubends, _NEIGHBOURED),
    "rogue-filter": Attack("a rogue's filter that never ends", rogues.endless_filter, _NEIGHBOURED),
    "stomp-idle": Attack(
        "1,010 connections that never say CONNECT at 1,024 files",
        stomp_clients.idle_strangers,
        ArenaPlan(_ALONE + _STOMP, files_max=1_024),
    ),
    "stomp-unsaid": Attack("200 strangers that announce 8 MiB", stomp_clients.unsaid_bodies, _SPOKEN),
    "stomp-heads": Attack("headers without end", stomp_clients.flooded_heads, _SPOKEN),
    "stomp-dribble": Attack("20 frames of 8 MiB, 1 KB a second", stomp_clients.dribbled_frames, _SPOKEN),
    "stomp-bodies": Attack("100 frames of 8 MiB, begun and never ended", stomp_clients.announced_bodies, _SPOKEN),
    "stomp-transactions": Attack("transactions never committed", stomp_clients.open_transactions, _SPOKEN),
    "stomp-subscriptions": Attack(
        "30,000 subscriptions of one client", stomp_clients.endless_subscriptions, _SPOKEN, limit_s=180.0
    ),
    "stomp-names": Attack(
        "9,000 queues and durable names of one client",
        stomp_clients.endless_names,
        ArenaPlan(_ALONE + _STOMP + _CLOSED.replace("subscribe = true\n", 'subscribe = true\ndurable = "%"\n')),
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
        limit_s=150.0,
    ),
    "stomp-unread": Attack("three subscribers that never read", stomp_clients.unread_messages, _SPOKEN),
    "stomp-unacknowledged": Attack(
        "consumers that acknowledge nothing", stomp_clients.unacknowledged_messages, _SPOKEN
    ),
    "stomp-receipts": Attack("receipts without end, never read", stomp_clients.unread_receipts, _SPOKEN),
    "stomp-churn": Attack(
        "subscriptions begun and ended by one that never reads", stomp_clients.begun_subscriptions, _SPOKEN
    ),
    "stomp-bombs": Attack("selectors that are costly", stomp_clients.bombs, _SPOKEN, limit_s=180.0),
    "web-handshakes": Attack("200 handshakes, a byte at a time", web_clients.dribbled_handshakes, _SPOKEN),
    "web-pings": Attack("pings without end", web_clients.pings, _SPOKEN),
    "web-messages": Attack("messages that are too large, or never end", web_clients.endless_messages, _SPOKEN),
    "web-ends": Attack("200 connections that never agree to end", web_clients.unended, _SPOKEN),
    NOISE: Attack("generated STOMP clients, of all kinds", noise, _NOISY, limit_s=7_200.0),
    STORM: Attack(
        "1,000 strangers, 50 hostile clients, a subscriber that never reads, all at once",
        storm,
        ArenaPlan(_ALONE + _CLOSED + _SHARED),
        rate_s=1_000,
        token="honest-token",  # noqa: S106 - of an arena that lives for seconds
        p99_ms_max=100.0,
        limit_s=600.0,
    ),
}
