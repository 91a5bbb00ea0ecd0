"""Profiles for tests, made by plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from penstock.model.values import Attributes
from penstock.pipeline.profile.bits import bits_of
from penstock.pipeline.profile.model import AttributeUse, Profile, ProfiledSubscription, Window
from penstock.selectors.selector import Selector
from penstock.sim.workloads import QuoteWorkload

SIZE = 200


def profile_of(wanted: Sequence[tuple[str, str]], messages: Sequence[Attributes], *, rate: float = 10.0) -> Profile:
    """The profile of subscriptions, each a broker and a selector, over messages of equal size."""
    numbers: dict[str, int] = {}
    subscriptions = []
    for place, (broker, text) in enumerate(wanted):
        number = numbers.setdefault(str(Selector.parse(text)), len(numbers))
        subscriptions.append(ProfiledSubscription(broker, place, f"s{place}", is_durable=False, selector=number))
    parsed = [Selector.parse(text) for text in numbers]
    matches = [[number for number, each in enumerate(parsed) if each.matches(message)] for message in messages]
    counts = np.bincount(np.array([each for some in matches for each in some], np.int64), minlength=len(parsed))
    bits = bits_of(len(parsed), [np.array(some, np.uint32).tobytes() for some in matches])
    count = len(messages)
    window = Window(0, round(1000 * count / rate), count, SIZE * count, count)
    counts = counts.astype(np.int64)
    uses = [AttributeUse("class", count, 1, len(wanted))]
    return Profile("lake", window, list(numbers), counts, counts * SIZE, bits, subscriptions, uses)


def quote_profile(
    seed: int, subscriptions: int, *, silent: int = 0, messages: int = 400, broker: str = "B1"
) -> Profile:
    """Quotes and those who want them, all at one broker; some of them want nothing that there is."""
    workload = QuoteWorkload(Random(seed), days=100)
    texts = [*workload.subscriptions(subscriptions), *(f"symbol = 'no {place}'" for place in range(silent))]
    return profile_of([(broker, text) for text in texts], workload.sample(messages), rate=20.0)
