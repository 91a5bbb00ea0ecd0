"""Profiles every subscription's cost from the archive, and plans its placement ([PADRES] section 4, all history).

Read ``job`` (the chain on Spark), ``matching`` and ``texts`` (the work of its tasks), ``bits`` (PRESS), ``model`` (the
result), ``store`` (how it is saved), then ``capacities`` and ``placement`` (the plan).
"""

from __future__ import annotations
