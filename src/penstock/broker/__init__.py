"""One broker, without I/O: stimuli in, effects out; the shells in ``live`` and ``sim`` run it.

Read ``broker`` (what comes in), ``desk`` (clients), ``topology``, ``trees`` and ``filters`` (what all brokers know),
``routing`` (messages on their way), ``outbox`` and ``effects`` (what goes out), ``mechanism`` (how more plugs in).
"""

from __future__ import annotations

from penstock.broker.access import Access, Rule
from penstock.broker.broker import Broker
from penstock.broker.effects import Close, Effect, Record, Wake
from penstock.broker.mechanism import Mechanism
from penstock.broker.settings import BrokerSettings, SettingsError
from penstock.protocol.errors import ProtocolError

__all__ = [
    "Access",
    "Broker",
    "BrokerSettings",
    "Close",
    "Effect",
    "Mechanism",
    "ProtocolError",
    "Record",
    "Rule",
    "SettingsError",
    "Wake",
]
