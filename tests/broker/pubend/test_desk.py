"""What a pubend answers hosts: where to begin, who owns a durable name, and nothing before it is durable."""

from __future__ import annotations

import pytest

from overlay import Overlay
from penstock.broker.access import Access, Rule
from penstock.broker.claims import Claims
from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.durable import RecoveredPubend, SetValue
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.desk import Answer, PubendDesk
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Named, Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings, SettingsInForce
from penstock.model.tick import tick_at
from penstock.protocol.frames import Missing, WorkAsk
from penstock.protocol.stream_frames import (
    LATEST,
    DurableEntry,
    StreamForget,
    StreamForgotten,
    StreamList,
    StreamListed,
    StreamOpen,
    StreamOpened,
    StreamSettle,
    StreamSettled,
    StreamTaken,
)
from penstock.protocol.work_frames import DEAD_LETTERS

WORD = "token"
NOW_MS = 1_000_000
END = tick_at(NOW_MS)
"""The last tick of the pubend's log."""
OLDEST = tick_at(NOW_MS - 500)
"""Below it the log was trimmed."""


def no_dead_letters(logs: dict[str, PubendLog]) -> DeadLetters:
    return DeadLetters("pb", logs, publish=lambda *_: None, send=lambda _: None)


class Office:
    """The desk of a pubend that has existed for a while, with what it has said and what is durable."""

    def __init__(
        self,
        values: dict[str, bytes] | None = None,
        access: Access | None = None,
        *,
        dead_letters: str = "",
        others: tuple[str, ...] = (),
    ) -> None:
        pubends = ("p", *others)
        chosen = BrokerSettings("pb", pubends=pubends, access=access or Access(), dead_letters=dead_letters)
        settings = SettingsInForce.of(chosen)
        self.settings = settings
        former = RecoveredPubend(lease=END, last_tick=END, first_tick=OLDEST, trimmed_below=OLDEST)
        self.log = PubendLog("p", settings, former)
        self.values = values if values is not None else {}
        self.commits = Commits()
        self.register = Register("p", dict(self.values))
        logs, registers = {"p": self.log}, {"p": self.register}
        logs |= {name: PubendLog(name, settings, former) for name in others}
        registers |= {name: Register(name, {}) for name in others}
        self.work = WorkHome(settings, Connections(settings), logs, registers, self.commits, {}, no_dead_letters(logs))
        self.desk = PubendDesk(settings, logs, registers, self.commits, self.work)

    def sync(self) -> list[Answer]:
        """Makes everything durable that waits for it; what is said then."""
        commit = self.commits.take()
        if commit is None:
            return []
        for change in commit.changes:
            assert isinstance(change, SetValue)
            if change.value is None:
                self.values.pop(change.name, None)
            else:
                self.values[change.name] = change.value
        self.commits.on_committed(commit.number)
        return self.desk.on_committed(commit.number)

    def open(self, tick: int = LATEST, missing: Missing = "fail", *, resumes: bool = False) -> Answer:
        """Asks for a subscription that is not durable."""
        _, (answer,) = self.desk.open(StreamOpen("p", "sb", 1, tick, missing, resumes=resumes), now_ms=NOW_MS)
        return answer

    def claim(self, ownership: int, host: str = "sb", ticket: int = 1, **wishes: object) -> list[Answer]:
        """Claims the name D and makes that durable; what is said by then."""
        wishes = {"tick": LATEST, "missing": "fail"} | wishes
        frame = StreamOpen("p", host, ticket, durable="D", ownership=ownership, **wishes)  # type: ignore[arg-type]
        _, answers = self.desk.open(frame, now_ms=NOW_MS)
        return answers + self.sync()

    @property
    def named(self) -> Named | None:
        return self.register.get("D")


# --- where to begin


@pytest.mark.parametrize(
    ("tick", "begins"), [(LATEST, END + 1), (0, OLDEST), (OLDEST, OLDEST), (OLDEST + 7, OLDEST + 7), (END + 1, END + 1)]
)
def test_a_subscription_begins_where_it_wants_if_that_is_kept(tick: int, begins: int) -> None:
    assert Office().open(tick) == StreamOpened("p", "sb", 1, begins)


@pytest.mark.parametrize("missing", ["fail", "earliest", "latest"])
def test_the_policy_does_not_matter_where_nothing_is_missing(missing: Missing) -> None:
    assert Office().open(OLDEST + 7, missing) == StreamOpened("p", "sb", 1, OLDEST + 7)


@pytest.mark.parametrize(("missing", "begins"), [("earliest", OLDEST), ("latest", END + 1)])
def test_where_something_is_missing_the_policy_decides(missing: Missing, begins: int) -> None:
    assert Office().open(OLDEST - 1, missing) == StreamOpened("p", "sb", 1, begins)


def test_what_is_not_kept_is_refused_and_the_oldest_is_named() -> None:
    answer = Office().open(OLDEST - 1)
    assert isinstance(answer, StreamOpened)
    assert answer.problem.startswith(f"position {OLDEST - 1} (")
    assert f"of pubend p is not kept any more; the oldest available is {OLDEST} (" in answer.problem


def test_who_resumes_is_told_later_what_is_lost() -> None:
    assert Office().open(OLDEST - 1, resumes=True) == StreamOpened("p", "sb", 1, OLDEST - 1)


@pytest.mark.parametrize("missing", ["fail", "earliest", "latest"])
def test_the_future_is_refused(missing: Missing) -> None:
    answer = Office().open(tick_at(NOW_MS + 3_600_000), missing)
    assert isinstance(answer, StreamOpened)
    assert answer.problem.endswith("of pubend p is in the future")


def test_what_is_not_durable_is_answered_at_once_and_leaves_nothing() -> None:
    office = Office()
    office.open()
    assert office.commits.take() is None
    assert len(office.register) == 0


# --- where the stored position is damaged


def test_who_comes_back_to_a_damaged_position_is_told_so_and_the_name_stays() -> None:
    office = Office({"durable/p/D": b""})
    (answer,) = office.claim(10)
    assert isinstance(answer, StreamOpened)
    assert "durable subscription 'D' at pubend p is damaged on its disk: forget the name, or" in answer.problem
    assert office.named == Named(0, 0, "", is_damaged=True)
    assert Register("p", office.values).get("D") == office.named


@pytest.mark.parametrize("missing", ["earliest", "latest"])
def test_a_damaged_position_may_be_given_up_for_the_oldest_kept_message(missing: Missing) -> None:
    office = Office({"durable/p/D": b""})
    assert office.claim(10, missing=missing) == [StreamOpened("p", "sb", 1, OLDEST, 10)]
    assert office.named == Named(OLDEST, 10, "sb")
    assert Register("p", office.values).get("D") == office.named


def test_a_client_that_knows_its_own_position_resumes_there_after_damage() -> None:
    office = Office({"durable/p/D": b""})
    assert office.claim(10, tick=OLDEST + 7, resumes=True) == [StreamOpened("p", "sb", 1, OLDEST + 7, 10)]
    assert office.named == Named(OLDEST + 7, 10, "sb")


def test_a_position_that_a_host_reports_mends_a_damaged_one() -> None:
    office = Office({"durable/p/D": b""})
    assert office.desk.move("p", "D", 10, OLDEST + 7, "sb", now_ms=NOW_MS) == []
    (change,) = office.desk.changes()
    assert change.value is not None
    assert office.named == Register("p", {change.name: change.value}).get("D") == Named(OLDEST + 7, 10, "sb")


def test_a_damaged_name_can_be_forgotten() -> None:
    office = Office({"durable/p/D": b""})
    office.desk.forget(StreamForget("p", "sb", 2, "D"))
    assert StreamForgotten("p", "sb", 2, existed=True) in office.sync()
    assert office.named is None


# --- claims


def test_a_first_claim_is_answered_when_it_is_durable() -> None:
    office = Office()
    answered = office.desk.open(StreamOpen("p", "sb", 4, LATEST, "fail", "D", 10), now_ms=NOW_MS)
    assert answered == (END + 1, [])
    assert office.sync() == [StreamOpened("p", "sb", 4, END + 1, 10, is_new=True)]
    assert office.named == Named(END + 1, 10, "sb")
    assert Office(office.values).named == Named(END + 1, 10, "sb")


def test_what_was_not_durable_is_not_known_after_a_crash() -> None:
    office = Office()
    office.desk.open(StreamOpen("p", "sb", 4, LATEST, "fail", "D", 10), now_ms=NOW_MS)
    assert Office(office.values).named is None


def test_a_claim_that_cannot_begin_leaves_nothing() -> None:
    office = Office()
    (answer,) = office.claim(10, tick=OLDEST - 1)
    assert isinstance(answer, StreamOpened)
    assert "not kept any more" in answer.problem
    assert office.named is None
    assert office.values == {}


def test_a_higher_claim_takes_a_name_over_where_it_is_and_ends_the_former_owner() -> None:
    office = Office()
    office.claim(10, tick=OLDEST)
    office.desk.move("p", "D", 10, OLDEST + 5, "sb", now_ms=NOW_MS)
    said = office.claim(11, "tb", 2)
    assert said == [StreamOpened("p", "tb", 2, OLDEST + 5, 11), StreamTaken("p", "sb", "D", 11)]
    assert office.named == Named(OLDEST + 5, 11, "tb")


@pytest.mark.parametrize("ownership", [0, 9])
def test_a_claim_that_is_lower_learns_the_number_that_it_has_to_beat(ownership: int) -> None:
    office = Office()
    office.claim(10)
    (answer,) = office.claim(ownership, "tb", 2)
    assert isinstance(answer, StreamOpened)
    assert (answer.claimed, answer.held) == (ownership, 10)
    assert office.named == Named(END + 1, 10, "sb")
    said = office.claim(11, "tb", 2)
    assert said[0] == StreamOpened("p", "tb", 2, END + 1, 11)


def test_a_repeated_question_gets_the_same_answer_and_ends_nobody() -> None:
    office = Office()
    first = office.claim(10)
    office.log.last_tick += 1_000
    again = office.claim(10)
    assert again == first


def test_a_known_name_goes_on_where_it_was_whatever_is_asked_for() -> None:
    for tick in (LATEST, 0, OLDEST + 9, tick_at(NOW_MS + 3_600_000)):
        office = Office()
        office.claim(10, ticket=9, tick=OLDEST + 5)
        assert office.claim(11, tick=tick)[0] == StreamOpened("p", "sb", 1, OLDEST + 5, 11)


@pytest.mark.parametrize(("tick", "begins"), [(OLDEST + 9, OLDEST + 9), (OLDEST + 2, OLDEST + 5), (LATEST, OLDEST + 5)])
def test_who_resumes_a_known_name_begins_where_it_is_if_that_is_ahead(tick: int, begins: int) -> None:
    office = Office()
    office.claim(10, ticket=9, tick=OLDEST + 5)
    assert office.claim(11, tick=tick, resumes=True)[0] == StreamOpened("p", "sb", 1, begins, 11)


@pytest.mark.parametrize("missing", ["earliest", "latest"])
def test_a_known_name_whose_position_was_given_up_goes_on_there_and_is_told_what_is_lost(missing: Missing) -> None:
    office = Office()
    office.claim(10, ticket=9, tick=OLDEST + 5)
    office.log.trim(OLDEST + 9)
    assert office.claim(12, missing=missing)[0] == StreamOpened("p", "sb", 1, OLDEST + 5, 12)


def test_a_new_life_of_a_known_name_may_ask_to_be_refused_where_its_position_was_given_up() -> None:
    office = Office()
    office.claim(10, ticket=9, tick=OLDEST + 5)
    office.log.trim(OLDEST + 9)
    (refused,) = office.claim(11)
    assert isinstance(refused, StreamOpened)
    assert f"the oldest available is {OLDEST + 9} (" in refused.problem


@pytest.mark.parametrize("missing", ["fail", "earliest", "latest"])
def test_a_policy_for_new_subscriptions_never_moves_one_that_resumes(missing: Missing) -> None:
    office = Office()
    assert office.open(OLDEST - 1, missing, resumes=True) == StreamOpened("p", "sb", 1, OLDEST - 1)
    office.claim(10, ticket=9, tick=OLDEST + 5)
    office.log.trim(OLDEST + 9)
    assert office.claim(11, tick=OLDEST + 7, missing=missing, resumes=True)[0] == StreamOpened(
        "p", "sb", 1, OLDEST + 7, 11
    )


# --- positions


def test_positions_of_the_owner_count_and_become_durable() -> None:
    office = Office()
    office.claim(10, tick=OLDEST)
    office.desk.move("p", "D", 10, OLDEST + 5, "sb", now_ms=NOW_MS)
    assert office.named == Named(OLDEST + 5, 10, "sb")
    for change in office.desk.changes():
        office.commits.add(change)
    assert office.sync() == []
    assert Office(office.values).named == Named(OLDEST + 5, 10, "sb")
    assert office.desk.changes() == []


def test_a_former_owner_is_told_so_and_its_positions_do_not_count() -> None:
    office = Office()
    office.claim(10, tick=OLDEST)
    office.claim(11, "tb")
    assert office.desk.move("p", "D", 10, OLDEST + 5, "sb", now_ms=NOW_MS) == [StreamTaken("p", "sb", "D", 11)]
    assert office.named == Named(OLDEST, 11, "tb")


def test_who_reports_a_name_that_is_not_known_is_ended() -> None:
    office = Office()
    (taken,) = office.desk.move("p", "D", 10, OLDEST + 5, "sb", now_ms=NOW_MS)
    assert isinstance(taken, StreamTaken)
    assert taken.ownership > 10
    assert office.named is None


def test_nobody_has_more_than_there_is() -> None:
    office = Office()
    office.claim(10, tick=OLDEST)
    office.desk.move("p", "D", 10, 2**62, "sb", now_ms=NOW_MS)
    assert office.named == Named(END + 1, 10, "sb")


# --- forgetting


def test_forgetting_is_answered_when_it_is_durable_and_ends_the_owner() -> None:
    office = Office()
    office.claim(10)
    assert office.desk.forget(StreamForget("p", "tb", 5, "D")) == []
    assert office.named is None
    said = office.sync()
    assert said[0] == StreamForgotten("p", "tb", 5, existed=True)
    assert isinstance(said[1], StreamTaken)
    assert (said[1].host, said[1].durable) == ("sb", "D")
    assert said[1].ownership > 10
    assert office.values == {}


def test_the_group_that_keeps_dead_letters_is_not_forgotten() -> None:
    office = Office(dead_letters="p")
    office.work.begin(now_ms=NOW_MS)
    (answer,) = office.desk.forget(StreamForget("p", "sb", 1, DEAD_LETTERS))
    assert isinstance(answer, StreamForgotten)
    assert "penstock dead drop" in answer.problem
    assert office.work.client_of("p", DEAD_LETTERS) == ""


def test_a_group_that_has_kept_dead_letters_is_forgotten_where_none_come_any_more() -> None:
    office = Office(dead_letters="p")
    office.work.begin(now_ms=NOW_MS)
    office.settings.change_to(BrokerSettings("pb", pubends=("p",), dead_letters=""))
    assert office.desk.forget(StreamForget("p", "sb", 1, DEAD_LETTERS)) == []
    assert office.work.client_of("p", DEAD_LETTERS) is None


def test_who_asks_again_to_forget_learns_that_it_was_known() -> None:
    office = Office()
    office.claim(10)
    office.desk.forget(StreamForget("p", "tb", 5, "D"))
    office.sync()
    assert office.desk.forget(StreamForget("p", "tb", 5, "D")) == [StreamForgotten("p", "tb", 5, existed=True)]
    assert office.desk.forget(StreamForget("p", "tb", 6, "D")) == [StreamForgotten("p", "tb", 6, existed=False)]


def test_a_request_that_comes_again_does_not_forget_a_group_that_was_made_meanwhile() -> None:
    office = Office()
    ask = WorkAsk("p", "sb", b"m", "worker", 1, 0, 10, "D", "TRUE", "", 1_000, 0, 0)
    office.work.ask(ask, now_ms=NOW_MS)
    assert office.desk.forget(StreamForget("p", "tb", 5, "D")) == []
    assert not office.work.groups
    office.work.ask(ask, now_ms=NOW_MS)
    assert office.desk.forget(StreamForget("p", "tb", 5, "D")) == [StreamForgotten("p", "tb", 5, existed=True)]
    assert office.work.groups
    office.desk.forget(StreamForget("p", "tb", 6, "D"))
    assert not office.work.groups


def test_one_request_forgets_a_group_at_all_pubends_of_a_broker() -> None:
    office = Office(others=("q",))
    for pubend in ("p", "q"):
        ask = WorkAsk(pubend, "sb", b"m", "worker", 1, 0, 10, "D", "TRUE", "", 1_000, 0, 0)
        office.work.ask(ask, now_ms=NOW_MS)
    for pubend in ("p", "q"):
        assert office.desk.forget(StreamForget(pubend, "tb", 5, "D")) == []
    assert not office.work.groups


def test_what_is_not_known_is_forgotten_at_once() -> None:
    office = Office()
    assert office.desk.forget(StreamForget("p", "tb", 5, "D")) == [StreamForgotten("p", "tb", 5, existed=False)]
    assert office.commits.take() is None


def test_a_name_that_was_forgotten_begins_anew_whatever_its_number() -> None:
    office = Office()
    office.claim(10, tick=OLDEST)
    office.desk.forget(StreamForget("p", "sb", 5, "D"))
    office.sync()
    assert office.claim(1) == [StreamOpened("p", "sb", 1, END + 1, 1, is_new=True)]


@pytest.mark.parametrize("name", ["", "/", "durable/p/D", "ü \0", "x" * 10_000, "'; --"])
def test_strange_names_are_names_like_others(name: str) -> None:
    office = Office()
    office.claim(10)
    assert office.desk.forget(StreamForget("p", "tb", 5, name)) == [StreamForgotten("p", "tb", 5, existed=False)]
    assert office.named is not None
    assert not office.desk.changes()


# --- whose a name is

PROVED = Access({"alice": "token"}, (Rule("bob", durable="D%"), Rule("%")))
DENIED = "durable subscription 'D' belongs to another client"


def test_a_name_belongs_to_the_client_that_made_it() -> None:
    office = Office(access=PROVED)
    office.claim(10, client="alice")
    assert office.claim(11, "tb", client="mallory") == [
        StreamOpened("p", "tb", 1, 0, 11, problem=DENIED, is_denied=True)
    ]
    assert office.claim(9, "tb", client="mallory") == [StreamOpened("p", "tb", 1, 0, 9, problem=DENIED, is_denied=True)]
    assert office.named == Named(END + 1, 10, "sb", "alice")
    assert office.desk.counts["durables_denied"] == 2
    assert office.claim(12, "tb", client="alice")[0] == StreamOpened("p", "tb", 1, END + 1, 12)


def test_it_still_does_after_a_restart() -> None:
    values: dict[str, bytes] = {}
    Office(values, PROVED).claim(10, client="alice")
    office = Office(values, PROVED)
    assert office.claim(11, client="mallory") == [StreamOpened("p", "sb", 1, 0, 11, problem=DENIED, is_denied=True)]
    assert isinstance(office.claim(11, client="alice")[0], StreamOpened)


def test_who_shares_a_name_may_have_it_and_does_not_become_its_owner() -> None:
    office = Office(access=PROVED)
    office.claim(10, client="alice")
    office.claim(11, "tb", client="bob")
    assert office.named == Named(END + 1, 11, "tb", "alice")
    assert office.claim(12, client="mallory") == [StreamOpened("p", "sb", 1, 0, 12, problem=DENIED, is_denied=True)]


def test_a_name_that_nobody_owns_is_the_first_rightful_claimants() -> None:
    office = Office(access=PROVED)
    office.claim(10)
    office.claim(11, client="alice")
    assert office.claim(12, client="mallory") == [StreamOpened("p", "sb", 1, 0, 12, problem=DENIED, is_denied=True)]


def test_where_nobody_proves_a_name_nothing_belongs_to_anybody() -> None:
    values: dict[str, bytes] = {}
    Office(values, PROVED).claim(10, client="alice")
    office = Office(values)
    assert office.claim(11)[0] == StreamOpened("p", "sb", 1, END + 1, 11)
    office.desk.forget(StreamForget("p", "tb", 5, "D"))
    assert office.sync()[0] == StreamForgotten("p", "tb", 5, existed=True)


@pytest.mark.parametrize("shares", [False, True])
def test_it_is_the_pubend_that_looks_up_who_shares_a_name(shares: bool) -> None:
    office = Office(access=PROVED)
    office.claim(10, client="alice")
    for client in ("", "mallory"):
        denial = StreamOpened("p", "tb", 1, 0, 11, problem=DENIED, is_denied=True)
        assert office.claim(11, "tb", client=client, shares=shares) == [denial]
    office.claim(12, "tb", client="bob", shares=shares)
    assert office.named == Named(END + 1, 12, "tb", "alice")


@pytest.mark.parametrize(
    ("client", "shares", "forgets"),
    [("alice", False, True), ("mallory", True, False), ("", True, False), ("bob", False, True)],
)
def test_only_who_may_have_a_name_has_it_forgotten(client: str, shares: bool, forgets: bool) -> None:
    office = Office(access=PROVED)
    office.claim(10, client="alice")
    answers = office.desk.forget(StreamForget("p", "tb", 5, "D", client, shares))
    problem = "" if forgets else DENIED
    assert (answers + office.sync())[0] == StreamForgotten("p", "tb", 5, existed=True, problem=problem)
    assert (office.named is None) is forgets


YEAR_MS = 366 * 24 * 3_600_000


def number_at(ahead_ms: int) -> int:
    """The number of a claim that was made so long after now."""
    return NOW_MS + ahead_ms << 20


def test_a_claim_with_a_number_of_a_time_to_come_is_refused() -> None:
    office = Office()
    office.claim(10)
    for ownership in (2**62, 2**61, number_at(2 * YEAR_MS)):
        (answer,) = office.claim(ownership, "tb")
        assert isinstance(answer, StreamOpened)
        assert "with a clock that is" in answer.problem
    # Another pubend may have accepted a number like this: it is asked again until it will do here, too.
    assert office.claim(number_at(YEAR_MS + 1), "tb") == []
    assert office.named == Named(END + 1, 10, "sb")


def test_who_holds_a_name_with_a_number_far_ahead_does_not_keep_others_from_claiming_above_it() -> None:
    office = Office()
    office.claim(number_at(YEAR_MS), "tb")
    above = Claims(7).next(above=number_at(YEAR_MS), now_ms=NOW_MS)
    assert office.claim(above)[0] == StreamOpened("p", "sb", 1, END + 1, above)


# --- claims that are withdrawn


def test_a_claim_that_is_withdrawn_frees_the_name_if_it_still_holds_it() -> None:
    office = Office(access=PROVED)
    assert office.claim(10, client="alice") == [StreamOpened("p", "sb", 1, END + 1, 10, is_new=True)]
    # The answer got lost, and the number had to be raised: it is as new as before.
    assert office.claim(10, client="alice") == [StreamOpened("p", "sb", 1, END + 1, 10, is_new=True)]
    assert office.claim(11, client="alice")[0] == StreamOpened("p", "sb", 1, END + 1, 11, is_new=True)
    office.desk.forget(StreamForget("p", "sb", 5, "D", "alice", ownership=11))
    assert office.sync() == [StreamForgotten("p", "sb", 5, existed=True)]
    assert office.named is None


def test_a_claim_that_is_withdrawn_too_late_takes_the_name_from_nobody() -> None:
    office = Office(access=PROVED)
    office.claim(10, client="alice")
    assert office.claim(12, "tb", client="alice")[0] == StreamOpened("p", "tb", 1, END + 1, 12)
    answers = office.desk.forget(StreamForget("p", "sb", 5, "D", "alice", ownership=10))
    assert answers + office.sync() == [StreamForgotten("p", "sb", 5, existed=False)]
    assert office.named == Named(END + 1, 12, "tb", "alice")


def test_a_client_has_no_more_durable_names_than_its_quota_and_others_still_get_theirs() -> None:
    access = Access({"alice": WORD, "bob": WORD})
    overlay = Overlay(BrokerSettings("pb", pubends=("pb.a",), access=access, client_durables_max=2))
    alice = overlay.client("pb", "alice", token=WORD)
    for number in range(4):
        alice.durable(number, f"name-{number}")
    overlay.wait(2_000)
    assert [(number, reason) for _, number, reason in alice.refusals()] == [
        (number, "client alice has 2 durable subscriptions at pubend pb.a, which is the limit (client_durables_max)")
        for number in (2, 3)
    ]
    bob = overlay.client("pb", "bob", token=WORD)
    bob.durable(1, "other")
    overlay.wait(2_000)
    assert bob.refusals() == []


def test_a_pubend_keeps_no_more_durable_names_than_it_may() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=("pb.a",), durables_max=1))
    client = overlay.client("pb")
    client.durable(1, "one")
    client.durable(2, "two")
    overlay.wait(2_000)
    ((_, number, reason),) = client.refusals()
    assert (number, "which is its limit (durables_max)" in reason) == (2, True)


# --- who there is


def listed(office: Office, now_ms: int, **asked: str) -> list[DurableEntry]:
    (answer,) = office.desk.on_list(StreamList("p", "sb", 3, **asked), now_ms=now_ms)
    assert isinstance(answer, StreamListed)
    assert (answer.pubend, answer.host, answer.number, answer.is_more) == ("p", "sb", 3, False)
    return list(answer.entries)


def test_names_are_listed_with_their_positions_also_while_nobody_uses_them() -> None:
    office = Office()
    office.claim(5, tick=OLDEST, missing="earliest", selector="x = 1")
    (entry,) = listed(office, NOW_MS + 1_000)
    assert (entry.name, entry.host, entry.tick, entry.selector) == ("D", "sb", OLDEST, "x = 1")
    assert (entry.silent_ms, entry.is_away) == (1_000, False)
    assert entry.behind_ms == (END >> 16) - (OLDEST >> 16)
    (entry,) = listed(office, NOW_MS + 60_000)
    assert entry.is_away
    office.desk.move("p", "D", 5, OLDEST + 1, "sb", now_ms=NOW_MS + 59_000)
    (entry,) = listed(office, NOW_MS + 60_000)
    assert (entry.tick, entry.silent_ms, entry.is_away) == (OLDEST + 1, 1_000, False)
    assert listed(office, NOW_MS, durable="E") == listed(office, NOW_MS, after="D") == []
    assert [each.name for each in listed(office, NOW_MS, durable="D", after="C")] == ["D"]


def test_after_a_restart_a_name_is_away_until_somebody_speaks_of_it() -> None:
    values: dict[str, bytes] = {}
    Office(values).claim(5, selector="x = 1")
    (entry,) = listed(Office(values), NOW_MS)
    assert (entry.silent_ms, entry.is_away, entry.selector) == (-1, True, "x = 1")


# --- what was acknowledged, message by message


def settle(office: Office, below: int, *ticks: int, ownership: int = 7, host: str = "sb") -> list[Answer]:
    """What is said at once, and at the end of the turn."""
    frame = StreamSettle("p", host, 3, "D", ownership, below, ticks)
    return office.desk.settle(frame, now_ms=NOW_MS) + office.desk.finish()


def test_what_was_acknowledged_is_answered_when_it_is_durable() -> None:
    office = Office()
    office.claim(7, tick=OLDEST)
    assert settle(office, OLDEST + 5, OLDEST + 9, OLDEST + 7) == []
    assert settle(office, OLDEST + 5, OLDEST + 9) == [], "again, and it is not durable yet"
    kept = StreamSettled("p", "sb", 3, "D", 7, OLDEST + 5, (OLDEST + 9, OLDEST + 7))
    again = StreamSettled("p", "sb", 3, "D", 7, OLDEST + 5, (OLDEST + 9,))
    assert office.sync() == [kept, again]
    assert settle(office, OLDEST + 5, OLDEST + 9) == [again], "nothing is left to be made durable"
    assert office.commits.take() is None
    assert Office(office.values).register.get("D") == Named(OLDEST + 5, 7, "sb", settled=[OLDEST + 7, OLDEST + 9])


def test_a_repetition_waits_for_the_commit_that_has_it() -> None:
    office = Office()
    office.claim(7, tick=OLDEST)
    settle(office, OLDEST, OLDEST + 9)
    commit = office.commits.take()
    assert commit is not None
    assert settle(office, OLDEST, OLDEST + 9) == [], "another frame, while the first one is on its way to the disk"
    office.commits.on_committed(commit.number)
    assert len(office.desk.on_committed(commit.number)) == 2


def test_only_the_owner_settles_and_only_messages_that_were_sent() -> None:
    office = Office()
    office.claim(7, tick=OLDEST)
    assert settle(office, OLDEST + 5, OLDEST + 9, ownership=8) == [StreamTaken("p", "sb", "D", 7)]
    assert settle(office, OLDEST + 5, OLDEST + 9, host="tb") == [StreamTaken("p", "tb", "D", 7)]
    office.register.forget("D")
    (gone,) = settle(office, OLDEST + 5, OLDEST + 9)
    assert isinstance(gone, StreamTaken)
    office.claim(9, tick=OLDEST)
    settle(office, LATEST, 2**61, ownership=9)
    assert office.sync() == [StreamSettled("p", "sb", 3, "D", 9, office.log.last_tick + 1, ())]


def test_a_later_owner_is_told_what_is_done_from_where_it_begins() -> None:
    office = Office()
    office.claim(7, tick=OLDEST)
    settle(office, OLDEST + 5, OLDEST + 7, OLDEST + 9)
    office.sync()
    (opened, _) = office.claim(8, "tb")
    assert opened == StreamOpened("p", "tb", 1, OLDEST + 5, 8, settled=(OLDEST + 7, OLDEST + 9))
    (opened, _) = office.claim(9, "sb", 2, tick=OLDEST + 8, resumes=True)
    assert opened == StreamOpened("p", "sb", 2, OLDEST + 8, 9, settled=(OLDEST + 9,))


def test_answers_that_wait_for_a_disk_are_bounded() -> None:
    office = Office()
    office.claim(7, tick=OLDEST)
    ticks = tuple(OLDEST + number for number in range(1_000))
    for _ in range(300):
        settle(office, OLDEST, *ticks)
    assert len(office.sync()) == 99, "more are not answered, and the client says it again"
    assert len(settle(office, OLDEST, *ticks)) == 1
