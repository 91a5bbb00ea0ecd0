"""What applications import to publish and subscribe: ``connect`` for asyncio, ``connect_sync`` for everybody else."""

from __future__ import annotations

from penstock.client.client import Client, connect
from penstock.client.counters import ClientCounters
from penstock.client.reading import LogPart, PubendSpan, Survey
from penstock.client.subscription import Subscription
from penstock.client.sync import SyncClient, connect_sync
from penstock.client.sync_subscription import SyncSubscription
from penstock.session.address import DEFAULT_PORT, Address, parse_addresses
from penstock.session.errors import (
    AddressError,
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    ForkedError,
    RefusedError,
    TakenOverError,
    WouldBlockError,
)
from penstock.session.inbox import Lag
from penstock.session.positions import LostTicks
from penstock.session.received import Received
from penstock.session.settings import ClientSettings

__all__ = [
    "DEFAULT_PORT",
    "Address",
    "AddressError",
    "Client",
    "ClientClosedError",
    "ClientCounters",
    "ClientError",
    "ClientSettings",
    "ConnectionFailedError",
    "ForkedError",
    "Lag",
    "LogPart",
    "LostTicks",
    "PubendSpan",
    "Received",
    "RefusedError",
    "Subscription",
    "Survey",
    "SyncClient",
    "SyncSubscription",
    "TakenOverError",
    "WouldBlockError",
    "connect",
    "connect_sync",
    "parse_addresses",
]
