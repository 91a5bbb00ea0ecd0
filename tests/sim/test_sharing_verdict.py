"""The judge of work queues finds each breach of its laws, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.broker import Broker
from penstock.broker.pubend.dead_letters import dead_letter
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.received import HandedOut
from penstock.session.work import Said, Shared
from penstock.sim.sharing_verdict import SharingCourt
from penstock.sim.wire import LinkOptions
from penstock.sim.worker import GroupPlan, Job, Worker
from penstock.sim.world import World
from penstock.work.group import Group
from penstock.work.ledger import Ledger, State, Task

PLAN = GroupPlan(Shared("g", shared_by="symbol", work_ms=2_000, prefetch=5), "volume > 5", 0)
PUBEND = "b1-pubend"


def body(number: int, volume: int = 10) -> bytes:
    return encode_body(MessageId(1, 2, 3, number), Message({"symbol": "ACME", "volume": volume}))


def job(tick: int, attempt: int = 1, worker: str = "work-0", volume: int = 10) -> Job:
    return Job(worker, 1, PLAN, HandedOut(PUBEND, tick, body(tick, volume), attempt=attempt), 0)


def say(told: Job, verdict: Verdict, outcome: Outcome | None) -> Job:
    told.said.append((0, Said(told.message, verdict, outcome=outcome)))
    return told


class Trial:
    """A world with one broker, in which a worker does what it is handed, and a judge that watches it."""

    def __init__(self) -> None:
        self.world = World("trial")
        self.world.add_overlay([("b1", "b2")], settings={}, guaranteed=True)
        self.broker = self.world.broker("b1")
        self.broker.disk.journal = []
        self.court = SharingCourt([PLAN])
        self.broker.watch = self.court.look_at
        overlay = self.broker.settings.overlay
        self.worker = Worker("work-0", self.world.surroundings, place="b1", overlay=overlay, on_job=self.court.on_job)
        self.court.workers[self.worker.name] = self.worker
        self.worker.be_careful()
        self.world.admit(self.worker, LinkOptions())
        self.worker.join(PLAN)
        self.publisher = self.world.add_client("pub", "b1")
        assert self.world.run_until_ready()
        self.court.note_in_force("g", PUBEND, self.broker)

    def group(self) -> Group:
        core = self.broker.core
        assert isinstance(core, Broker)
        return core.work.home.groups[PUBEND, "g"]

    def work(self, count: int = 6) -> None:
        for number in range(count):
            self.publisher.publish({"symbol": "ACME", "volume": 10, "number": number}, b"", PUBEND)
        self.world.run_for(5_000)

    def judge(self) -> list[str]:
        acknowledged = [each.body for each in self.publisher.published if each.acked_us is not None]
        return self.court.judge([self.broker], acknowledged).problems


def test_where_everything_is_done_there_is_nothing_to_say() -> None:
    trial = Trial()
    trial.work()
    assert trial.judge() == []
    assert trial.court.unrest([trial.broker]) == ""
    assert trial.court.figures.is_sound
    assert trial.court.figures.acknowledged == trial.court.figures.delivered == 6
    assert trial.court.counts["keys_waited"] == 5


def test_an_attempt_that_two_applications_see_is_a_breach() -> None:
    court = SharingCourt([PLAN])
    court.on_job(job(1))
    court.on_job(job(1, attempt=2, worker="work-1"))
    assert court.figures.is_sound
    court.on_job(job(1, worker="work-1"))
    assert court.figures.duplicated == 1


def test_a_message_that_was_not_selected_is_a_breach() -> None:
    court = SharingCourt([PLAN])
    court.on_job(job(1, volume=1))
    assert court.figures.wrongly_filtered == 1


def test_a_message_that_two_members_have_done_is_a_breach() -> None:
    court = SharingCourt([PLAN])
    for told in (job(1), job(1, attempt=2, worker="work-1")):
        court.on_job(say(told, Verdict.DONE, Outcome.KEPT))
    court.judge([], [])
    assert court.figures.duplicated == 1


@pytest.mark.parametrize(("outcome", "lost"), [(Outcome.LOST, 1), (Outcome.UNKNOWN, 0), (None, 0)])
def test_a_message_that_nobody_has_done_is_a_breach_unless_an_answer_was_lost(
    outcome: Outcome | None, lost: int
) -> None:
    trial = Trial()
    trial.work(1)
    (told,) = trial.court.jobs
    told.said[0][1].outcome = outcome
    trial.judge()
    assert trial.court.figures.lost == lost
    assert trial.court.counts["answers_lost"] == 1 - lost


def test_a_message_that_was_acknowledged_and_never_stored_is_a_breach() -> None:
    trial = Trial()
    trial.court.judge([trial.broker], [body(1)])
    assert trial.court.figures.lost == 1


def test_a_message_that_is_taken_from_its_holder_too_early_is_a_breach() -> None:
    trial = Trial()
    trial.worker.stall(100_000)
    trial.work(1)
    core = trial.broker.core
    assert isinstance(core, Broker)
    (group,) = [each for (pubend, _), each in core.work.home.groups.items() if pubend == PUBEND]
    assert trial.court.figures.is_sound
    task = next(group.ledger.undone_tasks())
    assert task.state is State.HELD
    task.state = State.READY
    group.counts["refused"] += 1
    trial.court.look_at(trial.broker)
    assert trial.court.figures.duplicated == 1
    assert "is taken from its holder" in trial.court.figures.problems[0]
    assert "are not done" in trial.court.unrest([trial.broker])


def test_a_message_that_counts_as_a_dead_letter_before_there_is_one_is_a_breach() -> None:
    trial = Trial()
    trial.worker.stall(100_000)
    trial.work(1)
    group = trial.group()
    task = next(group.ledger.undone_tasks())
    task.state, task.number = State.DYING, 1
    group.counts["refused"] += 1
    trial.court.look_at(trial.broker)
    assert not any("dead letter" in problem for problem in trial.court.figures.problems)
    task.state = State.DONE
    group.counts["dead"] += 1
    trial.court.look_at(trial.broker)
    assert "is done as a dead letter, which is not durable" in trial.court.figures.problems[-1]


def test_a_dead_letter_is_as_good_as_an_acknowledgement_but_not_both_and_not_twice() -> None:
    trial = Trial()
    trial.work(1)
    (told,) = trial.court.jobs
    task = Task(told.message.tick, attempts=1, history=("attempt 1: refused",), body=told.message.body)
    letter = dead_letter(PUBEND, "g", task)
    trial.broker.apply(replace(trial.broker.settings, dead_letters="dead"))
    assert trial.broker.disk.journal is not None
    trial.broker.disk.journal.append(("dead", 1, letter))
    trial.court.dead_host = trial.broker
    group = trial.group()
    done = group.ledger.tasks[task.tick]
    done.number = 1
    trial.court._give_up(("g", PUBEND, group.ledger.made, task.tick), done, 0)
    assert trial.court.figures.is_sound
    assert any("is done by work-0 and a dead letter" in problem for problem in trial.judge())
    trial.broker.disk.journal.append(("dead", 2, letter))
    assert any("has 2 dead letters, and was given up 1 times" in problem for problem in trial.judge())


def test_a_message_that_is_handed_out_after_it_has_expired_is_a_breach() -> None:
    trial = Trial()
    trial.work(1)
    assert trial.court.figures.is_sound
    trial.publisher.publish({"symbol": "ACME", "volume": 10}, b"", PUBEND, 1e-3)
    trial.world.run_for(1_000)
    assert trial.court.figures.is_sound
    assert len(trial.court.jobs) == 1
    trial.judge()
    assert trial.court.counts["work_expired"] == 1


def test_a_group_that_comes_back_without_being_forgotten_is_a_breach() -> None:
    trial = Trial()
    trial.work(1)
    trial.publisher.forget("g")
    trial.world.run_for(20_000)
    trial.court.note_in_force("g", PUBEND, trial.broker)
    assert trial.court.counts["groups_made_anew"] == 1
    assert ["though nobody has forgotten it" in problem for problem in trial.court.figures.problems] == [True]


def test_a_group_that_was_forgotten_may_be_made_anew_once_and_is_owed_everything_again() -> None:
    trial = Trial()
    trial.work(3)
    trial.court.askers.append(trial.publisher)
    trial.publisher.forget("g")
    trial.world.run_for(20_000)
    trial.court.note_in_force("g", PUBEND, trial.broker)
    trial.work(2)
    assert trial.judge() == []
    assert trial.court.counts["groups_forgotten"] == 1


def test_a_group_that_comes_back_for_a_member_that_belonged_to_it_is_a_breach() -> None:
    trial = Trial()
    trial.world.run_for(60_000)
    core = trial.broker.core
    assert isinstance(core, Broker)
    groups = core.work.home._groups
    group = groups.pop((PUBEND, "g"))
    trial.court.look_at(trial.broker)
    assert trial.court.figures.is_sound
    again = Group(Ledger(group.terms, "", 0, group.ledger.made + 1), now_ms=0)
    again.members.update(group.members)
    groups[PUBEND, "g"] = again
    trial.court.look_at(trial.broker)
    assert "comes back for a member that belonged to it" in trial.court.figures.problems[-1]
