from __future__ import annotations

import numpy as np

from penstock.ajil import Aup
from penstock.lab.ajil.world import AjilWorld, Shape

SMALL = Shape(nodes=20, groups=20, members=5)


def test_below_the_limit_everything_that_is_wanted_is_sent() -> None:
    world = AjilWorld(SMALL, Aup(limit_bytes_s=600_000), seed=1)
    for _ in range(5):
        world.run(400_000)
    assert world.tape.sent == world.tape.wanted


def test_above_the_limit_traffic_comes_down_to_it() -> None:
    world = AjilWorld(SMALL, Aup(limit_bytes_s=600_000, report_fraction=0.1), seed=1)
    for _ in range(30):
        world.run(750_000)
    assert np.mean(world.tape.sent[15:]) < 630_000
    assert np.mean(world.tape.wanted[15:]) > 700_000


def test_one_seed_is_one_history() -> None:
    tapes = []
    for _ in range(2):
        world = AjilWorld(SMALL, Aup(limit_bytes_s=600_000), seed=7)
        for _ in range(8):
            world.run(750_000)
        tapes.append(world.tape)
    assert tapes[0] == tapes[1]
    other = AjilWorld(SMALL, Aup(limit_bytes_s=600_000), seed=8)
    other.run(750_000)
    assert other.tape.sent[0] != tapes[0].sent[0]


def test_every_group_has_members_and_every_member_a_channel() -> None:
    world = AjilWorld(SMALL, Aup(limit_bytes_s=600_000), seed=3)
    assert np.bincount(world.channel_group, minlength=20).min() >= 2
    assert sum(len(node.channels) for node in world.nodes) == len(world.channel_group)


def test_a_hard_limit_holds_though_announcements_get_lost() -> None:
    shape = Shape(nodes=20, groups=20, members=5, loss=0.05)
    world = AjilWorld(shape, Aup(limit_bytes_s=600_000, mode="hard", hard_share=0.97), seed=1)
    for epoch in range(30):
        world.run(750_000 if epoch > 10 else 400_000)
    assert max(world.tape.sent) <= 600_000
    assert world.tape.sent[-1] > 500_000


def test_channels_can_be_counted_anew() -> None:
    world = AjilWorld(SMALL, Aup(limit_bytes_s=600_000), seed=1)
    world.run(400_000)
    world.forget_channels()
    world.run(300_000)
    assert abs(world.wanted_by_channel.sum() - 300_000) < 30_000
