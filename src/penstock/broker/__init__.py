"""One broker, without I/O: stimuli in, effects out; the shells in ``live`` and ``sim`` run it.

Packages by role: ``clients`` (connections and requests of clients), ``pubend`` (logs, ticks, durable names),
``transit`` (messages and knowledge on their way), ``host`` (streams of this broker's own subscribers), ``neighbours``
(what all brokers know of the overlay), ``mechanisms`` (what the papers add). The modules beside them are shared by all
packages; ``broker`` composes everything.
"""

from __future__ import annotations

from penstock.broker.access import Access, Rule
from penstock.broker.broker import Broker
from penstock.broker.effects import Close, Effect, Record, Wake
from penstock.broker.mechanisms.interface import Mechanism
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
