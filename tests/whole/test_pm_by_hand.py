"""The PM does all by plain git where autonomy is `propose`: asks, merges what was validated, takes it back.

The page holds a byte that is not UTF-8, as pages do that came through an old editor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from infra.shared import comms
from tests.whole.owner import POLITER, Owner

HOP = f"""
set -e
bot=$(cd ../.. && pwd)
git clone -q "$(git remote get-url origin)" "$bot/politer/minifram"
cd "$bot/politer/minifram"
{POLITER}"""
NOT_ALLOWED = "git -C ../../politer/minifram push origin HEAD:main"
SCRIPT = {
    "scenes": [
        {
            "name": "after the hop",
            "when": {"directive": "politer", "comms": "politer@[0-9a-f]+ validated"},
            "replies": [{"text": "It awaits your review."}],
        },
        {
            "name": "the hop",
            "when": {"directive": "politer"},
            "replies": [
                {"tools": [{"name": "bash", "input": {"command": HOP}}]},
                {"tools": [{"name": "bash", "input": {"command": NOT_ALLOWED}}]},
                {"tools": [{"name": "bootstrap", "input": {"branch": "politer"}}]},
            ],
        },
        {"name": "anything", "replies": [{"text": "Heard."}]},
    ]
}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_a_pm_with_plain_git_leads_an_agent_that_only_proposes(owner: Owner) -> None:
    """The branch proves itself and waits; main's code changes by the PM's pushes alone, each taken up at once."""
    script = owner.directory / "script.yaml"
    script.write_text(yaml.safe_dump(SCRIPT))
    owner.minifram("init", "--sandbox", "process", "--autonomy", "propose")
    owner.settings.write_text(f"sandbox: process\nautonomy: propose\nmodel: {{provider: scripted, name: {script}}}\n")
    owner.make_clone()
    owner.keep_one_test()
    owner.minifram("up")

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
