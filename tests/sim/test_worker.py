"""Simulated workers say of every message what a real one might, and keep a record of it."""

from __future__ import annotations

from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.work import Shared
from penstock.sim.wire import LinkOptions
from penstock.sim.worker import GroupPlan, Job, Worker
from penstock.sim.world import World


class Shop:
    """One broker with a guaranteed pubend, one worker and one publisher."""

    def __init__(self) -> None:
        self.world = World("shop")
        self.world.add_overlay([("b1", "b2")], guaranteed=True)
        self.jobs: list[Job] = []
        surroundings = self.world.surroundings
        overlay = self.world.broker("b1").settings.overlay
        self.worker = Worker("work-0", surroundings, place="b1", overlay=overlay, on_job=self.jobs.append)
        self.world.admit(self.worker, LinkOptions())
        self.plan = GroupPlan(Shared("g", work_ms=2_000, prefetch=100), "", 0)
        self.worker.join(self.plan)
        self.publisher = self.world.add_client("pub", "b2")
        assert self.world.run_until_ready()

    def publish(self, count: int) -> None:
        for number in range(count):
            self.publisher.publish({"number": number})


def test_a_careful_worker_acknowledges_everything_once() -> None:
    shop = Shop()
    shop.worker.be_careful()
    shop.publish(30)
    shop.world.run_for(3_000)
    assert len({(job.message.pubend, job.message.tick) for job in shop.jobs}) == len(shop.jobs) == 30
    said = [said for job in shop.jobs for _, said in job.said]
    assert [each.verdict for each in said] == [Verdict.DONE] * 30
    assert {each.outcome for each in said} == {Outcome.KEPT}
    assert len(shop.worker.identities) == 1


def test_other_workers_refuse_extend_and_forget_some() -> None:
    shop = Shop()
    shop.publish(200)
    shop.world.run_for(30_000)
    verdicts = {said.verdict for job in shop.jobs for _, said in job.said}
    assert verdicts == {Verdict.DONE, Verdict.REFUSED, Verdict.EXTENDED}
    assert any(not job.said for job in shop.jobs)
    assert any(job.message.attempt > 1 for job in shop.jobs)
    assert any(job.has_said(Verdict.REFUSED) for job in shop.jobs)


def test_a_worker_that_stalls_says_nothing_meanwhile() -> None:
    shop = Shop()
    shop.worker.be_careful()
    shop.worker.stall(1_000)
    shop.publish(5)
    shop.world.run_for(900)
    assert len(shop.jobs) == 5
    assert not any(job.said for job in shop.jobs)
    shop.world.run_for(1_000)
    assert all(job.said for job in shop.jobs)


def test_a_slow_worker_reads_one_after_the_other_and_is_given_more_time_for_the_rest() -> None:
    shop = Shop()
    shop.worker.is_slow = True
    shop.publish(30)
    shop.world.run_for(500)
    assert len(shop.jobs) < 30
    shop.worker.stall(5_000)
    before = len(shop.jobs)
    shop.world.run_for(4_000)
    assert len(shop.jobs) == before
    assert shop.worker.extended_us, "the session has asked for more time meanwhile"
    shop.world.run_for(120_000)
    assert len({job.message.tick for job in shop.jobs}) == 30
    assert shop.worker.read_late > 0


def test_a_slow_worker_that_becomes_careful_reads_everything_at_once() -> None:
    shop = Shop()
    shop.worker.is_slow = True
    shop.publish(30)
    shop.world.run_for(100)
    shop.worker.be_careful()
    assert len(shop.jobs) == 30


def test_a_clumsy_worker_refuses_more_than_others() -> None:
    refused = []
    for is_clumsy in (False, True):
        shop = Shop()
        shop.worker.is_clumsy = is_clumsy
        shop.publish(100)
        shop.world.run_for(5_000)
        refused.append(sum(job.has_said(Verdict.REFUSED) for job in shop.jobs))
    assert refused[1] > 2 * refused[0]


def test_a_worker_whose_group_was_forgotten_is_told_and_joins_it_again() -> None:
    shop = Shop()
    (number,) = shop.worker.wanted
    member = shop.worker.member(number)
    assert shop.worker.confirmed_us(member, "b1-pubend") is not None
    shop.publisher.forget("g")
    shop.world.run_for(100)
    assert not shop.worker.is_member(number)
    assert shop.worker.confirmed_us(member, "b1-pubend") is None
    shop.world.run_for(10_000)
    assert shop.worker.is_ready
    (again,) = shop.worker.wanted
    assert shop.worker.is_member(again)
    assert shop.worker.member(again) != member


def test_a_worker_that_left_or_died_is_a_member_no_more_and_comes_back_as_another() -> None:
    shop = Shop()
    (number,) = shop.worker.wanted
    assert shop.worker.is_member(number)
    shop.worker.quit(number)
    assert not shop.worker.is_member(number)
    shop.worker.join(shop.plan)
    shop.world.run_for(1_000)
    shop.worker.die(loud=True)
    assert [*shop.worker.left_us] == [1, 2]
    shop.world.place("work-0", "b2")
    shop.worker.join(shop.plan)
    shop.world.run_for(2_000)
    assert shop.worker.is_ready
    assert len(shop.worker.identities) == 3
