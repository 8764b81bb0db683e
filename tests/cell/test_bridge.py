"""What the program in the sandbox lets others do with pages and pictures."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.bridge import DIRECTORY, MOST_KEPT, Bounds, BridgeRequest, Hello, directory_of, do_run, do_tool
from infra.shared.boot import Limits
from infra.shared.conversation import ToolUse
from infra.shared.paths import Paths
from infra.shared.policy import Policy, Rule
from infra.shared.web import Page
from tests.cell.doors import opened
from tests.cell.tools.test_web import JPEG, PICTURE, READ, DoorStandIn

LIMITS = Limits(1.0, 1, 1.0, has_browser=True, has_ghost=True)
URL = {"url": "https://a.example/"}


class Sandbox:
    def __init__(self, folder: Path, web: DoorStandIn, model: DoorStandIn) -> None:
        self.folder, self.web, self.model = str(folder), web, model
        self.hello = Hello(Paths(self.folder, "", self.folder, ""), Policy(), LIMITS)
        self.said: list[dict[str, Any]] = []

    def job(self, tool: str, given: dict[str, Any], *answers: msgspec.Struct, **bounds: Any) -> dict[str, Any]:
        """What became of its one call."""
        call = READ._replace(content=(ToolUse("1", tool, given),), stop_reason="tool_use")
        self.web.answers = self.model.answers = [call, *answers, READ]
        asked = BridgeRequest(
            "7", "run", task="x", bounds=Bounds(("fetch_page", "screenshot", "ghost_extract"), 5, 60_000, 3, **bounds)
        )
        do_run(self.hello, asked, self.folder, self.said.append)
        [acted] = [each["line"] for each in self.said if each.get("line", {}).get("kind") == "acted"]
        return dict(acted)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    web, model = (DoorStandIn(tmp_path / f"{name}.sock") for name in ("web", "model"))
    with opened(web), opened(model):
        yield Sandbox(tmp_path, web, model)


def test_a_job_reads_pictures_where_it_was_given_that(sandbox: Sandbox) -> None:
    """For the money of jobs."""
    read = sandbox.job("ghost_extract", URL, PICTURE, READ, allow_ghost=True)
    assert (read["status"], read["facts"]["render_mode"]) == ("ok", "ghost")
    assert [each["request"]["label"] for each in sandbox.model.asked] == ["job"] * 3
    assert {each["request"]["run"] for each in sandbox.model.asked} == {"job-7"}


@pytest.mark.parametrize("rules", [(), (Rule("ask", tools=("ghost_extract",)),)])
def test_a_job_s_pages_are_read_from_pictures_where_the_policy_does_not_ask(
    sandbox: Sandbox, rules: tuple[Rule, ...]
) -> None:
    sandbox.hello = msgspec.structs.replace(sandbox.hello, policy=Policy(rules=rules))
    blocked = Page(403, "wall", "", 9, "challenge", "ghost")
    read = sandbox.job("fetch_page", URL, blocked, PICTURE, READ, allow_ghost=True)
    assert read["facts"]["render_mode"] == ("normal" if rules else "ghost")


@pytest.mark.attack("S66")
@pytest.mark.parametrize(
    ("bounds", "words"),
    [({}, "not given allow_ghost"), ({"allow_ghost": True, "allowed_domains": ("b.example",)}, "allowed_domains")],
)
def test_a_job_that_was_not_is_denied(sandbox: Sandbox, bounds: dict[str, Any], words: str) -> None:
    denied = sandbox.job("ghost_extract", URL, **bounds)
    assert (denied["status"], denied["error_code"]) == ("denied", "policy_denied")
    assert words in denied["content"]
    assert not sandbox.web.asked


def test_the_model_of_a_job_sees_what_a_screenshot_shows(sandbox: Sandbox) -> None:
    sandbox.job("screenshot", URL, PICTURE)
    [result] = sandbox.model.asked[1]["request"]["messages"][-1]["content"]
    assert [each["data"] for each in result["images"]] == [b64encode(JPEG).decode()]


def test_the_picture_of_a_call_goes_out_with_it(sandbox: Sandbox) -> None:
    """A call by somebody else says itself whether it may cost."""
    sandbox.web.answer, sandbox.model.answer = PICTURE, READ
    for name in ("screenshot", "ghost_extract"):
        do_tool(sandbox.hello, BridgeRequest("1", "tool", name, URL), sandbox.folder, sandbox.said.append)
    looked, read = (each["end"] for each in sandbox.said)
    assert looked["image"] == {"type": "image", "media_type": "image/jpeg", "data": b64encode(JPEG).decode()}
    assert (read["status"], "image" in read) == ("ok", False)


def test_the_directory_of_a_job_that_goes_on_is_kept(tmp_path: Path) -> None:
    """However many calls come meanwhile; of those that are over, the last ones."""
    bot = str(tmp_path)
    work = Path(directory_of(bot, "job", {"job"})) / "work.txt"
    work.write_text("half of it")
    os.utime(work.parent, (0, 0))
    for number in range(MOST_KEPT + 5):
        directory_of(bot, f"tool-{number}", {f"tool-{number}", "job"})
    assert work.read_text() == "half of it"
    assert len(os.listdir(f"{bot}/{DIRECTORY}")) == MOST_KEPT + 2
