"""Who is told of the way to package indexes: all that runs as the cell, and what installs for it, in one mode alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import structlog

from infra.keep.egress import packages
from infra.keep.services import children
from infra.keep.settings.schema import EgressMode
from infra.keep.supervision.preparation import Preparation
from infra.shared.identity import OURS
from infra.shared.paths import Paths
from tests.keep.supervision.test_boot_files import boot_of

SHOW = "import os; print(os.environ.get('PIP_INDEX_URL'), 'HTTPS_PROXY' in os.environ)"


def test_it_is_told_in_mode_door_alone(tmp_path: Path) -> None:
    """The runner and its children, and the installer of environments; otherwise nothing is in either."""
    places = Paths(*(str(tmp_path / name) for name in ("bot", "remote.git", "run", "var")))
    os.makedirs(places.main_checkout)
    modes: dict[EgressMode, str] = {
        "door": "http://127.0.0.1:3128/pypi.org/simple/ False",
        "open": "None False",
    }
    for mode, shown in modes.items():
        also = packages.environment(mode)
        log = tmp_path / mode
        with log.open("wb") as output:
            command = [sys.executable, "-c", SHOW]
            assert not children.spawn(boot_of(places, "a" * 32), command, output.fileno(), also=also).wait()
        assert log.read_text().strip() == shown
        step = Preparation(places, OURS, structlog.stdlib.get_logger(), also).installing(places.main_checkout, 1.0)
        assert ("PIP_INDEX_URL" in step.env) is bool(packages.port(mode)) is (mode == "door")
