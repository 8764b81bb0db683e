"""How a run asks for acts: what all of the models can do, as the settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.doors import ModelFailure
from infra.keep.settings.check import parse_settings
from infra.keep.settings.schema import Settings, runner_acts
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Completion
from tests.keep.model_door.doors import DoorProcess, a_request


def test_the_settings_alone_tell_the_watcher() -> None:
    """Before any server is asked."""
    assert runner_acts(Settings()) == TOOLS
    for text in ("model: {tools: false}", "model: {then: [{provider: ollama, tools: false}]}"):
        assert runner_acts(parse_settings(text)) == OPERATIONS


def test_a_model_without_tools_gets_none(tmp_path: Path) -> None:
    """The door leaves it out of a conversation that has tools, and says so when no other is left."""
    with DoorProcess(tmp_path, {"model": {"provider": "scripted", "tools": False}}) as door:
        with pytest.raises(ModelFailure, match="the conversation has tools, and scripted demo cannot") as caught:
            door.complete()
        assert caught.value.type == "invalid_request"
        assert isinstance(door.complete(a_request()._replace(tools=())), Completion)
