"""The main job, watched: an agent is set up, directed, improves itself, survives two bad upgrades and a rollback.

Everything is real but the model's words, which come from the scripted model: the real watcher, doors, runner and
git, and a PM who uses nothing but git and the `minifram` command. What is printed is read from the repository."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from host.agent.demo_agent import (
    DemoAgent,
    DemoFailed,
    demo_agent,
    git,
    is_serving,
    main_after,
    main_since,
    minifram,
    minifram_told,
    newest_boot,
    page_of,
    run,
    state_of,
    until,
    wall,
)
from host.display import Say
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.paths import LIFE_FILE, TRANSCRIPTS
from infra.shared.watcher_file import Trouble

PRIMES = "Write src/primes.py with a function is_prime(n), and a test for it."
IMPROVE = "Improve yourself: each report should end with how long its unit of work took."
BROKEN = "Try the upgrade on branch cannot-start: a runner that holds a syntax error."
DYING = "Try the upgrade on branch starts-then-dies: a runner that starts and then dies."
HELLO = "Write src/hello.py that prints hello, with a test."
REMEMBER = "Remember this: the release train leaves on Thursday."
RECALL = "When does the release train leave? Say what you remember."

SOON_SECONDS = 30.0
"""For what takes a second or two on a machine that does nothing else. How long it took is told."""


class Narration:
    """What the demo prints: each line with the seconds since it began."""

    def __init__(self, out: TextIO, say: Say = lambda _: None) -> None:
        """`say` gets each title, too."""
        self._out, self._say = out, say
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        self._print(f"\n{self._clock()}  {text}")
        self._say(text)

    def say(self, text: str) -> None:
        self._print(f"{self._clock()}    {text}")

    def show(self, text: str) -> None:
        for line in text.splitlines():
            self._print(f"    {line}")

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _clock(self) -> str:
        return f"{self.seconds():6.1f} s"

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def run_demo(keep_at: str | None, sandbox: str, out: TextIO) -> int:
    """Play the demo in `keep_at` (default: a new directory under /tmp) and leave it for inspection.

    Gives Exit.OK, or Exit.FAILURE with the step that was not seen."""
    directory = Path(keep_at or tempfile.mkdtemp(prefix="minifram-demo-")).absolute()
    story = Narration(out)
    agent = demo_agent(directory, sandbox, os.environ)
    try:
        play_whole(agent, story)
        _close(agent, story)
    except DemoFailed as error:
        story.title(f"FAILED: {error}")
        story.show(minifram(agent, "logs", "-n", "40", check=False))
        story.show(f"Everything is left in {directory}")
        return Exit.FAILURE
    return Exit.OK


def play_whole(agent: DemoAgent, story: Narration, first: Callable[[], None] = lambda: None) -> None:
    """From `init` to the end; `first` is called once it is up. Raises DemoFailed."""
    with _alive(agent, story):
        first()
        _play(agent, story)


def _play(agent: DemoAgent, story: Narration) -> None:
    story.title("a. A directive, over plain git")
    _directed(agent, story, PRIMES)
    primes = _done(agent, story, PRIMES, 60)
    _show_commits(agent, story, "src", "tests/test_primes.py")
    story.show(primes)

    _directed(agent, story, REMEMBER)
    _done(agent, story, REMEMBER, 60)

    before_upgrade = git(agent, "rev-parse", "origin/main")
    story.title("b. A directive to improve itself: the hop")
    _directed(agent, story, IMPROVE)
    _follow_hop(agent, story, "report-duration")
    improved = _done(agent, story, IMPROVE, 60)
    _show_commits(agent, story, "infra")
    if "This took" not in improved:
        raise DemoFailed("the new behaviour (a duration in the report) is not in the report after the upgrade")
    story.say("the new behaviour is visible in the report:")
    story.show(improved)

    for branch, directive in (("cannot-start", BROKEN), ("starts-then-dies", DYING)):
        story.title(f"c. A bad upgrade: {branch}")
        _directed(agent, story, directive)
        (_follow_fall if branch == "starts-then-dies" else _follow_refusal)(agent, story, branch)
        _done(agent, story, directive, 60)

    story.title("d. The PM rolls back the improvement")
    commits_before = int(git(agent, "rev-list", "--count", "origin/main"))
    reports_before = comms.reports(page_of(agent))
    story.show(minifram(agent, "rollback", before_upgrade[:12]))
    rolled_back = git(agent, "rev-parse", "origin/main", fetch=True)
    until(SOON_SECONDS, lambda: is_serving(agent, rolled_back), "main running the rolled back tree", agent)
    story.say(f"main runs {rolled_back[:12]}: the old tree as a new commit")
    _directed(agent, story, HELLO)
    hello = _done(agent, story, HELLO, 60)
    commits = int(git(agent, "rev-list", "--count", "origin/main"))
    kept = [report for report in reports_before if report in comms.reports(page_of(agent))]
    story.say(
        f"history grew from {commits_before} to {commits} commits on main; every report is still there: "
        f"{len(kept)} of {len(reports_before)}"
    )
    if len(kept) != len(reports_before) or commits <= commits_before or "This took" in hello:
        raise DemoFailed("the rollback lost a report or a commit, or left the old behaviour in place")
    story.say("and reports are as they were before the upgrade:")
    story.show(hello)

    story.title("e. What it was told before the hop and the rollback")
    _directed(agent, story, RECALL)
    _done(agent, story, RECALL, 60)
    _show_memory(agent, story)


def _show_memory(agent: DemoAgent, story: Narration) -> None:
    """What the last run was given of the mind, and why that is held to be so."""
    records = sorted(Path(agent.places.main_checkout, TRANSCRIPTS).glob("*.jsonl"))
    lines = [json.loads(line) for line in records[-1].read_text().splitlines()]
    recalled = [line["content"] for line in lines if line["kind"] == "acted" and line["tool_name"] == "recall"]
    found = re.search(r"\bL-\d{6}\b", "\n".join(recalled))
    if not found or "on Thursday" not in recalled[0]:
        raise DemoFailed(f"the run did not recall what it was told: {recalled}")
    story.say(
        f"after both it recalls {found[0]}. Why that is so, from the keep's records (minifram mind why {found[0]}):"
    )
    story.show(minifram(agent, "mind", "why", found[0]))


@contextlib.contextmanager
def _alive(agent: DemoAgent, story: Narration) -> Iterator[None]:
    """Set up, run, and whatever happens take down."""
    story.title(f"A new agent in {agent.directory}")
    settings = minifram(agent, "init", "--sandbox", agent.sandbox, "--model", "scripted", "--json")
    if agent.sandbox == "podman":
        file = Path(json.loads(settings)["settings"])
        text = file.read_text()
        # A demo has nobody to speak to.
        for line, chosen in (("# network: auto", "network: none"), ("# base: null", f"base: {json.dumps(agent.base)}")):
            if text.count(line) != 1:
                raise DemoFailed(f"{file} has no line '{line}'")
            text = text.replace(line, chosen)
        file.write_text(text)
        story.say("the first time, the image is made: that takes minutes")
    run(["git", "clone", "--quiet", agent.places.remote, str(agent.clone)], agent, cwd=agent.directory)
    git(agent, "config", "user.name", "PM")
    git(agent, "config", "user.email", "pm@example.invalid")
    story.say(f"bare repository {agent.places.remote}, first commit {git(agent, 'rev-parse', '--short', 'HEAD')}")
    try:
        minifram_told(agent, story.say, "up")
        state = state_of(agent)
        story.say(f"the watcher runs; main@{state.commit[:12]} says SUCCESS (pid {state.runner_pid})")
        yield
    finally:
        minifram(agent, "down", check=False)
        if agent.sandbox == "process":
            shutil.rmtree(agent.env["XDG_RUNTIME_DIR"], ignore_errors=True)


def _directed(agent: DemoAgent, story: Narration, text: str) -> None:
    """The PM's way by hand: edit COMMS.md, commit, push. Waits until the agent is at it."""
    page = agent.clone / "COMMS.md"
    git(agent, "pull", "--quiet", "--rebase")
    page.write_text(comms.add_directive(page.read_text(), text))
    git(agent, "commit", "--quiet", "--all", "--message", f"Directive: {text}")
    git(agent, "push", "--quiet")
    pushed = time.monotonic()
    story.say(f"PM pushed {git(agent, 'rev-parse', '--short', 'HEAD')}: {text}")
    until(SOON_SECONDS, lambda: _working_on(agent, text), "the agent noticing the directive", agent)
    story.say(f"the agent noticed {time.monotonic() - pushed:.2f} s after the push")


def _working_on(agent: DemoAgent, text: str) -> bool:
    try:
        life = json.loads(Path(agent.places.main_checkout, LIFE_FILE).read_text())
    except (OSError, ValueError):
        return False
    return bool(life["doing"] == "working" and text.startswith(life["unit"].rstrip("…")[:60])) or _is_ticked(
        agent, text
    )


def _is_ticked(agent: DemoAgent, text: str) -> bool:
    return any(item.done and item.text == text for item in comms.directives(page_of(agent)))


def _done(agent: DemoAgent, story: Narration, text: str, seconds: float) -> str:
    """Wait until the directive is ticked; the report that came with it."""
    until(seconds, lambda: _is_ticked(agent, text), f"the directive ticked: {text}", agent)
    start = text[:60]
    report = next(r for r in reversed(comms.reports(page_of(agent))) if f"done: {start}" in r.splitlines()[0])
    commit = git(agent, "log", "-1", "--format=%h %s", "origin/main", "--", "COMMS.md", fetch=True)
    story.say(f"reported and ticked: {commit[:90]}")
    return report


def _follow_hop(agent: DemoAgent, story: Narration, branch: str) -> None:
    on_branch = until(90, lambda: newest_boot(agent, branch, "success", "left"), f"{branch} launched", agent)
    launched = f"the watcher rehearsed and launched {branch}@{on_branch.commit[:12]}"
    story.say(f"it pushed branch {branch}, signalled and left; {launched}")
    until(900, lambda: newest_boot(agent, branch, "left"), f"{branch} examined and handed over", agent)
    if not re.search(rf"{branch}@[0-9a-f]+ merged into main", page_of(agent)):
        raise DemoFailed(f"{branch} did not merge itself; its report:\n{comms.reports(page_of(agent))[-1]}")
    merge = git(agent, "log", "-1", "--merges", "--format=%h %s", "origin/main", fetch=True)
    evidence = git(agent, "log", "-1", "--merges", "--format=%(trailers:key=Examined)", "origin/main")
    story.say(f"the keep examined the new version ({evidence.removeprefix('Examined: ').strip()}), it merged: {merge}")
    back = until(SOON_SECONDS, lambda: main_after(agent, branch), "main running the merge", agent)
    story.say(f"and handed over: main@{back.commit[:12]} runs")


def _follow_refusal(agent: DemoAgent, story: Narration, branch: str) -> None:
    """The branch is never launched: its rehearsal shows that it cannot live."""

    def refused() -> Trouble | None:
        found = [each for each in state_of(agent).troubles if f"{branch}@" in each.text]
        return found[-1] if found else None

    trouble = until(90, refused, f"{branch} refused", agent)
    back = until(SOON_SECONDS, lambda: main_since(agent, trouble.at), "main running again", agent)
    story.say(f"refused: {trouble.text}")
    took = max(0.0, wall(back.started_at) - wall(trouble.at))
    story.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after the verdict")
    _show_report(agent, story, branch)


def _follow_fall(agent: DemoAgent, story: Narration, branch: str) -> None:
    fallen = until(90, lambda: newest_boot(agent, branch, "failed", "died"), f"{branch} failing", agent)
    back = until(SOON_SECONDS, lambda: main_after(agent, branch), "main running again", agent)
    took = max(0.0, wall(back.started_at) - wall(fallen.ended_at))
    story.say(f"it fell: {fallen.detail}")
    story.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after that end")
    _show_report(agent, story, branch)


def _show_report(agent: DemoAgent, story: Narration, branch: str) -> None:
    """What the PM can read of a version that failed: in COMMS.md, and by `minifram logs`."""
    title = f"watcher: {branch} failed"
    until(SOON_SECONDS, lambda: title in page_of(agent), "the reason in COMMS.md", agent)
    report = next(report for report in reversed(comms.reports(page_of(agent))) if title in report)
    lines = report.splitlines()
    story.show("\n".join([*lines[:3], "    …", *lines[-3:]] if len(lines) > 6 else lines))
    logged = [
        line for line in minifram(agent, "logs", "--source", "watcher", "-n", "60").splitlines() if branch in line
    ]
    if not logged:
        raise DemoFailed(f"`minifram logs` does not say what happened to {branch}")


def _close(agent: DemoAgent, story: Narration) -> None:
    story.title("The history: git log --graph --oneline --all")
    story.show(git(agent, "log", "--graph", "--oneline", "--all", fetch=True))
    story.title("The Reports section of COMMS.md")
    story.show("\n\n".join(comms.reports(page_of(agent))))
    story.title(f"Done in {story.seconds():.0f} s. The agent is down; everything is left for you to look at:")
    story.show(
        f"{agent.places.remote}   the bare repository\n"
        f"{agent.clone}   the PM's clone\n"
        f"{agent.places.bot}   the agent's own tree, its logs in main/minifram/logs\n"
        f"{agent.places.var}   watcher state and log, ledger\n\n"
        "Next: `minifram init && minifram up` makes an agent of your own (`.venv/bin/minifram` in a checkout);\n"
        "with ANTHROPIC_API_KEY set, `minifram init --model anthropic` runs it on Claude."
    )


def _show_commits(agent: DemoAgent, story: Narration, *paths: str) -> None:
    for line in git(
        agent, "log", "-1", "--no-merges", "--stat", "--format=%h %an: %s", "origin/main", "--", *paths, fetch=True
    ).splitlines():
        if line.strip():
            story.show(line)
