"""The zip of Penstock that travels to executors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.pipeline.package import pack


def test_penstock_can_be_imported_from_the_zip(tmp_path: Path) -> None:
    archive = pack(tmp_path / "penstock.zip")
    load = "from penstock.pipeline.experiments import registry; print(registry.__file__)"
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); {load}"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout.strip() == f"{archive}/penstock/pipeline/experiments/registry.py"


def test_the_same_sources_make_the_same_zip_without_compiled_files(tmp_path: Path) -> None:
    first, second = pack(tmp_path / "1.zip"), pack(tmp_path / "2.zip")
    assert first.read_bytes() == second.read_bytes()
    assert b"__pycache__" not in first.read_bytes()
