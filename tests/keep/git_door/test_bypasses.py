"""Ways round the door that git would leave open: other names for a ref, other histories, packs that no git would
make. Each is tried for real, beside the same thing in a form that lands."""

from __future__ import annotations

import hashlib
import os
import struct
import time
import zlib
from pathlib import Path

import pytest

from tests.keep.git_door.git_server import Server
from tests.keep.git_door.raw import (
    BLOB,
    COMMIT,
    NO_COMMIT,
    REF_DELTA,
    TREE,
    Thing,
    commit_of,
    delta,
    id_of,
    pack,
    plain,
    push,
)
from tests.keep.git_door.world import PAGE, World, told_of


@pytest.mark.parametrize("target", ["refs/heads/main", "refs/heads/not-yet", "refs/minifram/x"])
def test_another_name_for_a_ref_is_not_pushed_to(world: World, target: str) -> None:
    """Git would move what a symbolic ref stands for, by rules for its own name."""
    world.pm.git("--git-dir", world.places.remote, "symbolic-ref", "refs/heads/master", target)
    world.agent.commit({"src/b.py": "1\n"})
    before = world.ref(target)

    said = world.agent.refused("HEAD:refs/heads/master")

    assert f"this is another name for '{target}'; push to that one" in said
    assert world.ref(target) == before
    world.agent.push("HEAD:refs/heads/other")


def test_names_that_some_file_systems_take_for_main(world: World) -> None:
    """A ref is a file, and not every file system tells capital letters from small ones."""
    names = ("MAIN", "Main", "main/x", "MAIN/x", "Mind", "mind/x", "RESCUE", "Rescue/1", "mAIN/minifram")
    said = world.agent.refused(*(f"HEAD:refs/heads/{name}" for name in names))
    for name in names:
        told = told_of(said, f"refs/heads/{name}")
        assert "too much like" in told or "choose another name" in told
    world.agent.push("HEAD:refs/heads/x/main", "HEAD:refs/heads/mainly", "HEAD:refs/heads/rescue/1")


def test_a_name_in_the_way_of_another(world: World) -> None:
    """A branch below a branch cannot be; nothing of either is lost."""
    world.agent.push("HEAD:refs/heads/a/b")
    for name in ("a", "a/b/c"):
        assert world.agent.refused(f"HEAD:refs/heads/{name}")
    world.agent.push("HEAD:refs/heads/a/c")
    assert world.ref("refs/heads/a/b")


def test_names_that_are_no_branches(world: World) -> None:
    """Also when the client is no git and asks for them all the same."""
    content = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    before = Path(f"{world.places.remote}/config").read_bytes()
    for ref in ("HEAD", "refs/heads/../../config", "refs/heads/x.lock", "refs/heads/", "refs/", "config"):
        said = push(world, ref, id_of("commit", content), pack([plain(COMMIT, content)]))
        assert "ng " in said or "refused" in said
        assert Path(f"{world.places.remote}/config").read_bytes() == before
    assert "ok refs/heads/x" in push(world, "refs/heads/x", id_of("commit", content), pack([plain(COMMIT, content)]))


def test_a_replaced_object_cannot_be_pushed(world: World) -> None:
    """Neither the ref that replaces, nor by a replacement in the agent's own clone."""
    bad = world.agent.commit({"COMMS.md": PAGE.replace("be good", "be bad"), "src/b.py": "1\n"})
    assert "make a new commit instead" in world.agent.refused(f"{bad}:refs/replace/{world.main}")
    fine = world.agent.git("commit-tree", f"{world.main}^{{tree}}", "-p", str(world.main), "-m", "fine")
    world.agent.git("replace", bad, fine)
    assert "the PM and the keep alone write" in world.agent.refused(f"{bad}:main")
    world.agent.push(f"{fine}:main")


def test_grafts_of_the_repository_hide_nothing(world: World) -> None:
    """info/grafts gives commits other parents; the door does not read it."""
    world.settings("propose")
    bad = world.agent.commit({"src/b.py": "1\n"})
    grafts = Path(world.places.remote) / "info/grafts"
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{bad} {world.main}\n{world.main}\n")
    assert "only the PM moves main" in world.agent.refused("main")
    world.agent.push("main:work")


ALIKE = (".GIT", ".gi\u200dt", "git~1", ".git ", ".git.", ".git::$INDEX_ALLOCATION")
"""Git's own list; which of them it refuses is git's business, and that it is asked to is seen by the others."""


@pytest.mark.parametrize(
    "name", [".git", ".g\u200cit", *(pytest.param(name, marks=pytest.mark.long) for name in ALIKE)]
)
@pytest.mark.parametrize("kind", ["tree", "submodule", "file"])
def test_git_directories_in_disguise(world: World, name: str, kind: str) -> None:
    """Names that one system or another takes for .git are no directories, files or submodules of anybody's."""
    mode, type, id = {
        "tree": ("040000", "tree", world.agent.git("rev-parse", "HEAD:src")),
        "submodule": ("160000", "commit", str(world.main)),
        "file": ("100644", "blob", world.agent.git("rev-parse", "HEAD:COMMS.md")),
    }[kind]

    def commit(name: str) -> str:
        tree = world.agent.git("mktree", "--missing", "-z", stdin=f"{mode} {type} {id}\t{name}\0")
        return world.agent.git("commit-tree", tree, "-m", "x")

    assert "hasDotgit" in world.agent.refused(f"{commit(name)}:refs/heads/work")
    if kind != "submodule":
        world.agent.push(f"{commit('dotgit')}:refs/heads/work")


OTHER_SUBMODULES = [
    ('[submodule "../../x"]\n\tpath = a\n\turl = u\n', "gitmodulesName"),
    ('[submodule "a"]\n\tpath = -x\n\turl = u\n', "gitmodulesPath"),
    ('[submodule "a"]\n\tpath = a\n\turl = u\n\tupdate = !touch /tmp/x\n', "gitmodulesUpdate"),
]
"""Known to git, as the one below."""


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ('[submodule "a"]\n\tpath = a\n\turl = -u./payload\n', "gitmodulesUrl"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in OTHER_SUBMODULES),
    ],
)
def test_submodules_that_run_something(world: World, file: str, words: str) -> None:
    """What is known to make a recursive clone run a program is refused."""
    world.agent.commit({".gitmodules": file})
    assert words in world.agent.refused("main:work")


def test_a_link_for_gitmodules(world: World) -> None:
    """It would be read through by the PM's git."""
    blob = world.agent.git("hash-object", "-w", "--stdin", stdin="/etc/passwd")

    def commit(name: str) -> str:
        return world.agent.git(
            "commit-tree", world.agent.git("mktree", stdin=f"120000 blob {blob}\t{name}\n"), "-m", "x"
        )

    assert "gitmodulesSymlink" in world.agent.refused(f"{commit('.gitmodules')}:refs/heads/work")
    world.agent.push(f"{commit('modules')}:refs/heads/work")


def test_names_that_cannot_be_checked_out(world: World) -> None:
    """Directories without end and names over what file systems take would keep the PM from checking main out."""

    def beside_the_page(id: str, what: str, name: str) -> str:
        page = world.agent.git("rev-parse", "HEAD:COMMS.md")
        return world.agent.git("mktree", stdin=f"{what} {id}\t{name}\n100644 blob {page}\tCOMMS.md\n")

    def deep(levels: int) -> str:
        tree = world.agent.git("rev-parse", "HEAD:src")
        for _ in range(levels - 1):
            tree = world.agent.git("mktree", stdin=f"040000 tree {tree}\t{'d' * 49}\n")
        return world.agent.git(
            "commit-tree", beside_the_page(tree, "040000 tree", "d" * 49), "-p", "HEAD", "-m", "deep"
        )

    def named(length: int) -> str:
        blob = world.agent.git("rev-parse", "HEAD:COMMS.md")
        return world.agent.git(
            "commit-tree", beside_the_page(blob, "100644 blob", "é" * length), "-p", "HEAD", "-m", "named"
        )

    assert "is too long to be checked out everywhere" in world.agent.refused(f"{deep(20)}:refs/heads/work")
    assert "is too long to be checked out everywhere" in world.agent.refused(f"{named(128)}:refs/heads/work")
    world.agent.push(f"{deep(19)}:refs/heads/deep", f"{named(127)}:refs/heads/named")


def test_a_tree_of_ten_thousand_levels(world: World) -> None:
    """No git that is asked about it needs more than its bounds, and it does not land."""
    things, entry, id = [], b"100644 f\0", id_of("blob", b"x")
    things.append(plain(BLOB, b"x"))
    for _ in range(10_000):
        content = entry + bytes.fromhex(id)
        things.append(plain(TREE, content))
        entry, id = b"40000 d\0", id_of("tree", content)
    content = commit_of(id, str(world.main))
    began = time.monotonic()
    said = push(world, "refs/heads/deep", id_of("commit", content), pack([*things, plain(COMMIT, content)]))
    assert "ok refs/heads/deep" not in said
    assert world.ref("refs/heads/deep") is None
    assert time.monotonic() - began < 100


def _refuses_and_lives(world: World, ref: str, commit: bytes, packed: bytes) -> None:
    _is_refused(world, ref, commit, packed)
    world.agent.push("HEAD:refs/heads/after")


def _is_refused(world: World, ref: str, commit: bytes, packed: bytes) -> None:
    assert len(packed) < 5_000_000
    said = push(world, ref, id_of("commit", commit), packed)
    assert f"ok {ref}" not in said
    assert world.ref(ref) is None
    assert not [name for name in os.listdir(f"{world.places.remote}/objects") if "incoming" in name]


@pytest.mark.heavy
def test_a_delta_bomb(world: World) -> None:
    """A few kilobytes that say "the same again" ten thousand times are ten gigabytes for whoever unfolds them."""
    base = os.urandom(1024) * 1024
    made, total = delta(base, 10_000)
    assert total > 10_000_000_000
    things = [
        plain(BLOB, base),
        Thing(REF_DELTA, len(made), zlib.compress(made), bytes.fromhex(id_of("blob", base))),
    ]
    commit = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    _refuses_and_lives(world, "refs/heads/bomb", commit, pack([*things, plain(COMMIT, commit)]))


def _zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, as zlib writes them (RFC 1950): after a full flush a block can be had again and again."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = ((mebibytes << 20) % 65521) << 16 | 1  # of nothing but zeros
    return b"\x78\x9c" + block * mebibytes + packer.flush() + struct.pack(">I", adler)


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "mebibytes"), [(BLOB, 256), (TREE, 2048)])
def test_a_bomb_of_zeros(world: World, kind: int, mebibytes: int) -> None:
    """A thousand times as much nothing as what comes over the wire: not held in memory, not let in."""
    assert zlib.decompress(_zeros(3)) == bytes(3 << 20)
    body = _zeros(mebibytes)
    assert len(body) < (mebibytes << 20) // 900
    content = b"100644 x\0" + hashlib.sha1(b"blob %d\0" % (mebibytes << 20) + bytes(mebibytes << 20)).digest()
    commit = commit_of(id_of("tree", content), str(world.main))
    things = [Thing(kind, mebibytes << 20, body), plain(TREE, content), plain(COMMIT, commit)]
    _refuses_and_lives(world, "refs/heads/bomb", commit, pack(things))


TORN = {
    "nothing": b"",
    "torn": b"PACK",
    "countless": b"PACK" + struct.pack(">II", 2, 2**32 - 1),
    "version": b"PACK" + struct.pack(">II", 99, 0) + bytes(20),
    "zeros": b"\0" * 1000,
    "short": pack([plain(BLOB, b"x")])[:-1],
    "sum": pack([plain(BLOB, b"x")])[:-20] + bytes(20),
    "lying": pack([Thing(BLOB, 2**60, zlib.compress(b"x"))]),
    "no base": pack([Thing(REF_DELTA, 3, zlib.compress(b"abc"), bytes(20))]),
}


def test_packs_that_are_none(world: World) -> None:
    """Torn and lying packs end in a refusal."""
    commit = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    for packed in TORN.values():
        _is_refused(world, "refs/heads/bad", commit, packed)
    world.agent.push("HEAD:refs/heads/after")


def test_a_commit_that_is_not_in_the_pack(world: World) -> None:
    """A ref cannot be made to point at what is not there, nor history be left out."""
    said = push(world, "refs/heads/x", "1" * 40, pack([]))
    assert "ok refs/heads/x" not in said
    commit = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), "1" * 40)
    said = push(world, "refs/heads/x", id_of("commit", commit), pack([plain(COMMIT, commit)]))
    assert "ok refs/heads/x" not in said
    assert world.ref("refs/heads/x") is None


def test_what_the_client_says_main_was_is_not_taken_for_true(world: World) -> None:
    """The old commit is the client's claim; git compares it with the ref before it moves anything."""
    main = str(world.main)
    world.pm.commit({"src/pm.py": "1\n"})
    world.pm.push("main")
    now = str(world.main)
    commit = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), main)
    for claimed in (main, NO_COMMIT, id_of("commit", commit)):
        said = push(world, "refs/heads/main", id_of("commit", commit), pack([plain(COMMIT, commit)]), claimed)
        assert "ok refs/heads/main" not in said
        assert world.main == now


def test_a_shallow_push_cuts_no_history(server: Server) -> None:
    """A clone of the last commit alone pushes what it made, and not that nothing was before."""
    world = server.world
    for number in range(3):
        world.pm.commit({"src/n.py": f"{number}\n"})
    world.pm.push("main")
    for key in ("receive.shallowUpdate",):
        world.pm.git("--git-dir", world.places.remote, "config", key, "true")
    world.agent.git("clone", "--quiet", "--depth=1", server.url, "shallow")
    world.agent.path = world.agent.path / "shallow"
    world.agent.git("checkout", "--quiet", "--orphan", "other")
    world.agent.git("rm", "--quiet", "--force", "COMMS.md")
    other = world.agent.commit({"src/o.py": "1\n"})
    world.agent.push("other")
    assert world.ref("refs/heads/other") == other
    assert not os.path.exists(f"{world.places.remote}/shallow")
    world.agent.git("checkout", "--quiet", "--force", "main")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")
    assert world.pm.git("--git-dir", world.places.remote, "rev-list", "--count", "main") == "5"


def test_thin_packs_and_many_objects(world: World) -> None:
    """A push of hundreds of objects, which git keeps as a pack with bases added, is judged and lands."""
    world.agent.commit({f"src/{number}.py": f"{number}\n" * 50 for number in range(300)})
    world.agent.push("main")
    world.agent.commit({f"src/{number}.py": f"{number}\n" * 50 + "more\n" for number in range(300)})
    world.agent.push("main")
    assert world.main == world.agent.head


def test_push_options_are_not_taken(world: World) -> None:
    """Nothing is passed to the hook that the client made up."""
    said = world.agent.run("push", "-o", "GIT_DIR=/tmp", "origin", "HEAD:refs/heads/x").stderr
    assert "does not support push options" in said
    assert world.ref("refs/heads/x") is None


def test_signed_pushes_are_not_asked_for(world: World) -> None:
    """A certificate would bring text of the client's into the hook's environment."""
    done = world.agent.run("push", "--signed=true", "origin", "HEAD:refs/heads/x")
    assert done.returncode
    assert "does not support --signed push" in done.stderr


@pytest.mark.parametrize("name", ["alternates", "http-alternates"])
def test_a_push_brings_no_alternates(world: World, name: str) -> None:
    """What the agent names in its own repository stays there."""
    info = world.agent.path / ".git/objects/info"
    info.mkdir(exist_ok=True)
    (info / name).write_text(f"{world.pm.path}/.git/objects\n")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")
    assert not os.path.exists(f"{world.places.remote}/objects/info/{name}")
