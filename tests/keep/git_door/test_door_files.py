"""The door holds in odd places, in odd surroundings, and when parts of it are missing."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from infra.git_door import listen_to_hooks
from infra.keep.git_door import setup
from infra.shared.exit_codes import Exit
from tests.keep.git_door.world import Clone, World, until


def test_an_own_repository_of_the_agents_is_none_of_the_doors(world: World) -> None:
    """Only the bare repository of this agent has a door, though the agent calls other origins the same."""
    other = Clone(world.root / "other", world.places.cell_git_config)
    other.path.mkdir()
    other.git("init", "--quiet")
    other.git("init", "--quiet", "--bare", str(world.root / "other.git"))
    other.git("remote", "add", "origin", str(world.root / "other.git"))
    other.commit({"logs/x": "1\n"})
    other.push("HEAD:refs/notes/anything")
    for spelling in (world.places.remote, f"{world.places.remote}/", f"{world.root}/./remote.git"):
        other.git("remote", "set-url", "origin", spelling)
        assert "refused: refs/notes/anything" in other.refused("HEAD:refs/notes/anything")


def test_odd_places(request: pytest.FixtureRequest) -> None:
    """Paths with blanks, quotes and the like reach the shell and git as they are."""
    root = tempfile.mkdtemp(prefix="m")  # not tmp_path: a socket's path must be short
    request.addfinalizer(lambda: shutil.rmtree(root))
    world = World(Path(root) / """a b it's "so" $(touch x) `id` $HOME a\\b #;=% \u00fc a\nb""")
    request.addfinalizer(world.close_door)
    world.agent.commit({"src/b.py": "b = 1\n"})
    world.agent.push("main")
    assert world.main == world.agent.head
    assert "refused: refs/notes/x" in world.agent.refused("HEAD:refs/notes/x")


def test_surroundings_of_the_agent_do_not_open_the_door(world: World) -> None:
    """What the agent has in its environment, its directory and the repository's is not what the door runs."""
    mark = world.root / "mark"
    decoy = f"import os; os.close(os.open({str(mark)!r}, os.O_CREAT)); os._exit(0)\n"
    places = (world.agent.path, Path(world.places.remote), world.root / "path")
    for place in places:
        for module in ("infra/__init__.py", "sitecustomize.py", "usercustomize.py", "json.py", "re.py"):
            (place / module).parent.mkdir(parents=True, exist_ok=True)
            (place / module).write_text(decoy)
    for program in ("env", "timeout", "python", "python3", "git-receive-pack", "git-rev-list", "sh"):
        (world.root / "path" / program).write_text(f"#!/bin/sh\n: >{mark}\nexit 0\n")
        (world.root / "path" / program).chmod(0o755)
    (world.root / "startup.py").write_text(decoy)
    bad = {
        "PYTHONPATH": ":".join(map(str, places)),
        "PYTHONSTARTUP": str(world.root / "startup.py"),
        "PYTHONHOME": str(world.root),
        "PYTHONUSERBASE": str(world.root),
        "ENV": str(world.root / "path/sh"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "/nonexistent",
        "GIT_CONFIG_PARAMETERS": "'core.hooksPath'='/nonexistent'",
        "GIT_PUSH_OPTION_COUNT": "0",
        "GIT_QUARANTINE_PATH": "/nonexistent",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
    }

    done = world.agent.run("push", "origin", "HEAD:refs/notes/x", **bad)

    assert "refused: refs/notes/x" in done.stderr
    # The shell that git itself starts for the command is looked for on PATH, so that one is left out here.
    (world.root / "path/sh").unlink()
    done = world.agent.run("push", "origin", "HEAD:refs/notes/x", PATH=f"{world.root}/path:{os.environ['PATH']}")
    assert "refused: refs/notes/x" in done.stderr
    line = f"{'0' * 40} {world.main} refs/notes/x\n"
    assert "push again" in hook(world, world.places.remote, line, bad).stderr  # nobody is left who pushes that
    del bad["GIT_QUARANTINE_PATH"]
    assert "refused: refs/notes/x" in hook(world, world.places.remote, line, bad).stderr
    assert not mark.exists()
    (world.agent.path / "infra").joinpath("__init__.py").unlink()
    world.agent.git("push", "--quiet", "origin", "HEAD:refs/heads/fine", **bad)
    assert world.ref("refs/heads/fine")


def test_without_a_running_door_nothing_of_the_agents_lands(world: World) -> None:
    """It is told what to do; the PM pushes by path and needs no door."""
    world.close_door()

    said = world.agent.refused("HEAD:refs/heads/work")

    assert "refused: the git door is being started again" in said
    assert "push again in a moment" in said
    world.pm.push("HEAD:refs/heads/pm")
    with listen_to_hooks(world.places) as hung:
        pushing = threading.Thread(target=lambda: world.agent.run("push", "origin", "HEAD:refs/heads/work"))
        pushing.start()
        hung.accept()[0].close()  # it ends in the middle of a push
        pushing.join()
    assert world.ref("refs/heads/work") is None
    world.settings()
    world.agent.push("HEAD:refs/heads/work")


PARTS = ["hooks/pre-receive", "hooks/reference-transaction"]


def test_without_a_part_nothing_lands_and_nobody_else_can_write_one(world: World) -> None:
    """Git goes on without a hook that is missing; the door does not. What is executed is writable by its owner alone,
    whatever was there before."""
    for part in PARTS:
        os.unlink(f"{world.places.var}/door/{part}")
        assert "the git door is not in place" in world.agent.refused("HEAD:refs/heads/work")
        assert world.ref("refs/heads/work") is None
        world.settings()
    parts = [Path(f"{world.places.var}/door/{name}") for name in ("receive-pack", *PARTS)]
    for path in parts:
        path.chmod(0o777)
    world.settings()
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o022 for path in parts)
    world.agent.push("HEAD:refs/heads/work")


def hook(
    world: World, directory: str, text: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The hook by itself, as git calls it."""
    return subprocess.run(
        [f"{world.places.var}/door/hooks/pre-receive"],
        cwd=directory,
        input=text,
        capture_output=True,
        text=True,
        env=env or {},
        timeout=60,
    )


def test_when_git_fails_nothing_lands(world: World) -> None:
    """No answer of git's is no reason to let a push in."""
    line = f"{'0' * 40} {world.main} refs/heads/work\n"
    head = f"{world.places.remote}/HEAD"
    os.rename(head, f"{head}.away")

    done = hook(world, world.places.remote, line)

    assert done.returncode == Exit.DENIED
    assert "refused: the git door could not look at this push" in done.stderr
    os.rename(f"{head}.away", head)
    assert hook(world, world.places.remote, line).returncode == Exit.OK
    unknown = hook(world, world.places.remote, line.replace(str(world.main), "1" * 40))
    assert unknown.returncode == Exit.DENIED


@pytest.mark.fault("F47")
def test_input_that_is_too_large_is_refused(world: World) -> None:
    """A pack over ten times the limit for files, and over 100 MiB, is cut off while it comes in."""
    config = Path(f"{world.places.var}/door/receive-pack")
    assert f"={100 * 1024 * 1024} " in config.read_text()
    config.write_text(config.read_text().replace(str(100 * 1024 * 1024), "5000"))
    world.agent.commit({"noise": os.urandom(6000).hex()})

    assert "pack exceeds maximum allowed size" in world.agent.refused("main")

    world.settings(blob_bytes=20 * 1024 * 1024)
    assert f"={200 * 1024 * 1024} " in config.read_text()
    world.agent.push("main")


LEAST = 400 * 1024 * 1024


@pytest.mark.parametrize(("blob_bytes", "allowed"), [(10_000, None), (100 * 1024 * 1024, None), (10_000, LEAST)])
def test_a_push_has_little_memory(world: World, blob_bytes: int, allowed: int | None) -> None:
    """Each of its processes has a gibibyte, and four times the largest file that the PM allows; where the machine
    allows less than that, it is what the machine allows, and no closed door."""
    world.settings(blob_bytes=blob_bytes)
    seen = world.root / "seen"
    hook = Path(f"{world.places.var}/door/hooks/pre-receive")
    hook.write_text(hook.read_text().replace("\n", f"\ncat /proc/self/limits >'{seen}'\n", 1))
    limited = ["prlimit", f"--as={allowed}", "--"] if allowed else []
    push = [*limited, "git", "push", "--quiet", "origin", "HEAD:refs/heads/work"]
    subprocess.run(push, cwd=world.agent.path, env=world.agent.env, check=True)
    wanted = setup.at_most((1024 * 1024 * 1024 + 4 * blob_bytes) // 1024 * 1024, resource.RLIMIT_AS)
    line = next(line for line in seen.read_text().splitlines() if line.startswith("Max address space"))
    assert line.split()[3:5] == [str(allowed or wanted)] * 2


@pytest.mark.fault("F47")
def test_a_push_that_takes_too_long_is_ended(world: World) -> None:
    """A push has five minutes; then it ends with all that it started, and nothing has landed."""
    door = Path(f"{world.places.var}/door")
    pid_file = world.root / "pid"
    script = (door / "receive-pack").read_text()
    assert "timeout --kill-after=10 300 git" in script
    (door / "receive-pack").write_text(script.replace("10 300 git", "10 1 git"))
    (door / "hooks/pre-receive").write_text(f"#!/bin/sh\necho $$ >'{pid_file}'\nexec sleep 100\n")

    world.agent.refused("HEAD:refs/heads/work")

    assert world.ref("refs/heads/work") is None
    assert until(lambda: not os.path.exists(f"/proc/{pid_file.read_text().strip()}"))
    world.settings()
    world.agent.push("HEAD:refs/heads/work")
