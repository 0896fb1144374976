"""The report of a comparison: one HTML file that needs nothing else, and pictures."""

from __future__ import annotations

from batchwright_lab.comparison.report.setup import Setup
from batchwright_lab.comparison.report.write import REPORT, write_report

__all__ = ["REPORT", "Setup", "write_report"]
