"""Ships what a broker has on record to the lake: filters, attachments, positions, links, figures.

What it does and promises is in ``docs/lake.md``. The parts, from the broker to the lake:

``pending``    what has become durable since it was shipped
``rows``       records as rows of the tables
``cargo``      rows by table and day
``files``      rows as Parquet files, whole and durable
``ledger``     what has been shipped, through crashes
``writer``     all of that as batches, in a thread of its own (``thread``)
``shipper``    batch after batch, within a budget
``telemetry``  a node's figures as samples
``service``    shipping as part of a node
"""

from __future__ import annotations

from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.settings import Budget, ShipSettings
from penstock.live.shipping.shipper import Shipper
from penstock.live.shipping.writer import Shipped

__all__ = ["Budget", "ShipError", "ShipSettings", "Shipped", "Shipper"]
