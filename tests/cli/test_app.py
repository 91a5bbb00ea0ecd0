"""The command as a whole: version, help, and the way to each part."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.app import app


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {__version__}\n")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            [],
            [
                "demo",
                "broker",
                "publish",
                "subscribe",
                "durable",
                "status",
                "top",
                "tune",
                "match",
                "quotes",
                "overlay",
                "lab",
                "--version",
            ],
        ),
        (["demo"], ["--fast", "--keep", "--no-spark", "--report", "--seed", "--json", "Examples"]),
        (["broker"], ["OVERLAY.TOML", "--name", "--log-json", "--log-level", "Examples"]),
        (
            ["publish"],
            ["--attribute", "--payload", "--jsonl", "--quotes", "--generate", "--rate", "--token", "Examples"],
        ),
        (["subscribe"], ["SELECTOR", "--count", "--seconds", "--json", "--token", "Examples"]),
        (["subscribe"], ["--durable", "--manual", "--from", "--missing", "--show-lag", "earliest|latest|TIME"]),
        (["durable"], ["forget"]),
        (["durable", "forget"], ["URL", "NAME", "--token", "Examples"]),
        (["status"], ["--json", "--token", "Examples"]),
        (["top"], ["OVERLAY.TOML", "--interval", "--once", "--json", "--token", "Examples"]),
        (["tune"], ["OVERLAY.TOML", "KEY=VALUE", "--broker", "--list", "--json", "Examples"]),
        (["match"], ["--selectors", "--messages", "--count", "--jobs", "Examples"]),
        (["quotes"], ["--subscriptions", "--symbols", "Examples"]),
        (["overlay"], ["check", "apply"]),
        (["overlay", "check"], ["OVERLAY.TOML", "--json", "Examples"]),
        (["overlay", "apply"], ["OVERLAY.TOML", "--dry-run", "--json", "SIGHUP", "Examples"]),
        (["lab"], ["list", "run"]),
        (["lab", "run"], ["--seed", "--set", "--quick", "--figures", "--quotes", "Examples"]),
    ],
)
def test_help_names_the_options_and_gives_examples(command: list[str], words: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exit_code == 0
    assert [word for word in words if word not in result.stdout] == []


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["match"], ["lab", "run", "x", "--nonsense"], ["quotes", "--count", "x"]]
)
def test_a_wrong_call_ends_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stderr
    assert "Traceback" not in result.output


def test_commands_are_listed_in_their_order_and_a_misspelt_one_is_recognised() -> None:
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).stdout
    places = [
        lines.index(f"│ {name} ") for name in ("demo", "broker", "durable", "limit", "overlay", "unpin", "pipeline")
    ]
    assert places == sorted(places)
    assert "Did you mean 'status'" in CliRunner().invoke(app, ["statsu"]).stderr


def test_what_a_command_does_not_need_is_not_loaded() -> None:
    script = """
import sys
from typer.testing import CliRunner
from penstock.cli.app import app
assert CliRunner().invoke(app, ["overlay", "check", "missing.toml"]).exit_code == 2
print(*(name for name in sys.modules if name.startswith("penstock.") and name.count(".") == 1))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "penstock.live" in done.stdout.split()
    assert not {"penstock.lab", "penstock.sim", "penstock.pipeline", "penstock.client"} & set(done.stdout.split())


@pytest.mark.parametrize("command", ["status", "publish", "subscribe", "trace"])
def test_a_command_that_asks_a_broker_loads_none(command: str) -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from penstock.cli.app import app
assert CliRunner().invoke(app, ["{command}", "--help"]).exit_code == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"numpy", "penstock.broker", "penstock.balancing", "penstock.live.overlay"}
    assert not heavy & set(done.stdout.split())


def test_the_commands_of_the_pipeline_are_listed() -> None:
    result = CliRunner().invoke(app, ["pipeline", "--help"])
    assert result.exit_code == 0
    assert "sweep" in result.stdout


def test_other_commands_do_not_wait_for_spark_to_be_imported() -> None:
    heavy = ["pyspark", "pyarrow", "pandas", "matplotlib"]
    code = f"import sys, penstock.cli; print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_what_the_client_of_a_command_logs_is_not_shown_besides_its_own_message() -> None:
    code = "from penstock.cli import main; main()"
    command = [sys.executable, "-c", code, "publish", "penstock://127.0.0.1:1", "-a", "a=1"]
    result = subprocess.run(command, capture_output=True, check=False, text=True)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: penstock://127.0.0.1:1: ")
