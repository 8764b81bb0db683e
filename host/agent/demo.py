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

from host.agent.demo_scene import (
    DemoFailed,
    Scene,
    git,
    is_serving,
    main_after,
    main_since,
    minifram,
    minifram_told,
    newest_boot,
    page_of,
    run,
    scene_apart,
    scene_in_container,
    state_of,
    until,
    wall,
)
from host.context import Say
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.places import LIFE_FILE
from infra.shared.watcher_file import Trouble

PRIMES = "Write src/primes.py with a function is_prime(n), and a test for it."
IMPROVE = "Improve yourself: each report should end with how long its unit of work took."
BROKEN = "Try the upgrade on branch cannot-start: a runner that holds a syntax error."
DYING = "Try the upgrade on branch starts-then-dies: a runner that starts and then dies."
HELLO = "Write src/hello.py that prints hello, with a test."


class Stage:
    """Where the demo is told: each line with the seconds since it began."""

    def __init__(self, out: TextIO, say: Say = lambda _: None) -> None:
        """Each title is told to `say`, too."""
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
    stage = Stage(out)
    scene = scene_apart(directory) if sandbox == "process" else scene_in_container(directory, sandbox, "", os.environ)
    try:
        play_whole(scene, stage)
        _close(scene, stage)
    except DemoFailed as error:
        stage.title(f"FAILED: {error}")
        stage.show(minifram(scene, "logs", "-n", "40", check=False))
        stage.show(f"Everything is left in {directory}")
        return Exit.FAILURE
    return Exit.OK


def play_whole(scene: Scene, stage: Stage, first: Callable[[], None] = lambda: None) -> None:
    """From the agent's birth to its end; `first` is called once it is up. Raises DemoFailed."""
    with _agent(scene, stage):
        first()
        _play(scene, stage)


def _play(scene: Scene, stage: Stage) -> None:
    stage.title("a. A directive, over plain git")
    _directed(scene, stage, PRIMES)
    primes = _done(scene, stage, PRIMES, 60)
    _show_commits(scene, stage, "src", "tests/test_primes.py")
    stage.show(primes)

    before_upgrade = git(scene, "rev-parse", "origin/main")
    stage.title("b. A directive to improve itself: the hop")
    _directed(scene, stage, IMPROVE)
    _follow_hop(scene, stage, "report-duration")
    improved = _done(scene, stage, IMPROVE, 60)
    _show_commits(scene, stage, "infra")
    if "This took" not in improved:
        raise DemoFailed("the new behaviour (a duration in the report) is not in the report after the upgrade")
    stage.say("the new behaviour is visible in the report:")
    stage.show(improved)

    for letter, branch, directive in (("c.", "cannot-start", BROKEN), ("  ", "starts-then-dies", DYING)):
        stage.title(f"{letter} A bad upgrade: {branch}")
        _directed(scene, stage, directive)
        (_follow_fall if branch == "starts-then-dies" else _follow_refusal)(scene, stage, branch)
        _done(scene, stage, directive, 60)

    stage.title("d. The PM rolls back the improvement")
    commits_before = int(git(scene, "rev-list", "--count", "origin/main"))
    reports_before = comms.reports(page_of(scene))
    stage.show(minifram(scene, "rollback", before_upgrade[:12]))
    rolled_back = git(scene, "rev-parse", "origin/main", fetch=True)
    until(10, lambda: is_serving(scene, rolled_back), "main running the rolled back tree", scene)
    stage.say(f"main runs {rolled_back[:12]}: the old tree as a new commit")
    _directed(scene, stage, HELLO)
    hello = _done(scene, stage, HELLO, 60)
    commits = int(git(scene, "rev-list", "--count", "origin/main"))
    kept = [report for report in reports_before if report in comms.reports(page_of(scene))]
    stage.say(
        f"history grew from {commits_before} to {commits} commits on main; every report is still there: "
        f"{len(kept)} of {len(reports_before)}"
    )
    if len(kept) != len(reports_before) or commits <= commits_before or "This took" in hello:
        raise DemoFailed("the rollback lost a report or a commit, or left the old behaviour in place")
    stage.say("and reports are as they were before the upgrade:")
    stage.show(hello)


@contextlib.contextmanager
def _agent(scene: Scene, stage: Stage) -> Iterator[None]:
    """Set up, run, and whatever happens take down."""
    stage.title(f"An agent is born in {scene.directory}")
    settings = minifram(scene, "init", "--sandbox", scene.sandbox, "--model", "scripted", "--json")
    if scene.sandbox == "podman":
        file = Path(json.loads(settings)["settings"])
        text = file.read_text()
        # A demo has nobody to speak to.
        for line, chosen in (("# network: auto", "network: none"), ("# base: null", f"base: {json.dumps(scene.base)}")):
            if text.count(line) != 1:
                raise DemoFailed(f"{file} has no line '{line}'")
            text = text.replace(line, chosen)
        file.write_text(text)
        stage.say("the first time, the image is made: that takes minutes")
    run(["git", "clone", "--quiet", scene.places.remote, str(scene.clone)], scene, cwd=scene.directory)
    git(scene, "config", "user.name", "PM")
    git(scene, "config", "user.email", "pm@example.invalid")
    stage.say(f"bare repository {scene.places.remote}, first commit {git(scene, 'rev-parse', '--short', 'HEAD')}")
    try:
        minifram_told(scene, stage.say, "up")
        state = state_of(scene)
        stage.say(f"the watcher runs; main@{state.commit[:12]} says SUCCESS (pid {state.runner_pid})")
        yield
    finally:
        minifram(scene, "down", check=False)
        if scene.sandbox == "process":
            shutil.rmtree(scene.env["XDG_RUNTIME_DIR"], ignore_errors=True)


def _directed(scene: Scene, stage: Stage, text: str) -> None:
    """The PM's way by hand: edit COMMS.md, commit, push. Waits until the agent is at it."""
    page = scene.clone / "COMMS.md"
    git(scene, "pull", "--quiet", "--rebase")
    page.write_text(comms.add_directive(page.read_text(), text))
    git(scene, "commit", "--quiet", "--all", "--message", f"Directive: {text}")
    git(scene, "push", "--quiet")
    pushed = time.monotonic()
    stage.say(f"PM pushed {git(scene, 'rev-parse', '--short', 'HEAD')}: {text}")
    until(2.0, lambda: _working_on(scene, text), "the agent noticing the directive within 2 s", scene)
    stage.say(f"the agent noticed {time.monotonic() - pushed:.2f} s after the push")


def _working_on(scene: Scene, text: str) -> bool:
    try:
        life = json.loads(Path(scene.places.main_checkout, LIFE_FILE).read_text())
    except (OSError, ValueError):
        return False
    return bool(life["doing"] == "working" and text.startswith(life["unit"].rstrip("…")[:60])) or _is_ticked(
        scene, text
    )


def _is_ticked(scene: Scene, text: str) -> bool:
    return any(item.done and item.text == text for item in comms.directives(page_of(scene)))


def _done(scene: Scene, stage: Stage, text: str, seconds: float) -> str:
    """Wait until the directive is ticked; the report that came with it."""
    until(seconds, lambda: _is_ticked(scene, text), f"the directive ticked: {text}", scene)
    start = text[:60]
    report = next(r for r in reversed(comms.reports(page_of(scene))) if f"done: {start}" in r.splitlines()[0])
    commit = git(scene, "log", "-1", "--format=%h %s", "origin/main", "--", "COMMS.md", fetch=True)
    stage.say(f"reported and ticked: {commit[:90]}")
    return report


def _follow_hop(scene: Scene, stage: Stage, branch: str) -> None:
    on_branch = until(90, lambda: newest_boot(scene, branch, "success", "left"), f"{branch} launched", scene)
    launched = f"the watcher rehearsed and launched {branch}@{on_branch.commit[:12]}"
    stage.say(f"it pushed branch {branch}, signalled and left; {launched}")
    until(300, lambda: newest_boot(scene, branch, "left"), f"{branch} examined and handed over", scene)
    if not re.search(rf"{branch}@[0-9a-f]+ merged into main", page_of(scene)):
        raise DemoFailed(f"{branch} did not merge itself; its report:\n{comms.reports(page_of(scene))[-1]}")
    merge = git(scene, "log", "-1", "--merges", "--format=%h %s", "origin/main", fetch=True)
    evidence = git(scene, "log", "-1", "--merges", "--format=%(trailers:key=Examined)", "origin/main")
    stage.say(f"the keep examined the new version ({evidence.removeprefix('Examined: ').strip()}), it merged: {merge}")
    back = until(10, lambda: main_after(scene, branch), "main running the merge", scene)
    stage.say(f"and handed over: main@{back.commit[:12]} runs")


def _follow_refusal(scene: Scene, stage: Stage, branch: str) -> None:
    """The branch is never launched: its rehearsal shows that it cannot live."""

    def refused() -> Trouble | None:
        words = f"{branch}@"
        found = [each for each in state_of(scene).troubles if each.text.startswith(words)]
        return found[-1] if found else None

    trouble = until(90, refused, f"{branch} refused", scene)
    back = until(5, lambda: main_since(scene, trouble.at), "main running again within 5 s", scene)
    stage.say(trouble.text)
    took = max(0.0, wall(back.started_at) - wall(trouble.at))
    stage.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after the verdict")
    _show_report(scene, stage, branch)


def _follow_fall(scene: Scene, stage: Stage, branch: str) -> None:
    fallen = until(90, lambda: newest_boot(scene, branch, "failed", "died"), f"{branch} failing", scene)
    back = until(5, lambda: main_after(scene, branch), "main running again within 5 s", scene)
    took = max(0.0, wall(back.started_at) - wall(fallen.ended_at))
    stage.say(fallen.detail)
    stage.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after that end")
    _show_report(scene, stage, branch)


def _show_report(scene: Scene, stage: Stage, branch: str) -> None:
    """What the PM can read of a version that failed: in COMMS.md, and by `minifram logs`."""
    title = f"watcher: {branch} failed"
    until(5, lambda: title in page_of(scene), "the reason in COMMS.md", scene)
    report = next(report for report in reversed(comms.reports(page_of(scene))) if title in report)
    lines = report.splitlines()
    stage.show("\n".join([*lines[:3], "    …", *lines[-3:]] if len(lines) > 6 else lines))
    logged = [
        line for line in minifram(scene, "logs", "--source", "watcher", "-n", "60").splitlines() if branch in line
    ]
    if not logged:
        raise DemoFailed(f"`minifram logs` does not say what happened to {branch}")


def _close(scene: Scene, stage: Stage) -> None:
    stage.title("The history: git log --graph --oneline --all")
    stage.show(git(scene, "log", "--graph", "--oneline", "--all", fetch=True))
    stage.title("The Reports section of COMMS.md")
    stage.show("\n\n".join(comms.reports(page_of(scene))))
    stage.title(f"Done in {stage.seconds():.0f} s. The agent is down; everything is left for you to look at:")
    stage.show(
        f"{scene.places.remote}   the bare repository\n"
        f"{scene.clone}   the PM's clone\n"
        f"{scene.places.bot}   the agent's own tree, its logs in main/minifram/logs\n"
        f"{scene.places.var}   watcher state and log, ledger\n\n"
        "Next: `.venv/bin/minifram init && .venv/bin/minifram up` makes an agent of your own;\n"
        "with ANTHROPIC_API_KEY set, `.venv/bin/minifram init --model anthropic` runs it on Claude."
    )


def _show_commits(scene: Scene, stage: Stage, *paths: str) -> None:
    for line in git(
        scene, "log", "-1", "--no-merges", "--stat", "--format=%h %an: %s", "origin/main", "--", *paths, fetch=True
    ).splitlines():
        if line.strip():
            stage.show(line)
