"""The door holds in odd places, in odd surroundings, and when parts of it are missing; by path and by daemon."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from infra.git_door import listen_to_hooks
from infra.keep.git_door import setup
from infra.keep.git_door.setup import memory_bytes
from infra.shared.exit_codes import Exit
from tests.cell.loop.waiting import gone, wait_for
from tests.keep.git_door.world import BLOB_BYTES, Clone, Server, World


def test_an_own_repository_of_the_agents_is_none_of_the_doors(world: World) -> None:
    """Only the bare repository of this agent has a door, though the agent calls other origins the same."""
    other = Clone(world.root / "other", world.places.cell_git_config)
    other.path.mkdir()
    other.git("init", "--quiet")
    other.git("init", "--quiet", "--bare", str(world.root / "other.git"))
    other.git("remote", "add", "origin", str(world.root / "other.git"))
    other.commit({"logs/x": "1\n"}, to="HEAD:refs/notes/anything")
    for spelling in (world.places.remote, f"{world.places.remote}/", f"{world.root}/./remote.git"):
        other.git("remote", "set-url", "origin", spelling)
        assert "refused: refs/notes/anything" in other.refused("HEAD:refs/notes/anything")


def test_odd_places(short: Path) -> None:
    """Paths with blanks, quotes and the like reach the shell and git as they are."""
    world = World(short / """a b it's "so" $(touch x) `id` $HOME a\\b #;=% \u00fc a\nb""")
    world.agent.commit({"src/b.py": "b = 1\n"}, to="main")
    assert world.main == world.agent.head
    assert "refused: refs/notes/x" in world.agent.refused("HEAD:refs/notes/x")
    world.close_door()


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
        program_of(world.root / "path" / program, f": >{mark}")
    bad = {
        "PYTHONPATH": ":".join(map(str, places)),
        "PYTHONSTARTUP": str(world.root / "path/json.py"),
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

    push, refused = ("push", "origin", "HEAD:refs/notes/x"), "refused: refs/notes/x"
    assert refused in world.agent.run(*push, **bad).stderr
    # The shell that git itself starts for the command is looked for on PATH, so that one is left out here.
    (world.root / "path/sh").unlink()
    assert refused in world.agent.run(*push, PATH=f"{world.root}/path:{os.environ['PATH']}").stderr
    line = f"{'0' * 40} {world.main} refs/notes/x\n"
    assert "push again" in hook(world, line, bad).stderr  # nobody is left who pushes that
    del bad["GIT_QUARANTINE_PATH"]
    assert refused in hook(world, line, bad).stderr
    assert not mark.exists()
    (world.agent.path / "infra/__init__.py").unlink()
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


def test_without_a_part_nothing_lands_and_nobody_else_can_write_one(world: World) -> None:
    """Git goes on without a hook that is missing; the door does not. What is executed is writable by its owner alone,
    whatever was there before."""
    parts = [world.part(name) for name in ("hooks/pre-receive", "hooks/reference-transaction", "receive-pack")]
    for hook in parts[:2]:
        hook.unlink()
        assert "the git door is not in place" in world.agent.refused("HEAD:refs/heads/work")
        assert world.ref("refs/heads/work") is None
        world.settings()
    for path in parts:
        path.chmod(0o777)
    world.settings()
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o022 for path in parts)
    world.agent.push("HEAD:refs/heads/work")


def hook(world: World, line: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The hook by itself, as git calls it."""
    words, place = [f"{world.places.var}/door/hooks/pre-receive"], world.places.remote
    return subprocess.run(words, cwd=place, input=line, capture_output=True, text=True, env=env or {}, timeout=60)


def program_of(path: Path, words: str) -> None:
    path.write_text(f"#!/bin/sh\n{words}\nexit 0\n")
    path.chmod(0o755)


def test_when_git_fails_nothing_lands(world: World) -> None:
    """No answer of git's is no reason to let a push in."""
    line = f"{'0' * 40} {world.main} refs/heads/work\n"
    head = f"{world.places.remote}/HEAD"
    os.rename(head, f"{head}.away")

    done = hook(world, line)
    assert done.returncode == Exit.DENIED
    assert "refused: the git door could not look at this push" in done.stderr
    os.rename(f"{head}.away", head)
    assert hook(world, line).returncode == Exit.OK
    assert hook(world, line.replace(str(world.main), "1" * 40)).returncode == Exit.DENIED


@pytest.mark.fault("F47")
def test_input_that_is_too_large_is_refused(world: World) -> None:
    """A pack over ten times the limit for files, and over 100 MiB, is cut off while it comes in."""
    config = world.part("receive-pack")
    assert f"={100 << 20} " in config.read_text()
    config.write_text(config.read_text().replace(str(100 << 20), "5000"))
    world.agent.commit({"noise": os.urandom(6000).hex()})
    assert "pack exceeds maximum allowed size" in world.agent.refused("main")
    world.settings(blob_bytes=20 << 20)
    assert f"={200 << 20} " in config.read_text()
    world.agent.push("main")


@pytest.mark.parametrize(("blob_bytes", "allowed"), [(100 << 20, None), (10_000, 400 << 20)])
def test_a_push_has_little_memory(world: World, blob_bytes: int, allowed: int | None) -> None:
    """Each of its processes has a gibibyte, and four times the largest file that the PM allows; where the machine
    allows less than that, it is what the machine allows, and no closed door."""
    world.settings(blob_bytes=blob_bytes)
    seen = world.root / "seen"
    hook = world.part("hooks/pre-receive")
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
    pid_file, script = world.root / "pid", world.part("receive-pack").read_text()
    assert "timeout --kill-after=10 300 git" in script
    world.part("receive-pack").write_text(script.replace("10 300 git", "10 1 git"))
    world.part("hooks/pre-receive").write_text(f"#!/bin/sh\necho $$ >'{pid_file}'\nexec sleep 100\n")
    world.agent.refused("HEAD:refs/heads/work")
    assert world.ref("refs/heads/work") is None
    wait_for(lambda: gone(int(pid_file.read_text())), "its end")
    world.settings()
    world.agent.push("HEAD:refs/heads/work")


# As `git daemon` serves it: one repository, three services, and the whole policy, over loopback.


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_the_good_versions_can_be_read_and_nothing_else_of_the_keeps(server: Server, version: str) -> None:
    """Of refs/minifram the agent sees what stands below `good`, in every protocol, and writes none of it. One that no
    branch holds any more can be fetched by its id, as the watcher does."""
    world = server.world
    for name in ("rejected/x/1", "goods", "good/0123"):
        world.bare("update-ref", f"refs/minifram/{name}", "refs/heads/main")

    seen = world.agent.git("-c", f"protocol.version={version}", "ls-remote", "--refs", server.url)

    assert [line.split()[1] for line in seen.splitlines()] == ["refs/heads/main", "refs/minifram/good/0123"]
    world.agent.commit({"src/b.py": "1\n"})
    for ref in ("refs/minifram/good/0123", "refs/minifram/good/4567"):
        assert "deny updating a hidden ref" in world.agent.refused(f"HEAD:{ref}")
    world.agent.push("main")
    good = world.pm.commit({"src/b.py": "1\n"}, to="HEAD:refs/minifram/good/89ab")
    world.agent.git("-c", f"protocol.version={version}", "fetch", "--quiet", "origin", good)
    assert world.agent.git("cat-file", "-t", good) == "commit"


@pytest.mark.fault("F45")
@pytest.mark.attack("S21")
def test_settings_of_the_repository_do_not_open_the_door(server: Server) -> None:
    """The door's settings come by environment, and git reads them after the repository's own."""
    world = server.world
    hooks, own, mark = world.root / "elsewhere", Path(world.places.remote, "hooks"), world.root / "mark"
    for place in (hooks, own):
        place.mkdir(exist_ok=True)
        for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"):
            program_of(place / name, f": >{mark}")
    payload = hooks / "update"
    for key, value in (
        ("core.hooksPath", str(hooks)),
        ("core.fsmonitor", str(payload)),
        ("core.alternateRefsCommand", str(payload)),
        ("core.sshCommand", str(payload)),
        ("uploadpack.packObjectsHook", str(payload)),
        ("receive.fsckObjects", "false"),
        ("transfer.fsckObjects", "false"),
        ("receive.denyDeletes", "false"),
        ("receive.denyNonFastForwards", "false"),
        ("receive.shallowUpdate", "true"),
        ("transfer.hideRefs", "!refs/minifram"),
        ("uploadpack.allowAnySHA1InWant", "true"),
        ("daemon.uploadarch", "true"),
        ("daemon.receivepack", "false"),
        ("gc.auto", "1"),
    ):
        world.bare("config", key, value)
    (Path(world.places.remote) / "objects/info/alternates").write_text(f"{world.pm.path}/.git/objects\n")
    world.agent.commit({"src/b.py": "1\n"}, to="HEAD:refs/heads/work")
    old = world.agent.head

    assert "only branches" in world.agent.refused("HEAD:refs/notes/x")
    assert "deny updating a hidden ref" in world.agent.refused("HEAD:refs/minifram/x")
    assert "nothing is deleted here" in world.agent.refused(":work")
    assert "the push would drop commits that are there" in world.agent.refused("+HEAD~1:work")
    tree = world.agent.git("mktree", stdin=f"040000 tree {world.agent.git('rev-parse', 'HEAD:src')}\t.GIT\n")
    said = world.agent.refused(f"{world.agent.git('commit-tree', tree, '-m', 'x')}:refs/heads/x")
    assert "hasDotgit" in said or "Connection reset" in said, said  # the daemon's end can overtake its words
    assert "does not support push options" in world.agent.run("push", "-o", "a", "origin", "HEAD:refs/heads/x").stderr
    with server.connect(b"git-upload-archive /remote.git\0host=x\0") as wire:
        assert b"service not enabled" in wire.recv(1 << 16)
    assert not mark.exists()
    world.agent.commit({"src/c.py": "1\n"}, to="HEAD:refs/heads/work")
    assert world.ref("refs/heads/work") != old
    world.pm.push("HEAD:refs/heads/pm-by-path")
    assert mark.exists()


def test_nothing_else_is_served(server: Server) -> None:
    """Not the file system, not another repository beside it or within it, by no spelling."""
    world = server.world
    for name in ("remote.git.git", "other.git", "remote.git/inner"):
        world.pm.git("init", "--quiet", "--bare", f"{world.root}/{name}")
    (world.root / "link").symlink_to(world.places.remote)
    base = server.url.removesuffix("/remote.git")
    for path in (
        *("/", "/../etc", "/remote.git/../other.git", "/other.git", "/remote", "/remote.git.git", "/remote.git/inner"),
        *("//remote.git", "/remote.git/.", "/~/remote.git", "/link", world.places.remote, "/remote.git/objects"),
    ):
        done = world.agent.run("ls-remote", f"{base}{path}")
        assert done.returncode, path
        assert "no such repository" in done.stderr, path
    assert world.agent.git("ls-remote", server.url)


def test_without_a_part_nothing_lands(server: Server) -> None:
    """Git goes on without a hook; the daemon does not, and clones go on. Without its own program it serves nobody."""
    world = server.world
    world.part("hooks/pre-receive").unlink()
    assert "the git door is not in place, so nothing was taken" in world.agent.refused("HEAD:refs/heads/work")
    assert world.agent.git("ls-remote", server.url)
    world.part("access").unlink()
    assert world.agent.run("ls-remote", server.url).returncode
    world.settings()
    world.agent.push("HEAD:refs/heads/work")


def test_it_listens_on_loopback_alone_and_what_serves_a_push_is_bounded(server: Server) -> None:
    """Each connection's process has little memory and time. Clones, which reach it by git://, need to call nothing of
    the keep's."""
    found = psutil.Process(server.process.pid).net_connections()
    assert [each.laddr for each in found if each.status == psutil.CONN_LISTEN] == [("127.0.0.1", server.port)]
    assert "receivepack" not in Path(server.world.places.cell_git_config).read_text()
    assert not os.path.exists(f"{server.world.places.var}/door/receive-pack")
    with server.connect(b"git-receive-pack /remote.git\0host=x\0") as wire:
        assert wire.recv(10)
        children = psutil.Process(server.process.pid).children(recursive=True)
        receiving = [child for child in children if "receive-pack" in child.cmdline()]
        assert receiving
        for child in receiving:
            most = setup.at_most(memory_bytes(BLOB_BYTES), resource.RLIMIT_AS)
            assert child.rlimit(resource.RLIMIT_AS)[0] == most
            assert child.rlimit(resource.RLIMIT_CPU)[0] == 300


@pytest.mark.attack("S15")
def test_nothing_of_the_keeps_environment_is_passed_on(world: World) -> None:
    """A key in the watcher's environment, or git's own names there, do not reach what serves the agent."""
    env = setup.daemon_environment(world.places, 1)
    assert {name for name in env if not name.startswith("GIT_")} == {"PATH", "LANG", "HOME"}
    pairs = [(env[f"GIT_CONFIG_KEY_{at}"], env[f"GIT_CONFIG_VALUE_{at}"]) for at in range(int(env["GIT_CONFIG_COUNT"]))]
    assert dict(pairs)["core.hooksPath"] == f"{world.places.var}/door/hooks"
    assert f"GIT_CONFIG_KEY_{len(pairs)}" not in env
