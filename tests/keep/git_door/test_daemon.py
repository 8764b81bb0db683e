"""The git door as `git daemon` serves it: one repository, three services, and the whole policy. Everything goes over
loopback; beside each refusal stands what is served."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import psutil
import pytest

from infra.keep.git_door import setup
from infra.keep.git_door.setup import memory_bytes
from infra.shared.repository.git import Git
from tests.keep.git_door.git_server import Server, pkt
from tests.keep.git_door.world import BLOB_BYTES, World


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_the_good_versions_can_be_read_and_nothing_else_of_the_keeps(server: Server, version: str) -> None:
    """Of refs/minifram the agent sees what stands below `good`, in every protocol, and writes none of it. One that no
    branch holds any more can be fetched by its id, as the watcher does."""
    world = server.world
    bare = Git(world.places.remote)
    bare("update-ref", "refs/minifram/rejected/x/1", "refs/heads/main")
    bare("update-ref", "refs/minifram/goods", "refs/heads/main")
    bare("update-ref", "refs/minifram/good/0123", "refs/heads/main")

    seen = world.agent.git("-c", f"protocol.version={version}", "ls-remote", "--refs", server.url)

    assert [line.split()[1] for line in seen.splitlines()] == ["refs/heads/main", "refs/minifram/good/0123"]
    world.agent.commit({"src/b.py": "1\n"})
    for ref in ("refs/minifram/good/0123", "refs/minifram/good/4567"):
        assert "deny updating a hidden ref" in world.agent.refused(f"HEAD:{ref}")
    world.agent.push("main")
    good = world.pm.commit({"src/b.py": "1\n"})
    world.pm.push("HEAD:refs/minifram/good/89ab")
    world.agent.git("-c", f"protocol.version={version}", "fetch", "--quiet", "origin", good)
    assert world.agent.git("cat-file", "-t", good) == "commit"


@pytest.mark.fault("F45")
@pytest.mark.attack("S21")
def test_settings_of_the_repository_do_not_open_the_door(server: Server) -> None:
    """The door's settings come by environment, and git reads them after the repository's own."""
    world = server.world
    hooks = world.root / "elsewhere"
    hooks.mkdir()
    mark = world.root / "mark"
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"):
        (hooks / name).write_text(f"#!/bin/sh\n: >{mark}\nexit 0\n")
        (hooks / name).chmod(0o755)
    payload = hooks / "update"
    bare = ("--git-dir", world.places.remote, "config")
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
        world.pm.git(*bare, key, value)
    (Path(world.places.remote) / "hooks").mkdir(exist_ok=True)
    for name in ("pre-receive", "post-receive"):
        (Path(world.places.remote) / "hooks" / name).write_text(payload.read_text())
        (Path(world.places.remote) / "hooks" / name).chmod(0o755)
    (Path(world.places.remote) / "objects/info/alternates").write_text(f"{world.pm.path}/.git/objects\n")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/work")
    old = world.agent.head

    assert "only branches" in world.agent.refused("HEAD:refs/notes/x")
    assert "deny updating a hidden ref" in world.agent.refused("HEAD:refs/minifram/x")
    assert "nothing is deleted here" in world.agent.refused(":work")
    assert "the push would drop commits that are there" in world.agent.refused("+HEAD~1:work")
    tree = world.agent.git("mktree", stdin=f"040000 tree {world.agent.git('rev-parse', 'HEAD:src')}\t.GIT\n")
    said = world.agent.refused(f"{world.agent.git('commit-tree', tree, '-m', 'x')}:refs/heads/x")
    assert "hasDotgit" in said or "Connection reset" in said, said  # the daemon's end can overtake its words
    assert "does not support push options" in world.agent.run("push", "-o", "a", "origin", "HEAD:refs/heads/x").stderr
    assert b"service not enabled" in server.say(b"git-upload-archive /remote.git\0host=x\0")
    assert not mark.exists()
    world.agent.commit({"src/c.py": "1\n"})
    world.agent.push("HEAD:refs/heads/work")
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
    os.unlink(f"{world.places.var}/door/hooks/pre-receive")
    assert "the git door is not in place, so nothing was taken" in world.agent.refused("HEAD:refs/heads/work")
    assert world.agent.git("ls-remote", server.url)
    os.unlink(f"{world.places.var}/door/access")
    assert world.agent.run("ls-remote", server.url).returncode
    world.settings()
    world.agent.push("HEAD:refs/heads/work")


def test_what_serves_a_push_is_bounded(server: Server) -> None:
    """Each connection's process has little memory and time."""
    with server.connect() as wire:
        wire.sendall(pkt(b"git-receive-pack /remote.git\0host=x\0"))
        assert wire.recv(10)
        children = psutil.Process(server.process.pid).children(recursive=True)
        receiving = [
            Path(f"/proc/{child.pid}/limits").read_text() for child in children if "receive-pack" in child.cmdline()
        ]
        assert receiving
        for text in receiving:
            assert _soft(text, "Max address space") == setup.at_most(memory_bytes(BLOB_BYTES), resource.RLIMIT_AS)
            assert _soft(text, "Max cpu time") == 300


def _soft(limits: str, name: str) -> int:
    return int(next(line for line in limits.splitlines() if line.startswith(name)).removeprefix(name).split()[0])


def test_it_listens_on_loopback_alone(server: Server) -> None:
    """One listening socket, at 127.0.0.1; clones, which reach it by git://, need to call nothing of the keep's."""
    inodes = {
        os.readlink(f"/proc/{server.process.pid}/fd/{name}").removeprefix("socket:[").rstrip("]")
        for name in os.listdir(f"/proc/{server.process.pid}/fd")
        if os.readlink(f"/proc/{server.process.pid}/fd/{name}").startswith("socket:")
    }
    rows = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    mine = [row[1] for row in rows if row[9] in inodes and row[3] == "0A"]
    assert mine == [f"0100007F:{server.port:04X}"]
    assert "receivepack" not in Path(server.world.places.cell_git_config).read_text()
    assert not os.path.exists(f"{server.world.places.var}/door/receive-pack")


@pytest.mark.attack("S15")
def test_nothing_of_the_keeps_environment_is_passed_on(world: World) -> None:
    """A key in the watcher's environment, or git's own names there, do not reach what serves the agent."""
    env = setup.daemon_environment(world.places, 1)
    assert {name for name in env if not name.startswith("GIT_")} == {"PATH", "LANG", "HOME"}
    pairs = [(env[f"GIT_CONFIG_KEY_{at}"], env[f"GIT_CONFIG_VALUE_{at}"]) for at in range(int(env["GIT_CONFIG_COUNT"]))]
    assert dict(pairs)["core.hooksPath"] == f"{world.places.var}/door/hooks"
    assert f"GIT_CONFIG_KEY_{len(pairs)}" not in env
