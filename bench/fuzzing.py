"""Fuzzes selectors, LIKE and the index with random inputs, and checks what must hold; each follows from its rng.

Three campaigns: texts against the parser, patterns against LIKE, and an index that grows and shrinks against a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from penstock.matching import CoveringSet, MatchIndex
from penstock.model.values import AttributeValue, Scalar
from penstock.selectors import Selector, SelectorError

__all__ = ["CAMPAIGNS", "FRAGMENTS", "Fault", "any_condition", "any_message", "any_noise", "mutated"]

_NAMES: Final = ("a", "b", "c", "d", "$sys")
_NUMBERS: Final = (0, 1, -1, 2, 15, 0.5, 1.0, -2.5, 1e300, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), float(2**53))
_TEXTS: Final = ("", "A", "AB", "ABC", "a", "it's", "50%", "a_b", "é", "日本", "\U0001f600", "x" * 50, "\\", "\n")
FRAGMENTS: Final = (
    "a",
    "b",
    "$sys",
    "_x",
    "AND",
    "OR",
    "NOT",
    "and",
    "In",
    "IS",
    "NULL",
    "LIKE",
    "ESCAPE",
    "BETWEEN",
    "TRUE",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "(",
    ")",
    ",",
    "'",
    "''",
    "'A%'",
    "'!'",
    "[",
    "]",
    ".",
    "0",
    "1",
    "1.5",
    "1e9",
    ".5",
    "7.",
    "1e999",
    "9" * 30,
    "0x1F",
    " ",
    "\t",
    "\n",
    "é",
    "\x00",
    "\ud800",
    "\\",
    "[class,eq,'STOCK']",
    "[volume,>,15]",
    ",",
    "isPresent",
    "str-prefix",
    '"',
    "#",
    "--",
    "a = 1",
    "b LIKE 'A_'",
)


class Fault(AssertionError):  # noqa: N818 - it is what soaking looks for, not an error of the program
    """Something that must hold did not."""


def parser_campaign(rng: Random) -> None:
    """Any text parses or is refused with a ``SelectorError``; a parsed one prints as text with the same meaning."""
    for _ in range(40):
        text = mutated(any_condition(rng, 3), rng) if rng.random() < 0.6 else any_noise(rng)
        try:
            selector = Selector.parse(text)
        except SelectorError:
            continue
        _check_canonical(selector, text, rng)
    for _ in range(20):
        text = any_condition(rng, 4)
        _check_canonical(Selector.parse(text), text, rng)


def like_campaign(rng: Random) -> None:
    """LIKE agrees with the simple, quadratic textbook algorithm; hostile patterns take no longer than others."""
    alphabet = rng.choice(("ab", "a", "aé\U0001f600", "a%_!"))
    for _ in range(60):
        text = "".join(rng.choices(alphabet, k=rng.randrange(30)))
        pattern = "".join(rng.choices(alphabet + "%_%", k=rng.randrange(12)))
        escape = rng.choice((None, None, "!", "\\"))
        if escape is not None and not _well_escaped(pattern, escape):
            continue
        clause = f"a LIKE {_quoted(pattern)}" + ("" if escape is None else f" ESCAPE {_quoted(escape)}")
        _require(
            Selector.parse(clause).matches({"a": text}) == _like(text, pattern, escape), f"{clause} against {text!r}"
        )
    hostile = Selector.parse(f"a LIKE {_quoted('%a' * 200 + '%b')}")
    _require(not hostile.matches({"a": "a" * 5_000}), "a hostile pattern matches")


def index_campaign(rng: Random) -> None:
    """After any insertions and removals, in any order, the index finds what a loop finds; emptied, it is empty."""
    index, covering = MatchIndex(), CoveringSet()
    held: dict[int, tuple[Selector, int]] = {}
    pool = [Selector.parse(any_condition(rng, 2)) for _ in range(rng.randint(1, 25))]
    for number in range(rng.randint(1, 120)):
        if held and rng.random() < 0.4:
            gone = rng.choice(list(held))
            index.remove(gone)
            covering.remove(held.pop(gone)[0])
        else:
            selector, link = rng.choice(pool), rng.randrange(70)
            index.add(number, selector, link)
            covering.add(selector)
            held[number] = selector, link
        if rng.random() < 0.3:
            _check_index(index, held, any_message(rng))
    for number, (selector, _) in sorted(held.items(), key=lambda _: rng.random()):
        index.remove(number)
        covering.remove(selector)
    _require(len(index) == 0, f"{len(index)} subscriptions are left in an emptied index")
    _require(len(covering) == 0, f"{len(covering)} conjunctions are left in an emptied covering set")


CAMPAIGNS: Final[dict[str, Callable[[Random], None]]] = {
    "parser": parser_campaign,
    "like": like_campaign,
    "index": index_campaign,
}


def _check_index(index: MatchIndex, held: dict[int, tuple[Selector, int]], message: dict[str, AttributeValue]) -> None:
    naive = {number: link for number, (selector, link) in held.items() if selector.matches(message)}
    found = index.find(message)
    ids = sorted(found.ids().tolist())
    _require(ids == sorted(naive), f"the index finds {ids}, a loop {sorted(naive)} for {message}")
    _require(found.count() == len(ids), f"count {found.count()} of {len(ids)} ids for {message}")
    links = sum(1 << link for link in dict.fromkeys(naive.values()))
    _require(index.links(message) == links, f"links {index.links(message):#x}, not {links:#x}, for {message}")


def _check_canonical(selector: Selector, text: str, rng: Random) -> None:
    canonical = str(selector)
    again = Selector.parse(canonical)
    _require(again == selector, f"{text!r} prints as {canonical!r}, which is another selector")
    _require(str(again) == canonical, f"{canonical!r} prints as {str(again)!r}")
    values = any_message(rng)
    _require(again.matches(values) == selector.matches(values), f"{text!r} and {canonical!r} differ on {values}")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Fault(otherwise)


def any_message(rng: Random) -> dict[str, AttributeValue]:
    """Random attributes, with the names that conditions use."""
    values: tuple[AttributeValue, ...] = (*_NUMBERS, *_TEXTS, True, False, None, float("nan"), float("inf"))
    return {name: rng.choice(values) for name in _NAMES if rng.random() < 0.8}


def any_condition(rng: Random, depth: int) -> str:
    """A well-formed selector."""
    if depth == 0 or rng.random() < 0.3:
        return _predicate(rng)
    shape = rng.randrange(4)
    if shape == 0:
        return f"NOT ({any_condition(rng, depth - 1)})"
    joint = " AND " if shape < 3 else " OR "
    return "(" + joint.join(any_condition(rng, depth - 1) for _ in range(rng.randint(2, 3))) + ")"


def _predicate(rng: Random) -> str:
    name, negation = rng.choice(_NAMES), rng.choice(("", "", "NOT "))
    match rng.randrange(7):
        case 0:
            return f"{name} {negation}BETWEEN {_number(rng)} AND {_number(rng)}"
        case 1:
            return f"{name} {negation}IN ({', '.join(_quoted(rng.choice(_TEXTS)) for _ in range(rng.randint(1, 4)))})"
        case 2:
            return f"{name} {negation}LIKE {_quoted(rng.choice(('A%', '%B', 'A_', '%', '', '%A%', 'AB', '_%')))}"
        case 3:
            return f"{name} IS {negation}NULL"
        case 4:
            return f"{name} {_number(rng, '+', '-', '*', '/')} {rng.choice(('<', '>', '='))} {rng.choice(_NAMES)}"
        case _:
            operator = rng.choice(("=", "=", "<>", "<", "<=", ">", ">="))
            return f"{name} {operator} {_literal(rng)}"


def _literal(rng: Random) -> str:
    value: Scalar = rng.choice((rng.choice(_NUMBERS), rng.choice(_TEXTS), True, False))
    if isinstance(value, bool):
        return str(value).upper()
    return _quoted(value) if isinstance(value, str) else repr(value)


def _number(rng: Random, *operators: str) -> str:
    return (rng.choice(operators) + " " if operators else "") + repr(rng.choice(_NUMBERS))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def any_noise(rng: Random) -> str:
    """Fragments of selectors in any order."""
    return rng.choice(("", " ")).join(rng.choices(FRAGMENTS, k=rng.randrange(25)))


def mutated(text: str, rng: Random) -> str:
    """The text with something inserted or removed."""
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice((*FRAGMENTS, "")) + text[place + rng.randrange(3) :]
    return text


def _well_escaped(pattern: str, escape: str) -> bool:
    """Whether each escape character precedes a wildcard."""
    rest = pattern.replace(escape * 2, "").replace(escape + "%", "").replace(escape + "_", "")
    return escape not in rest and escape * 2 not in pattern


def _like(text: str, pattern: str, escape: str | None) -> bool:
    """The textbook algorithm: which beginnings of the text does each beginning of the pattern match."""
    reached = [True] + [False] * len(text)
    characters = iter(pattern)
    for each in characters:
        literal = each == escape
        wanted = next(characters) if literal else each
        if wanted == "%" and not literal:
            first = reached.index(True) if True in reached else len(reached)
            reached = [place >= first for place in range(len(reached))]
        else:
            anything = wanted == "_" and not literal
            reached = [False] + [
                here and (anything or text[place] == wanted) for place, here in enumerate(reached[:-1])
            ]
    return reached[-1]
