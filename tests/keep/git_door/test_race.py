"""The agent through the door and the PM by path push to main at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from infra.cell.clone_tip import CloneTip
from infra.shared.comms import add_directive
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, edit_file
from tests.keep.git_door.world import World

ROUNDS = 8


@pytest.mark.fault("F43")
def test_no_push_is_lost_when_both_push_at_once(world: World) -> None:
    """Each round of each side ends up in main's history, exactly once; losing a race is not taken for a refusal."""
    agent = Git(str(world.agent.path), AGENT, env={"GIT_CONFIG_GLOBAL": world.places.cell_git_config})
    pm = Git(str(world.pm.path), Person("PM", "pm@example.invalid"))
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def push(git: Git, path: str, edit: Callable[[int, str], str]) -> None:
        try:
            start.wait(10)
            for number in range(ROUNDS):
                advance(CloneTip(git), edit_file(git, path, partial(edit, number), f"number {number}"))
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(
            target=push, args=(agent, "src/list", lambda number, document: f"{document}number {number}\n")
        ),
        threading.Thread(
            target=push, args=(pm, "COMMS.md", lambda number, document: add_directive(document, f"number {number}"))
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert failures == []
    page, listed = (world.pm.git("--git-dir", world.places.remote, "show", f"main:{path}") for path in PATHS)
    assert [line for line in page.splitlines() if "number" in line] == [f"- [ ] number {n}" for n in range(ROUNDS)]
    assert listed.splitlines() == [f"number {n}" for n in range(ROUNDS)]
    assert world.pm.git("--git-dir", world.places.remote, "rev-list", "--count", "main") == str(1 + 2 * ROUNDS)


PATHS = ("COMMS.md", "src/list")
