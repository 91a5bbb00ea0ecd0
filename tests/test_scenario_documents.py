"""What the documents tell people to type works: their commands are run, in order, on real brokers.

Blocks of a page become one script: TOML and Python blocks that begin with a file name are written to that file, shell
blocks are run. Ports are moved out of the way, and after a broker was started the script waits until it listens.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.lab.demo_overlay import free_ports

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:toml|py))\n")
BROKER = re.compile(r"^(?:\.venv/bin/)?(penstock broker .* --name (\w+)) &$")
PORT = re.compile(r"\b(70\d\d|90\d\d|6161\d)\b")
BEGIN = "set -eu\nbrokers=\ntrap 'code=$?; kill $brokers; wait || :; exit $code' EXIT\n"
STARTED = """{command} >{name}.out 2>{name}.log &
brokers="$brokers $!"
until grep -qs listens {name}.out; do kill -0 $! || {{ cat {name}.log; exit 1; }}; sleep 0.05; done
"""


def script_of(page: str) -> str:
    """The page as one shell script."""
    lines = [BEGIN]
    for kind, content in BLOCK.findall(page):
        if name := FILE.match(content):
            lines.append(f"cat > {name[1]} <<'END_OF_FILE'\n{content}END_OF_FILE\n")
        elif kind == "sh":
            lines += [shell_line(line) for line in content.splitlines() if not line.startswith("make ")]
    return moved("".join(lines))


def shell_line(line: str) -> str:
    """A line as it is run: a broker is waited for."""
    if broker := BROKER.match(line):
        return STARTED.format(command=broker[1], name=broker[2])
    return line.removeprefix(".venv/bin/") + "\n"


def moved(script: str) -> str:
    """The script with other ports."""
    ports = sorted(set(PORT.findall(script)))
    others = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    return PORT.sub(lambda found: others[found[0]], script)


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with our commands on its path."""
    binaries = folder / "bin"
    binaries.mkdir()
    command = "from penstock.cli import main; main()"
    for name, content in {
        "penstock": f"#!/bin/sh\nexec {sys.executable} -c '{command}' \"$@\"\n",
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }.items():
        (binaries / name).write_text(content)
        (binaries / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        ["/bin/sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.live
def test_the_quick_start_does_what_it_says(tmp_path: Path) -> None:
    done = run(script_of((ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "symbol='YHOO' volume=500 | 18.20" in done.stdout
    assert "18.21" not in done.stdout
    assert "'traders' is forgotten" in done.stderr
    assert "{'symbol': 'IBM', 'volume': 100} b'a quote'" in done.stdout
    assert "→ reader" in done.stdout


@pytest.mark.live
def test_the_recipes_do_what_they_say(tmp_path: Path) -> None:
    done = run(script_of((ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "resized 1.png\nresized 2.png\nresized 3.png\n",
        "given up: twelve because attempt 2 by ",
        "YHOO costs 18.2\n",
        "sum 42\nsum 100\n",
        "total 100\n",
        "counted {'sensor': 50, 'till-1': 50, 'till-2': 50}\n",
        "d1 does blink\nd2 does sleep\n",
        "BOLT 7\nACME 11\n",
    ):
        assert line in done.stdout, done.stdout + done.stderr
    assert "1 dropped" in done.stderr
    assert done.stdout.count("celsius=21.5") == 2


@pytest.mark.live
@pytest.mark.skipif(shutil.which("nc") is None, reason="nc is missing (Debian: netcat-openbsd)")
def test_the_page_on_stomp_does_what_it_says(tmp_path: Path) -> None:
    done = run(script_of((ROOT / "docs" / "stomp.md").read_text(encoding="utf-8")), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("CONNECTED\nversion:1.2\n", "receipt-id:r1\n", "receipt-id:r2\n", "\nvolume:500\n\n18.20\n"):
        assert line in done.stdout, done.stdout + done.stderr


def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    done = run(script_of((ROOT / "README.md").read_text(encoding="utf-8")), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "{'symbol': 'YHOO', 'volume': 100} b'a quote'" in done.stdout


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [each.partition("#")[0] for each in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [
        each for each in targets if each and not each.startswith("http") and not (page.parent / each).exists()
    ] == []


def test_a_command_that_fails_would_be_noticed(tmp_path: Path) -> None:
    assert run(script_of("```sh\nsleep 60 &\nbrokers=$!\npenstock nonsense\n```\n"), tmp_path).returncode == 2


PAGES = ("architecture", "proof", "reliability")
NAMED = re.compile(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+(?:\.py)?)?|[a-z0-9_]+\.py)`")
ROOMS = re.compile(r"^\| .*", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    named = NAMED.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert named
    missing = [name for name in named if not any(is_there(base / name) for base in (ROOT, ROOT / "src" / "penstock"))]
    assert missing == []


def is_there(path: Path) -> bool:
    """Whether it is a file, a folder, or a module that was named without its ending."""
    return path.exists() or path.with_suffix(".py").exists()


def test_rooms_in_the_tables_of_the_architecture_are_there() -> None:
    rows = ROOMS.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    rooms = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]
    known = {path.stem for path in (ROOT / "src" / "penstock").rglob("*.py")}
    assert len(rooms) > 10
    assert [name for name in rooms if name not in known] == []
