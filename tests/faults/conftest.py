from __future__ import annotations

from tests.supervision.conftest import make_agent

__all__ = ["make_agent"]
