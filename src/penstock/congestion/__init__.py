"""Congestion control: pubends follow the slowest broker (PDCC), recovery takes its share (SDCC) ([Gryphon])."""

from __future__ import annotations

from penstock.congestion.alerts import Alerts
from penstock.congestion.consolidation import UcaConsolidation
from penstock.congestion.edge_control import EdgeControl
from penstock.congestion.horizon_rate import HorizonRate
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.pdcc import Pdcc
from penstock.congestion.pubend import PubendControl
from penstock.congestion.sdcc import NackControl, NackGroup
from penstock.congestion.settings import CongestionError, CongestionSettings
from penstock.congestion.shaper import Shaper
from penstock.congestion.tuning import Parameter, changed, listing

__all__ = [
    "Alerts",
    "CongestionError",
    "CongestionSettings",
    "Dcq",
    "EdgeControl",
    "HorizonRate",
    "NackControl",
    "NackGroup",
    "Parameter",
    "Pdcc",
    "PubendControl",
    "Shaper",
    "Uca",
    "UcaConsolidation",
    "changed",
    "listing",
]
