"""Penstock: content-based publish/subscribe with guaranteed delivery, balancing and an audit trail.

Applications need ``connect`` (asyncio) or ``connect_sync``, and maybe ``attr`` to write selectors in Python. They are
loaded when they are first used, so that importing a part of Penstock does not load all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client import Client, Received, Subscription, SyncClient, connect, connect_sync
    from penstock.model import Message, MessageId
    from penstock.selectors import Selector, attr

__all__ = [
    "Client",
    "Message",
    "MessageId",
    "Received",
    "Selector",
    "Subscription",
    "SyncClient",
    "__version__",
    "attr",
    "connect",
    "connect_sync",
]

__version__ = "0.1.0"

_ROOMS = {
    "penstock.model": ("Message", "MessageId"),
    "penstock.selectors": ("Selector", "attr"),
    "penstock.client": ("Client", "Received", "Subscription", "SyncClient", "connect", "connect_sync"),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(room), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
