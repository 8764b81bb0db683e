"""What an attacker in the container could plant who has won the keep's rights there: anything below `objects` and
`refs`, and nothing beside them. For each the PM's own clone, pull and push by path are tried as well."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess

from tests.host.tampering.site import Site
from tests.host.tampering.vector import (
    BLOCKED,
    DONE,
    FOOLED,
    NOTHING,
    OUTSIDE,
    REFUSED,
    RUNS,
    WAITS,
    WORKS,
    Plant,
    Vector,
    fooled,
    goes_outside,
    outside,
    runs,
    waits,
)

LISTING = "for-each-ref"
HISTORY = fooled("rev-list --count main", "4")
"""Main has so many commits."""
REPOSITORY_INSIDE = "objects/evil"


def fifo(*names: str) -> Plant:
    def plant(site: Site) -> None:
        for name in names:
            site.fifo(name)

    return plant


def link(name: str) -> Plant:
    def plant(site: Site) -> None:
        site.lead_outside(name)

    return plant


def ref(name: str, text: str) -> Plant:
    return lambda site: site.write(f"refs/{name}", text.replace("MAIN", site.main()).replace("OUT", str(site.outside)))


def _fifo_for_an_object(site: Site) -> None:
    name = site.main()
    site.fifo(f"objects/{name[:2]}/{name[2:]}")


def _socket(site: Site) -> None:
    # Bound where the path is short enough, then moved.
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(site.path("refs/heads/x").parent, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/x")
        os.close(here)


def _device(site: Site) -> None:
    os.mknod(site.path("refs/heads/x"), 0o600 | stat.S_IFCHR, os.makedev(0, 0))  # the one that anybody may make


def _huge_ref(site: Site) -> None:
    with site.path("refs/heads/x").open("wb") as file:
        file.truncate(HUGE)


HUGE = 96 << 20


def _takes_memory(site: Site) -> str:
    """Whether git takes as much memory as the ref is large."""
    with subprocess.Popen(
        ["git", "for-each-ref"], cwd=site.remote, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return FOOLED if usage.ru_maxrss * 1024 > HUGE else NOTHING


def _all_object_directories(site: Site) -> None:
    for number in range(256):
        site.lead_outside(f"objects/{number:02x}")


def _pack(site: Site, ending: str) -> str:
    [path] = (site.remote / "objects/pack").glob(f"*.{ending}")
    return f"objects/pack/{path.name}"


def _pack_outside(site: Site) -> None:
    site.lead_outside(_pack(site, "pack"))


def _fifo_for_an_index(site: Site) -> None:
    site.fifo(_pack(site, "idx"))


def _loose_object(site: Site) -> None:
    name = site.main()
    site.lead_outside(f"objects/{name[:2]}/{name[2:]}")


def _alternates(site: Site) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(site.outside / "private")], check=True)
    _hash_object(site, str(site.outside / "private"))
    site.write("objects/info/alternates", f"{site.outside}/private/objects\n")


SECRET = "a secret of the PM's\n"
SECRET_ID = hashlib.sha1(b"blob %d\0%s" % (len(SECRET), SECRET.encode()), usedforsecurity=False).hexdigest()


def _hash_object(site: Site, repository: str) -> None:
    subprocess.run(
        ["git", "-C", repository, "hash-object", "-w", "--stdin"],
        input=SECRET.encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _reads_the_secret(site: Site) -> str:
    return OUTSIDE if site.git(f"cat-file blob {SECRET_ID}").text == SECRET else NOTHING


def _repository_inside(site: Site) -> None:
    """A whole repository among the objects, which git visits as one that lends its objects."""
    for directory in ("objects", "refs/heads"):
        site.path(f"{REPOSITORY_INSIDE}/{directory}/x").touch()
    site.write(f"{REPOSITORY_INSIDE}/HEAD", "ref: refs/heads/main\n")
    site.write(f"{REPOSITORY_INSIDE}/refs/heads/x", "1" * 40 + "\n")
    settings = {
        "core.repositoryFormatVersion": "1",
        "core.bare": "true",
        "core.fsmonitor": str(site.program),
        "core.pager": str(site.program),
        "pager.for-each-ref": str(site.program),
        "core.alternateRefsCommand": str(site.program),
        "core.hooksPath": str(site.program.parent),
        "extensions.partialClone": "evil",
        "remote.evil.promisor": "true",
        "remote.evil.url": f"ext::{site.program}",
        "protocol.ext.allow": "always",
    }
    for key, value in settings.items():
        subprocess.run(
            ["git", "config", "--file", str(site.remote / REPOSITORY_INSIDE / "config"), key, value], check=True
        )


def _lender_inside(site: Site) -> None:
    _repository_inside(site)
    site.write("objects/info/alternates", "evil/objects\n")


def _lender_is_visited(site: Site) -> str:
    """Its configuration is a loaded one, shown by asking git for an object there; a push goes there, and lists refs."""
    assert runs(f"--git-dir={REPOSITORY_INSIDE} cat-file -e {'1' * 40}")(site) == RUNS
    site.plain("push", "--quiet", "origin", "HEAD:refs/heads/x", cwd=site.clone)
    return RUNS if site.mark.exists() else NOTHING


def _commit_graph(site: Site) -> None:
    """Main's commit with the tree of the version before, by a cache whose checksum is right."""
    subprocess.run(
        ["git", "commit-graph", "write", "--reachable"], cwd=site.remote, check=True, stderr=subprocess.DEVNULL
    )
    path = site.path("objects/info/commit-graph")
    graph = bytearray(path.read_bytes())
    this, before = (bytes.fromhex(site.git(f"rev-parse {name}^{{tree}}").text) for name in ("main", "main~1"))
    at = graph.index(this)
    graph[at : at + 20] = before
    graph[-20:] = hashlib.sha1(bytes(graph[:-20]), usedforsecurity=False).digest()
    path.unlink()
    path.write_bytes(bytes(graph))


def _believes_the_graph(site: Site) -> str:
    told = site.git("log -1 --format=%T main").text.strip()
    site.path("objects/info/commit-graph").unlink()
    return NOTHING if told == site.git("log -1 --format=%T main").text.strip() else FOOLED


def _replaced(site: Site) -> None:
    other = site.git("rev-parse main~1").text.strip()
    site.write(f"refs/replace/{site.main()}", f"{other}\n")


def _forged_object(site: Site) -> None:
    """Under the name of a file that main holds, another content."""
    name = site.git("rev-parse main:src/a.py").text.strip()
    path = site.path(f"objects/{name[:2]}/{name[2:]}")
    forged = site.loose("blob", b"forged\n")
    path.unlink()
    path.write_bytes(site.path(f"objects/{forged[:2]}/{forged[2:]}").read_bytes())


def _odd_names(site: Site) -> None:
    for name in (
        "\x1b[2J\x07x",
        "\u202egpj.x",
        "a;touch\u2028x",
        "$(PROGRAM)",
        "--upload-pack=PROGRAM",
        "a\x85--output=x",
    ):
        shown = name.replace("PROGRAM", str(site.program).replace("/", "_"))
        site.path(f"refs/heads/{shown}").write_text(f"{site.main()}\n")
    (site.remote / "refs/heads").joinpath(os.fsdecode(b"\x9b1m\xff")).write_text(f"{site.main()}\n")


def _prints_odd_names(site: Site) -> str:
    return FOOLED if "\u202e" in site.git(LISTING).text else NOTHING


def _cannot_be_cloned(site: Site) -> str:
    return BLOCKED if site.plain("clone", "--quiet", str(site.remote), "x", cwd=site.desk.root).status else NOTHING


def _deep(site: Site) -> None:
    site.path("/".join(["refs/heads", *["d"] * 300, "x"])).write_text(f"{site.main()}\n")


def _deletes_main(site: Site) -> str:
    site.git("update-ref --stdin", "delete refs/heads/other\n")
    return NOTHING if (site.remote / "refs/heads/main").exists() else FOOLED


def _hooks_inside(site: Site) -> None:
    for place in ("objects/hooks", "objects/info/hooks"):
        for hook in ("pre-receive", "update", "reference-transaction", "post-checkout"):
            site.write(f"{place}/{hook}", site.program.read_text(), 0o755)


def _pushing(site: Site) -> str:
    site.plain("push", "--quiet", "origin", "HEAD:refs/heads/x", cwd=site.clone)
    return RUNS if site.mark.exists() else NOTHING


def _writes_an_object(site: Site) -> str:
    before = outside(site)
    site.git("hash-object -w --stdin", "something new\n")
    return NOTHING if outside(site) == before else OUTSIDE


def _first_version_is_read_outside(site: Site) -> str:
    return OUTSIDE if site.git("cat-file -p main~3").status == 0 else NOTHING


def _main_is_read_outside(site: Site) -> str:
    return OUTSIDE if site.git("rev-parse refs/heads/main").status == 0 else NOTHING


ALL_WAIT = (WAITS, WAITS, WAITS)
ALL_DONE = (DONE, DONE, DONE)
ALL_FAIL = (BLOCKED, BLOCKED, BLOCKED)

VECTORS = [
    Vector("S23", f"FIFO at {name}", fifo(name), waits(words), WAITS, REFUSED, name, pm)
    for name, words, pm in [
        ("refs/heads/x", LISTING, ALL_WAIT),
        ("refs/heads/main", LISTING, ALL_WAIT),
        ("refs/tags", LISTING, ALL_WAIT),
        ("refs/minifram/x", LISTING, (DONE, DONE, WAITS)),
        ("objects/info/alternates", f"cat-file -e {'1' * 40}", ALL_WAIT),
        ("objects/info/commit-graph", "log -1 main", ALL_WAIT),
        ("objects/info/commit-graphs/commit-graph-chain", "log -1 main", ALL_WAIT),
        ("objects/pack/multi-pack-index", f"cat-file -e {'1' * 40}", ALL_WAIT),
    ]
] + [
    Vector("S23", "socket at refs/heads/x", _socket, _cannot_be_cloned, BLOCKED, REFUSED, "refs/heads/x", ALL_FAIL),
    Vector("S23", "device at refs/heads/x", _device, _cannot_be_cloned, BLOCKED, REFUSED, "refs/heads/x", ALL_FAIL),
    Vector("S23", "ref of 96 MiB", _huge_ref, _takes_memory, FOOLED, REFUSED, "refs/heads/x", ALL_FAIL),
    Vector(
        "S23", "link at refs/heads", link("refs/heads"), goes_outside("update-ref refs/heads/x main"), OUTSIDE,
        REFUSED, "refs/heads", (DONE, DONE, BLOCKED),
    ),
    Vector(
        "S23", "link at refs/heads/main", link("refs/heads/main"), _main_is_read_outside, OUTSIDE,
        REFUSED, "refs/heads/main", (DONE, DONE, BLOCKED),
    ),
    Vector(
        "S23", "links at all directories of objects", _all_object_directories, _writes_an_object, OUTSIDE,
        REFUSED, "/objects/", (BLOCKED, DONE, BLOCKED),
    ),
    Vector(
        "S23", "link at objects/pack", link("objects/pack"), goes_outside("repack -adq"), OUTSIDE,
        REFUSED, "objects/pack", (BLOCKED, DONE, BLOCKED),
    ),
    Vector(
        "S23", "link at a pack", _pack_outside, _first_version_is_read_outside, OUTSIDE, REFUSED, ".pack is a symbolic",
        (BLOCKED, DONE, BLOCKED),
    ),
    Vector(
        "S23", "FIFO at the index of a pack", _fifo_for_an_index, waits("log main"), WAITS, REFUSED, ".idx is a FIFO",
        ALL_WAIT,
    ),
    Vector(
        "S23", "link at an object", _loose_object, _main_is_read_outside, OUTSIDE,
        WORKS, "is a symbolic link", (BLOCKED, DONE, BLOCKED),
    ),
    Vector(
        "S23", "alternates to a repository outside", _alternates, _reads_the_secret, OUTSIDE,
        REFUSED, "objects/info/alternates", (DONE, DONE, BLOCKED),
    ),
    Vector(
        "S22", "alternates to a repository inside, whose configuration names programs", _lender_inside,
        _lender_is_visited, NOTHING, REFUSED, "objects/info/alternates", (DONE, DONE, BLOCKED),
    ),
    Vector(
        "S22", "repository inside, whose configuration names programs", _repository_inside,
        runs(f"--git-dir={REPOSITORY_INSIDE} cat-file -e {'1' * 40}"), RUNS, WORKS, REPOSITORY_INSIDE, ALL_DONE,
    ),
    Vector(
        "S22", "http-alternates", lambda site: site.write("objects/info/http-alternates", "http://127.0.0.1:9/x\n"),
        HISTORY, NOTHING, REFUSED, "objects/info/http-alternates", (DONE, DONE, BLOCKED),
    ),
    Vector(
        "S22", "replace ref", _replaced, HISTORY, FOOLED, WORKS, "refs/replace", ALL_DONE
    ),
    Vector(
        "S22", "commit-graph that lies", _commit_graph, _believes_the_graph, FOOLED,
        WORKS, "objects/info/commit-graph", (DONE, BLOCKED, BLOCKED),
    ),
    Vector(
        "S22", "object whose content is another", _forged_object, fooled("cat-file blob main:src/a.py", "two"), FOOLED,
        WORKS, "hash", ALL_DONE,
    ),
    Vector(
        "S23", "symbolic ref to a branch", ref("heads/other", "ref: refs/heads/main\n"), _deletes_main, FOOLED,
        REFUSED, "refs/heads/other", ALL_DONE,
    ),
    Vector(
        "S23", "symbolic refs in a circle", ref("heads/main", "ref: refs/heads/main\n"),
        HISTORY, BLOCKED, REFUSED, "refs/heads/main", (DONE, BLOCKED, BLOCKED),
    ),
    Vector(
        "S23", "symbolic ref to a path outside", ref("heads/main", "ref: OUT/x\n"),
        goes_outside("update-ref refs/heads/main improve"), NOTHING, REFUSED, "refs/heads/main",
        (DONE, BLOCKED, BLOCKED),
    ),
    Vector(
        "S23", "names of refs that steer terminals and shells", _odd_names, _prints_odd_names, FOOLED,
        WORKS, "a name that no branch", (DONE, DONE, BLOCKED),
    ),
    Vector("S23", "ref 300 directories deep", _deep, HISTORY, NOTHING, REFUSED, "deep", ALL_DONE),
    Vector("S21", "hooks below objects and refs", _hooks_inside, _pushing, NOTHING, WORKS, "objects/hooks", ALL_DONE),
]  # fmt: skip
