"""The report: all experiments on one page, paper by paper, with published and measured figures, and deviations."""

from __future__ import annotations

from penstock.lab.report.bands import Band
from penstock.lab.report.chapters import CHAPTERS, Chapter, Entry
from penstock.lab.report.findings import Finding, Measure, made_finding, read_finding, swept_finding
from penstock.lab.report.page import report_page

__all__ = [
    "CHAPTERS",
    "Band",
    "Chapter",
    "Entry",
    "Finding",
    "Measure",
    "made_finding",
    "read_finding",
    "report_page",
    "swept_finding",
]
