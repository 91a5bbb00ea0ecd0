"""Renders all findings as one self-contained HTML page: charts are embedded, and nothing is loaded from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from penstock.lab.report.chapters import Chapter
from penstock.lab.report.findings import Finding, Measure

__all__ = ["report_page"]

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b42318; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
code { font-size: .92em; } img { max-width: 100%; background: white; border: 1px solid var(--line); }
.small { font-size: .9em; opacity: .85; }
nav li { margin: .15rem 0; } summary { cursor: pointer; }
"""


def report_page(chapters: Sequence[Chapter], findings: Mapping[str, Finding], *, title: str, words: str) -> str:
    """Render the page; ``findings`` are by entry key, and entries without one are shown as not measured."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(words)}</p>",
        *_summary(chapters, findings),
        *(line for chapter in chapters for line in _chapter(chapter, findings)),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def _summary(chapters: Sequence[Chapter], findings: Mapping[str, Finding]) -> Iterator[str]:
    yield "<nav><table><tr><th>paper</th><th>experiments</th><th>figures in their bands</th></tr>"
    for chapter in chapters:
        found = [findings[entry.key] for entry in chapter.entries if entry.key in findings]
        verdicts = [each for finding in found for each in finding.verdicts().values()]
        name = f'<a href="#{chapter.key}">{escape(chapter.title)}</a>'
        kind = "good" if all(verdicts) else "bad"
        count = f'<span class="{kind}">{sum(verdicts)} of {len(verdicts)}</span>' if verdicts else "-"
        yield f"<tr><td>{name}</td><td>{len(found)} of {len(chapter.entries)}</td><td>{count}</td></tr>"
    yield "</table></nav>"


def _chapter(chapter: Chapter, findings: Mapping[str, Finding]) -> Iterator[str]:
    yield f'<h2 id="{chapter.key}">{escape(chapter.title)}</h2>'
    yield f"<p>{escape(chapter.about)} <span class='small'>{escape(chapter.paper)}</span></p>"
    if chapter.deviations:
        yield "<p>Where we differ, and why:</p><ul>"
        yield from (f"<li>{escape(each)}</li>" for each in chapter.deviations)
        yield "</ul>"
    for entry in chapter.entries:
        finding = findings.get(entry.key)
        if finding is None:
            yield f"<h3>{escape(entry.key)}</h3><p class='small'>not measured in this report</p>"
        else:
            yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f'<h3 id="{escape(finding.entry.key)}">{escape(finding.entry.key)}</h3>'
    yield f"<p>{escape(finding.experiment.summary)}</p>"
    verdicts = finding.verdicts()
    told = {*verdicts, *finding.experiment.published}
    rows = [_row(finding, metric, verdicts) for metric in finding.measures if metric in told]
    if rows:
        yield _table(rows)
    rest = [_row(finding, metric, verdicts) for metric in finding.measures if metric not in told]
    if rest:
        yield f"<details><summary>{len(rest)} more figures</summary>{_table(rest)}</details>"
    if finding.figure is not None:
        picture = b64encode(finding.figure).decode()
        yield f'<img alt="{escape(finding.experiment.summary)}" src="data:image/png;base64,{picture}">'
    yield f"<p class='small'>{escape(finding.seeds)}; <code>{escape(finding.command)}</code></p>"


def _table(rows: Sequence[str]) -> str:
    heads = "<th>figure</th><th class='number'>published</th><th class='number'>measured</th><th>band</th><th></th>"
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _row(finding: Finding, metric: str, verdicts: Mapping[str, bool]) -> str:
    published = finding.experiment.published.get(metric, "")
    band = finding.entry.bands.get(metric)
    word: dict[bool | None, str] = {
        True: "<td class='good'>within</td>",
        False: "<td class='bad'>outside</td>",
        None: "<td></td>",
    }
    numbers = f"<td class='number'>{_shown(published)}</td><td class='number'>{_measure(finding.measures[metric])}</td>"
    limits = f"<td>{escape(band.text) if band is not None else ''}</td>"
    if band is not None and metric not in verdicts:
        word = {None: "<td class='small'>not judged: a small run</td>"}
    return f"<tr><td>{escape(metric)}</td>{numbers}{limits}{word[verdicts.get(metric)]}</tr>"


def _measure(measure: Measure) -> str:
    spread = "" if measure.high is None else f" ± {_shown(measure.high - measure.mean)}"
    return _shown(measure.mean) + spread


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return escape(value)
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
