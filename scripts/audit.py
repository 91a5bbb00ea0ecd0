"""Audits what Penstock and its tools are built on, without a network: ``make audit``.

Every package that requirements.lock has for this machine must be in docs/dependencies.md, in its version and under a
licence that we accept; what is installed must be that version, with files as they were packaged. Where ``pip-audit`` is
installed and reaches its advisories, known vulnerabilities are asked for as well. ``--write`` prints the page instead:
``make lock`` does so.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path("docs/dependencies.md")
LOCK = Path("requirements.lock")
ACCEPTED = (
    "0BSD",
    "Apache",
    "BSD",
    "CC0",
    "ISC",
    "LGPL",
    "MIT",
    "MPL",
    "Mozilla",
    "PSF",
    "Python Software Foundation",
    "Zlib",
)
"""How licences begin that let Penstock be given away under its own; LGPL where we only import a package (psycopg)."""
ROW = re.compile(
    r"\| `(?P<name>[^`]+)` \| (?P<version>\S+) \| (?P<licence>[^|]+) \| .* \| `(?P<tag>\S+)` `(?P<digest>\w+)` \|"
)
HEAD = """# Dependencies

What `make setup` installs from `requirements.lock`, on Linux with CPython. `make lock` writes this page, `make audit`
checks it. Who installs Penstock as a package gets what `penstock` needs, which is enough for a client; `server`, `lab`
and `spark` are its extras, `dev` is for those who work on it.

The lock is made by uv, for all platforms and for every Python from 3.11 on. It has the hashes of all files of each
version, and pip installs nothing with another hash. Not locked is only what builds packages that come as source:
setuptools, for `pyspark`.

The fingerprint is of the files of the package as installed (SHA-256 of their names and digests, without metadata), for
the wheel with that tag. `make audit` compares it wherever the same wheel is installed, and every file with the digest
in its wheel. That needs no network. Known vulnerabilities need one: where `pip-audit` is installed and reaches its
advisories, `make audit` asks it, and fails if there are any; else it says that nobody was asked.

| package | version | licence | needed by | what for | wheel and fingerprint |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Package:
    """One package as it is installed."""

    name: str
    version: str
    licence: str
    needed_by: str
    summary: str
    tag: str
    digest: str

    def row(self) -> str:
        """Its line in the page."""
        cells = (f"`{self.name}`", self.version, self.licence, self.needed_by, self.summary)
        return f"| {' | '.join(cells)} | `{self.tag}` `{self.digest}` |\n"


def main() -> int:
    """Print the page, or all complaints; 1 if there are any."""
    versions = locked()
    parents = needed_by(versions)
    found = {name: described(name, parents.get(name, ())) for name in versions}
    if sys.argv[1:] == ["--write"]:
        sys.stdout.write(HEAD + "".join(each.row() for each in found.values() if each is not None))
        return 0
    complaints = [*differences(versions, found), *damaged(versions)]
    sys.stdout.writelines(f"{line}\n" for line in complaints)
    is_vulnerable = ask_advisories()
    sys.stdout.write(f"{len(versions)} packages, {len(complaints)} complaints\n")
    return 1 if complaints or is_vulnerable else 0


def locked() -> dict[str, str]:
    """Versions by name, of what the lock has for this machine."""
    versions = {}
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if line.startswith((" ", "#")):
            # Hashes, and the comment at the top.
            continue
        requirement = Requirement(line.rstrip("\\ "))
        if requirement.marker is None or requirement.marker.evaluate():
            (pinned,) = requirement.specifier
            versions[canonicalize_name(requirement.name)] = pinned.version
    return versions


def needed_by(versions: dict[str, str]) -> dict[str, list[str]]:
    """Who asks for each package: Penstock, its extras and tools, or other packages."""
    told = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = told["project"]
    asked = {"penstock": project["dependencies"], **project["optional-dependencies"], **told["dependency-groups"]}
    asked.pop("all", None)
    for name in versions:
        package = installed(name)
        asked[f"`{name}`"] = (package.requires or []) if package is not None else []
    found: dict[str, list[str]] = {}
    for parent, requirements in asked.items():
        for requirement in map(Requirement, requirements):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                found.setdefault(canonicalize_name(requirement.name), []).append(parent)
    return found


def described(name: str, parents: list[str] | tuple[str, ...]) -> Package | None:
    """What an installed package says of itself."""
    package = installed(name)
    if package is None:
        return None
    summary = (package.metadata.get("Summary") or "").replace("|", "/").split("\n")[0].strip().rstrip(".")
    # Without a host in brackets at its end: one names the registry.
    summary = re.sub(r" \([^) ]+\.[^) ]+\)$", "", summary)
    needed = ", ".join(dict.fromkeys(parents)) or "an extra of another"
    return Package(name, package.version, licence(package), needed, summary, tag(package), fingerprint(package))


def licence(package: Distribution) -> str:
    """In the shortest form in which the package names it."""
    told = package.metadata
    if expression := told.get("License-Expression"):
        return expression
    named = [text.split(" :: ")[-1] for text in told.get_all("Classifier") or () if text.startswith("License ::")]
    if named:
        return " or ".join(named)
    return (told.get("License") or "").split("\n")[0].strip() or "not said"


def tag(package: Distribution) -> str:
    """The platform of its wheel."""
    found = re.search(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)
    return found.group(1) if found is not None else "none"


def fingerprint(package: Distribution) -> str:
    """Of the files that came with it, as its record has them."""
    lines = sorted(
        f"{file}={file.hash.value}"
        for file in package.files or ()
        # Scripts name the interpreter of one machine; metadata is written by whoever built the wheel.
        if file.hash is not None and ".dist-info/" not in str(file) and not str(file).startswith("../")
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def differences(versions: dict[str, str], found: dict[str, Package | None]) -> list[str]:
    """What page, lock and installed packages do not agree on."""
    listed = {row["name"]: row for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    complaints = [f"{name}: in {PAGE}, but not in {LOCK}; run make lock" for name in listed if name not in versions]
    for name, version in versions.items():
        row, package = listed.get(name), found[name]
        if row is None or row["version"] != version:
            complaints.append(f"{name}: {version} is not in {PAGE}; run make lock")
        elif package is None or package.version != version:
            complaints.append(f"{name}: {version} is not installed; run make setup")
        elif not is_accepted(package.licence):
            complaints.append(f"{name}: the licence {package.licence!r} is not among those accepted")
        elif package.tag == row["tag"] and package.digest != row["digest"]:
            complaints.append(f"{name}: the files are not those that were listed; install it again, or run make lock")
    return complaints


def is_accepted(text: str) -> bool:
    """Whether each part of a licence expression, or any of its alternatives, is one that we accept."""
    alternatives = re.split(r" or ", text, flags=re.IGNORECASE)
    return any(
        all(part.strip("() ").startswith(ACCEPTED) for part in re.split(r" and ", each, flags=re.IGNORECASE))
        for each in alternatives
    )


def damaged(versions: dict[str, str]) -> list[str]:
    """Packages with files that are not as their wheels had them."""
    complaints = []
    for name in versions:
        package = installed(name)
        for file in package.files or () if package is not None else ():
            if file.hash is None or file.hash.mode != "sha256" or str(file).startswith("../"):
                continue
            path = Path(str(file.locate()))
            if not path.is_file():
                complaints.append(f"{name}: {file} is missing; install it again")
            elif file.hash.value != digest_of(path):
                complaints.append(f"{name}: {file} was changed; install it again")
    return complaints


def digest_of(path: Path) -> str:
    """As records of wheels write it."""
    with path.open("rb") as raw:
        return base64.urlsafe_b64encode(hashlib.file_digest(raw, "sha256").digest()).rstrip(b"=").decode()


def ask_advisories() -> bool:
    """Ask for known vulnerabilities, if somebody can be asked; whether there are any."""
    program = shutil.which("pip-audit") or shutil.which(str(Path(sys.executable).with_name("pip-audit")))
    if program is None:
        sys.stdout.write("advisories: nobody was asked, pip-audit is not installed\n")
        return False
    command = [program, "--requirement", str(LOCK), "--no-deps", "--disable-pip", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if "vulnerabilit" in done.stderr and done.returncode == 1:
        sys.stdout.write(done.stdout)
        return True
    unknown = done.stdout.count("could not be audited")
    answered = done.returncode == 0 and not unknown
    sys.stdout.write("advisories: none\n" if answered else "advisories: could not be reached, nobody was asked\n")
    return False


def installed(name: str) -> Distribution | None:
    """The package, if it is there."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
