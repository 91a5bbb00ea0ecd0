"""House style as a test (rules 1, 9, 13 and 14): what a reviewer should not have to look for.

Every check is a function that returns complaints, and has tests of its own on bad samples below: a check that cannot
fail is worth nothing.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "penstock"
TESTS = ROOT / "tests"

PROTOCOL_ROOMS = (
    "model",
    "protocol",
    "selectors",
    "matching",
    "streams",
    "congestion",
    "balancing",
    "tracking",
    "ajil",
    "token",
    "session",
    "broker",
)
OUTSIDE_WORLD = (
    "asyncio",
    "datetime",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
)
OUTSIDE_CALLS = ("open", "print")
FIRST_SENTENCE_WORDS_MIN = 4

Check = Callable[[Path], list[str]]

# A module of so many lines needs no test file of its own.
SMALL_LINES = 60
# Folders of tests that do not mirror one module each, but try the system as a whole.
UNMIRRORED = ("live", "spark", "browser", "benches", "hostile")

# Written so that this file does not break its own rules.
LEFTOVERS = {
    "leftover note": re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b"),
    "host of a package registry": re.compile(
        r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|yarnpkg\.com|crates\.io|anaconda\.(?:org|com)"
        r"|repo1?\.maven(?:\.apache)?\.org|jsdelivr\.net|unpkg\.com)\b"
    ),
    "path of one machine": re.compile(r"(?<![\w.~*-])/(?:home|root|work)/"),
    "citation of what is not here": re.compile(r"\bspec/[a-z]|\bDES[I]GN\b|\(issue \d+\)"),
}


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def protocol_sources(package: Path) -> list[Path]:
    return [path for room in PROTOCOL_ROOMS for path in sources(package / room)]


def mirrors(tests: Path) -> list[Path]:
    return sorted(tests.rglob("test_*.py"))


def tracked_files(root: Path) -> list[Path]:
    """The files in git; none outside of a git checkout, for example in an unpacked source distribution."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return []
    # A checkout that git refuses to read (another owner's, for example) is left alone as well.
    listed = subprocess.run([git, "ls-files", "-z"], cwd=root, capture_output=True, check=False, text=True).stdout
    return [path for name in sorted(filter(None, listed.split("\0"))) if (path := root / name).is_file()]


def outside_world(path: Path) -> list[str]:
    """Rule 1: imports and calls by which a protocol room would reach clocks, chance, sockets or files."""
    return [f"line {line}: {what}" for node in ast.walk(parsed(path)) for line, what in reached_by(node)]


def reached_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            modules = [alias.name for alias in names]
            yield from ((node.lineno, f"imports {name}") for name in modules if is_outside(name))
        case ast.ImportFrom(module=str(module), names=names, level=0):
            modules = [module, *(f"{module}.{alias.name}" for alias in names if module == "numpy")]
            yield from ((node.lineno, f"imports from {name}") for name in modules if is_outside(name))
        case ast.Call(func=ast.Name(id=name)) if name in OUTSIDE_CALLS:
            yield node.lineno, f"calls {name}()"
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
            yield node.lineno, "uses numpy's own chance"


def is_outside(module: str) -> bool:
    return module.partition(".")[0] in OUTSIDE_WORLD or f"{module}.".startswith("numpy.random.")


def upward_names(path: Path) -> list[str]:
    """Strings by which a room would reach one that it may not import: modules to be started, loaded or looked up."""
    own = room_of(path)
    return [
        f"line {line}: {text!r} names {named}, which {own} may not import"
        for line, text in strings_of(parsed(path))
        for named in rooms_named(text)
        # Rooms of one layer do not import each other either.
        if named != own and layer_of(named) <= layer_of(own)
    ]


def room_of(path: Path) -> str:
    """The folder right below the package; a file of a sample says it by its own folder."""
    return path.relative_to(PACKAGE).parts[0] if path.is_relative_to(PACKAGE) else path.parent.name


def layer_of(room: str) -> int:
    """The layer of a room by the import contract, counted from the top."""
    return next(number for number, rooms in enumerate(layers()) if room in rooms)


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    return tuple(tuple(re.findall(r"\w+", line)) for line in contract["layers"])


def strings_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All strings but docstrings; those of a command, given as a list or tuple, also as one text."""
    remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in remarks:
                yield node.lineno, text
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                words = [part.value for part in parts if isinstance(part, ast.Constant)]
                yield node.lineno, " ".join(word for word in words if isinstance(word, str) and " " not in word)


def rooms_named(text: str) -> list[str]:
    """The rooms whose modules a text names; the package itself, started as a module, is the command line."""
    known = {room for rooms in layers() for room in rooms}
    named = re.findall(r"\bpenstock\.(\w+)", text) + re.findall(r"\bfrom penstock import (\w+)", text)
    started = ["__main__"] if re.search(r"-m penstock(?![.\w])", text) else []
    return [room for room in named if room in known] + started


def poor_docstring(path: Path) -> list[str]:
    """Rule 9: a module's docstring opens with a sentence that says what it is for."""
    docstring = ast.get_docstring(parsed(path))
    if not docstring:
        return ["has no docstring"]
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    if not paragraph.endswith((".", ":", ")", "?")):
        return [f"the first paragraph of the docstring does not end as a sentence: {paragraph[-40:]!r}"]
    first = re.split(r"(?<=[.?]) ", paragraph)[0]
    enough = len(first.split()) >= FIRST_SENTENCE_WORDS_MIN
    return [] if enough else [f"the docstring's first sentence says too little: {first!r}"]


def poor_exports(path: Path) -> list[str]:
    """Rule 15: public names only through `__all__`, whose names exist, once each and in the order of the linter."""
    tree = parsed(path)
    exported = exports_of(tree)
    public = [name for name in defined_names(tree) if not name.startswith("_")]
    if exported is None:
        return [f"has public names but no __all__: {', '.join(public)}"] if public else []
    bound = {*defined_names(tree), *imported_names(tree)}
    # A package that loads its names on demand has a __getattr__ which only a test of its own can check.
    missing = [] if "__getattr__" in bound else [name for name in exported if name not in bound]
    complaints = [f"__all__ names {name!r}, which is not there" for name in missing]
    if exported != sorted(set(exported), key=export_key):
        complaints.append("__all__ is not sorted, or names something twice")
    return complaints


def exports_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                return list(ast.literal_eval(value))
    return None


def export_key(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Constants, then classes, then the rest, with numbers in names by value: what the linter wants, too."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return group, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, also those below an `if` or a `try`."""
    for node in body:
        yield node
        match node:
            case ast.If(body=inner, orelse=other):
                yield from top_level([*inner, *other])
            case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=final):
                handled = [each for handler in handlers for each in handler.body]
                yield from top_level([*inner, *handled, *other, *final])


def defined_names(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in top_level(tree.body):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets):
                names += [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
    return names


def imported_names(tree: ast.Module) -> list[str]:
    imports = (node for node in top_level(tree.body) if isinstance(node, ast.Import | ast.ImportFrom))
    return [(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names]


def lacks_test(module: Path, package: Path, tests: Path) -> bool:
    """Rule 13: whether a module has no test file at the same place; a small one may be tested with its neighbours."""
    if module.name in ("__init__.py", "__main__.py") or mirror(module, package, tests).is_file():
        return False
    return len(module.read_text(encoding="utf-8").splitlines()) > SMALL_LINES


def lacks_source(test: Path, package: Path, tests: Path) -> bool:
    """Rule 13: whether a test file has no module at the same place, and should have one."""
    place = test.relative_to(tests)
    if place.parts[0] in UNMIRRORED or place.name.startswith("test_scenario_") or place == Path("test_tidy.py"):
        return False
    neighbours = (package / place).parent.glob("*.py")
    return test not in {mirror(module, package, tests) for module in neighbours if module.name != "__init__.py"}


def mirror(module: Path, package: Path, tests: Path) -> Path:
    """Where the tests of a module are; its leading underscore is left out."""
    return tests / module.relative_to(package).with_name(f"test_{module.stem.lstrip('_')}.py")


def leftovers(path: Path) -> list[str]:
    """Rule 14: notes to oneself and addresses of one's own surroundings, in any text file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []
    return [
        f"line {number}: {what}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in LEFTOVERS.items()
        if pattern.search(line)
    ]


def parsed(path: Path) -> ast.Module:
    return tree_of(path.read_text(encoding="utf-8"))


@cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def offenders(paths: list[Path], check: Check) -> dict[str, list[str]]:
    """The files that a check complains about; one test for all of them, since there are hundreds."""
    found = {relative(path): check(path) for path in paths}
    return {name: complaints for name, complaints in found.items() if complaints}


# The checks on this tree.


def test_protocol_rooms_know_values_only() -> None:
    assert offenders(protocol_sources(PACKAGE), outside_world) == {}


def test_no_room_names_what_it_may_not_import() -> None:
    rooms = [path for path in sources(PACKAGE) if path.parent != PACKAGE]
    assert offenders(rooms, upward_names) == {}


def test_modules_open_with_a_sentence() -> None:
    assert offenders(sources(PACKAGE), poor_docstring) == {}


def test_public_names_are_exported_in_order() -> None:
    assert offenders(sources(PACKAGE), poor_exports) == {}


def test_every_module_has_its_test_file() -> None:
    assert [relative(path) for path in sources(PACKAGE) if lacks_test(path, PACKAGE, TESTS)] == []


def test_every_test_file_has_its_module() -> None:
    assert [relative(path) for path in mirrors(TESTS) if lacks_source(path, PACKAGE, TESTS)] == []


def test_nothing_is_left_over() -> None:
    assert offenders(tracked_files(ROOT), leftovers) == {}


# The checks on bad samples.


def complaints_about(check: Check, text: str, folder: Path) -> str:
    sample = folder / "sample.py"
    sample.write_text(text, encoding="utf-8")
    return "\n".join(check(sample))


@pytest.mark.parametrize(
    ("check", "text", "complaint"),
    [
        (outside_world, "import time", "line 1: imports time"),
        (outside_world, "import os.path as p", "imports os.path"),
        (outside_world, "def f():\n    from random import Random", "line 2: imports from random"),
        (outside_world, "from numpy import random", "imports from numpy.random"),
        (outside_world, "import numpy as np\nnp.random.default_rng()", "line 2: uses numpy's own chance"),
        (outside_world, "print('x')", "calls print()"),
        (outside_world, "with open('x') as f: pass", "calls open()"),
        (poor_docstring, "x = 1", "has no docstring"),
        (poor_docstring, '"""A module that never ends"""', "does not end as a sentence"),
        (poor_docstring, '"""Some helpers."""', "says too little: 'Some helpers.'"),
        (poor_exports, "def f(): pass", "has public names but no __all__: f"),
        (poor_exports, "try:\n    x = 1\nexcept E:\n    x = 2", "has public names but no __all__"),
        (poor_exports, "__all__ = ['g']\ndef f(): pass", "__all__ names 'g', which is not there"),
        (poor_exports, "__all__ = ['a', 'B']\na = B = 1", "not sorted"),
        (poor_exports, "__all__ = ['a', 'a']\na = 1", "not sorted, or names something twice"),
        (leftovers, "x = 1  # TO" + "DO later", "line 1: leftover note"),
        (leftovers, "\nurl = 'https://pypi" + ".org/simple'", "line 2: host of a package registry"),
        (leftovers, "path = '/ho" + "me/me/x'", "path of one machine"),
        (leftovers, "as in sp" + "ec/token.md", "citation of what is not here"),
    ],
)
def test_a_check_notices_a_bad_sample(check: Check, text: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in complaints_about(check, text, tmp_path)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (outside_world, "import timeit\nfrom . import time\nfrom penstock.model import os\nx.open()\nx.random"),
        (poor_docstring, '"""Keeps ticks as ranges (a leaf), which\nis small.\n\nMore\n"""'),
        (poor_docstring, '"""Penstock: what it is, in short."""'),
        (poor_exports, "import os\n_x = 1\ndef _f(): pass"),
        (poor_exports, "from a import LIMIT, Thing, step2, step10\n__all__ = ['LIMIT', 'Thing', 'step2', 'step10']"),
        (poor_exports, "__all__ = ['Lazy']\ndef __getattr__(name): pass"),
        (leftovers, "see https://example.org/home/ and ~/roots/, a methodology of todos"),
    ],
)
def test_a_check_lets_a_good_sample_pass(check: Check, text: str, tmp_path: Path) -> None:
    assert complaints_about(check, text, tmp_path) == ""


def test_binary_files_have_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff TO" + b"DO ")
    assert leftovers(tmp_path / "image.png") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            'START = "from penstock.cli import main; main()"',
            "line 1: 'from penstock.cli import main; main()' names cli",
        ),
        ('MODULE = "penstock.pipeline.sink.relay"', "names pipeline, which lab may not import"),
        ("def f():\n    load(f'penstock.console.{name}')", "line 2: 'penstock.console.' names console"),
        ('COMMAND = (sys.executable, "-m", "penstock", "broker")', "names __main__, which lab may not import"),
        ('SCRIPT = "exec python -m penstock broker"', "names __main__"),
        ('SCRIPT = "from penstock import cli"', "names cli"),
    ],
)
def test_a_name_of_a_room_above_is_noticed(text: str, complaint: str, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    assert complaint in complaints_about(upward_names, text, folder)


def test_rooms_of_one_layer_may_not_name_each_other_either(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    assert "names live" in complaints_about(upward_names, 'MODULE = "penstock.live.node"', folder)


def test_names_of_rooms_below_and_words_that_are_no_rooms_are_fine(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    fine = [
        '"""As `penstock.cli` does it, by `python -m penstock`."""',
        'COMMAND = (sys.executable, "-m", "penstock.live", "penstock.lab.links.relay")',
        'KEYS = ["penstock.table", "penstock://host", "penstock.zip"]',
        'from penstock.model import names; PATH = "src/penstock"',
    ]
    assert complaints_about(upward_names, "\n".join(fine), folder) == ""


def make_tree(root: Path, *names: str) -> tuple[Path, Path]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root / "src", root / "tests"


def test_a_module_without_test_and_a_test_without_module_are_noticed(tmp_path: Path) -> None:
    names = ["src/a/__init__.py", "src/a/b.py", "src/a/small.py", "tests/a/test_c.py", "tests/test_d.py"]
    package, tests = make_tree(tmp_path, *names)
    (package / "a" / "b.py").write_text("\n" * (SMALL_LINES + 1), encoding="utf-8")
    (package / "a" / "small.py").write_text("\n" * SMALL_LINES, encoding="utf-8")
    assert [path.name for path in sources(package) if lacks_test(path, package, tests)] == ["b.py"]
    assert [path.name for path in mirrors(tests) if lacks_source(path, package, tests)] == ["test_c.py", "test_d.py"]


def test_a_mirrored_tree_is_accepted_with_the_tests_of_the_whole_system(tmp_path: Path) -> None:
    mirrored = ["src/a/b.py", "tests/a/test_b.py", "src/a/_c.py", "tests/a/test_c.py", "src/__main__.py"]
    whole = ["tests/test_tidy.py", "tests/live/test_x.py", "tests/spark/s/test_y.py", "tests/a/test_scenario_z.py"]
    package, tests = make_tree(tmp_path, *mirrored, *whole)
    assert not any(lacks_test(path, package, tests) for path in sources(package))
    assert not any(lacks_source(path, package, tests) for path in mirrors(tests))


def test_only_protocol_rooms_that_exist_are_looked_at(tmp_path: Path) -> None:
    package, _ = make_tree(tmp_path, "src/model/a.py", "src/token/deep/b.py", "src/live/c.py")
    assert [path.name for path in protocol_sources(package)] == ["a.py", "b.py"]


def test_outside_of_a_checkout_no_file_is_tracked(tmp_path: Path) -> None:
    assert tracked_files(tmp_path) == []
