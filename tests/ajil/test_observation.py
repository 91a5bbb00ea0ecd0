from __future__ import annotations

from dataclasses import fields

from penstock.ajil.observation import Observation


def test_it_has_what_monitor_and_reactor_need() -> None:
    names = [each.name for each in fields(Observation)]
    assert names == ["rows", "amounts", "members", "sent", "ranks", "sizes", "wanted"]
