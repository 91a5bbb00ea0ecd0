"""The lab's experiments by paper, each list in the order in which to read them."""

from __future__ import annotations

from typing import Final

from penstock.lab.ajil.beyond import AJIL_HARD, AJIL_PRIORITY
from penstock.lab.ajil.domain import AJIL_DOMAIN, AJIL_FAIRNESS, AJIL_POLICY
from penstock.lab.ajil.live.multicast import AJIL_LIVE_MULTICAST
from penstock.lab.ajil.live.overlay import AJIL_LIVE_OVERLAY
from penstock.lab.ajil.staleness import AJIL_SCALE, AJIL_STALENESS
from penstock.lab.ajil.waves import AJIL_RAMP, AJIL_SQUARE
from penstock.lab.balancing.clusters import BALANCING_CLUSTERS, BALANCING_GLOBAL
from penstock.lab.balancing.estimation import BALANCING_ESTIMATION
from penstock.lab.balancing.live.experiment import BALANCING_LIVE
from penstock.lab.balancing.local import BALANCING_LOCAL
from penstock.lab.balancing.publishers import BALANCING_PUBLISHERS
from penstock.lab.balancing.scale import BALANCING_EDGES, BALANCING_THRESHOLD
from penstock.lab.delivery.chaos import DELIVERY_CHAOS
from penstock.lab.delivery.kill9.experiment import DELIVERY_KILL9
from penstock.lab.failover.experiment import FAILOVER_KILL9
from penstock.lab.gryphon.collapse import COLLAPSE_BANDWIDTH, COLLAPSE_RECOVERY
from penstock.lab.gryphon.cpu import BUSY_PHB, SLOW_SHB
from penstock.lab.gryphon.e1 import E1, E1_WINDOW
from penstock.lab.gryphon.e2 import E2
from penstock.lab.gryphon.e3 import E3
from penstock.lab.gryphon.e4 import E4
from penstock.lab.gryphon.live.experiment import GRYPHON_E1_LIVE, GRYPHON_E2_LIVE
from penstock.lab.gryphon.scale import SCALE
from penstock.lab.matching.scale import MATCHING_SCALE
from penstock.lab.stomp.experiment import STOMP_KILL9
from penstock.lab.token.concurrency import TOKEN_CONCURRENCY
from penstock.lab.token.intervals import TOKEN_INTERVALS
from penstock.lab.token.live.experiment import TOKEN_LIVE
from penstock.lab.token.loss import TOKEN_LOSS
from penstock.lab.token.scale import TOKEN_SCALE
from penstock.lab.token.shipping import TOKEN_SHIPPING
from penstock.lab.token.video import TOKEN_VIDEO
from penstock.lab.tracking.accuracy import TRACKING_ACCURACY
from penstock.lab.tracking.latency import TRACKING_LATENCY
from penstock.lab.tracking.search import TRACKING_SEARCH
from penstock.lab.tracking.storage import TRACKING_STORAGE
from penstock.lab.tracking.truth import TRACKING_TRUTH
from penstock.lab.work.experiment import WORK_KILL9

__all__ = ["AJIL", "BALANCING", "CONGESTION", "DELIVERY", "GRYPHON", "MATCHING", "TOKEN", "TRACKING"]

MATCHING: Final = (MATCHING_SCALE,)
DELIVERY: Final = (DELIVERY_CHAOS, DELIVERY_KILL9, WORK_KILL9, STOMP_KILL9, FAILOVER_KILL9)
GRYPHON: Final = (COLLAPSE_BANDWIDTH, COLLAPSE_RECOVERY, E1, E1_WINDOW, E2, E3, E4, GRYPHON_E1_LIVE, GRYPHON_E2_LIVE)
CONGESTION: Final = (SLOW_SHB, BUSY_PHB, SCALE)
"""Our own congestion experiments, on the paper's overlays."""
BALANCING: Final = (
    BALANCING_LOCAL,
    BALANCING_PUBLISHERS,
    BALANCING_ESTIMATION,
    BALANCING_EDGES,
    BALANCING_THRESHOLD,
    BALANCING_GLOBAL,
    BALANCING_CLUSTERS,
    BALANCING_LIVE,
)
TRACKING: Final = (TRACKING_ACCURACY, TRACKING_STORAGE, TRACKING_LATENCY, TRACKING_SEARCH, TRACKING_TRUTH)
TOKEN: Final = (TOKEN_CONCURRENCY, TOKEN_INTERVALS, TOKEN_LOSS, TOKEN_SCALE, TOKEN_VIDEO, TOKEN_LIVE, TOKEN_SHIPPING)
AJIL: Final = (
    AJIL_RAMP,
    AJIL_SQUARE,
    AJIL_DOMAIN,
    AJIL_STALENESS,
    AJIL_FAIRNESS,
    AJIL_POLICY,
    AJIL_SCALE,
    AJIL_PRIORITY,
    AJIL_HARD,
    AJIL_LIVE_MULTICAST,
    AJIL_LIVE_OVERLAY,
)
