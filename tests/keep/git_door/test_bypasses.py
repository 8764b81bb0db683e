"""Ways round the door that git would leave open: other names for a ref, other histories, packs that no git would make,
written byte by byte (gitformat-pack(5), gitprotocol-pack(5)). Beside each stands the same in a form that lands."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import time
import zlib
from typing import NamedTuple

import pytest

from infra.shared.people import AGENT
from tests.keep.git_door.world import NO_COMMIT, Server, World, pkt

COMMIT, TREE, BLOB, REF_DELTA = 1, 2, 3, 7


class Thing(NamedTuple):
    """One entry of a pack."""

    kind: int
    size: int
    """As its header says it."""
    body: bytes
    """Compressed already."""
    base: bytes = b""


def plain(kind: int, content: bytes) -> Thing:
    return Thing(kind, len(content), zlib.compress(content))


def id_of(kind: str, content: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def pack(things: list[Thing]) -> bytes:
    parts = [b"PACK", struct.pack(">II", 2, len(things))]
    for thing in things:
        first, rest = (thing.kind << 4) | (thing.size & 15), thing.size >> 4
        parts += [bytes([first | 128]) + _number(rest) if rest else bytes([first]), thing.base, thing.body]
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole).digest()


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    return bytes([*out, value])


def push(world: World, ref: str, new: str, packed: bytes) -> str:
    """Push through the door of a directory, as the agent's git would; what came back."""
    line = pkt(f"{NO_COMMIT} {new} {ref}\0 report-status\n".encode())
    words = [f"{world.places.var}/door/receive-pack", world.places.remote]
    done = subprocess.run(words, input=line + b"0000" + packed, capture_output=True, timeout=120)
    return (done.stdout + done.stderr).decode(errors="replace")


def commit_of(tree: str, parent: str) -> bytes:
    us = f"{AGENT.name} <{AGENT.email}> 1 +0000"
    return f"tree {tree}\nparent {parent}\nauthor {us}\ncommitter {us}\n\nx\n".encode()


@pytest.mark.attack("S24")
@pytest.mark.parametrize("target", ["refs/heads/main", "refs/heads/not-yet", "refs/minifram/x"])
def test_another_name_for_a_ref_is_not_pushed_to(world: World, target: str) -> None:
    """Git would move what a symbolic ref stands for, by rules for its own name."""
    world.bare("symbolic-ref", "refs/heads/master", target)
    world.agent.commit({"src/b.py": "1\n"})
    words = f"this is another name for '{target}'; push to that one"
    world.judges({"HEAD:refs/heads/master": words, "HEAD:refs/heads/other": ""})


@pytest.mark.fault("F48")
@pytest.mark.parametrize("name", [".git", ".g\u200cit"])
def test_git_directories_in_disguise(world: World, name: str) -> None:
    """Names that one system or another takes for .git are no directories, files or submodules of anybody's; which ones
    is git's business, and that it is asked is seen by two."""
    src, page = (world.agent.git("rev-parse", f"HEAD:{path}") for path in ("src", "COMMS.md"))
    for entry in (f"040000 tree {src}", f"160000 commit {world.main}", f"100644 blob {page}"):
        trees = [world.agent.git("mktree", "--missing", "-z", stdin=f"{entry}\t{each}\0") for each in (name, "dotgit")]
        bad, fine = (world.agent.git("commit-tree", tree, "-m", "x") for tree in trees)
        assert "hasDotgit" in world.agent.refused(f"{bad}:refs/heads/work")
        if "commit" not in entry:
            world.agent.push(f"{fine}:refs/heads/{entry.split()[1]}")


@pytest.mark.attack("S26")
def test_a_tree_of_ten_thousand_levels(world: World) -> None:
    """No git that is asked about it needs more than its bounds, and it does not land."""
    things, entry, id = [plain(BLOB, b"x")], b"100644 f\0", id_of("blob", b"x")
    for _ in range(10_000):
        content = entry + bytes.fromhex(id)
        things.append(plain(TREE, content))
        entry, id = b"40000 d\0", id_of("tree", content)
    began = time.monotonic()
    _is_refused(world, commit_of(id, str(world.main)), things)
    assert time.monotonic() - began < 100


def _is_refused(world: World, commit: bytes, things: list[Thing]) -> None:
    """The commit that comes with these; whatever it needed is gone, and the door goes on."""
    packed = pack([*things, plain(COMMIT, commit)])
    assert len(packed) < 5_000_000
    assert "ok refs/heads/bad" not in push(world, "refs/heads/bad", id_of("commit", commit), packed)
    assert world.ref("refs/heads/bad") is None
    assert not [name for name in os.listdir(f"{world.places.remote}/objects") if "incoming" in name]
    world.agent.push("HEAD:refs/heads/after")


@pytest.mark.attack("S26")
@pytest.mark.heavy
def test_a_delta_bomb(world: World) -> None:
    """A few kilobytes that say "the same again" ten thousand times are ten gigabytes for whoever unfolds them."""
    base, times = os.urandom(1024) * 1024, 10_000
    copy = bytes([0x80 | 0x70]) + struct.pack("<I", len(base))[:3]  # of it all, from 0
    made = _number(len(base)) + _number(len(base) * times) + copy * times
    bomb = Thing(REF_DELTA, len(made), zlib.compress(made), bytes.fromhex(id_of("blob", base)))
    commit = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    _is_refused(world, commit, [plain(BLOB, base), bomb])


def _zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, as zlib writes them (RFC 1950): after a full flush a block can be had again and again."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = ((mebibytes << 20) % 65521) << 16 | 1  # of nothing but zeros
    return b"\x78\x9c" + block * mebibytes + packer.flush() + struct.pack(">I", adler)


@pytest.mark.fault("F47")
@pytest.mark.attack("S26")
@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "mebibytes"), [(BLOB, 256), (TREE, 2048)])
def test_a_bomb_of_zeros(world: World, kind: int, mebibytes: int) -> None:
    """A thousand times as much nothing as what comes over the wire: not held in memory, not let in."""
    assert zlib.decompress(_zeros(3)) == bytes(3 << 20)
    body = _zeros(mebibytes)
    assert len(body) < (mebibytes << 20) // 900
    content = b"100644 x\0" + hashlib.sha1(b"blob %d\0" % (mebibytes << 20) + bytes(mebibytes << 20)).digest()
    commit = commit_of(id_of("tree", content), str(world.main))
    _is_refused(world, commit, [Thing(kind, mebibytes << 20, body), plain(TREE, content)])


def test_a_shallow_push_cuts_no_history(server: Server) -> None:
    """A clone of the last commit alone pushes what it made, by the same rules, and not that nothing was before."""
    world = server.world
    for number in range(3):
        world.pm.commit({"src/n.py": f"{number}\n"})
    world.pm.push("main")
    world.bare("config", "receive.shallowUpdate", "true")
    world.agent.git("clone", "--quiet", "--depth=1", server.url, "shallow")
    world.agent.path = world.agent.path / "shallow"
    alone = world.agent.git("commit-tree", "HEAD:src", "-m", "alone")
    world.agent.push(f"{alone}:refs/heads/other")
    assert world.ref("refs/heads/other") == alone
    assert not os.path.exists(f"{world.places.remote}/shallow")
    world.agent.commit({"src/b.py": "1\n"}, to="main")
    assert world.bare("rev-list", "--count", "main") == "5"
    world.agent.commit({"logs/x": "1\n"})
    assert "adds or changes logs/" in world.agent.refused("main")
