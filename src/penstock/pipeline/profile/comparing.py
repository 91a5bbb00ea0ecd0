"""What dynamic balancing reached, from the result of the experiment ``balancing-local``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.model.errors import MisuseError

__all__ = ["balancing_difference"]

_METRICS: Final = ("max_difference_end_input", "max_difference_end_output", "max_difference_end_delay")


def balancing_difference(path: Path) -> float:
    """The largest difference between two brokers in any metric at the end of a run of ``balancing-local``."""
    try:
        result: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict)
    except OSError as error:
        raise MisuseError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise MisuseError(f"{path} is no result of an experiment: {error}") from None
    metrics = result.get("measured")
    found = [metrics[name] for name in _METRICS if name in metrics] if isinstance(metrics, dict) else []
    if not found:
        raise MisuseError(f"{path} is no result of balancing-local: it has none of {', '.join(_METRICS)}")
    return float(max(found))
