"""What every subscription costs, from the archive, and where it should live ([PADRES] section 4, over all history).

Read ``job`` (the chain on Spark), ``matching`` and ``texts`` (what its tasks do), ``bits`` (PRESS), ``model`` (what is
found), ``store`` (how it is kept), then ``capacities`` and ``placement`` (the plan).
"""

from __future__ import annotations
