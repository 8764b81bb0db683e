"""What others are told of the tools in the sandbox, and what its program may say."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.serve import mcp
from host.serve.bridge import MOST_WAITING, Bridge
from host.serve.calls import Problem
from host.serve.jobs import JobRequest, bounds_of
from infra.cell.bridge import BridgeAnswer
from infra.cell.tools.tool import Position
from infra.cell.tools.web import web_tools
from infra.keep.settings.check import read_settings
from infra.keep.settings.schema import GhostSettings, InternalSettings, WebSettings, runner_limits

OFF = "sandbox: process\n"
ON = f"{OFF}web: {{browser: 'on', ghost: {{enabled: true}}}}\n"


def bridge(folder: Path, settings: str) -> Bridge:
    path = folder / "minifram.yaml"
    path.write_text(settings)
    context: Any = SimpleNamespace(home=SimpleNamespace(settings=str(path)))
    return Bridge(context)


@pytest.mark.parametrize(
    ("settings", "names"),
    [(OFF, {"fetch_page", "web_search"}), (ON, {"fetch_page", "web_search", "screenshot", "ghost_extract"})],
)
def test_one_description_for_the_loop_for_http_and_for_mcp(tmp_path: Path, settings: str, names: set[str]) -> None:
    ours = bridge(tmp_path, settings)
    agent: Any = SimpleNamespace(bridge=ours)
    limits = runner_limits(read_settings(str(tmp_path / "minifram.yaml")))
    loop = [tool.spec for tool in web_tools("", "", Position(), limits)]
    assert {each.name for each in loop} == names
    assert ours.specs() == loop
    listed = mcp.answer(agent, {"id": 1, "method": "tools/list"}) or {}
    told = {each["name"]: each for each in listed["result"]["tools"]}
    for each in loop:
        assert told[each.name] == {"name": each.name, "description": each.description, "inputSchema": each.input_schema}
    for name in {"screenshot", "ghost_extract"} - names:
        with pytest.raises(Problem, match="no tool"):
            ours.tool(name, {})


@pytest.mark.attack("S66")
@pytest.mark.parametrize(("image", "shown"), [({"media_type": "image/jpeg", "data": "aa"}, True), ({"data": 3}, False)])
def test_a_picture_is_one_for_mcp(image: dict[str, Any], shown: bool) -> None:
    """What the cell says is one, and is none, is left out."""
    found = {"content": "HTTP 200", "image": image}
    agent: Any = SimpleNamespace(bridge=SimpleNamespace(tool=lambda name, given: found))
    call = {
        "id": 1,
        "method": "tools/call",
        "params": {"name": "screenshot", "arguments": {"url": "https://a.example"}},
    }
    [text, *rest] = (mcp.answer(agent, call) or {})["result"]["content"]
    assert text == {"type": "text", "text": "HTTP 200"}
    assert rest == [{"type": "image", "mimeType": "image/jpeg", "data": "aa"}] * shown


class Crowded(queue.Queue[BridgeAnswer | None]):
    """Without room now and then, for longer than anybody looks."""

    puts = 0

    def put(self, item: BridgeAnswer | None, block: bool = True, timeout: float | None = None) -> None:
        self.puts += 1
        if self.puts % 7 == 0:
            raise queue.Full
        super().put(item, block, timeout)


@pytest.mark.attack("S66")
def test_a_program_that_says_much_waits_until_somebody_listens() -> None:
    """Nothing is lost, and little is kept."""
    said = '{"id": "1", "line": {"text": "' + "x" * 10_000 + '"}}'
    waiting = Crowded(MOST_WAITING)
    with subprocess.Popen(["sh", "-c", f"yes '{said}' | head -n 500"], stdout=subprocess.PIPE) as process:
        listener = threading.Thread(target=Bridge._listen, args=(process, {"1": waiting}))
        listener.start()
        count = 0
        while waiting.get(timeout=30):
            count += 1
            assert waiting.qsize() <= MOST_WAITING
        listener.join(10)
    assert count == 500


@pytest.mark.parametrize(
    ("asked", "browser", "ghost", "words"),
    [
        ({"allow_ghost": True}, "off", True, "web.browser is off"),
        ({"allow_ghost": True}, "on", False, "web.ghost.enabled"),
        ({"allow_ghost": True}, "on", True, ""),
        ({}, "on", True, ""),
        ({"allowed_tools": ("bash", "edit_file")}, "on", True, "allowed_tools does not hold edit_file"),
        ({"max_steps": 13}, "on", True, "agent.internal.max_steps allows 12"),
        ({"max_wall_time_ms": 10**9}, "on", True, "agent.internal.max_wall_time_ms"),
        ({"max_steps": 12, "allowed_tools": ("bash",)}, "on", True, ""),
    ],
)
def test_a_job_may_do_what_the_settings_allow(asked: dict[str, Any], browser: Any, ghost: bool, words: str) -> None:
    jobs = InternalSettings(enabled=True, allowed_tools=("bash",))
    web = WebSettings(browser=browser, ghost=GhostSettings(enabled=ghost))
    with pytest.raises(Problem, match=words) if words else contextlib.nullcontext():
        bounds = bounds_of(JobRequest("x", **asked), jobs, web)
        assert (bounds.allow_ghost, bounds.max_steps) == ("allow_ghost" in asked, 12)
    with pytest.raises(Problem, match=r"agent\.internal\.enabled is false"):
        bounds_of(JobRequest("x", **asked), InternalSettings(), web)
