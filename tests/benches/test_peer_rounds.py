from __future__ import annotations

import json
from pathlib import Path

from bench.peers.output import Comparison, draw_chart, json_text, markdown
from bench.peers.rounds import Outcome, Row, Spread, rows_of


def outcome(contender: str, rate: float = 0.0, *, invalid: str = "") -> Outcome:
    figures = {} if invalid else {"messages_per_s": rate, "cpu_us": 10.0}
    return Outcome("topics", "20 → 50", contender, figures, invalid)


def comparison(*rows: Row) -> Comparison:
    return Comparison(
        "2026-01-02",
        "abc1234",
        "2 processors",
        load=2.5,
        rounds=3,
        is_quick=False,
        versions={"NATS": "2.9"},
        skipped={"Redis": "not there"},
        rows=rows,
    )


def test_rows_are_medians_of_the_rounds_with_their_range() -> None:
    (row,) = rows_of([outcome("NATS", rate) for rate in (30.0, 10.0, 20.0)])
    assert row.figures["messages_per_s"] == Spread(20.0, 10.0, 30.0)
    assert (row.rounds, row.remark) == (3, "")


def test_contenders_keep_the_order_of_their_first_runs() -> None:
    rows = rows_of([outcome("b", 1.0), outcome("a", 1.0), outcome("b", 2.0)])
    assert [row.contender for row in rows] == ["b", "a"]


def test_an_invalid_round_is_left_out_of_the_median_and_said() -> None:
    (row,) = rows_of(
        [outcome("NATS", 10.0), outcome("NATS", invalid="9 deliveries of 10 came back"), outcome("NATS", 30.0)]
    )
    assert row.figures["messages_per_s"].median == 20.0
    assert row.remark == "1 of 3 rounds invalid: 9 deliveries of 10 came back"


def test_a_row_without_a_valid_round_says_invalid_instead_of_figures() -> None:
    text = markdown(comparison(*rows_of([outcome("NATS", invalid="lost one")])))
    assert "| 20 → 50 | NATS | invalid | - | - | - |" in text
    assert "1 of 1 rounds invalid: lost one" in text


def test_markdown_has_date_commit_machine_versions_and_who_was_skipped() -> None:
    text = markdown(comparison(*rows_of([outcome("NATS", 10.0)])), chart="peers.png")
    assert "- 2026-01-02, commit abc1234, 2 processors\n" in text
    assert "- NATS 2.9\n" in text
    assert "the machine was busy before the start (load 2.5)" in text
    assert "- skipped: Redis: not there\n" in text
    assert "(peers.png)" in text
    assert "| 20 → 50 | NATS | 10 | 10 | - | - |" in text


def test_json_has_the_range_of_every_figure() -> None:
    (row,) = json.loads(json_text(comparison(*rows_of([outcome("NATS", 10.0), outcome("NATS", 20.0)]))))["rows"]
    assert row["figures"]["messages_per_s"] == {"median": 15.0, "lowest": 10.0, "highest": 20.0}


def test_the_chart_is_a_picture_and_leaves_out_rows_without_figures(tmp_path: Path) -> None:
    rows = rows_of([outcome("Penstock", 10.0), outcome("NATS", invalid="lost one")])
    draw_chart(comparison(*rows), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_tables_show_the_lowest_and_the_highest_of_several_rounds() -> None:
    text = markdown(comparison(*rows_of([outcome("NATS", rate) for rate in (30.0, 10.0, 20.0)])))
    assert "| 20 → 50 | NATS | 20 (10 to 30) | 10 | - | - |" in text


def test_markdown_and_json_end_with_a_verdict_on_every_target() -> None:
    rows = rows_of([Outcome("fan-out", "1 → 1", "Penstock, nothing recorded", {"deliveries_per_s": 400_000.0})])
    text = markdown(comparison(*rows))
    assert "| fan-out 1 → 1, nothing recorded: deliveries/s | ≥ 500,000 | 400,000 | missed |" in text
    assert "| topics: CPU beside NATS | ≤ 1 × | - | not measured |" in text
    judged = {each["target"]: each for each in json.loads(json_text(comparison(*rows)))["verdicts"]}
    assert judged["fan-out 1 → 1, nothing recorded: deliveries/s"]["verdict"] == "missed"
