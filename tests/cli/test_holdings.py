"""What candidates say about the homes of pubends, merged into one row for each pubend."""

from __future__ import annotations

from penstock.cli.holdings import holding_of, holding_rows, holdings
from penstock.protocol.status import BrokerStatus, CandidacyStatus

CANDIDATES = ["pb1", "pb2", "pb3"]


def candidacy(**figures: object) -> CandidacyStatus:
    return CandidacyStatus("quotes", list(CANDIDATES), **figures)  # type: ignore[arg-type]


def test_whoever_runs_the_home_says_so_itself() -> None:
    found = holding_of(
        "quotes",
        {
            "pb1": candidacy(holder="pb2"),
            "pb2": candidacy(holder="pb2", epoch=7, replicas=1, held_back="no standby"),
        },
    )
    assert (found.holder, found.heard, found.epoch, found.replicas) == ("pb2", "", 7, 1)
    assert found.held_back == "no standby"
    assert found.candidates == tuple(CANDIDATES)


def test_of_two_that_were_asked_at_different_times_the_later_epoch_counts() -> None:
    told = {"pb1": candidacy(holder="pb1", epoch=7), "pb2": candidacy(holder="pb2", epoch=8)}
    assert holding_of("quotes", told).holder == "pb2"
    assert holding_of("quotes", dict(reversed(told.items()))).holder == "pb2"


def test_a_holder_that_did_not_answer_is_known_from_others_and_one_that_denies_it_is_none() -> None:
    away = holding_of("quotes", {"pb1": candidacy(holder="pb3"), "pb2": candidacy()})
    assert (away.holder, away.heard) == ("", "pb3")
    denied = holding_of("quotes", {"pb1": candidacy(holder="pb2"), "pb2": candidacy()})
    assert (denied.holder, denied.heard) == ("", "")


def test_each_pubend_has_one_row_with_all_that_is_wrong() -> None:
    statuses = {
        "pb1": BrokerStatus("pb1", candidacies=[candidacy(holder="pb1", epoch=3, replicas=0, held_back="no standby")]),
        "pb2": BrokerStatus("pb2", candidacies=[candidacy(holder="pb1", wanted="pb2", problem="it timed out")]),
        "sb1": BrokerStatus("sb1"),
    }
    assert list(holding_rows(holdings(statuses))) == [
        (
            "quotes",
            "pb1\npb2\npb3",
            "pb1, moves to pb2",
            "3",
            "0",
            "publishers wait: no standby\npb2: it timed out",
        )
    ]


def test_of_what_is_unknown_nothing_is_shown() -> None:
    (nobody,) = holding_rows([holding_of("quotes", {"pb1": candidacy()})])
    assert nobody == ("quotes", "pb1\npb2\npb3", "nobody", "", "", "")
    (heard,) = holding_rows([holding_of("quotes", {"pb1": candidacy(holder="pb2")})])
    assert heard[2] == "pb2, not asked"
