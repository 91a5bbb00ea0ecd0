"""Reads the table ``[token]`` of an overlay file: what is asked of the token that walks over the brokers ([Token] 4.1).

[token]
variant = "swift"               # or "paper"
op_ms = 4000                    # budget of one operation (Δop); that of shipping if brokers ship by token
min_ms = 0                      # least time between two operations of a broker (Δmin); 0: as their number allows
skip_ms = 0                     # how long the token stays where nothing is due (Δskip); 0: a quarter of op_ms
"""

from __future__ import annotations

from dataclasses import replace

from penstock.live.overlay import Overlay
from penstock.live.shipping.settings import VISIT
from penstock.live.toml_table import TomlTable
from penstock.token.settings import SWIFT, Plan, TokenError

__all__ = ["with_token"]


def with_token(overlay: Overlay, root: TomlTable) -> Overlay:
    """The overlay with what its file says of the token; there is one, too, if brokers ship by token."""
    table, ship = root.table("token"), overlay.ship
    by_token = ship if ship is not None and ship.when == VISIT else None
    op_ms = table.integer("op_ms", by_token.turn_ms if by_token is not None else 4_000, low=1)
    min_ms = table.integer("min_ms", max(by_token.interval_ms, op_ms) if by_token is not None else 0)
    skip_ms, variant = table.integer("skip_ms", 0), table.text("variant", SWIFT)
    table.refuse_others()
    if "token" not in root and by_token is None:
        return overlay
    try:
        return replace(overlay, token=Plan(op_ms, min_ms, skip_ms, variant))
    except TokenError as error:
        key = next((each for each in ("variant", "skip_ms", "min_ms", "op_ms") if each in table), "")
        raise (table if "token" in root else root).error(key, str(error)) from None
