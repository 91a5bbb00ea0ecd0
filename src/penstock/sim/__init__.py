"""The virtual world: brokers, links, hosts, clients, faults and time itself, all following from one seed.

Read ``world`` (what there is), ``clock`` (time), ``wire`` and ``link`` (how frames travel), ``node`` (the shell of a
broker), ``device`` and ``disk`` (what outlives a broker), ``client`` with ``publishing``, ``positions`` and ``records``
(applications), ``checkers`` (laws of best effort), ``verdict`` and ``bounds`` (laws of guaranteed delivery), ``trace``
(what happened). Campaigns: ``campaign`` harms best effort; ``delivery`` harms guaranteed delivery, with
``delivery_plan`` (what is drawn), ``faults`` (harm), ``probes`` (rare paths) and ``delivery_run`` (what came of it).
"""

from __future__ import annotations

from penstock.sim.client import SimClient
from penstock.sim.clock import Clock
from penstock.sim.host import CostModel, Host
from penstock.sim.link import Link
from penstock.sim.trace import Trace
from penstock.sim.wire import LinkOptions, Wire
from penstock.sim.world import World

__all__ = ["Clock", "CostModel", "Host", "Link", "LinkOptions", "SimClient", "Trace", "Wire", "World"]
