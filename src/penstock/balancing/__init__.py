"""Balancing: edge brokers share load by moving subscribers from the busier to the less busy ([PADRES])."""

from __future__ import annotations

from penstock.balancing.balancer import Balancer
from penstock.balancing.cards import ReportCard
from penstock.balancing.clusters import ClusterHead
from penstock.balancing.metrics import Load, Measurement
from penstock.balancing.offload import Interest, Profile
from penstock.balancing.ports import BalancedHost, Command, Note, Publish
from penstock.balancing.press import Press
from penstock.balancing.reporting import Estimate
from penstock.balancing.settings import BalancingError, BalancingSettings
from penstock.balancing.states import State

__all__ = [
    "BalancedHost",
    "Balancer",
    "BalancingError",
    "BalancingSettings",
    "ClusterHead",
    "Command",
    "Estimate",
    "Interest",
    "Load",
    "Measurement",
    "Note",
    "Press",
    "Profile",
    "Publish",
    "ReportCard",
    "State",
]
