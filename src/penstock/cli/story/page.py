"""Writes the story as one self-contained HTML page: the verdict, charts with chapters marked, what each showed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from penstock.cli.story.charts import Chart, Span, rates, svg
from penstock.cli.story.outcome import Judged, Outcome, Told
from penstock.cli.story.plan import HOSTS

__all__ = ["story_page"]

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b42318; --odd: #9a6700; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2rem; font-size: 1.2rem; }
.verdict { font-size: 1.2rem; padding: .8rem 1rem; border: 2px solid; border-radius: .5rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.odd { color: var(--odd); } .small { font-size: .9em; opacity: .85; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; }
pre { overflow-x: auto; background: var(--soft); padding: .8rem; font-size: .85em; line-height: 1.3; }
svg { width: 100%; height: auto; margin: .5rem 0; font-size: 11px; fill: currentColor; }
svg .title { font-size: 13px; font-weight: 600; } svg .chapter, svg .time { text-anchor: middle; }
svg .chapter { opacity: .75; } svg .value { text-anchor: end; }
svg .grid { stroke: var(--line); } svg .odd { fill: var(--soft); } svg .even { fill: none; }
"""
_ABOUT: Final = (
    "Seven broker processes on one machine, publishers of stock quotes, and subscribers who say by a condition on the "
    "content what they want. Six links, each through a small process that can make it narrow or cut it."
)
_OVERLAY: Final = """\
publishers > pb1 -+- ib1 -+- sb1   power 4   < all subscribers join here
                  |       +- sb2   power 3
                  +- ib2 -+- sb3   power 2
                          +- sb4   power 1"""


def story_page(outcome: Outcome) -> str:
    """The page about one run."""
    body = [
        "<h1>Penstock: one run of the demo</h1>",
        f"<p>{escape(_ABOUT)}</p>",
        f"<pre>{escape(_OVERLAY)}</pre>",
        *_verdict(outcome),
        *(svg(chart) for chart in _charts(outcome)),
        '<p class="small">The numbers on top are those of the chapters below.</p>',
        *(line for number, told in enumerate(outcome.chapters, start=1) for line in _chapter(number, told)),
        *_subscribers(outcome.judged),
    ]
    head = f'<meta charset="utf-8"><title>Penstock demo</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def _verdict(outcome: Outcome) -> Iterator[str]:
    kind = "good" if outcome.is_good else "bad"
    yield f'<p class="verdict {kind}">{escape(outcome.verdict_line())}</p>'
    audit = {True: "Spark's audit of durable subscriptions agrees.", False: "Spark's audit found faults.", None: ""}
    latency = outcome.latency
    times = ""
    if latency is not None:
        times = (
            f"From publisher to subscriber, over all chapters, the cut and the throttled link included: half within "
            f"{latency.p50_ms:,.0f} ms, 90 % within {latency.p90_ms:,.0f} ms, 99 % within {latency.p99_ms:,.0f} ms."
        )
    yield f"<p>{len(outcome.judged)} subscribers were judged one by one, from outside the brokers: each selector was"
    yield f" asked about each message. {audit[outcome.is_audit_clean]} {times}</p>"


def _charts(outcome: Outcome) -> Iterator[Chart]:
    samples = outcome.samples
    last_s = samples[-1].at_s if samples else 0.0
    spans = [
        Span(str(n), each.begun_s, min(each.ended_s, last_s))
        for n, each in enumerate(outcome.chapters, 1)
        if each.begun_s < last_s
    ]
    published = rates([(each.at_s, each.published) for each in samples])
    feeds = dict.fromkeys(name for each in samples for name in each.published_by)
    by_feed = {name: rates([(each.at_s, each.published_by.get(name, 0)) for each in samples]) for name in feeds}
    by_host = {name: rates([(each.at_s, each.delivered_by.get(name, 0)) for each in samples]) for name in HOSTS}
    clients = {name: [(each.at_s, float(each.clients.get(name, 0))) for each in samples] for name in HOSTS}
    yield Chart("Published, of all feeds together", "messages/s", {"published": published}, spans)
    yield Chart("Published, by feed", "messages/s", by_feed, spans)
    yield Chart("Delivered, by broker", "deliveries/s", by_host, spans)
    yield Chart("Subscribers, by broker", "clients", clients, spans)


def _chapter(number: int, told: Told) -> Iterator[str]:
    kind = {True: "good", False: "odd", None: "small"}[told.as_expected]
    yield f'<h2>{number}. {escape(told.title)} <span class="{kind}">({escape(told.word)})</span></h2>'
    yield f'<p class="small">{escape(told.about)}</p><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in told.lines)
    yield "</ul>"
    if told.drawing:
        yield f"<pre>{escape(told.drawing)}</pre>"


def _subscribers(judged: Sequence[Judged]) -> Iterator[str]:
    yield f"<details><summary>All {len(judged)} subscribers</summary><table>"
    heads = "<th>subscriber</th><th>in the end at</th><th class='number'>moves</th><th>selector</th>"
    yield f"<tr>{heads}<th class='number'>should get</th><th class='number'>got</th><th>verdict</th></tr>"
    for each in judged:
        kind = "good" if each.verdict.is_right else "bad"
        numbers = "".join(f"<td class='number'>{n:,}</td>" for n in (each.verdict.matched, each.verdict.delivered))
        yield (
            f"<tr><td>{escape(each.name)}</td><td>{escape(each.broker)}</td><td class='number'>{each.moves}</td>"
            f"<td><code>{escape(each.selector)}</code></td>{numbers}"
            f"<td class='{kind}'>{escape(each.verdict.word)}</td></tr>"
        )
    yield "</table></details>"
