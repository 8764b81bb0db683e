"""Runs the agent's tools on other data, in fresh containers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from honest_tools import Tool, Trial
from run_values import Run


class NotTried(Exception):
    """No tool can be tried; the text says why, and what to do."""


def try_tools(
    run: Run,
    found: list[Tool],
    texts: Mapping[str, bytes] | None,
    scratch: Path,
    engine: str | None,
    image: str | None,
) -> dict[str, Trial]:
    raise NotTried("it cannot do so yet")
