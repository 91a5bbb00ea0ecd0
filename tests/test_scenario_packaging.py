"""What is installed for development is written down: every requirement has one version, and it fits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKED = re.compile(r"([a-z0-9-]+)==([0-9][0-9a-z.]*)")


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [LOCKED.fullmatch(line) for line in lines if not line.startswith("#")]
    # Nothing but names and versions: where packages come from is each machine's own business.
    assert all(found)
    return {each[1]: each[2] for each in found if each is not None}


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
    assert dict(re.findall(r"^\| `([^`]+)` \| (\S+) \|", page, re.MULTILINE)) == locked()


def test_the_archive_of_the_sources_has_what_a_clone_needs() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = told["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (ROOT / name).exists()] == []
    assert {"src", "tests", "scripts", "Makefile", "requirements.lock"} <= set(included)


def test_a_wheel_of_python_files_alone_is_complete() -> None:
    others = [path.name for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert others == ["py.typed"]
