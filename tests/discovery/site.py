"""The folder and its container, as an operator has them (`bench/sealed/discovery.py`)."""

from __future__ import annotations

from bench.sealed.discovery import PROCESSES, PYTHON, Site, block, commands_of, lines_of, site

__all__ = ["PROCESSES", "PYTHON", "Site", "block", "commands_of", "lines_of", "site"]
