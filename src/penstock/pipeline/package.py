"""Packs Penstock into a zip that travels to the executors of a cluster.

Only Penstock travels. What it imports (msgspec and numpy at least) is compiled for one machine, and has to be installed
for the Python of the workers.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import penstock

__all__ = ["pack"]

_SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""So that the same sources always make the same zip."""


def pack(target: Path) -> Path:
    """Write the sources of Penstock as they are installed here; the zip can be put on Python's path."""
    root = Path(penstock.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(str(path.relative_to(root.parent)), _SAME_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return target
