"""`demo`: the main job, watched. An agent is set up, directed, improves itself, survives two bad upgrades and a
rollback.

Everything is real but the model's words, which come from the scripted model: the real watcher, doors, runner and git,
and a PM who uses nothing but git and the `minifram` command. What is printed is read from the repository."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO, TypeVar

import click

from host.cli import command
from host.container.podman import HANDED_ON
from host.home import Context, paths_of
from host.running import PODMAN, PROCESS
from host.screen import Say, Shown, seconds_of
from infra.keep import watcher_file
from infra.keep.programs import keep_command, keep_environment
from infra.keep.watcher_file import BootRecord, Phase, State, Trouble
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.paths import LIFE_FILE, TRANSCRIPTS

PRIMES = "Write src/primes.py with a function is_prime(n), and a test for it."
IMPROVE = "Improve yourself: each report should end with how long its run took."
BROKEN = "Try the upgrade on branch cannot-start: a runner that holds a syntax error."
DYING = "Try the upgrade on branch starts-then-dies: a runner that starts and then dies."
HELLO = "Write src/hello.py that prints hello, with a test."
REMEMBER = "Remember this: the release train leaves on Thursday."
RECALL = "When does the release train leave? Say what you remember."
SOON_SECONDS = 30.0
"""For what takes a second or two on a machine that does nothing else. How long it took is told."""
T = TypeVar("T")


@functools.partial(command, has_json=False, has_agent=False)
@click.option("--sandbox", type=click.Choice([PROCESS, PODMAN]), default=PROCESS, help=f"Default: {PROCESS}.")
@click.option("--keep-at", metavar="DIR", help="Keep all files there for inspection.")
def demo(context: Context, say: Say, sandbox: str, keep_at: str | None) -> Shown:
    """Watch an agent work, improve itself, fail and recover: real programs, a scripted model, no key, no network."""
    directory = Path(keep_at or tempfile.mkdtemp(prefix="minifram-demo-")).absolute()
    played = Demo(directory, sandbox, context.environ, sys.stdout)
    try:
        with _alive(played):
            _play(played)
        _close(played)
    except DemoFailed as error:
        played.title(f"FAILED: {error}")
        played.show(played.minifram("logs", "-n", "40", check=False))
        played.show(f"Everything is left in {directory}")
        return Shown(code=Exit.FAILURE)
    return Shown()


class DemoFailed(Exception):
    """A step of the demo was not seen in time; says which and where to look."""


class Demo:
    """The agent that is played with, all that is done to it or read of it, and what is printed."""

    def __init__(self, directory: Path, sandbox: str, environ: Mapping[str, str], out: TextIO) -> None:
        """In the process sandbox, all that it leaves lies here; in podman's it is one of the PM's agents."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.sandbox, self._out, self._began = directory, sandbox, out, time.monotonic()
        self.clone = directory / "pm"
        self.env = keep_environment() | {"NO_COLOR": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        if sandbox == PROCESS:
            self.env |= {f"XDG_{kind}_HOME": str(directory / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
            self.env["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="mf-")  # short, because a unix socket's path is
        else:
            self.env |= {key: environ[key] for key in environ if key.startswith("XDG_") or key in HANDED_ON}
        self.name = "demo" if sandbox == PROCESS else f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
        self.places = paths_of(self.name, self.env, os.getuid()).places

    def title(self, text: str) -> None:
        print(f"\n{time.monotonic() - self._began:6.1f} s  {text}", file=self._out, flush=True)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s    {text}", file=self._out, flush=True)

    def show(self, text: str) -> None:
        for line in text.splitlines():
            print(f"    {line}", file=self._out, flush=True)

    def minifram(self, *words: str, check: bool = True) -> str:
        """What the PM's command prints. Raises DemoFailed."""
        return self.run(keep_command("host", "--agent", self.name, *words), check=check)

    def git(self, *words: str, fetch: bool = False) -> str:
        if fetch:
            self.run(["git", "fetch", "--quiet", "--prune"], self.clone)
        return self.run(["git", *words], self.clone).strip()

    def run(self, command: list[str], cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(
            command, cwd=cwd or "/", env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            words = " ".join(os.path.basename(word) for word in command[-4:])
            raise DemoFailed(f"`{words}` ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def until(self, seconds: float, look: Callable[[], T | None], what: str) -> T:
        """What `look` gives as soon as it gives something. Raises DemoFailed at the deadline."""
        deadline = time.monotonic() + seconds
        while True:
            if found := look():
                return found
            if time.monotonic() > deadline:
                raise DemoFailed(f"not seen within {seconds:g} s: {what}; see {self.places.watcher_log}")
            time.sleep(0.02)

    def state(self) -> State:
        return watcher_file.decode(Path(self.places.watcher_state).read_bytes())

    def page(self) -> str:
        return self.run(["git", "--git-dir", self.places.remote, "show", "main:COMMS.md"])

    def is_ticked(self, text: str) -> bool:
        return any(item.done and item.text == text for item in comms.directives(self.page()))

    def newest_boot(self, branch: str, *outcomes: str) -> BootRecord | None:
        """The newest boot of `branch`, when it came out like that."""
        boots = [boot for boot in self.state().boots if boot.branch == branch]
        return boots[-1] if boots and boots[-1].outcome in outcomes else None

    def trouble_with(self, branch: str) -> Trouble | None:
        return next((each for each in reversed(self.state().troubles) if f"{branch}@" in each.text), None)

    def main_since(self, at: str) -> BootRecord | None:
        """Main's boot that serves and was started then or later; `at` is a timestamp."""
        boot = self.newest_boot("main", "success")
        return boot if boot and boot.started_at >= at else None

    def is_serving(self, commit: str) -> bool:
        """This tree but for COMMS.md, which may have moved on."""
        state = self.state()
        if state.phase is not Phase.RUNNING or state.active.branch != "main":
            return False
        return not self.git(
            "diff", "--name-only", state.active.commit, commit, "--", ".", ":(exclude)COMMS.md", fetch=True
        )


def _play(demo: Demo) -> None:
    demo.title("a. A directive, over plain git")
    _directed(demo, PRIMES)
    primes = _done(demo, PRIMES, 60)
    _show_commits(demo, "src", "tests/test_primes.py")
    demo.show(primes)

    _directed(demo, REMEMBER)
    _done(demo, REMEMBER, 60)

    before_upgrade = demo.git("rev-parse", "origin/main")
    demo.title("b. A directive to improve itself: the hop")
    _directed(demo, IMPROVE)
    _follow_hop(demo, "report-duration")
    improved = _done(demo, IMPROVE, 60)
    _show_commits(demo, "infra")
    if "This took" not in improved:
        raise DemoFailed("the new behaviour (a duration in the report) is not there after the upgrade")
    demo.say("the new behaviour is visible in the report:")
    demo.show(improved)

    for branch, directive in (("cannot-start", BROKEN), ("starts-then-dies", DYING)):
        demo.title(f"c. A bad upgrade: {branch}")
        _directed(demo, directive)
        _follow_failure(demo, branch)
        _done(demo, directive, 60)

    demo.title("d. The PM rolls back the improvement")
    commits_before = int(demo.git("rev-list", "--count", "origin/main"))
    reports_before = comms.reports(demo.page())
    demo.show(demo.minifram("rollback", before_upgrade[:12]))
    rolled_back = demo.git("rev-parse", "origin/main", fetch=True)
    demo.until(SOON_SECONDS, lambda: demo.is_serving(rolled_back), "main running the rolled back tree")
    demo.say(f"main runs {rolled_back[:12]}: the old tree as a new commit")
    _directed(demo, HELLO)
    hello = _done(demo, HELLO, 60)
    commits = int(demo.git("rev-list", "--count", "origin/main"))
    if {*reports_before} - {*comms.reports(demo.page())} or commits <= commits_before or "This took" in hello:
        raise DemoFailed("the rollback lost a report or a commit, or left the old behaviour in place")
    demo.say(f"history grew from {commits_before} to {commits} commits on main, every report is still there")
    demo.say("and reports are as they were before the upgrade:")
    demo.show(hello)

    demo.title("e. What it was told before the hop and the rollback")
    _directed(demo, RECALL)
    _done(demo, RECALL, 60)
    _show_memory(demo)


def _show_memory(demo: Demo) -> None:
    """What the last run was given of the mind, and why that is held to be so."""
    records = sorted(Path(demo.places.main_checkout, TRANSCRIPTS).glob("*.jsonl"))
    lines = [json.loads(line) for line in records[-1].read_text().splitlines()]
    recalled = "".join(line["content"] for line in lines if line["kind"] == "acted" and line["tool_name"] == "recall")
    if not (found := re.search(r"\bL-\d{6}\b", recalled)) or "on Thursday" not in recalled:
        raise DemoFailed(f"the run did not recall what it was told: {recalled}")
    demo.say(f"after both it recalls {found[0]}; why, from the keep's records (minifram mind why {found[0]}):")
    demo.show(demo.minifram("mind", "why", found[0]))


@contextlib.contextmanager
def _alive(demo: Demo) -> Iterator[None]:
    """Set up, run, and whatever happens take down."""
    demo.title(f"A new agent in {demo.directory}")
    told = demo.minifram("init", "--sandbox", demo.sandbox, "--model", "scripted", "--json")
    if demo.sandbox == PODMAN:
        settings = "sandbox: podman\nmodel: {provider: scripted}\npodman: {network: none}\n"  # nobody to speak to
        Path(json.loads(told)["settings"]).write_text(settings)
        demo.say("the first time, the image is made: that takes minutes")
    demo.run(["git", "clone", "--quiet", demo.places.remote, str(demo.clone)], cwd=demo.directory)
    demo.git("config", "user.name", "PM")
    demo.git("config", "user.email", "pm@example.invalid")
    demo.say(f"bare repository {demo.places.remote}, first commit {demo.git('rev-parse', '--short', 'HEAD')}")
    try:
        demo.minifram("up")
        state = demo.state()
        demo.say(f"the watcher runs; main@{state.active.commit[:12]} says SUCCESS (pid {state.active.pid})")
        yield
    finally:
        demo.minifram("down", check=False)
        if demo.sandbox == PROCESS:
            shutil.rmtree(demo.env["XDG_RUNTIME_DIR"], ignore_errors=True)


def _directed(demo: Demo, text: str) -> None:
    """The PM's way by hand: edit COMMS.md, commit, push. Waits until the agent is at it."""
    page = demo.clone / "COMMS.md"
    demo.git("pull", "--quiet", "--rebase")
    page.write_text(comms.add_directive(page.read_text(), text))
    demo.git("commit", "--quiet", "--all", "--message", f"Directive: {text}")
    demo.git("push", "--quiet")
    pushed = time.monotonic()
    demo.say(f"PM pushed {demo.git('rev-parse', '--short', 'HEAD')}: {text}")
    demo.until(SOON_SECONDS, lambda: _working_on(demo, text), "the agent noticing the directive")
    demo.say(f"the agent noticed {time.monotonic() - pushed:.2f} s after the push")


def _working_on(demo: Demo, text: str) -> bool:
    try:
        life = json.loads(Path(demo.places.main_checkout, LIFE_FILE).read_text())
    except (OSError, ValueError):
        return False
    return bool(life["doing"] == "working" and text.startswith(life["about"].rstrip("…")[:60])) or demo.is_ticked(text)


def _done(demo: Demo, text: str, seconds: float) -> str:
    """Wait until the directive is ticked; the report that came with it."""
    demo.until(seconds, lambda: demo.is_ticked(text), f"the directive ticked: {text}")
    report = next(r for r in reversed(comms.reports(demo.page())) if f"done: {text[:60]}" in r.splitlines()[0])
    commit = demo.git("log", "-1", "--format=%h %s", "origin/main", "--", "COMMS.md", fetch=True)
    demo.say(f"reported and ticked: {commit[:90]}")
    return report


def _follow_hop(demo: Demo, branch: str) -> None:
    on_branch = demo.until(90, lambda: demo.newest_boot(branch, "success", "left"), f"{branch} launched")
    launched = f"the watcher rehearsed and launched {branch}@{on_branch.commit[:12]}"
    demo.say(f"it pushed branch {branch}, signalled and left; {launched}")
    over = demo.until(900, lambda: demo.newest_boot(branch, "left"), f"{branch} examined and handed over")
    if not re.search(rf"{branch}@[0-9a-f]+ merged into main", demo.page()):
        raise DemoFailed(f"{branch} did not merge itself; its report:\n{comms.reports(demo.page())[-1]}")
    merge = demo.git("log", "-1", "--merges", "--format=%h %s", "origin/main", fetch=True)
    evidence = demo.git("log", "-1", "--merges", "--format=%(trailers:key=Examined)", "origin/main")
    demo.say(f"the keep examined the new version ({evidence.removeprefix('Examined: ').strip()}), it merged: {merge}")
    back = demo.until(SOON_SECONDS, lambda: demo.main_since(over.ended_at), "main running the merge")
    demo.say(f"and handed over: main@{back.commit[:12]} runs")


def _follow_failure(demo: Demo, branch: str) -> None:
    """Of one that is never launched, because its rehearsal shows that it cannot live, and of one that falls later."""
    if branch == "cannot-start":
        trouble = demo.until(90, lambda: demo.trouble_with(branch), f"{branch} refused")
        end, what = trouble.at, "the verdict"
        demo.say(f"refused: {trouble.text}")
    else:
        fallen = demo.until(90, lambda: demo.newest_boot(branch, "failed", "died"), f"{branch} failing")
        end, what = fallen.ended_at, "that end"
        demo.say(f"it fell: {fallen.detail}")
    back = demo.until(SOON_SECONDS, lambda: demo.main_since(end), "main running again")
    took = max(0.0, (seconds_of(back.started_at) or 0.0) - (seconds_of(end) or 0.0))
    demo.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after {what}")
    _show_report(demo, branch)


def _show_report(demo: Demo, branch: str) -> None:
    """What the PM reads in COMMS.md of a version that failed."""
    title = f"watcher: {branch} failed"
    demo.until(SOON_SECONDS, lambda: title in demo.page(), "the reason in COMMS.md")
    report = next(report for report in reversed(comms.reports(demo.page())) if title in report)
    demo.show("\n".join(report.splitlines()[:6]))


def _close(demo: Demo) -> None:
    demo.title("The history: git log --graph --oneline --all")
    demo.show(demo.git("log", "--graph", "--oneline", "--all", fetch=True))
    demo.title("The Reports section of COMMS.md")
    demo.show("\n\n".join(comms.reports(demo.page())))
    demo.title("Done. The agent is down; everything is left for you to look at:")
    demo.show(f"{demo.directory}   and the agent's places: {demo.places.remote}, {demo.places.bot}, {demo.places.var}")
    demo.show("Next: `minifram init && minifram up` makes an agent of your own; `--model anthropic` runs it on Claude")


def _show_commits(demo: Demo, *paths: str) -> None:
    words = ("log", "-1", "--no-merges", "--stat", "--format=%h %an: %s", "origin/main", "--", *paths)
    demo.show(re.sub(r"\n\n+", "\n", demo.git(*words, fetch=True)))
