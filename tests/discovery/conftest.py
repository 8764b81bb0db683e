"""What the tests of discovery share: the user of its container, and a stand-in for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.discovery.fake import Fake
from tests.sealed.fixtures import user

__all__ = ["user"]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A stand-in for an engine and its container."""
    return Fake(tmp_path)
