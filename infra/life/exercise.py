"""A directive-sized exercise for the version in this checkout: with scratch repositories and canned replies for a
model, it takes a directive, reads, writes, runs a command, commits, pushes, reports, ticks, and bootstraps a branch.

Run as a program. It asks nothing of the doors and costs nothing: what a door would do with a report is done here. A
version that cannot do this would be stuck."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator

from infra.admission.request_world import World
from infra.admission.verbs import Verbs
from infra.contract import comms
from infra.contract.boot import Boot, Limits
from infra.contract.conversation import (
    END_TURN,
    FIRST_MESSAGE,
    TOOL_USE,
    Completion,
    Request,
    Text,
    ToolResult,
    ToolUse,
)
from infra.contract.places import Places
from infra.contract.settings import Settings
from infra.life.events import logger
from infra.life.home import Home, settle
from infra.life.unit import work_on
from infra.loop.interruption import Interruption
from infra.loop.loop import End
from infra.repository.git import AGENT, Git
from infra.repository.tip import BareTip, advance, edit_file, read_file

SYSTEM = "You are an agent in an exercise.\n"
NOTE = "src/note.md"
BEFORE, AFTER = "a note\n", "a note\nand its second line\n"
FIRST, SECOND = f"Add a second line to {NOTE}.", "Bootstrap a branch."
LIMITS = Limits(
    bash_seconds=30,
    output_chars=10_000,
    unit_steps=10,
    unit_seconds=60,
    validation_seconds=60,
    work_seconds=600,
    door_seconds=1,
    context_tokens=100_000,
)


class Shortfall(Exception):
    """Something that an agent must be able to do did not happen."""


class CannedModel:
    """Gives the replies in order; before each but the first it looks at the results of the last one."""

    def __init__(self, *replies: tuple[Text | ToolUse, ...]) -> None:
        self._replies = iter(replies)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Completion:
        for block in request.messages[-1].content:
            if isinstance(block, ToolResult):
                demand(not block.is_error, f"call {block.tool_use_id} failed: {block.content}")
        self.requests.append(request)
        content = next(self._replies)
        acts = any(isinstance(block, ToolUse) for block in content)
        return Completion(content, TOOL_USE if acts else END_TURN, "canned")


def demand(condition: bool, shortfall: str) -> None:
    if not condition:
        raise Shortfall(shortfall)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="minifram-exercise-") as root:
        try:
            places = scratch(root)
            take_a_directive(places)
            bootstrap_a_branch(places)
        except Shortfall as shortfall:
            print(f"exercise failed: {shortfall}")
            return 1
    print("exercise passed: a directive was done and reported, a branch was bootstrapped")
    return 0


def scratch(root: str) -> Places:
    """A repository with one directive, and an agent's clone of it."""
    places = Places(bot=f"{root}/bot", remote=f"{root}/remote.git", run=f"{root}/run", var=f"{root}/var")
    os.makedirs(f"{places.bot}/main")
    with open(places.cell_git_config, "w", encoding="utf-8") as file:
        file.write(f"[user]\n\tname = {AGENT.name}\n\temail = {AGENT.email}\n[init]\n\tdefaultBranch = main\n")
    os.environ["GIT_CONFIG_GLOBAL"] = places.cell_git_config  # for the commands of the exercise
    Git(root)("init", "--quiet", "--bare", places.remote)
    files = {"SYSTEM.md": SYSTEM, "COMMS.md": comms.add_directive(comms.with_sections(""), FIRST)}
    files |= {".gitignore": "logs/\n__pycache__/\n", NOTE: BEFORE}
    checkout = places.main_checkout
    Git(places.bot)("init", "--quiet", checkout)
    for path, content in files.items():
        os.makedirs(os.path.dirname(f"{checkout}/{path}"), exist_ok=True)
        with open(f"{checkout}/{path}", "w", encoding="utf-8") as file:
            file.write(content)
    git = Git(checkout, AGENT)
    git("add", "--all")
    git("commit", "--quiet", "--message", "birth")
    git("remote", "add", "origin", places.remote)
    git("push", "--quiet", "origin", "main")
    os.makedirs(f"{checkout}/logs")
    return places


def home_of(places: Places, model: CannedModel) -> Home:
    commit = Git(places.main_checkout)("rev-parse", "HEAD")
    boot = Boot("0" * 32, "main", commit, "exercise", places.remote, "merge", places, LIMITS)
    verbs = Verbs(World(places, Settings(), logger(boot)))
    return settle(boot, places.main_checkout, Interruption(), model, hand_over=verbs.answer)


def take_a_directive(places: Places) -> None:
    save = "git add -A && git commit -qm 'note: a second line' && git push -q origin main"
    model = CannedModel(
        (Text("I read the note first."), ToolUse("call-1", "read_file", {"path": NOTE})),
        (ToolUse("call-2", "write_file", {"path": NOTE, "content": AFTER}),),
        (ToolUse("call-3", "bash", {"command": save}),),
        (Text("The note has a second line."),),
    )
    home = home_of(places, model)
    seen = home.page.look()
    demand([task.text for task in seen.open] == [FIRST], "the directive was not found on the page")
    outcome = work_on(home, seen, seen.open, None, look_back=False)
    demand(outcome.end is End.COMPLETED, f"the unit ended otherwise: {outcome.end.value}")
    demand(model.requests[0].system == (SYSTEM, seen.document), "the system prompt is not SYSTEM.md, then COMMS.md")
    demand(
        model.requests[0].messages[0].content == (Text(FIRST_MESSAGE),), f"the first message is not {FIRST_MESSAGE!r}"
    )
    demand(BEFORE in _results(model.requests[1]), "what was read did not reach the model")
    after = home.page.look()
    demand(read_file(home.git, after.commit, NOTE) == AFTER, "the pushed note is not what was written")
    demand(not after.open, "the directive is still open")
    reports = comms.reports(after.document)
    demand(len(reports) == 1 and "The note has a second line." in reports[0], "there is not one report of it")


def bootstrap_a_branch(places: Places) -> None:
    bare = Git(places.remote, AGENT)
    advance(BareTip(bare), edit_file(bare, "COMMS.md", lambda page: comms.add_directive(page, SECOND), "a directive"))
    clone = places.checkout("improve")
    make = f"git clone -q {places.remote} {clone} && cd {clone} && git checkout -qb improve && echo more >> {NOTE}"
    model = CannedModel(
        (ToolUse("call-4", "bash", {"command": f"{make} && git commit -qam more && git push -q origin improve"}),),
        (ToolUse("call-5", "bootstrap", {"branch": "improve"}),),
    )
    home = home_of(places, model)
    seen = home.page.look()
    outcome = work_on(home, seen, seen.open, None, look_back=False)
    demand(outcome.end is End.HANDED_OVER, f"the bootstrap did not end the unit: {outcome.end.value}, {outcome.text}")
    with open(f"{places.signals}/bootstrap", encoding="utf-8") as file:
        demand(file.read() == "improve\n", "the signal does not name the branch")
    demand([task.text for task in home.page.look().open] == [SECOND], "a hop must leave its directive open")


def _results(request: Request) -> str:
    blocks: Iterator[str] = (block.content for block in request.messages[-1].content if isinstance(block, ToolResult))
    return "\n".join(blocks)


if __name__ == "__main__":
    sys.exit(main())
