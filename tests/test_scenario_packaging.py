"""What is installed for development is written down: every requirement has one version, and it fits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
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
    extras = [one for name, some in project["optional-dependencies"].items() if name != "all" for one in some]
    return [Requirement(each) for each in (*project["dependencies"], *extras, *told["dependency-groups"]["dev"])]


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
