"""Ships a broker's records to the lake: filters, attachments, positions, links, figures.

``docs/lake.md`` says what it does and guarantees. The parts, from the broker to the lake:

``pending``    tracks what became durable since it was shipped
``rows``       turns records into rows of the tables
``cargo``      collects rows by table and day
``files``      writes rows as Parquet files, whole and durable
``ledger``     remembers across crashes what has been shipped
``writer``     does all that in batches, in its own thread (``thread``)
``shipper``    ships batch after batch, within a budget
``telemetry``  turns a node's figures into samples
``service``    runs shipping as part of a node
"""

from __future__ import annotations

from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.settings import Budget, ShipSettings
from penstock.live.shipping.shipper import Shipper
from penstock.live.shipping.writer import Shipped

__all__ = ["Budget", "ShipError", "ShipSettings", "Shipped", "Shipper"]
