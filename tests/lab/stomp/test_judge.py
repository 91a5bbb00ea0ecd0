"""The judge finds what is lost, what comes again and what nobody sent, and excuses only what had no receipt."""

from __future__ import annotations

from penstock.lab.stomp.judge import Ledger, StompVerdict

FINE = StompVerdict(lost=[], again=[], shared=[], renamed=[], in_doubt=0, doubled=0)


def ledger() -> Ledger:
    return Ledger("jobs", ["one", "two"])


def work(its: Ledger, *names: str) -> None:
    for name in names:
        its.on_sent(name, name.rpartition("/")[0], is_work=True)


def test_an_item_that_came_once_and_was_acknowledged_once_is_fine() -> None:
    its = ledger()
    work(its, "p/0/0")
    its.on_receipt("p/0/0")
    assert its.open == 1
    assert its.on_message("jobs", "p/0/0", "m1", 1)
    its.on_try("jobs", "p/0/0")
    its.on_acked("jobs", "p/0/0", 1)
    assert its.verdict() == FINE
    assert (its.open, its.receipts, its.acks, its.delivered, its.strange) == (0, 1, 1, 1, [])


def test_what_has_a_receipt_and_was_acknowledged_nowhere_is_lost_though_it_may_have_come() -> None:
    its = ledger()
    work(its, "p/0/0", "p/2/0", "p/4/0")
    its.on_receipt("p/0/0")
    its.on_receipt("p/2/0")
    its.on_message("jobs", "p/2/0", "m1", 1)
    assert its.verdict().lost == ["p/0/0", "p/2/0"]


def test_what_comes_before_its_receipt_is_not_waited_for() -> None:
    its = ledger()
    work(its, "p/0/0")
    its.on_message("jobs", "p/0/0", "m1", 1)
    its.on_try("jobs", "p/0/0")
    its.on_receipt("p/0/0")
    assert its.open == 0


def test_every_durable_subscription_must_get_what_was_sent_to_the_topic() -> None:
    its = ledger()
    its.on_sent("p/1/0", "p/1", is_work=False)
    its.on_receipt("p/1/0")
    its.on_message("one", "p/1/0", "m1", 1)
    its.on_try("one", "p/1/0")
    assert its.open == 1
    assert its.verdict().lost == ["p/1/0"]


def test_a_later_attempt_than_the_acknowledged_one_is_wrong_and_an_earlier_one_is_not() -> None:
    its = ledger()
    work(its, "p/0/0", "p/2/0")
    for name, attempts in (("p/0/0", (2, 1)), ("p/2/0", (1, 2))):
        its.on_message("jobs", name, name, attempts[0])
        its.on_try("jobs", name)
        its.on_acked("jobs", name, attempts[0])
        its.on_message("jobs", name, name, attempts[1])
    assert its.verdict().again == ["p/2/0"]


def test_who_acknowledges_what_somebody_else_has_done_must_not_get_a_receipt() -> None:
    its = ledger()
    work(its, "p/0/0")
    for attempt in (1, 2):
        its.on_message("jobs", "p/0/0", "m1", attempt)
        its.on_try("jobs", "p/0/0")
    its.on_acked("jobs", "p/0/0", 2)
    assert its.verdict().again == []
    its.on_acked("jobs", "p/0/0", 1)
    assert its.verdict().again == ["p/0/0"]


def test_a_durable_subscription_must_not_get_again_what_it_has_a_receipt_for() -> None:
    its = ledger()
    its.on_sent("p/1/0", "p/1", is_work=False)
    for reader in ("one", "two"):
        its.on_message(reader, "p/1/0", "m1", 1)
        its.on_try(reader, "p/1/0")
    # Without a receipt it may come again, and each subscription has receipts of its own.
    its.on_acked("one", "p/1/0", 1)
    its.on_message("two", "p/1/0", "m1", 1)
    assert its.verdict().again == []
    its.on_message("one", "p/1/0", "m1", 1)
    assert its.verdict().again == ["p/1/0"]


def test_an_attempt_is_for_one_worker() -> None:
    its = ledger()
    work(its, "p/0/0", "p/2/0")
    for name, attempt in (("p/0/0", 1), ("p/0/0", 1), ("p/2/0", 1), ("p/2/0", 2)):
        its.on_message("jobs", name, name, attempt)
    assert its.verdict().shared == ["p/0/0"]


def test_an_item_has_one_message_id() -> None:
    its = ledger()
    work(its, "p/0/0")
    its.on_message("jobs", "p/0/0", "m1", 1)
    its.on_message("jobs", "p/0/0", "m2", 1)
    assert its.verdict().renamed == ["p/0/0"]


def test_copies_of_a_message_may_all_come() -> None:
    its = ledger()
    work(its, "p/0/0", "p/0/1", "p/2/0")
    its.on_receipt("p/0/1")
    for name in its.items:
        its.on_message("jobs", name, name, 1)
        its.on_try("jobs", name)
        its.on_acked("jobs", name, 1)
    assert its.verdict() == StompVerdict(lost=[], again=[], shared=[], renamed=[], in_doubt=0, doubled=1)


def test_what_is_acknowledged_without_a_receipt_is_in_doubt() -> None:
    its = ledger()
    work(its, "p/0/0")
    its.on_receipt("p/0/0")
    its.on_message("jobs", "p/0/0", "m1", 1)
    its.on_try("jobs", "p/0/0")
    verdict = its.verdict()
    assert (verdict.lost, verdict.in_doubt) == ([], 1)


def test_what_nobody_sent_or_not_there_is_strange() -> None:
    its = ledger()
    work(its, "p/0/0")
    assert not its.on_message("jobs", "p/9/0", "m1", 1)
    assert not its.on_message("one", "p/0/0", "m1", 1)
    assert its.strange == ["p/9/0", "p/0/0"]
