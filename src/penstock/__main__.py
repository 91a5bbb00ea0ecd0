"""Runs the command line as ``python -m penstock``, for when its script is not on the path."""

from __future__ import annotations

from penstock.cli import main

if __name__ == "__main__":
    main()
