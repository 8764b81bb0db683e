"""The files of the mind that are the PM's alone, in the cell's clone: put back as the branch has them, and what was
found said in `reflection/drift_reports.md`. The keep's word on them stands there too; no file here can change it."""

from __future__ import annotations

import hashlib
import os
import stat

from infra.cell.mind.mind import MindContext
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.mind.layout import CORE, DRIFT_REPORTS, PM_ONLY
from infra.shared.mind.sections import Document, MindSection, document_of
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.git import GitError
from infra.shared.requests import Drift
from infra.shared.safe_files import Below

GIT_SECONDS = 20.0
MOST_BYTES = 2 << 20
MOST_FILES = 1000
SECTIONS_KEPT = 100
ORIGIN = "refs/remotes/origin/mind"


def settle(context: MindContext) -> None:
    """After the clone was brought up to date. Does nothing without one; never raises."""
    if not os.path.isdir(f"{context.places.mind}/.git"):
        return
    try:
        put_back = _put_back(context)
        state = _asked(context)
        lines = [*state.drift, *state.changes, *(f"put back as the branch has it: {path}" for path in put_back)]
        if lines:
            _report(context, lines, bool(put_back))
    except (GitError, OSError, ValueError) as error:
        context.note("mind.drift_not_settled", error=str(error)[:1000])


def _put_back(context: MindContext) -> list[str]:
    """Gives the paths that were not as the branch has them. Raises GitError, OSError."""
    git = context.git.within(GIT_SECONDS)
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", ORIGIN, "--", *PM_ONLY).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    wanted = {path: words.split(" ")[2] for words, _, path in lines}
    found = _found(context.places.mind)
    wrong = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    for path in wrong:
        # By hash and by content: the clone's index is the cell's, and may say that nothing has changed.
        place = f"{context.places.mind}/{path}"
        _make_way(context.places.mind, path)
        if path in wanted:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            write_whole(place, git.raw("cat-file", "blob", wanted[path]))  # the PM's, byte for byte
    if wrong:
        git("read-tree", "--empty")  # and with it all bits that hide a change
        git("read-tree", "HEAD")
        context.note("mind.put_back", paths=wrong[:20])
    return [path.encode(errors="replace").decode() for path in wrong]


def _make_way(mind: str, path: str) -> None:
    """Nothing is at this path any more, and what is above it is a directory."""
    below = Below(mind)
    parts = path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        status = below.status(above)
        if status and not stat.S_ISDIR(status.st_mode):
            below.unlink(above)
    if below.status(path):
        below.remove(path)


def _found(mind: str) -> dict[str, str]:
    """What lies where only the PM's files lie: path -> git's id of it; something that no blob has for what is no plain
    file."""
    below, found = Below(mind), dict[str, str]()
    for root in PM_ONLY:
        status = below.status(root)
        if status and not stat.S_ISDIR(status.st_mode):
            found[root] = _blob_id(below, root, status)
    if below.is_directory(CORE):
        for entry in below.walk(CORE, depth=8, most=MOST_FILES):
            status = getattr(entry, "status", None)
            if status is None or not stat.S_ISDIR(status.st_mode):
                found[entry.path] = _blob_id(below, entry.path, status)
    return found


def _blob_id(below: Below, path: str, status: os.stat_result | None) -> str:
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""
    try:
        content = below.whole(path, MOST_BYTES)
    except OSError:
        return ""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _asked(context: MindContext) -> Drift:
    from infra.cell.doors import Keep, Refused

    try:
        return Keep(context.places.git_socket, pauses=()).drift()
    except (Refused, OSError) as error:
        context.note("mind.keep_not_asked", error=str(error))
        return Drift()


def _report(context: MindContext, lines: list[str], is_news: bool) -> None:
    """As a section of its own; not again what the last one says. Raises OSError."""
    below = Below(context.places.mind)
    try:
        text = below.whole(DRIFT_REPORTS, MOST_BYTES).decode(errors="surrogateescape")
    except FileNotFoundError:
        text = "# Drift reports\n"
    document = document_of(text)
    if not is_news and document.sections:
        said = document.sections[-1].body
        if all(f"- {line}\n" in said for line in lines):
            return
    heading = timestamp(context.now())
    body = "".join(f"- {' '.join(line.split())}\n" for line in lines)
    longer = document.with_section(MindSection(heading, f"## {heading}\n\n{body}"))
    kept = Document(longer.head, longer.sections[-SECTIONS_KEPT:])
    os.makedirs(os.path.dirname(f"{context.places.mind}/{DRIFT_REPORTS}"), exist_ok=True)
    RedactedFile(f"{context.places.mind}/{DRIFT_REPORTS}").replace(kept.whole().encode(errors="surrogateescape"))
