"""The durable register of a pubend: who owns a name, how far it is, and what of that survives."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.durable import SetValue
from penstock.broker.pubend.register import Named, Register
from penstock.model.limits import SETTLED_MAX
from penstock.protocol.status import DurableStatus


def restarted(*changes: SetValue, pubend: str = "p") -> Register:
    """A register that finds what was made durable."""
    values: dict[str, bytes] = {}
    for change in changes:
        if change.value is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.value
    return Register(pubend, values)


def forgotten(register: Register, name: str) -> SetValue:
    change = register.forget(name)
    assert change is not None
    return change


def test_a_new_name_begins_where_its_first_claim_says() -> None:
    register = Register("p", {})
    assert "D" not in register
    register.claim("D", 5, "sb", 100)
    assert register.get("D") == Named(100, 5, "sb")
    assert "D" in register
    assert len(register) == 1


def test_a_later_claim_changes_the_owner_and_not_the_position() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.move("D", 5, "sb", 120)
    register.claim("D", 6, "tb", 500)
    assert register.get("D") == Named(120, 6, "tb")


def test_positions_move_forwards_only() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    assert register.move("D", 5, "sb", 120)
    assert register.move("D", 5, "sb", 110)
    assert register.get("D") == Named(120, 5, "sb")


def test_what_a_former_owner_says_does_not_count() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.claim("D", 6, "tb", 100)
    assert not register.move("D", 5, "sb", 120)
    assert register.get("D") == Named(100, 6, "tb")
    assert register.take_changes() == []


@pytest.mark.parametrize(("ownership", "host"), [(7, "sb"), (2**62, "tb"), (5, "tb")])
def test_only_the_owner_itself_is_believed_with_the_number_that_it_claimed_with(ownership: int, host: str) -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    assert not register.move("D", ownership, host, 120)
    assert register.get("D") == Named(100, 5, "sb")
    assert register.take_changes() == []


def test_of_an_unknown_name_nothing_is_believed() -> None:
    register = Register("p", {})
    assert not register.move("D", 5, "sb", 120)
    assert register.forget("D") is None
    assert register.get("D") is None
    assert register.lowest() is None
    assert register.take_changes() == []


def test_claims_and_moves_survive() -> None:
    register = Register("p", {})
    claim = register.claim("D", 5, "sb", 100)
    assert restarted(claim).get("D") == Named(100, 5, "sb")
    register.move("D", 5, "sb", 120)
    (move,) = register.take_changes()
    assert restarted(claim, move).get("D") == Named(120, 5, "sb")
    assert register.take_changes() == []


def test_a_claim_makes_the_position_durable_that_had_moved_before() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.move("D", 5, "sb", 120)
    claim = register.claim("D", 6, "tb", 100)
    assert register.take_changes() == []
    assert restarted(claim).get("D") == Named(120, 6, "tb")


def test_what_is_forgotten_is_gone_for_good_and_begins_anew() -> None:
    register = Register("p", {})
    claim = register.claim("D", 5, "sb", 100)
    register.move("D", 5, "sb", 120)
    change = forgotten(register, "D")
    assert register.take_changes() == []
    assert "D" not in restarted(claim, change)
    register.claim("D", 1, "tb", 300)
    assert register.get("D") == Named(300, 1, "tb")


def test_the_furthest_behind_is_named() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.claim("E", 5, "sb", 90)
    assert register.lowest() == ("E", 90)
    register.move("E", 5, "sb", 110)
    assert register.lowest() == ("D", 100)
    register.forget("D")
    assert register.lowest() == ("E", 110)


def test_pubends_with_similar_names_do_not_share_names() -> None:
    values: dict[str, bytes] = {}
    for pubend in ("p", "p.a", "pp"):
        change = Register(pubend, {}).claim(f"of {pubend}", 1, "sb", 1)
        assert change.value is not None
        values[change.name] = change.value
    for pubend in ("p", "p.a", "pp"):
        assert list(Register(pubend, values).status()) == [f"of {pubend}"]


def test_a_name_whose_value_cannot_be_read_stays_and_holds_the_log() -> None:
    change = Register("p", {}).claim("D", 5, "sb", 100)
    assert change.value is not None
    for damage in (b"", b"\xc1", change.value[:-1], change.value + b"x", b"\x93\x01\x02\x03", b"\x92\x01\x02", b"\x90"):
        register = Register("p", {change.name: change.value, "durable/p/E": damage, "other": b"\xff"})
        assert register.get("D") == Named(100, 5, "sb")
        assert register.get("E") == Named(0, 0, "", is_damaged=True)
        assert register.lowest() == ("E", 0)
        again = restarted(change, register.claim("E", 7, "tb", 90))
        assert again.get("E") == Named(90, 7, "tb")


def test_the_operator_sees_those_that_are_furthest_behind() -> None:
    register = Register("p", {})
    for number in range(150):
        register.claim(f"name {number}", 1, "sb", 1_000 - number)
    shown = register.status()
    assert len(shown) == 100
    assert next(iter(shown.items())) == ("name 149", DurableStatus(851, "sb"))
    assert len(register) == 150


names = st.sampled_from(["D", "E", "a/b", "", "ü \0", "x" * 200])
claims = st.tuples(st.just("claim"), names, st.integers(0, 5), st.integers(0, 50))
moves = st.tuples(st.just("move"), names, st.integers(0, 5), st.integers(0, 50))
forgets = st.tuples(st.just("forget"), names, st.just(0), st.just(0))


@given(st.lists(st.one_of(claims, moves, moves, forgets), max_size=30))
def test_a_restart_finds_what_the_changes_say(words: list[tuple[str, str, int, int]]) -> None:
    """Oracle: a dictionary of name to (tick, ownership), by the rules as they are written down."""
    register, expected, changes = Register("p", {}), dict[str, tuple[int, int]](), list[SetValue]()
    for what, name, ownership, tick in words:
        known = expected.get(name)
        if what == "claim":
            changes.append(register.claim(name, ownership, "sb", tick))
            expected[name] = (tick if known is None else known[0], ownership)
        elif what == "move":
            believed = known is not None and ownership == known[1]
            assert register.move(name, ownership, "sb", tick) == believed
            if believed and known is not None:
                expected[name] = (max(known[0], tick), known[1])
        else:
            change = register.forget(name)
            assert (change is None) == (known is None)
            changes += [] if change is None else [change]
            expected.pop(name, None)
        if tick % 3 == 0:
            changes += register.take_changes()
    changes += register.take_changes()
    again = restarted(*changes)
    assert {name: (each.tick,) for name, each in again.status().items()} == {
        name: (tick,) for name, (tick, _) in expected.items()
    }
    for name, (tick, ownership) in expected.items():
        assert again.get(name) == register.get(name) == Named(tick, ownership, "sb")
    lowest = again.lowest()
    assert (lowest[1] if lowest else None) == min((tick for tick, _ in expected.values()), default=None)


def test_what_an_earlier_version_stored_has_no_owner_until_somebody_comes() -> None:
    register = Register("p", {"durable/p/D": msgspec.msgpack.encode((100, 5, "sb"))})
    assert register.get("D") == Named(100, 5, "sb")
    change = register.claim("D", 6, "tb", 0, "alice")
    assert restarted(change).get("D") == Named(100, 6, "tb", "alice")


def test_only_names_that_may_be_seen_are_shown() -> None:
    register = Register("p", {})
    for number in range(150):
        register.claim(f"other-{number}", 5, "sb", number, "bob")
    register.claim("D", 5, "sb", 1_000, "alice")
    assert register.status(lambda _, client: client == "alice") == {"D": DurableStatus(1_000, "sb", "alice")}
    assert len(register.status()) == 100


def test_names_are_counted_by_who_made_them_over_claims_forgetting_and_restarts() -> None:
    register = Register("p", {})
    changes = [register.claim(name, 5, "sb", 1, client) for name, client in (("D", "alice"), ("E", "alice"), ("F", ""))]
    changes.append(register.claim("D", 6, "tb", 1, "team"))
    assert [register.names_of(each) for each in ("alice", "team", "")] == [2, 0, 1]
    changes.append(register.claim("F", 6, "tb", 1, "bob"))
    forgotten = register.forget("D")
    assert forgotten is not None
    again = restarted(*changes, forgotten)
    for each in (register, again):
        assert [each.names_of(client) for client in ("alice", "bob", "")] == [1, 1, 0]


# --- single messages


def test_single_messages_are_kept_over_restarts_and_by_whoever_comes_later() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    assert register.settle("D", (130, 110, 100)) == (130, 110, 100)
    assert register.settle("D", (110,)) == (110,), "again"
    (change,) = register.take_changes()
    again = restarted(change)
    assert again.get("D") == Named(100, 5, "sb", settled=[100, 110, 130])
    again.claim("D", 6, "tb", 500)
    assert again.get("D") == Named(100, 6, "tb", settled=[100, 110, 130])
    assert again.status()["D"].settled == 3


def test_a_position_drops_the_single_messages_below_it() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.settle("D", (110, 120, 130))
    register.take_changes()
    register.move("D", 5, "sb", 120)
    assert register.get("D") == Named(120, 5, "sb", settled=[120, 130])
    assert register.settle("D", (119, 140)) == (140,), "what is below the position counts anyway"
    register.check_invariants()


def test_at_the_bound_no_more_are_taken_until_the_position_moves() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.settle("D", range(101, 100 + SETTLED_MAX))
    assert register.settle("D", (5_000, 5_001, 101)) == (5_000, 101)
    assert register.settle("D", (5_001,)) == ()
    register.move("D", 5, "sb", 102)
    assert register.settle("D", (5_001,)) == (5_001,)
    register.check_invariants()


def test_a_forgotten_name_has_no_single_messages() -> None:
    register = Register("p", {})
    register.claim("D", 5, "sb", 100)
    register.settle("D", (110,))
    register.forget("D")
    assert register.take_changes() == []
    register.claim("D", 6, "sb", 100)
    assert register.get("D") == Named(100, 6, "sb")


def test_an_entry_of_an_earlier_version_has_no_single_messages() -> None:
    entry = msgspec.msgpack.encode((100, 5, "sb", "", "x = 1"))
    assert Register("p", {"durable/p/D": entry}).get("D") == Named(100, 5, "sb", selector="x = 1")


def test_too_many_single_messages_in_an_entry_are_the_first_ones() -> None:
    entry = msgspec.msgpack.encode((100, 5, "sb", "", "", [*range(5_000, 100, -1), 101]))
    register = Register("p", {"durable/p/D": entry})
    register.check_invariants()
    assert register.status()["D"].settled == SETTLED_MAX
