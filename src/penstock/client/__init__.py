"""What applications import to publish and subscribe: ``connect`` for asyncio, ``connect_sync`` for everybody else."""

from __future__ import annotations

from penstock.client.address import DEFAULT_PORT, Address, parse_addresses
from penstock.client.client import Client, connect
from penstock.client.counters import ClientCounters
from penstock.client.errors import (
    AddressError,
    ClientClosedError,
    ClientError,
    ConnectionFailedError,
    ForkedError,
    RefusedError,
    TakenOverError,
    WouldBlockError,
)
from penstock.client.inbox import Lag
from penstock.client.positions import LostTicks
from penstock.client.reading import LogPart, PubendSpan, Survey
from penstock.client.received import Received
from penstock.client.settings import ClientSettings
from penstock.client.subscription import Subscription
from penstock.client.sync import SyncClient, connect_sync
from penstock.client.sync_subscription import SyncSubscription

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
