"""Ajil: one limit on all traffic, kept and shared fairly without a central server ([Ajil])."""

from __future__ import annotations

from penstock.ajil.amounts import Unit, amount_text, parse_amount
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.domain import ranks_within
from penstock.ajil.errors import AupError, MalformedError
from penstock.ajil.groups import GroupIndex
from penstock.ajil.messages import Demand, Entry, Policy, Report, decode, encode
from penstock.ajil.node import AjilNode, Channel, EpochEnd, Slowed
from penstock.ajil.observation import Observation
from penstock.ajil.tally import Tally

__all__ = [
    "UNLIMITED",
    "AjilNode",
    "Aup",
    "AupError",
    "Channel",
    "Demand",
    "Entry",
    "EpochEnd",
    "GroupIndex",
    "MalformedError",
    "Observation",
    "Policy",
    "Report",
    "Slowed",
    "Tally",
    "Unit",
    "amount_text",
    "decode",
    "encode",
    "parse_amount",
    "ranks_within",
]
