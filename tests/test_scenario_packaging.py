"""What is installed for development is written down: every requirement has one version, and it fits."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CLIENT_ROOMS = ("client", "model", "protocol", "selectors", "session")
ENTRY = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9][0-9a-z.]*)(?: ; (?P<marker>[^\\]+?))?"
    r"(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)


def entries() -> list[re.Match[str]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    found = list(ENTRY.finditer(lock))
    # Nothing but versions and hashes: where packages come from is each machine's own business.
    assert "".join(each[0] for each in found) == lock
    return found


def locked() -> dict[str, str]:
    return {each["name"]: each["version"] for each in entries()}


def locked_here() -> dict[str, str]:
    return {
        each["name"]: each["version"]
        for each in entries()
        if each["marker"] is None or Marker(each["marker"]).evaluate()
    }


def requirements() -> list[Requirement]:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = told["project"]
    extras = [one for some in project["optional-dependencies"].values() for one in some]
    found = [Requirement(each) for each in (*project["dependencies"], *extras, *told["dependency-groups"]["dev"])]
    # Extras name each other by Penstock's own name.
    return [each for each in found if each.name != "penstock"]


def test_every_requirement_has_a_version_in_the_lock_and_it_fits() -> None:
    versions = locked()
    misfits = [
        str(each) for each in requirements() if not each.specifier.contains(versions[canonicalize_name(each.name)])
    ]
    assert misfits == []


def test_every_version_in_the_lock_is_on_the_page_of_dependencies() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([^`]+)` \| (\S+) \|", page, re.MULTILINE)) == locked_here()


def test_the_archive_of_the_sources_has_what_a_clone_needs() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = told["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (ROOT / name).exists()] == []
    assert {"src", "tests", "scripts", "Makefile", "requirements.lock"} <= set(included)


def test_a_wheel_of_python_files_alone_is_complete() -> None:
    others = [path.name for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert others == ["py.typed"]


def test_a_client_needs_nothing_but_msgspec_and_loads_nothing_of_a_broker() -> None:
    code = "import sys, penstock; penstock.connect; penstock.connect_sync; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    # msgspec looks for typing_extensions, and does without it. Loaders of editable packages are of this environment.
    assert {name for name in loaded if not name.startswith("_")} <= {"msgspec", "penstock", "typing_extensions"}
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("penstock.")}
    assert rooms <= {"client", "model", "protocol", "session", "system"}


def test_the_package_shows_its_public_names() -> None:
    import penstock

    assert dir(penstock) == sorted(penstock.__all__)
    assert [name for name in dir(penstock) if getattr(penstock, name) is None] == []
    errors = [getattr(penstock, name) for name in dir(penstock) if name.endswith("Error")]
    assert [each for each in errors if not issubclass(each, penstock.PenstockError)] == []


def test_the_package_exports_every_error_that_a_client_can_raise() -> None:
    import penstock

    rooms = [import_module(f"penstock.{name}") for name in CLIENT_ROOMS]
    for room in rooms:
        for module in walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    errors = [each for each in subclasses(penstock.PenstockError) if each.__module__.split(".")[1] in CLIENT_ROOMS]
    # The first is always caught and replaced by one that says what could not be read; the second is for brokers that
    # speak STOMP, which no client library does.
    internal = {"UnreadableError", "StompError"}
    assert [each for each in errors if each.__name__ not in internal | set(penstock.__all__)] == []


def subclasses(error: type[Exception]) -> list[type[Exception]]:
    return [found for each in error.__subclasses__() for found in (each, *subclasses(each))]


def test_all_public_names_can_be_loaded_with_msgspec_alone() -> None:
    missing = "for name in ('numpy', 'rich', 'typer', 'starlette', 'uvicorn'): sys.modules[name] = None"
    code = f"import sys\n{missing}\nfrom penstock import *"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["typer", "numpy"])
def test_a_command_without_its_packages_names_the_extra(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from penstock.cli import main; main()"
    command = [sys.executable, "-c", code, "match", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {missing} is not installed; install it with: pip install 'penstock[server]'\n"


@pytest.mark.parametrize("missing", ["numpy", "prometheus_client"])
def test_a_broker_without_its_packages_names_the_extra(missing: str) -> None:
    start = "from penstock.live.__main__ import main; sys.exit(main())"
    code = f"import sys; sys.modules[{missing!r}] = None; {start}"
    command = [sys.executable, "-c", code, "overlay.toml", "--name", "b1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {missing} is not installed; install it with: pip install 'penstock[server]'\n"
