"""The virtual world: brokers, links, hosts, clients, faults and time itself, all following from one seed.

Read ``world`` (what there is), ``clock`` (time), ``wire`` and ``link`` (how frames travel), ``node`` (the shell of a
broker), ``client`` and ``records`` (applications), ``checkers`` (laws), ``trace`` (what happened).
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
