"""Drives a server by client libraries, as applications do: each check is a run of a small program.

A program gets the server and the name of a check, and prints what came out as JSON. So a library that hangs, or that
leaves threads behind, spoils one check and no other. Libraries are installed into ``build/stomp/`` on their first use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from bench.stomp.clause import Need, State, Verdict
from bench.stomp.raw import shown
from bench.stomp.stage import Target

__all__ = ["LIBRARIES", "SCENES", "Library"]

_FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "stomp"
_PROGRAMS: Final = Path(__file__).parent / "programs"
_INSTALL_S_MAX: Final = 300.0
_CHECK_S_MAX: Final = 30.0

SCENES: Final = {
    "connect": "the library connects, by its newest version of STOMP",
    "text": "a text on a topic is received, with its destination",
    "headers": "headers with colons, backslashes, line feeds and other scripts are received exactly",
    "content-type": "the content type is received",
    "binary": "a body of all bytes is received exactly",
    "receipt": "a receipt for a message comes",
    "queue": "messages wait in a queue, and come in order",
    "client": "client: an ACK holds for all messages before it",
    "client-individual": "client-individual: what was acknowledged is done, and the rest comes again",
    "nack": "a message can be refused, and the connection goes on",
    "commit": "a transaction is delivered at COMMIT, and not before",
    "abort": "a transaction is dropped at ABORT",
    "selector": "a selector picks messages",
    "durable": "a durable subscription gets what was sent while it was away",
    "unsubscribe": "nothing comes after UNSUBSCRIBE",
    "error": "an error of the server is reported",
    "wrong-passcode": "a wrong passcode is reported",
    "heart-beat": "an idle connection with heart-beats stays, and works",
    "disconnect": "DISCONNECT is confirmed by its receipt",
}
"""What an application sees: name and sentence."""


@dataclass(slots=True, frozen=True)
class _Outcome:
    """What a program prints."""

    state: str
    seen: str = ""


@dataclass(slots=True, frozen=True)
class Library:
    """A client library and its program."""

    name: str
    packages: Sequence[str]
    program: str
    need: Need = Need.MUST
    identifiers: dict[str, str] = field(init=False)
    """Identifiers of its checks, each with what must hold."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identifiers", {f"{self.name}/{scene}": text for scene, text in SCENES.items()})

    @property
    def is_python(self) -> bool:
        """Whether it is installed by pip, and not by npm."""
        return not self.program.endswith(".cjs")

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return _FOLDER / self.name.replace("@", "").replace("/", "-")

    def install(self) -> str:
        """Install it if it is not there; why that failed, or an empty text."""
        done = self.folder / "installed"
        if done.exists():
            return ""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.is_python:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(self.folder), *self.packages]
        else:
            node, npm = shutil.which("node"), shutil.which("npm")
            if node is None or npm is None:
                return "Node with npm is not installed"
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(self.folder), *self.packages]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S_MAX, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"cannot be installed: {error}"
        if ran.returncode != 0:
            return f"cannot be installed: {shown(ran.stderr.strip().rpartition(chr(10))[2])}"
        done.touch()
        return ""

    def run(self, target: Target, identifiers: Sequence[str]) -> Iterator[tuple[str, Verdict]]:
        """What comes out for each of these checks."""
        for identifier in identifiers:
            yield identifier, self._verdict(target, identifier.rpartition("/")[2])

    def _verdict(self, target: Target, scene: str) -> Verdict:
        settings = msgspec.json.encode(target).decode()
        try:
            ran = subprocess.run(
                [*self._command(), settings, scene],
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=_CHECK_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(State.FAILED, f"nothing came out within {_CHECK_S_MAX:g} s")
        try:
            outcome = msgspec.json.decode(ran.stdout.strip().rpartition("\n")[2], type=_Outcome)
            return Verdict(State(outcome.state), shown(outcome.seen))
        except (ValueError, msgspec.DecodeError):
            return Verdict(State.FAILED, f"the program failed: {shown(ran.stderr.strip()[-300:])}")

    def _command(self) -> list[str]:
        if self.is_python:
            return [sys.executable, "-m", f"bench.stomp.programs.{self.program}"]
        return [shutil.which("node") or "node", str(_PROGRAMS / self.program)]

    def _environment(self) -> dict[str, str]:
        if self.is_python:
            return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(self.folder), *sys.path]))}
        return {**os.environ, "NODE_PATH": str(self.folder / "node_modules")}


LIBRARIES: Final = (
    Library("stomp.py", ("stomp.py",), "stomp_py_program"),
    Library("stompman", ("stompman",), "stompman_program"),
    Library("@stomp/stompjs", ("@stomp/stompjs", "ws"), "stompjs_program.cjs"),
)
