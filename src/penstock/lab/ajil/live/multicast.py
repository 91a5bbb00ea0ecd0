"""A square surge over real UDP multicast between processes, measured at a receiver ([Ajil] section 7: a real testbed).

The receiver joins all groups and never sends; it counts the traffic that arrives in each epoch of 200 ms. One worker
starts in the middle of the surge without a policy and has to learn it from the others.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from penstock.ajil import Aup, Observation
from penstock.ajil.amounts import Floats
from penstock.lab.ajil.charts import dress
from penstock.lab.ajil.live.worker import WorkerPlan, WorkerResult
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.live.multicast import MulticastNode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_LIVE_MULTICAST", "settled_figures", "smoothed", "surge_panel"]

_EPOCH_MS: Final = 200
_LIMIT_BYTES_S: Final = 60_000
_PACKET_BYTES: Final = 200
_BASE, _PEAK = 2 / 3, 1.25
"""Load before and in the surge, as a share of the limit, as in figure 2."""
_START_S: Final = 1.0
"""Time for all processes to read their plans."""
_SETTLE_EPOCHS_MAX: Final = 10
_KEY: Final = "a key for this run only"


def settled_figures(surge: Floats) -> dict[str, float]:
    """Figures of a surge, from the traffic in each of its epochs as a share of the limit.

    ``overshoot`` is the mean excess of single epochs over the limit, as in the simulation, after the epochs allowed for
    settling. ``overshoot_over_5_epochs`` uses means over five epochs: traffic that a busy machine delivers a little
    late is not excess. ``settle_epochs`` is when the mean of five epochs is at most 5 % over the limit.
    """
    smooth = smoothed(surge)
    settled = next((at for at, mean in enumerate(smooth) if mean <= 1.05), len(surge))
    return {
        "overshoot": round(float(np.maximum(surge[_SETTLE_EPOCHS_MAX:] - 1, 0).mean()), 4),
        "settle_epochs": float(settled),
        "overshoot_over_5_epochs": round(float(np.maximum(smooth[_SETTLE_EPOCHS_MAX:] - 1, 0).mean()), 4),
        "raw_overshoot": round(_PEAK - 1, 4),
        "mean_after_settling": round(float(surge[_SETTLE_EPOCHS_MAX:].mean()), 4),
    }


def smoothed(shares: Floats, epochs: int = 5) -> Floats:
    """The moving average over five epochs; the shares themselves if there are fewer."""
    if len(shares) < epochs:
        return shares
    return np.convolve(shares, np.full(epochs, 1 / epochs), mode="valid")


def surge_panel(axes: Any, times: Floats, shares: Floats, *, surge_s: tuple[float, float], late: str) -> None:
    """Draw the traffic that arrived, by epoch and averaged over five."""
    axes.plot(times, shares * 100, linewidth=0.8, color="#a6c4dd", label="arrived, by epoch")
    smooth = smoothed(shares)
    axes.plot(times[-len(smooth) :] - 0.4, smooth * 100, linewidth=1.6, color="#4477aa", label="arrived, over 5 epochs")
    axes.axhline(100, color="#117733", linestyle="--", linewidth=1, label="limit (60 KB/s)")
    axes.plot(surge_s, [_PEAK * 100] * 2, color="#bbbbbb", linewidth=2, label="wanted in the surge")
    axes.axvline(sum(surge_s) / 2, color="#cc6677", linestyle=":", linewidth=1, label=late)
    axes.set_ylim(0, max(150, float(shares.max()) * 130))


class _Run:
    """The processes and the receiver of one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._workers = context.integer("nodes")
        port = context.integer("port")
        self._groups = [f"239.77.2.{number + 1}:{port}" for number in range(context.integer("groups"))]
        self._control = f"239.77.2.250:{port}"
        self._aup = Aup(
            limit_bytes_s=float(_LIMIT_BYTES_S),
            epoch_ms=_EPOCH_MS,
            report_fraction=context.number("report_fraction"),
            version=1,
            author="lab",
        )
        self.start_s = self.end_s = 0.0
        self.surge_s = (0.0, 0.0)
        self.traffic: list[tuple[float, float]] = []
        """When each epoch ended, and the traffic that arrived in it, as a share of the limit."""

    def _set_times(self) -> None:
        """Set the times of the run, once all processes are ready."""
        context = self._context
        self.start_s = time.time() + _START_S
        first_s = self.start_s + context.number("before_s")
        self.surge_s = (first_s, first_s + context.number("surge_s"))
        self.end_s = self.surge_s[1] + context.number("after_s")

    def _plan(self, name: str, *, share: float, knows: bool, join_s: float) -> WorkerPlan:
        packets_s = share * _LIMIT_BYTES_S / _PACKET_BYTES
        return WorkerPlan(
            name=name,
            groups=self._groups,
            control=self._control,
            key=_KEY,
            interface=self._context.text("interface"),
            aup=msgspec.to_builtins(self._aup) if knows else {},
            packet_bytes=_PACKET_BYTES,
            join_s=join_s,
            base_packets_s=packets_s * _BASE,
            peak_packets_s=packets_s * _PEAK,
            surge_from_s=self.surge_s[0],
            surge_to_s=self.surge_s[1],
            end_s=self.end_s,
        )

    async def run(self) -> tuple[list[WorkerResult], WorkerResult, int]:
        receiver = MulticastNode(
            self._groups,
            self._aup,
            name="receiver",
            control=self._control,
            key=_KEY.encode(),
            interface=self._context.text("interface"),
        )
        receiver.on_epoch = self._on_epoch
        workers = [await self._start() for _ in range(self._workers + 1)]
        self._set_times()
        self._context.reporter.stage("epochs", total=int((self.end_s - time.time()) * 1000 / _EPOCH_MS))
        # The loudest worker has twice the share of the quietest, so that chance does not decide who is in the domain.
        weights = np.linspace(1.0, 2.0, self._workers)
        middle_s = (self.surge_s[0] + self.surge_s[1]) / 2
        plans = [
            self._plan(f"worker-{number}", share=float(share), knows=True, join_s=0.0)
            for number, share in enumerate(weights / weights.sum())
        ]
        plans.append(self._plan("late", share=0.02, knows=False, join_s=middle_s))
        async with receiver:
            *results, late = await asyncio.gather(*map(self._worker, workers, plans))
            await asyncio.sleep(_EPOCH_MS / 1000)
            return results, late, receiver.counts["received"]

    def _on_epoch(self, seen: Observation) -> None:
        share = float(seen.amounts[0].sum()) / (_LIMIT_BYTES_S * _EPOCH_MS / 1000)
        self.traffic.append((time.time(), share))
        self._context.reporter.advance()

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from penstock.lab.ajil.live.worker import main; main()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        if await process.stdout.readline() != b"ready\n":
            raise ParameterError("a process of the experiment did not start")
        return process

    async def _worker(self, process: Process, plan: WorkerPlan) -> WorkerResult:
        told, _ = await process.communicate(msgspec.json.encode(plan) + b"\n")
        if process.returncode:
            raise ParameterError(f"a process of the experiment ended with {process.returncode}")
        return msgspec.json.decode(told, type=WorkerResult)


def _measure(context: Context) -> Mapping[str, float]:
    run = _Run(context)
    context.reporter.stage("processes start")
    results, late, received = asyncio.run(run.run())
    times, shares = np.array([each[0] for each in run.traffic]), np.array([each[1] for each in run.traffic])
    surge = shares[(times > run.surge_s[0] + _EPOCH_MS / 1000) & (times <= run.surge_s[1])]
    before = shares[(times > run.start_s + 0.4) & (times <= run.surge_s[0])]
    context.figure(lambda figure: _draw(figure, times - run.start_s, shares, run))
    return {
        **settled_figures(surge),
        "lost": sum(each.sent for each in (*results, late)) - received,
        "late_joiner_epochs": round(late.learned_epochs, 2),
        "load_before": round(float(before.mean()), 4),
        "slowed_workers": sum(each.slowed > 0 for each in results),
    }


def _draw(figure: Figure, times: Floats, shares: Floats, run: _Run) -> None:
    axes: Any = figure.add_subplot()
    during = (times >= 0) & (times <= run.end_s - run.start_s)
    first_s, last_s = (each - run.start_s for each in run.surge_s)
    surge_panel(axes, times[during], shares[during], surge_s=(first_s, last_s), late="a worker joins late")
    dress(axes, "A square surge over UDP multicast, epochs of 200 ms", "time (s)", "traffic (% of the limit)")


AJIL_LIVE_MULTICAST: Final = Experiment(
    name="ajil-live-multicast",
    summary="a square surge over real UDP multicast between processes, measured at a receiver",
    source="[Ajil] section 7 (future work: a real testbed)",
    parameters=(
        Parameter("nodes", 4, "processes that send", quick=2, minimum=2, maximum=50),
        Parameter("groups", 8, "multicast groups", quick=3, minimum=1, maximum=200),
        Parameter("report_fraction", 0.2, "c: reports as a share of packets", minimum=0.001, maximum=1.0),
        Parameter("before_s", 4.0, "seconds before the surge", quick=1.0, minimum=0.5),
        Parameter("surge_s", 12.0, "seconds of the surge", quick=4.0, minimum=3.0),
        Parameter("after_s", 3.0, "seconds after it", quick=0.5, minimum=0.4),
        Parameter("interface", "lo", "the network interface"),
        Parameter("port", 7790, "UDP port of all groups", minimum=1024, maximum=65535),
    ),
    published={"overshoot": "at most 0.05 (ours)", "lost": 0},
    run=_measure,
)
