from __future__ import annotations

from tests.keep.supervision.conftest import make_agent

__all__ = ["make_agent"]
