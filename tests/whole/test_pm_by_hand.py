"""The PM does all by plain git where autonomy is `propose`: asks, merges what was validated, takes it back. The model
is asked through the official Anthropic SDK; its provider is a loopback server that speaks its streaming format.

The page holds a byte that is not UTF-8, as pages do that came through an old editor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.shared import comms
from tests.keep.model_door.wire import Answer, Reaction, Say, Use, Wire, broken, overloaded
from tests.whole.owner import POLITER, Owner

KEY = "sk-ant-test-0123456789abcdefghijklmnop"


class Claude:
    """What the provider says; it judges by the conversation alone, as a model does."""

    def __init__(self, bot: Path) -> None:
        self._clone = f"{bot}/politer/minifram"
        self.calls = 0

    def __call__(self, request: dict[str, Any]) -> Reaction:
        self.calls += 1
        if self.calls == 1:
            return overloaded(("retry-after", "1"))
        if self.calls == 2:
            return broken(Answer((Say("I begin"), Use("bash", {"command": "touch never-run"}))), 4)
        page = request["system"][1]["text"]
        if not any("politer" in directive.text for directive in comms.open_directives(page)):
            return [Say("Heard.")]
        if re.search(r"politer@[0-9a-f]+ validated", page):
            return [Say("It awaits your review.")]
        turns = [m for m in request["messages"] if m["role"] == "assistant"][1:]  # the first is the runner's own
        match len(turns):
            case 0:
                return [
                    Say("I look around and make a clone for the branch."),
                    Use("read_file", {"path": "spec/SPEC_SIGNALS.md"}),
                    Use("bash", {"command": f'git clone -q "$(git remote get-url origin)" {self._clone}; echo cloned'}),
                    Use("read_file", {"path": "no/such/file"}),
                ]
            case 1:
                results = request["messages"][-1]["content"]
                asked = [block["id"] for block in turns[0]["content"] if block["type"] == "tool_use"]
                assert [r["tool_use_id"] for r in results] == asked
                assert ["SPEC: signals" in str(results[0]), "cloned" in str(results[1])] == [True, True]
                assert [bool(r.get("is_error")) for r in results] == [False, False, True]
                return [
                    Use("bash", {"command": f"set -e\ncd {self._clone}\n{POLITER}"}),
                    Use("bash", {"command": "true"}),
                ]
            case 2:  # which is not allowed
                return [Use("bash", {"command": f"git -C {self._clone} push origin HEAD:main"})]
            case _:
                return [Say("Now I hop."), Use("bootstrap", {"branch": "politer"})]


@pytest.mark.fault("F70")
@pytest.mark.heavy
@pytest.mark.timeout(480)
def test_a_pm_with_plain_git_leads_an_agent_that_only_proposes(owner: Owner) -> None:
    """The branch proves itself and waits; main's code changes by the PM's pushes alone, each taken up at once."""
    with Wire(Claude(owner.bot)) as wire:
        owner.minifram("init", "--sandbox", "process", "--autonomy", "propose")
        settings = {"sandbox": "process", "autonomy": "propose"}
        owner.settings.write_text(yaml.safe_dump(settings | {"model": {"provider": "anthropic", "base_url": wire.url}}))
        owner.make_clone()
        owner.keep_one_test()
        owner.env["ANTHROPIC_API_KEY"] = KEY
        owner.minifram("up")
        del owner.env["ANTHROPIC_API_KEY"]
        _lead(owner)
    first = next(r for r in wire.requests if r.body)
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.body["messages"][0] == {"role": "user", "content": [{"type": "text", "text": "Continue."}]}
    assert [block["text"].splitlines()[0] for block in first.body["system"]] == ["# Who you are", "# COMMS"]
    assert all("cache_control" in block for block in first.body["system"])
    assert not list(owner.bot.rglob("never-run"))
    for path in owner.directory.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), f"the key is in {path}"


def _lead(owner: Owner) -> None:
    _push_directive(owner, "Be politer, s'il vous pla\xeet.".encode("latin-1"))
    waits = owner.told("Awaiting review", 120)
    assert re.search(r"politer@[0-9a-f]{12} validated: rehearsed, 1 of main's tests passed", waits)
    assert "waits (review of politer): Be politer" in owner.told("It awaits your review.", 60)

    owner.git("pull", "-q", "--rebase")
    assert len(owner.git("log", "--oneline", "--", "infra").splitlines()) == 1, "the agent's own push to main was taken"
    owner.git("merge", "-q", "--no-ff", "-m", "politer, by hand", "origin/politer")
    owner.git("push", "-q")
    _runs(owner, owner.git("rev-parse", "HEAD"))
    owner.told("done: Be politer", 60)  # it waited for the merge
    _push_directive(owner, b"Say something.")
    assert _said(owner.told("Heard.", 60)).endswith("Heard. Thank you.")

    owner.git("pull", "-q", "--rebase=merges")
    merge = owner.git("rev-list", "--merges", "--max-count=1", "HEAD")
    owner.git("restore", "--staged", "--worktree", f"--source={merge}^1", ".")
    owner.git("restore", "--staged", "--worktree", "COMMS*.md")
    owner.git("commit", "-qm", "back to before, by hand")
    owner.git("push", "-q")
    _runs(owner, owner.git("rev-parse", "HEAD"))
    _push_directive(owner, b"Say something else.")
    owner.told("done: Say something else.", 60)
    assert _said(owner.told("Heard.", 60)).endswith("Heard.")
    assert all(item.done for item in comms.directives(owner.page()))


def _said(report: str) -> str:
    """Without what the keep has recorded beneath."""
    return report.partition("\n#### ")[0].rstrip()


def _push_directive(owner: Owner, words: bytes) -> None:
    owner.git("pull", "-q", "--rebase=merges")
    page = Path(owner.clone, "COMMS.md")
    page.write_bytes(page.read_bytes().replace(b"\n## Reports", b"\n- [ ] " + words + b"\n\n## Reports", 1))
    owner.git("commit", "-qam", "a directive by hand")
    owner.git("push", "-q")


def _runs(owner: Owner, commit: str) -> None:
    """The runner is one of this commit's code, by its own way."""

    def look() -> bool:
        status = owner.json("status")
        return status["phase"] == "running" and not status["outdated"] and status["boots"][0]["reason"] == "bootstrap"

    owner.until(60, look, f"main@{commit[:12]} runs")
