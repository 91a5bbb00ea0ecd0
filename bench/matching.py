"""Measures matching against a naive loop and ``rule-engine``: same subscriptions, same publications, one run.

Before anything is timed, all of them must agree on how many subscriptions match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import rule_engine

from bench.report import Report
from penstock.lab.frame.measuring import best_us
from penstock.lab.matching import measures
from penstock.lab.matching.scale import scale_sizes
from penstock.matching import MatchIndex
from penstock.model.reporting import Reporter
from penstock.model.values import Attributes
from penstock.selectors import Selector
from penstock.sim.workloads import QuoteWorkload

__all__ = ["run"]

_LOOP_MAX = 10_000
"""Most subscriptions with which the loops are measured: with more they take longer than anyone waits."""
_LINKS = 10
_CHECKED_PUBLICATIONS = 20


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure the six quote templates with a hundred to a million subscriptions, then mixed predicates."""
    workload = QuoteWorkload(Random(seed))
    publications = workload.sample(200 if quick else 2_000)
    yield _templates(reporter, workload, publications, scale_sizes(1_000 if quick else 1_000_000))
    yield _mixed(reporter, workload, publications, [1_000] if quick else [10_000, 100_000])


def _templates(
    reporter: Reporter, workload: QuoteWorkload, publications: Sequence[Attributes], sizes: list[int]
) -> Report:
    report = Report(
        "quote templates: µs per publication, and how many times faster find is than the loops",
        ("subscriptions", "find", "list ids", "links", "naive loop", "rule-engine", "× naive", "× rule-engine"),
    )
    reporter.stage(f"parsing {sizes[-1]:,} subscriptions")
    texts = list(workload.subscriptions(sizes[-1]))
    selectors = measures.parsed(texts)
    index = MatchIndex()
    for size in sizes:
        reporter.stage(f"quote templates: {size:,} subscriptions", total=2)
        measures.grow(index, selectors, size, links=_LINKS)
        naive = rules = None
        if size <= _LOOP_MAX:
            naive, rules = _loops(index, selectors[:size], texts[:size], publications)
        reporter.advance()
        find = measures.find_us(index, publications)
        listed, links = measures.enumerate_us(index, publications), measures.links_us(index, publications)
        report.rows.append((size, find, listed, links, naive, rules, _ratio(naive, find), _ratio(rules, find)))
        measured = {"find": find, "enumerate": listed, "links": links, "naive": naive, "rule_engine": rules}
        report.figures.update({f"{kind}_us_{size}": us for kind, us in measured.items() if us is not None})
        reporter.advance()
    return report


def _mixed(reporter: Reporter, workload: QuoteWorkload, publications: Sequence[Attributes], sizes: list[int]) -> Report:
    report = Report(
        "mixed predicates (two ranges, BETWEEN, IN, LIKE prefix, IS NOT NULL): µs per publication",
        ("subscriptions", "find", "list ids", "links", "naive loop", "× naive"),
    )
    for size in sizes:
        reporter.stage(f"mixed predicates: {size:,} subscriptions")
        selectors = measures.parsed(workload.mixed_subscriptions(size))
        index = MatchIndex()
        measures.grow(index, selectors, size, links=_LINKS)
        naive = None
        if size <= _LOOP_MAX:
            _check_agreement(index, selectors, [], publications)
            naive = measures.naive_us(selectors, publications)
        find = measures.find_us(index, publications)
        listed, links = measures.enumerate_us(index, publications), measures.links_us(index, publications)
        report.rows.append((size, find, listed, links, naive, _ratio(naive, find)))
        report.figures[f"mixed_us_{size}"] = find
    return report


def _loops(
    index: MatchIndex, selectors: Sequence[Selector], texts: Sequence[str], publications: Sequence[Attributes]
) -> tuple[float, float]:
    """Microseconds of the naive loop and of rule-engine, after checking that both agree with the index."""
    rules = [rule_engine.Rule(_in_its_words(text)) for text in texts]
    _check_agreement(index, selectors, rules, publications)
    # A rule takes about ten times as long as a selector: a tenth of the publications shows as much.
    fewer = measures.fitting(publications, len(rules) * 10)
    rules_us = best_us(lambda publication: _rules_count(rules, publication), fewer, repeats=1)
    return measures.naive_us(selectors, publications), rules_us


def _check_agreement(
    index: MatchIndex,
    selectors: Sequence[Selector],
    rules: Sequence[rule_engine.Rule],
    publications: Sequence[Attributes],
) -> None:
    for publication in publications[:_CHECKED_PUBLICATIONS]:
        found, naive = index.find(publication).count(), measures.naive_count(selectors, publication)
        assert found == naive, f"the index finds {found}, the naive loop {naive} for {publication}"
        if rules:
            peer = _rules_count(rules, publication)
            assert found == peer, f"the index finds {found}, rule-engine {peer} for {publication}"


def _rules_count(rules: Sequence[rule_engine.Rule], publication: Attributes) -> int:
    return sum(rule.matches(publication) for rule in rules)


def _in_its_words(text: str) -> str:
    """One of the six templates as rule-engine spells it; made-up symbols contain neither spaces nor quotes."""
    return text.replace(" = ", " == ").replace(" AND ", " and ")


def _ratio(slower: float | None, faster: float) -> float | None:
    return None if slower is None else slower / faster
