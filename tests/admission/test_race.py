"""The agent through the door and the PM by path push to main at the same time."""

from __future__ import annotations

import threading
from functools import partial

from infra.contract.comms import add_report
from infra.repository.git import AGENT, Git, Person
from infra.repository.tip import CloneTip, advance, edit_file
from tests.admission.world import World

ROUNDS = 8


def test_no_push_is_lost_when_both_push_at_once(world: World) -> None:
    """Each round of each side ends up in main's history, exactly once; losing a race is not taken for a refusal."""
    agent = Git(str(world.agent.path), AGENT, env={"GIT_CONFIG_GLOBAL": world.places.cell_git_config})
    pm = Git(str(world.pm.path), Person("PM", "pm@example.invalid"))
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def push(git: Git, who: str) -> None:
        try:
            start.wait(10)
            for number in range(ROUNDS):
                title = f"{who} {number}"
                edit = partial(add_report, title=title, text="well", at="2026-01-31T10:42:12.345Z")
                advance(CloneTip(git), edit_file(git, "COMMS.md", edit, title))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=push, args=args) for args in ((agent, "agent"), (pm, "pm"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert failures == []
    page = world.pm.git("--git-dir", world.places.remote, "show", "main:COMMS.md").splitlines()
    lines = [line.partition("Z ")[2] for line in page if line.startswith("### 2026")]
    assert sorted(lines) == sorted(f"{who} {number}" for who in ("agent", "pm") for number in range(ROUNDS))
    assert world.pm.git("--git-dir", world.places.remote, "rev-list", "--count", "main") == str(1 + 2 * ROUNDS)
