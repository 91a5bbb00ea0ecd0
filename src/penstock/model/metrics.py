"""The metrics of a broker's load, as one table ([PADRES] section 3.2).

Detection, PIE messages, status, Prometheus, tables and charts go over the table: to add a metric, add its row, a field
of ``Load`` with its measurement and its estimate, a field of ``BalancingStatus``, and its offload algorithm. The table
is here and not in ``balancing``, so that a command that shows a status need not load the balancer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["BALANCED", "DELAY", "INPUT", "METRICS", "OUTPUT", "UTILISATIONS", "Metric"]


@dataclass(slots=True, frozen=True)
class Metric:
    """One measure of how busy a broker is, and everything that depends on which one it is."""

    name: str
    """What brokers and operators call it."""
    key: str
    """The attribute of a load that has it, and its key in a status; after a dollar sign, that in a PIE message."""
    unit: Literal["ratio", "s"]
    """Ratios are utilisations, which can be overloaded; times are compared as shares of ``delay_norm_s``."""
    relief: str
    """The name of the metric whose offload algorithm relieves an overload of this one."""
    series: str
    """Its name in Prometheus."""
    help: str
    """Its help text in Prometheus."""
    label: str
    """Its label on charts, with the unit."""
    digits: int = 4
    """Decimal places in a status."""
    is_balanced: bool = True
    """Whether brokers tell each other about it and balance it."""

    @property
    def is_ratio(self) -> bool:
        """Whether it is a utilisation."""
        return self.unit == "ratio"

    def of(self, source: object) -> Any:
        """Its value in a load, in the figures that determine one (perhaps arrays), or in a status (perhaps None)."""
        return getattr(source, self.key)


INPUT: Final = Metric(
    name="input",
    key="input",
    unit="ratio",
    relief="delay",
    series="penstock_balancing_input_ratio",
    help="Input utilisation: rate of publications times matching delay.",
    label="input utilization ratio",
)
OUTPUT: Final = Metric(
    name="output",
    key="output",
    unit="ratio",
    relief="output",
    series="penstock_balancing_output_ratio",
    help="Output utilisation: bytes to clients over output bandwidth.",
    label="output utilization ratio",
)
DELAY: Final = Metric(
    name="delay",
    key="delay_s",
    unit="s",
    relief="delay",
    series="penstock_balancing_matching_delay_seconds",
    help="Average matching delay of a publication.",
    label="matching delay (s)",
    digits=6,
)
_CPU: Final = Metric(
    name="cpu",
    key="cpu",
    unit="ratio",
    relief="delay",
    series="penstock_balancing_cpu_ratio",
    help="CPU utilisation of the broker.",
    label="CPU utilization ratio",
    is_balanced=False,
)
_MEMORY: Final = Metric(
    name="memory",
    key="memory",
    unit="ratio",
    relief="delay",
    series="penstock_balancing_memory_ratio",
    help="Memory utilisation of the broker.",
    label="memory utilization ratio",
    is_balanced=False,
)
METRICS: Final = (INPUT, OUTPUT, DELAY, _CPU, _MEMORY)
"""All metrics, in the order of status, tables and charts."""
BALANCED: Final = tuple(each for each in METRICS if each.is_balanced)
"""The metrics that are balanced."""
UTILISATIONS: Final = tuple(each for each in METRICS if each.is_ratio)
"""The metrics that can be overloaded."""
