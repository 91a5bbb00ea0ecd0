"""``penstock match`` finds exactly the pairs a loop over all selectors finds, whatever the format of its inputs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import match_inputs
from penstock.cli.app import app
from penstock.model.values import AttributeValue
from penstock.selectors import Selector
from penstock.sim.workloads import QuoteWorkload

MARKET = QuoteWorkload(Random(11), 4, days=30)
QUOTES = list(MARKET.publications(60))
TEXTS = [*MARKET.subscriptions(100), *MARKET.mixed_subscriptions(25), "volume = 0 OR high > 50", "missing IS NULL"]


def run(folder: Path, selectors: str, messages: str | bytes, *options: str, name: str = "messages") -> Result:
    (folder / "selectors").write_text(selectors)
    content = messages if isinstance(messages, bytes) else messages.encode()
    (folder / name).write_bytes(content)
    paths = ["--selectors", str(folder / "selectors"), "--messages", str(folder / name)]
    return CliRunner().invoke(app, ["match", *paths, *options])


def naive_pairs(messages: Sequence[dict[str, AttributeValue]]) -> list[tuple[int, int]]:
    selectors = [Selector.parse(text) for text in TEXTS]
    return [
        (number, place)
        for number, message in enumerate(messages, start=1)
        for place, selector in enumerate(selectors, start=1)
        if selector.matches(message)
    ]


def as_json_lines() -> str:
    return "# quotes\n\n" + "\n".join(map(json.dumps, QUOTES)) + "\n"


def as_padres() -> str:
    def shown(value: AttributeValue) -> str:
        return f"'{value}'" if isinstance(value, str) else repr(value)

    return "\n".join(",".join(f"[{name},{shown(value)}]" for name, value in quote.items()) for quote in QUOTES)


def as_csv() -> str:
    names = ["symbol", "date", "open", "high", "low", "close", "volume"]
    return "\n".join([",".join(names), *(",".join(str(quote[name]) for name in names) for quote in QUOTES)]) + "\n"


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        (as_json_lines(), "messages.jsonl"),
        (as_padres(), "messages.txt"),
        (as_csv(), "messages.csv"),
        (as_csv(), "header-only-tells"),
        (gzip.compress(as_csv().encode(), mtime=0), "messages.csv.gz"),
        (gzip.compress(as_json_lines().encode(), mtime=0), "messages.gz"),
    ],
)
def test_pairs_and_counts_equal_a_loop_over_all_selectors(tmp_path: Path, messages: str | bytes, name: str) -> None:
    expected = naive_pairs(QUOTES)
    assert len(expected) > 500
    pairs = run(tmp_path, "\n".join(TEXTS), messages, name=name)
    assert pairs.stdout == "".join(f"{number}\t{place}\n" for number, place in expected)
    counts = run(tmp_path, "\n".join(TEXTS), messages, "--count", name=name)
    places = [place for _, place in expected]
    assert counts.stdout == "".join(f"{place}\t{places.count(place)}\n" for place in range(1, len(TEXTS) + 1))
    assert f"60 messages, {len(TEXTS)} selectors, {len(expected):,} matches in " in counts.stderr


@pytest.mark.parametrize("option", [(), ("--count",), ("--json",)])
def test_the_number_of_processes_does_not_change_the_output(
    tmp_path: Path, option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_inputs, "CHUNK_MESSAGES", 7)
    selectors = "\n".join(TEXTS)
    outputs = [run(tmp_path, selectors, as_json_lines(), *option, "--jobs", jobs).stdout for jobs in ("1", "2")]
    assert outputs[0].split('"seconds"')[0] == outputs[1].split('"seconds"')[0] != ""


def test_a_worker_reports_the_line_of_a_bad_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_inputs, "CHUNK_MESSAGES", 1)
    result = run(tmp_path, "a = 1", '{"a": 1}\n\n{"a": [1]}\n', "--jobs", "2")
    assert result.exit_code == 2
    assert "messages, line 3: not a flat JSON object" in result.stderr


def test_json_output_is_one_object(tmp_path: Path) -> None:
    selectors, messages = 'a = 1\n{"id": "mine", "selector": "a > 0"}\n', '{"a": 1}\n{"a": 2}\n{"a": 0}\n'
    pairs = json.loads(run(tmp_path, selectors, messages, "--json").stdout)
    assert pairs["pairs"] == [[1, 1], [1, "mine"], [2, "mine"]]
    assert (pairs["messages"], pairs["selectors"], pairs["matches"]) == (3, 2, 3)
    counts = json.loads(run(tmp_path, selectors, messages, "--json", "--count").stdout)
    assert counts["counts"] == [{"selector": 1, "count": 1}, {"selector": "mine", "count": 2}]
    nothing = json.loads(run(tmp_path, "a = 9", messages, "--json").stdout)
    assert nothing["pairs"] == []


def test_selectors_come_in_every_form(tmp_path: Path) -> None:
    lines = ["# comment", "", "a = 1", "[a,=,1]", '"a = 1"', '{"id": 77, "selector": "a = 1"}', '{"selector": "a = 1"}']
    assert run(tmp_path, "\n".join(lines), '{"a": 1}\n').stdout == "1\t1\n1\t2\n1\t3\n1\t77\n1\t5\n"


def test_either_input_may_be_standard_input_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "selectors").write_text("a = 1\n")
    (tmp_path / "messages").write_text('{"a": 1}\n')
    arguments = ["match", "--selectors", str(tmp_path / "selectors"), "--messages", "-"]
    assert CliRunner().invoke(app, arguments, input='{"a": 2}\n{"a": 1}\n').stdout == "2\t1\n"
    arguments = ["match", "--selectors", "-", "--messages", str(tmp_path / "messages")]
    assert CliRunner().invoke(app, arguments, input="a = 2\na = 1\n").stdout == "1\t2\n"
    both = CliRunner().invoke(app, ["match", "--selectors", "-", "--messages", "-"])
    assert both.exit_code == 2
    assert "cannot both come from standard input" in both.stderr


def test_no_messages_are_no_matches(tmp_path: Path) -> None:
    result = run(tmp_path, "a = 1", "# nothing\n", "--count")
    assert (result.exit_code, result.stdout) == (0, "1\t0\n")


@pytest.mark.parametrize(
    ("selectors", "complaint"),
    [
        ("a = 1\n\na = = 1\n", "selectors, line 3: expected"),
        ("a = 1\n", None),
        ('"a = "', "selectors, line 1: expected"),
        ('{"id": "x"}', "selectors, line 1: not a flat JSON object: Object missing required field `selector`"),
        ('{"selector": "a = 1", "name": 1}', "selectors, line 1: not a flat JSON object"),
        ('{"selector": "a = 1"', "selectors, line 1: malformed JSON"),
        ('{"id": "a\\tb", "selector": "a = 1"}', "has characters that cannot be printed"),
        ('{"id": 2, "selector": "a = 1"}\na = 2', "selectors, line 2: the id 2 is taken by line 1"),
        ("# nothing\n", "selectors: no selectors in it"),
    ],
)
def test_a_bad_selector_is_told_with_its_line(tmp_path: Path, selectors: str, complaint: str | None) -> None:
    result = run(tmp_path, selectors, '{"a": 1}\n')
    assert result.exit_code == (0 if complaint is None else 2)
    assert (complaint or "") in result.stderr
    assert "Traceback" not in result.output


def test_the_caret_of_a_malformed_selector_is_kept(tmp_path: Path) -> None:
    lines = run(tmp_path, "a = = 1\n", "").stderr.splitlines()
    assert lines[1:] == ["  a = = 1", "      ^"]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ('{"a": 1}\n{"a": \n', "messages, line 2: malformed JSON"),
        ('{"a": {"b": 1}}\n', "messages, line 1: not a flat JSON object"),
        ('{"$a": 1}\n', "messages, line 1: "),
        ('{"": 1}\n', "messages, line 1: "),
        (f'{{"a": {2**70}}}\n', "messages, line 1: "),
        ("a = 1\n", "messages, line 1: expected a JSON object"),
        ("[a,1],[b\n", "messages, line 1: "),
        ("date,symbol,open,high,low,close,volume\nx,y,1,2,3,z,5\n", "messages, line 2, column close: 'z'"),
        (b"\xff\xff", "messages, after line 0: not UTF-8"),
        (gzip.compress(b'{"a": 1}\n', mtime=0)[:-3], "messages, after line"),
    ],
)
def test_a_bad_message_is_told_with_its_line(tmp_path: Path, messages: str | bytes, complaint: str) -> None:
    result = run(tmp_path, "a = 1", messages)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_a_csv_file_without_content_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, "a = 1", "", name="messages.csv")
    assert result.exit_code == 2
    assert "messages.csv: empty" in result.stderr
