"""Penstock: content-based publish/subscribe with guaranteed delivery, balancing and an audit trail.

Applications start with ``connect`` (asyncio) or ``connect_sync``; ``attr`` builds selectors in Python. Every exception
that Penstock raises on purpose is a ``PenstockError``. Names are loaded on first use, so that importing a part of
Penstock does not load all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.client import Client, connect
    from penstock.client.counters import ClientCounters
    from penstock.client.events import EventStream, SyncEventStream
    from penstock.client.reading import LogPart, PubendSpan, Survey
    from penstock.client.requests import Request, Serving
    from penstock.client.subscription import Subscription
    from penstock.client.sync import SyncClient, connect_sync
    from penstock.client.sync_subscription import SyncSubscription
    from penstock.model.body import MalformedBodyError
    from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PeerError, PenstockError
    from penstock.model.message import Message
    from penstock.model.message_id import InvalidMessageIdError, MessageId
    from penstock.model.values import Attributes
    from penstock.protocol.errors import ProtocolError
    from penstock.protocol.status import BrokerStatus
    from penstock.selectors.builder import attr
    from penstock.selectors.errors import SelectorError, SelectorTooLargeError
    from penstock.selectors.selector import Selector
    from penstock.session.address import DEFAULT_PORT, Address, parse_addresses
    from penstock.session.errors import (
        AddressError,
        ClientClosedError,
        ClientError,
        ConnectionFailedError,
        ForkedError,
        NobodyServesError,
        PublishTimeoutError,
        RefusedError,
        RequestFailedError,
        RequestTimeoutError,
        TakenOverError,
        UnknownPubendError,
        WorkLostError,
        WouldBlockError,
    )
    from penstock.session.events import (
        ClientEvent,
        Connected,
        ConnectFailed,
        Disconnected,
        EventsDropped,
        GaveUp,
        HeldBack,
        Moved,
        Refused,
        Released,
        Unanswered,
    )
    from penstock.session.inbox import Lag
    from penstock.session.positions import LostTicks
    from penstock.session.publishing import PubendPlace
    from penstock.session.received import Received
    from penstock.session.settings import ClientSettings
    from penstock.tracking.answers import Trace

__all__ = [
    "DEFAULT_PORT",
    "Address",
    "AddressError",
    "Attributes",
    "BrokerStatus",
    "Client",
    "ClientClosedError",
    "ClientCounters",
    "ClientError",
    "ClientEvent",
    "ClientSettings",
    "ConnectFailed",
    "Connected",
    "ConnectionFailedError",
    "Disconnected",
    "EventStream",
    "EventsDropped",
    "ForkedError",
    "GaveUp",
    "HeldBack",
    "InvalidMessageError",
    "InvalidMessageIdError",
    "Lag",
    "LimitError",
    "LogPart",
    "LostTicks",
    "MalformedBodyError",
    "Message",
    "MessageId",
    "MisuseError",
    "Moved",
    "NobodyServesError",
    "PeerError",
    "PenstockError",
    "ProtocolError",
    "PubendPlace",
    "PubendSpan",
    "PublishTimeoutError",
    "Received",
    "Refused",
    "RefusedError",
    "Released",
    "Request",
    "RequestFailedError",
    "RequestTimeoutError",
    "Selector",
    "SelectorError",
    "SelectorTooLargeError",
    "Serving",
    "Subscription",
    "Survey",
    "SyncClient",
    "SyncEventStream",
    "SyncSubscription",
    "TakenOverError",
    "Trace",
    "Unanswered",
    "UnknownPubendError",
    "WorkLostError",
    "WouldBlockError",
    "__version__",
    "attr",
    "connect",
    "connect_sync",
    "parse_addresses",
]

__version__ = "0.1.0"

_HOMES = {
    "penstock.client.client": ("Client", "connect"),
    "penstock.client.counters": ("ClientCounters",),
    "penstock.client.events": ("EventStream", "SyncEventStream"),
    "penstock.client.reading": ("LogPart", "PubendSpan", "Survey"),
    "penstock.client.requests": ("Request", "Serving"),
    "penstock.client.subscription": ("Subscription",),
    "penstock.client.sync": ("SyncClient", "connect_sync"),
    "penstock.client.sync_subscription": ("SyncSubscription",),
    "penstock.model.body": ("MalformedBodyError",),
    "penstock.model.errors": ("InvalidMessageError", "LimitError", "MisuseError", "PeerError", "PenstockError"),
    "penstock.model.message": ("Message",),
    "penstock.model.message_id": ("InvalidMessageIdError", "MessageId"),
    "penstock.model.values": ("Attributes",),
    "penstock.protocol.errors": ("ProtocolError",),
    "penstock.protocol.status": ("BrokerStatus",),
    "penstock.selectors.builder": ("attr",),
    "penstock.selectors.errors": ("SelectorError", "SelectorTooLargeError"),
    "penstock.selectors.selector": ("Selector",),
    "penstock.session.address": ("DEFAULT_PORT", "Address", "parse_addresses"),
    "penstock.session.errors": (
        "AddressError",
        "ClientClosedError",
        "ClientError",
        "ConnectionFailedError",
        "ForkedError",
        "NobodyServesError",
        "PublishTimeoutError",
        "RefusedError",
        "RequestFailedError",
        "RequestTimeoutError",
        "TakenOverError",
        "UnknownPubendError",
        "WorkLostError",
        "WouldBlockError",
    ),
    "penstock.session.events": (
        "ClientEvent",
        "ConnectFailed",
        "Connected",
        "Disconnected",
        "EventsDropped",
        "GaveUp",
        "HeldBack",
        "Moved",
        "Refused",
        "Released",
        "Unanswered",
    ),
    "penstock.session.inbox": ("Lag",),
    "penstock.session.positions": ("LostTicks",),
    "penstock.session.publishing": ("PubendPlace",),
    "penstock.session.received": ("Received",),
    "penstock.session.settings": ("ClientSettings",),
    "penstock.tracking.answers": ("Trace",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
