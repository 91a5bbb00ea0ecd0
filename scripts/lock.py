"""Prints the exact versions of everything that Penstock and its tools need, as they are installed: ``make lock``."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN = "penstock"


def main() -> None:
    """Follow the requirements of pyproject.toml to their end."""
    told = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    extras = told["project"]["optional-dependencies"].values()
    waiting = [
        *told["project"]["dependencies"],
        *told["dependency-groups"]["dev"],
        *(one for some in extras for one in some),
    ]
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    for requirement in map(Requirement, waiting):
        follow(requirement, found, seen)
    sys.stdout.write("# Made by `make lock`. What `make setup` installs; CONTRIBUTING.md says how to renew it.\n")
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in sorted(found.items()))


def follow(requirement: Requirement, found: dict[str, str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Note what a requirement has brought here, and what that requires in turn."""
    name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
    if name == OWN or (name, extras) in seen:
        return
    seen.add((name, extras))
    try:
        package = distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is required and not installed; run make setup first")
    found[name] = package.version
    for text in package.requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            follow(needed, found, seen)


if __name__ == "__main__":
    main()
