"""The virtual world: workloads for now; its clock, links, hosts and faults move in as the broker grows."""

from __future__ import annotations

__all__: list[str] = []
