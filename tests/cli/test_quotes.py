"""``penstock quotes`` makes inputs for ``penstock match``, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.selectors import Selector
from penstock.sim.workloads import load_quotes


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["quotes", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_quotes_are_csv_that_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text(output("--count", "25", "--symbols", "3", "--seed", "5"))
    quotes = load_quotes(path)
    assert len(quotes) == 25
    assert len({quote["symbol"] for quote in quotes}) == 3
    assert output("--count", "25", "--quotes", str(path)) == path.read_text()


def test_subscriptions_are_one_selector_per_line() -> None:
    for kind in ("--subscriptions", "--mixed"):
        lines = output(kind, "--count", "30").splitlines()
        assert len(lines) == 30
        for line in lines:
            Selector.parse(line)


def test_the_seed_decides() -> None:
    assert output("--seed", "1") == output("--seed", "1") != output("--seed", "2")


def test_subscriptions_follow_the_given_quotes(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text("date,symbol,open,high,low,close,volume\n2004-12-28,YHOO,37.85,37.99,37.65,37.90,11291000\n")
    lines = output("--subscriptions", "--count", "100", "--quotes", str(path)).splitlines()
    assert "class = 'STOCK' AND symbol = 'YHOO' AND high > 37.99" in lines
