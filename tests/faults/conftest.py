from __future__ import annotations

from tests.cell.conftest import cell, template
from tests.keep.supervision.conftest import make_agent

__all__ = ["cell", "make_agent", "template"]
