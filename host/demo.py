"""The main job, watched: an agent is set up, directed, improves itself, survives two bad upgrades and a rollback.

Everything is real but the model's words, which come from the scripted model: the real watcher, doors, runner and
git, and a PM who uses nothing but git and the `minifram` command. What is printed is read from the repository."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO, TypeVar

from host.homes import home_of
from infra.contract import comms, watcher_file
from infra.contract.exit_codes import Exit
from infra.contract.places import LIFE_FILE, Places
from infra.contract.watcher_file import BootRecord, WatcherFile
from infra.supervision.services import keep_command, keep_environment

AGENT = "demo"
T = TypeVar("T")

PRIMES = "Write src/primes.py with a function is_prime(n), and a test for it."
IMPROVE = "Improve yourself: each report should end with how long its unit of work took."
BROKEN = "Try the upgrade on branch cannot-start: a runner that holds a syntax error."
DYING = "Try the upgrade on branch starts-then-dies: a runner that starts and then dies."
HELLO = "Write src/hello.py that prints hello, with a test."


class DemoFailed(Exception):
    """A step of the demo was not seen in time; says which and where to look."""


class Stage:
    """Where the demo is told: each line with the seconds since it began."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        self._print(f"\n{self._clock()}  {text}")

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


class Scene(NamedTuple):
    """The agent that the demo plays with."""

    directory: Path
    places: Places
    clone: Path
    """The PM's clone."""
    env: dict[str, str]
    agent: str
    sandbox: str


def run_demo(keep_at: str | None, sandbox: str, out: TextIO) -> int:
    """Play the demo in `keep_at` (default: a new directory under /tmp) and leave it for inspection.

    Gives Exit.OK, or Exit.FAILURE with the step that was not seen."""
    directory = Path(keep_at or tempfile.mkdtemp(prefix="minifram-demo-")).absolute()
    stage = Stage(out)
    scene = _scene(directory) if sandbox == "process" else _scene_in_container(directory, sandbox)
    try:
        with _agent(scene, stage):
            _play(scene, stage)
        _close(scene, stage)
    except DemoFailed as error:
        stage.title(f"FAILED: {error}")
        stage.show(_minifram(scene, "logs", "-n", "40", check=False))
        stage.show(f"Everything is left in {directory}")
        return Exit.FAILURE
    return Exit.OK


def _play(scene: Scene, stage: Stage) -> None:
    stage.title("a. A directive, over plain git")
    _directed(scene, stage, PRIMES)
    primes = _done(scene, stage, PRIMES, 60)
    _show_commits(scene, stage, "src", "tests/test_primes.py")
    stage.show(primes)

    before_upgrade = _git(scene, "rev-parse", "origin/main")
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
        _follow_fall(scene, stage, branch)
        _done(scene, stage, directive, 60)

    stage.title("d. The PM rolls back the improvement")
    commits_before = int(_git(scene, "rev-list", "--count", "origin/main"))
    reports_before = comms.reports(_page(scene))
    stage.show(_minifram(scene, "rollback", before_upgrade[:12]))
    rolled_back = _git(scene, "rev-parse", "origin/main", fetch=True)
    _until(10, lambda: _serving(scene, rolled_back), "main running the rolled back tree", scene)
    stage.say(f"main runs {rolled_back[:12]}: the old tree as a new commit")
    _directed(scene, stage, HELLO)
    hello = _done(scene, stage, HELLO, 60)
    commits = int(_git(scene, "rev-list", "--count", "origin/main"))
    kept = [report for report in reports_before if report in comms.reports(_page(scene))]
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
    settings = _minifram(scene, "init", "--sandbox", scene.sandbox, "--model", "scripted", "--json")
    if scene.sandbox == "podman":
        file = Path(json.loads(settings)["settings"])
        text = file.read_text()
        if text.count("network: auto") != 1:
            raise DemoFailed(f"{file} has no line 'network: auto'")
        file.write_text(text.replace("network: auto", "network: none"))  # a demo has nobody to speak to
        stage.say("the first time, the image is made: that takes minutes; see 'minifram doctor' for what podman needs")
    _run(["git", "clone", "--quiet", scene.places.remote, str(scene.clone)], scene, cwd=scene.directory)
    _git(scene, "config", "user.name", "PM")
    _git(scene, "config", "user.email", "pm@example.invalid")
    stage.say(f"bare repository {scene.places.remote}, first commit {_git(scene, 'rev-parse', '--short', 'HEAD')}")
    try:
        _minifram(scene, "up")
        state = _state(scene)
        stage.say(f"the watcher runs; main@{state.commit[:12]} says SUCCESS (pid {state.runner_pid})")
        yield
    finally:
        _minifram(scene, "down", check=False)
        if scene.sandbox == "process":
            shutil.rmtree(scene.env["XDG_RUNTIME_DIR"], ignore_errors=True)


def _directed(scene: Scene, stage: Stage, text: str) -> None:
    """The PM's way by hand: edit COMMS.md, commit, push. Waits until the agent is at it."""
    page = scene.clone / "COMMS.md"
    _git(scene, "pull", "--quiet", "--rebase")
    page.write_text(comms.add_directive(page.read_text(), text))
    _git(scene, "commit", "--quiet", "--all", "--message", f"Directive: {text}")
    _git(scene, "push", "--quiet")
    pushed = time.monotonic()
    stage.say(f"PM pushed {_git(scene, 'rev-parse', '--short', 'HEAD')}: {text}")
    _until(2.0, lambda: _working_on(scene, text), "the agent noticing the directive within 2 s", scene)
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
    return any(item.done and item.text == text for item in comms.directives(_page(scene)))


def _done(scene: Scene, stage: Stage, text: str, seconds: float) -> str:
    """Wait until the directive is ticked; the report that came with it."""
    _until(seconds, lambda: _is_ticked(scene, text), f"the directive ticked: {text}", scene)
    start = text[:60]
    report = next(r for r in reversed(comms.reports(_page(scene))) if f"done: {start}" in r.splitlines()[0])
    commit = _git(scene, "log", "-1", "--format=%h %s", "origin/main", "--", "COMMS.md", fetch=True)
    stage.say(f"reported and ticked: {commit[:90]}")
    return report


def _follow_hop(scene: Scene, stage: Stage, branch: str) -> None:
    on_branch = _until(20, lambda: _boot(scene, branch, "success", "left"), f"{branch} launched", scene)
    stage.say(f"it pushed branch {branch}, signalled and left; the watcher launched {branch}@{on_branch.commit[:12]}")
    _until(300, lambda: _boot(scene, branch, "left"), f"{branch} validated and handed over", scene)
    if not re.search(rf"{branch}@[0-9a-f]+ merged into main", _page(scene)):
        raise DemoFailed(f"{branch} did not merge itself; its report:\n{comms.reports(_page(scene))[-1]}")
    merge = _git(scene, "log", "-1", "--merges", "--format=%h %s", "origin/main", fetch=True)
    evidence = _git(scene, "log", "-1", "--merges", "--format=%(trailers:key=Validated)", "origin/main")
    stage.say(f"the new version validated itself ({evidence.removeprefix('Validated: ').strip()}), merged: {merge}")
    back = _until(10, lambda: _after(scene, branch), "main running the merge", scene)
    stage.say(f"and handed over: main@{back.commit[:12]} runs")


def _follow_fall(scene: Scene, stage: Stage, branch: str) -> None:
    fallen = _until(20, lambda: _boot(scene, branch, "failed", "died"), f"{branch} failing", scene)
    back = _until(5, lambda: _after(scene, branch), "main running again within 5 s", scene)
    took = max(0.0, _wall(back.started_at) - _wall(fallen.ended_at))
    stage.say(fallen.detail)
    stage.say(f"main@{back.commit[:12]} serves again; it was launched {took:.2f} s after that end")
    title = f"watcher: {branch} failed"
    _until(5, lambda: title in _page(scene), "the reason in COMMS.md", scene)
    report = next(report for report in reversed(comms.reports(_page(scene))) if title in report)
    lines = report.splitlines()
    stage.show("\n".join([*lines[:3], "    …", *lines[-3:]] if len(lines) > 6 else lines))
    logged = [
        line for line in _minifram(scene, "logs", "--source", "watcher", "-n", "60").splitlines() if branch in line
    ]
    if not logged:
        raise DemoFailed(f"`minifram logs` does not say what happened to {branch}")


def _close(scene: Scene, stage: Stage) -> None:
    stage.title("The history: git log --graph --oneline --all")
    stage.show(_git(scene, "log", "--graph", "--oneline", "--all", fetch=True))
    stage.title("The Reports section of COMMS.md")
    stage.show("\n\n".join(comms.reports(_page(scene))))
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
    for line in _git(
        scene, "log", "-1", "--no-merges", "--stat", "--format=%h %an: %s", "origin/main", "--", *paths, fetch=True
    ).splitlines():
        if line.strip():
            stage.show(line)


# What the demo reads.


def _scene(directory: Path) -> Scene:
    directory.mkdir(parents=True, exist_ok=True)
    run = tempfile.mkdtemp(prefix="mf-")  # short, because a unix socket's path is
    env = keep_environment() | {
        "XDG_DATA_HOME": str(directory / "data"),
        "XDG_STATE_HOME": str(directory / "state"),
        "XDG_CONFIG_HOME": str(directory / "config"),
        "XDG_RUNTIME_DIR": run,
        "NO_COLOR": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    places = Places(
        bot=f"{directory}/data/minifram/{AGENT}/bot",
        remote=f"{directory}/data/minifram/{AGENT}/remote.git",
        run=f"{run}/minifram/{AGENT}",
        var=f"{directory}/state/minifram/{AGENT}",
    )
    return Scene(directory, places, directory / "pm", env, AGENT, "process")


def _scene_in_container(directory: Path, sandbox: str) -> Scene:
    """An agent among the PM's own: podman's images and volumes are where the PM's other containers have theirs."""
    directory.mkdir(parents=True, exist_ok=True)
    own = {name: os.environ[name] for name in os.environ if name.startswith("XDG_") or name == "HOME"}
    env = keep_environment() | own | {"NO_COLOR": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    agent = f"{AGENT}-{time.strftime('%Y%m%d-%H%M%S')}"
    places = home_of(agent, env, os.getuid()).places
    return Scene(directory, places, directory / "pm", env, agent, sandbox)


def _state(scene: Scene) -> WatcherFile:
    return watcher_file.decode(Path(scene.places.watcher_state).read_bytes())


def _boot(scene: Scene, branch: str, *outcomes: str) -> BootRecord | None:
    """The newest boot of `branch`, when it came out like that."""
    boots = [boot for boot in _state(scene).boots if boot.branch == branch]
    return boots[-1] if boots and boots[-1].outcome in outcomes else None


def _after(scene: Scene, branch: str) -> BootRecord | None:
    """The boot of main that followed the newest one of `branch`, once it has said SUCCESS."""
    boots = _state(scene).boots
    last = max((n for n, boot in enumerate(boots) if boot.branch == branch), default=len(boots))
    following = [boot for boot in boots[last + 1 :] if boot.branch == "main"]
    return following[0] if following and following[0].outcome in ("success", "left") else None


def _serving(scene: Scene, commit: str) -> bool:
    state = _state(scene)
    return state.phase == watcher_file.RUNNING and state.branch == "main" and _same_code(scene, state.commit, commit)


def _same_code(scene: Scene, one: str, other: str) -> bool:
    """Equal but for COMMS.md, which may have moved on."""
    return not _git(scene, "diff", "--name-only", one, other, "--", ".", ":(exclude)COMMS.md", fetch=True)


def _page(scene: Scene) -> str:
    return _run(["git", "--git-dir", scene.places.remote, "show", "main:COMMS.md"], scene)


def _wall(stamp: str) -> float:
    match = re.fullmatch(r"(.+)\.(\d{3})Z", stamp)
    if match is None:
        raise DemoFailed(f"{stamp!r} is no time")
    return time.mktime(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) + int(match[2]) / 1000


def _until(seconds: float, look: Callable[[], T | None], what: str, scene: Scene) -> T:
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise DemoFailed(f"not seen within {seconds:g} s: {what}; see {scene.places.watcher_log}")
        time.sleep(0.02)


def _minifram(scene: Scene, *words: str, check: bool = True) -> str:
    return _run(keep_command("host", "--agent", scene.agent, *words), scene, check=check)


def _git(scene: Scene, *words: str, fetch: bool = False) -> str:
    if fetch:
        _run(["git", "fetch", "--quiet", "--prune"], scene, cwd=scene.clone)
    return _run(["git", *words], scene, cwd=scene.clone).strip()


def _run(command: list[str], scene: Scene, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(
        command, cwd=cwd or "/", env=scene.env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if check and done.returncode:
        words = " ".join(os.path.basename(word) for word in command[-4:])
        raise DemoFailed(f"`{words}` ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
