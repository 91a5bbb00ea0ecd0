"""Offload instances, made by hand or at random."""

from __future__ import annotations

from random import Random

import numpy as np

from penstock.balancing.detection import Triggers
from penstock.balancing.estimators import Figures
from penstock.balancing.offload import Coverage, Interest, Offload, Profile
from penstock.balancing.press import Press
from penstock.balancing.settings import BalancingSettings
from penstock.model.values import AttributeValue
from penstock.selectors.selector import Selector

SETTINGS = BalancingSettings()
SAMPLES = 50
MESSAGE_BYTES = 200.0


def random_work(
    seed: int, *, settings: BalancingSettings = SETTINGS, is_overload: bool = False, interests: int = 25
) -> tuple[Offload, Coverage]:
    """Quotes of a few companies: two brokers of different power, the first one with more subscribers."""
    rng = Random(seed)
    texts = list(dict.fromkeys(_interest(rng) for _ in range(interests)))
    made = []
    for place, text in enumerate(texts):
        count = rng.choice((1, 1, 1, 2, 5, 30))
        connections = tuple(range(place * 100, place * 100 + count))
        made.append(Interest(text, connections, rng.random() < 0.1, 1, (Selector.parse(text),)))
    partner = [Selector.parse(_interest(rng)) for _ in range(rng.randrange(5))]
    press = Press(len(made), samples_max=SAMPLES)
    for _ in range(SAMPLES):
        publication: dict[str, AttributeValue] = {
            "class": "STOCK",
            "symbol": rng.choice("ABCD"),
            "volume": rng.randrange(100),
        }
        matched = np.flatnonzero([each.selectors[0].matches(publication) for each in made])
        press.record(matched, is_covered=any(each.matches(publication) for each in partner))
    rate = rng.uniform(5, 40)
    profile = Profile(made, press, MESSAGE_BYTES)
    everybody = press.wanted(np.ones(len(made), np.bool_))
    rate_here = rate * press.share_of(everybody)
    profile = Profile(made, press, MESSAGE_BYTES, rate)
    count = sum(len(each.subscribers) + each.stays for each in made)
    output = float((press.rates(rate) * [len(each.subscribers) + each.stays for each in made]).sum()) * MESSAGE_BYTES
    host = Figures(
        rate_here, count, output, output / rng.uniform(0.1, 0.9) + 1, 0.0, 0.8 / count / max(rate_here, 1.0), 0.5, 0.3
    )
    partner_rate = rate * press.share_of(press.css)
    other = Figures(
        partner_rate,
        rng.randrange(count),
        rng.uniform(0, output),
        2 * output / rng.uniform(0.5, 0.9) + 1,
        0.0,
        host.delay_slope_s * rng.uniform(0.1, 1.0),
        0.3,
        0.2,
    )
    work = Offload(profile, host, other, settings, Triggers.local(settings), is_overload=is_overload)
    return work, Coverage(made, [one for each in partner for one in each.conjunctions])


def _interest(rng: Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return f"class = 'STOCK' AND symbol = '{rng.choice('ABCD')}'"
    if kind == 1:
        return f"class = 'STOCK' AND volume > {rng.randrange(100)}"
    if kind == 2:
        return f"class = 'STOCK' AND symbol = '{rng.choice('ABCDZ')}' AND volume > {rng.randrange(100)}"
    return "class = 'STOCK'" if rng.random() < 0.3 else f"class = 'STOCK' AND symbol = 'none-{rng.randrange(99)}'"
