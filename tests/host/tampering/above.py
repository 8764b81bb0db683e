"""What could be planted at the top of the repository, which the container cannot reach: by another program of the PM's
own user, by the agent where there is no container, or by a repository put back from somebody else's copy."""

from __future__ import annotations

import os
import subprocess

from tests.host.tampering.site import Site
from tests.host.tampering.vector import (
    BLOCKED,
    FOOLED,
    NOTHING,
    OUTSIDE,
    REFUSED,
    RUNS,
    WAITS,
    WORKS,
    Control,
    Plant,
    Vector,
    fooled,
    goes_outside,
    outside,
    runs,
    waits,
)

MISSING = "1" * 40
HISTORY = fooled("rev-list --count main", "4")
"""Main has so many commits."""


def setting(*pairs: tuple[str, str], attribute: str = "") -> Plant:
    def plant(site: Site) -> None:
        site.set(*pairs)
        if attribute:
            site.write("info/attributes", f"* {attribute}\n")

    return plant


def text(name: str, words: str) -> Plant:
    return lambda site: site.write(name, words.replace("MAIN", site.main()).replace("OUT", str(site.outside)))


def link(name: str) -> Plant:
    def plant(site: Site) -> None:
        site.lead_outside(name)

    return plant


def fifo(name: str) -> Plant:
    return lambda site: site.fifo(name)


def _hooks(site: Site) -> None:
    for hook in ("reference-transaction", "update", "post-receive", "pre-push", "post-checkout", "fsmonitor-watchman"):
        site.write(f"hooks/{hook}", site.program.read_text(), 0o755)


def _hooks_elsewhere(site: Site) -> None:
    _hooks(site)
    (site.remote / "hooks").rename(site.outside / "hooks")
    site.set(("core.hooksPath", f"{site.outside}/hooks"))


def _include(site: Site) -> None:
    (site.outside / "config").write_text(f'[alias]\n\tmine = "!{site.program}"\n')
    site.set(("include.path", f"{site.outside}/config"))


def _second_configuration(site: Site) -> None:
    site.write("config.worktree", f"[diff]\n\texternal = {site.program}\n")
    site.set(("extensions.worktreeConfig", "true"), ("core.repositoryFormatVersion", "1"))


def _common_directory(site: Site) -> None:
    other = site.outside / "other"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(site.remote), str(other)], check=True)
    subprocess.run(["git", "-C", str(other), "config", "alias.mine", f"!{site.program}"], check=True)
    site.write("commondir", f"{other}\n")


def _work_tree(site: Site) -> None:
    site.set(("core.worktree", str(site.outside)), ("core.bare", "false"))


def _log_outside(site: Site) -> None:
    site.path("logs/refs/heads/main").symlink_to(site.outside / "mine")


def _packed_refs_outside(site: Site) -> None:
    (site.outside / "packed").write_text(f"{site.main()} refs/heads/planted\n")
    (site.remote / "packed-refs").unlink(missing_ok=True)
    (site.remote / "packed-refs").symlink_to(site.outside / "packed")


def _reads_packed_refs(site: Site) -> str:
    return OUTSIDE if "planted" in site.git("for-each-ref").text else NOTHING


def _large(name: str, size: int) -> Plant:
    def plant(site: Site) -> None:
        with site.path(name).open("ab") as file:
            file.truncate(size)

    return plant


def _with_work_tree(words: str) -> Control:
    """`git words` with a work tree, as a PM might who wants to look at a version."""

    def control(site: Site) -> str:
        (site.desk.root / "tree").mkdir()
        return runs(f"--work-tree={site.desk.root}/tree {words}")(site)

    return control


def _pushing(site: Site) -> str:
    site.plain("commit", "--quiet", "--allow-empty", "-m", "mine", cwd=site.clone)
    site.plain("push", "--quiet", "origin", "HEAD:refs/heads/mine", cwd=site.clone)
    return RUNS if site.mark.exists() else NOTHING


def _cloning(site: Site) -> str:
    site.plain("clone", "--quiet", "--no-local", str(site.remote), "second", cwd=site.desk.root)
    return RUNS if site.mark.exists() else NOTHING


def _merging(site: Site) -> str:
    """A conflict, so that the driver is asked."""
    one = site.desk.branch("one", {"src/a.py": "1\n"}, start="main")
    two = site.desk.branch("two", {"src/a.py": "2\n"}, start="main")
    return runs(f"merge-tree --write-tree {one} {two}")(site)


def _lends_refs(site: Site) -> None:
    """A repository that lends objects has git list its refs, by the program that is named here."""
    other = site.outside / "other"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(site.clone), str(other)], check=True)
    site.write("objects/info/alternates", f"{other}/objects\n")
    site.set(("core.alternateRefsCommand", "PROGRAM"))


def _writes_an_object(site: Site) -> str:
    return goes_outside("hash-object -w --stdin", "something new\n")(site)


_writes_a_ref = goes_outside("update-ref refs/heads/x main")


def _appends_outside(site: Site) -> str:
    before = outside(site)
    site.git("update-ref refs/heads/main main~1")
    return NOTHING if outside(site) == before else OUTSIDE


def _checks_out_outside(site: Site) -> str:
    return goes_outside("checkout -f main -- .")(site)


def _foreign(name: str) -> Plant:
    return lambda site: os.chown(site.remote / name, 100_999, 100_999)


def _open_to_all(site: Site) -> None:
    site.remote.chmod(0o777)


def _ours(site: Site) -> str:
    """Plain git asks who owns the directory, not who may write to it."""
    return NOTHING if site.git("rev-parse main").status == 0 else FOOLED


PROGRAM_KEYS: list[tuple[str, Plant, Control, str]] = [
    ("core.fsmonitor", setting(("core.fsmonitor", "PROGRAM")), _with_work_tree("status"), RUNS),
    ("core.sshCommand", setting(("core.sshCommand", "PROGRAM")), runs("ls-remote ssh://127.0.0.1/x"), RUNS),
    ("core.pager", setting(("core.pager", "PROGRAM")), runs("log", terminal=True), RUNS),
    ("pager.log", setting(("pager.log", "PROGRAM")), runs("log", terminal=True), RUNS),
    ("core.editor", setting(("core.editor", "PROGRAM")), runs("tag -a x main"), RUNS),
    ("core.askPass", setting(("core.askPass", "PROGRAM")), runs("credential fill", "protocol=https\nhost=x\n\n"), RUNS),
    (
        "credential.helper",
        setting(("credential.helper", "PROGRAM")),
        runs("credential fill", "protocol=https\nhost=x\n\n"),
        RUNS,
    ),
    ("alias", setting(("alias.mine", "!PROGRAM")), runs("mine"), RUNS),
    ("diff.external", setting(("diff.external", "PROGRAM")), runs("diff main~2 main"), RUNS),
    ("gpg.program", setting(("gpg.program", "PROGRAM")), runs("tag -s -m x x main"), RUNS),
    (
        "gpg.program when looking",
        setting(("gpg.program", "PROGRAM"), ("log.showSignature", "true")),
        runs("log main"),
        NOTHING,  # nothing is signed here
    ),
    ("core.gitProxy", setting(("core.gitProxy", "PROGRAM")), runs("ls-remote git://127.0.0.1:9/x"), RUNS),
    ("include.path", _include, runs("mine"), RUNS),
    ("core.hooksPath", _hooks_elsewhere, runs("update-ref refs/heads/x main"), RUNS),
    (
        "url.insteadOf",
        setting(("url.ext::PROGRAM .insteadOf", "/mnt/"), ("protocol.ext.allow", "always")),
        runs("ls-remote /mnt/x"),
        RUNS,
    ),
]
FETCHING_KEYS: list[tuple[str, Plant, Control, str]] = [
    (
        "promisor remote by ext::",
        setting(
            ("remote.evil.promisor", "true"), ("remote.evil.url", "ext::PROGRAM"), ("protocol.ext.allow", "always")
        ),
        runs(f"cat-file -e {MISSING}"),
        RUNS,
    ),
    (
        "promisor remote by uploadpack",
        setting(("remote.evil.promisor", "true"), ("remote.evil.url", "."), ("remote.evil.uploadpack", "PROGRAM")),
        runs(f"cat-file -e {MISSING}"),
        RUNS,
    ),
    # git takes these two from the context's own settings alone, or does not know them yet.
    ("uploadpack.packObjectsHook", setting(("uploadpack.packObjectsHook", "PROGRAM")), _cloning, NOTHING),
    (
        "bundle-uri",
        setting(("bundle.version", "1"), ("bundle.x.uri", "ext::PROGRAM"), ("uploadpack.advertiseBundleURIs", "true")),
        _cloning,
        NOTHING,
    ),
    ("uploadpack.allowFilter", setting(("uploadpack.allowFilter", "true")), _cloning, NOTHING),
    ("fetch.bundleURI", setting(("fetch.bundleURI", "ext::PROGRAM")), runs("fetch ."), NOTHING),
]

VECTORS = [
    *(Vector("S21", key, plant, control, does, REFUSED, "/config") for key, plant, control, does in PROGRAM_KEYS),
    *(Vector("S22", key, plant, control, does, REFUSED, "/config") for key, plant, control, does in FETCHING_KEYS),
    Vector("S21", "core.alternateRefsCommand", _lends_refs, _pushing, RUNS, REFUSED, "objects/info/alternates"),
    Vector("S21", "hooks/", _hooks, runs("update-ref refs/heads/x main"), RUNS, WORKS, "hooks/reference-transaction"),
    Vector(
        "S21", "diff driver", setting(("diff.x.command", "PROGRAM"), attribute="diff=x"), runs("diff main~2 main"),
        RUNS, REFUSED, "info/attributes",
    ),
    Vector(
        "S21", "textconv", setting(("diff.x.textconv", "PROGRAM"), attribute="diff=x"), runs("log -p main"),
        RUNS, REFUSED, "info/attributes",
    ),
    Vector(
        "S21", "filter", setting(("filter.x.smudge", "PROGRAM"), attribute="filter=x"), runs("archive main"),
        RUNS, REFUSED, "info/attributes",
    ),
    Vector(
        "S21", "merge driver", setting(("merge.x.driver", "PROGRAM"), attribute="merge=x"), _merging,
        RUNS, REFUSED, "info/attributes",
    ),
    Vector(
        "S21", "attributes that hide a change", text("info/attributes", "* -diff\n"),
        lambda site: FOOLED if "Binary files" in site.git("diff main~2 main").text else NOTHING,
        FOOLED, REFUSED, "info/attributes",
    ),
    Vector("S21", "core.worktree", _work_tree, _checks_out_outside, OUTSIDE, REFUSED, "core.bare"),
    Vector("S21", "config.worktree", _second_configuration, runs("diff main~2 main"), RUNS, REFUSED, "config.worktree"),
    Vector("S21", "commondir", _common_directory, runs("mine"), RUNS, REFUSED, "commondir"),
    Vector("S21", "gitdir", text("gitdir", "OUT\n"), HISTORY, NOTHING, WORKS, "gitdir"),
    Vector("S22", "info/grafts", text("info/grafts", "MAIN\n"), HISTORY, FOOLED, REFUSED, "info/grafts"),
    Vector("S22", "shallow", text("shallow", "MAIN\n"), HISTORY, FOOLED, REFUSED, "shallow"),
    Vector("S22", "info/alternates", text("info/alternates", "OUT\n"), HISTORY, NOTHING, WORKS, "info/alternates"),
    Vector("S23", "link at objects", link("objects"), _writes_an_object, OUTSIDE, REFUSED, "/objects is"),
    Vector("S23", "link at refs", link("refs"), _writes_a_ref, OUTSIDE, REFUSED, "/refs is"),
    Vector("S23", "link at packed-refs", _packed_refs_outside, _reads_packed_refs, OUTSIDE, REFUSED, "packed-refs"),
    Vector("S23", "link at HEAD", link("HEAD"), HISTORY, BLOCKED, REFUSED, "HEAD"),
    Vector("S23", "link at config", link("config"), goes_outside("config core.abbrev 9"), OUTSIDE, REFUSED, "config"),
    Vector("S23", "link at the log of a ref", _log_outside, _appends_outside, OUTSIDE, REFUSED, "logs/refs/heads/main"),
    Vector("S23", "FIFO at HEAD", fifo("HEAD"), waits("rev-parse main"), WAITS, REFUSED, "HEAD"),
    Vector("S23", "FIFO at config", fifo("config"), waits("rev-parse main"), WAITS, REFUSED, "config"),
    Vector("S23", "FIFO at packed-refs", fifo("packed-refs"), waits("for-each-ref"), WAITS, REFUSED, "packed-refs"),
    Vector("S23", "FIFO at info/attributes", fifo("info/attributes"), waits("show main"), WAITS, REFUSED, "info/attr"),
    Vector("S23", "FIFO at shallow", fifo("shallow"), waits("rev-list main"), WAITS, REFUSED, "shallow"),
    Vector("S23", "FIFO at refs", fifo("refs"), HISTORY, BLOCKED, REFUSED, "/refs is"),
    Vector("S23", "config of 128 MiB", _large("config", 128 << 20), HISTORY, BLOCKED, REFUSED, "config has"),
    Vector("S23", "packed-refs of 128 MiB", _large("packed-refs", 128 << 20), HISTORY, BLOCKED, REFUSED, "packed-refs"),
    Vector("S25", "directory that all may write to", _open_to_all, _ours, NOTHING, REFUSED, "written to by others"),
]  # fmt: skip

if os.geteuid() == 0:  # nobody else can give a file away
    VECTORS += [
        Vector("S25", "configuration of another user", _foreign("config"), _ours, NOTHING, REFUSED, "uid 100999"),
        Vector("S25", "ref of another user", _foreign("refs/heads/main"), _ours, NOTHING, WORKS, "uid 100999"),
        Vector("S25", "objects of another user", _foreign("objects/pack"), _ours, NOTHING, WORKS, "uid 100999"),
    ]
