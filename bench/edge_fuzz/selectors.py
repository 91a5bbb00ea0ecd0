"""Fuzzes selectors: each is parsed or refused, printed, parsed again, matched and compared, all within a second."""

from __future__ import annotations

from random import Random
from typing import Final

from bench.edge_fuzz.guide import Corpus, Coverage
from bench.edge_fuzz.oracle import Findings, check_words, turn
from bench.fuzzing import FRAGMENTS, Fault, any_condition, any_message, any_noise, mutated
from penstock.model.limits import SELECTOR_CHARS_MAX
from penstock.model.values import AttributeValue
from penstock.selectors import Selector, SelectorError

__all__ = ["SELECTORS_PER_SEED", "selectors_inside", "try_selector"]

SELECTORS_PER_SEED: Final = 10_000
_WATCHED_SHARE: Final = 0.1
_LONG_SHARE: Final = 0.003
_REASON_CHARS_MAX: Final = 1_000
_LONG_TEXT: Final = "ab" * 32_768


def selectors_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    coverage, corpus, findings = Coverage("penstock.selectors"), Corpus[str](rng), Findings()
    for _ in range(SELECTORS_PER_SEED):
        text = _text(rng, corpus)
        values = any_message(rng)
        try:
            if rng.random() < _WATCHED_SHARE:
                lines = coverage.lines
                with coverage.watching():
                    try_selector(text, values)
                if coverage.lines > lines:
                    corpus.keep(text)
            else:
                try_selector(text, values)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            findings.add(error, f"selector of {len(text)} characters: {text[:600]!r}")
    findings.raise_if_any()


def try_selector(text: str, values: dict[str, AttributeValue]) -> None:
    """Fail if a text is not handled as it must be."""
    try:
        with turn():
            selector = Selector.parse(text)
    except SelectorError as error:
        check_words(str(error), besides=text)
        if len(str(error)) > _REASON_CHARS_MAX:
            raise Fault(f"a refusal of {len(str(error)):,} characters") from None
        return
    with turn():
        matches = selector.matches(values)
    with turn():
        again = Selector.parse(str(selector))
    if again != selector:
        raise Fault(f"prints as {str(selector)[:300]!r}, which is another selector")
    if again.matches(values) is not matches:
        raise Fault(f"differs from {str(selector)[:300]!r} on {values}")
    with turn():
        selector.covers(again)


def _text(rng: Random, corpus: Corpus[str]) -> str:
    shape = rng.random()
    if shape < _LONG_SHARE:
        return _long(rng)
    if shape < 0.3 and len(corpus):
        return mutated(corpus.pick(), rng)
    if shape < 0.5:
        return any_noise(rng)
    text = any_condition(rng, rng.randint(1, 4))
    return mutated(text, rng) if shape < 0.85 else text


def _long(rng: Random) -> str:
    """A long text, up to just beyond the limit, of many similar parts."""
    part, joint = rng.choice(
        (
            ("a = 1", " OR "),
            ("(a = 1 OR b = 2)", " AND "),
            ("NOT (a > 1 AND b < 2)", " AND "),
            ("a LIKE '%a%b_c%'", " OR "),
            ("a + 1 > b * 2", " AND "),
            ("a BETWEEN 1 AND 2", " OR "),
            ("(", ""),
            ("NOT ", ""),
            ("- ", ""),
            ("[a,=,1]", ","),
            (rng.choice(FRAGMENTS), " "),
        )
    )
    count = min(rng.choice((10, 100, 1_000, 5_000)), SELECTOR_CHARS_MAX // max(len(part + joint), 1) + 2)
    numbered = [part.replace("1", str(rng.randrange(1_000))).replace("a", rng.choice("abcdefgh")) for _ in range(count)]
    if rng.random() < 0.2:
        return f"a LIKE '{'%ab_' * min(count, 4_000)}'"
    return joint.join(numbered)
