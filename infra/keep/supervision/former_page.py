"""What the agent wrote on the page in others' places, before the keep alone wrote it: told once, never believed.

Told is what can be seen from who committed each line: open directives and headings by the agent, reports in the
watcher's name by anybody else, a `.mailmap`, and branches that hold a page of their own. Nothing of it is
changed: the page is the PM's to judge."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.git_door.pages import Graph, TooTangled
from infra.keep.supervision.decide.events import Tell
from infra.shared import comms, report_titles
from infra.shared.branches import MAIN, MIND, RESCUE
from infra.shared.people import AGENT, WATCHER
from infra.shared.places import Places
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page import reported
from infra.shared.repository.page_text import PAGE

LOOKED_AT = "refs/minifram/page"
"""There when this has been told, or there was nothing to tell."""
ID = "former-page"
SECONDS = 20.0
MOST_TOLD = 20
_SECTIONS = ("directives", "reports")
_BLAMED = re.compile(r"[0-9a-f]{40} [0-9]+ [0-9]+(?: [0-9]+)?")


class Line(NamedTuple):
    text: str
    commit: str
    by: str
    """The address of who committed it."""


def look(places: Places) -> Tell | None:
    """What is to be told of the page of before, until it is told; None for nothing. Raises GitError, OSError."""
    git = Git(places.remote).within(SECONDS)
    if resolve_commit(git, LOOKED_AT):
        return None
    main = resolve_commit(git, f"refs/heads/{MAIN}")
    if main is None:
        return None
    if ID not in reported(git, WATCHER):
        found = [*_forged(_lines(git, main)), *_renamed(git, main), *_branches(git, main)]
        if found:
            more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
            listed = "\n".join(f"- {each}" for each in [*found[:MOST_TOLD], *more])
            title = report_titles.watcher(f"{PAGE} holds what the agent wrote in others' places")
            return Tell(
                title, f"From now on it cannot; what stands there is yours to judge and take out.\n\n{listed}", ID
            )
    update_refs(git, f"update {LOOKED_AT} {main}")
    return None


def _lines(git: Git, main: str) -> list[Line]:
    """Each line of the page with who committed it; a merge is not asked, but who made the line."""
    if not git("ls-tree", main, "--", PAGE):
        return []
    lines: list[Line] = []
    commit, by = "", ""
    # In a bare repository git reads HEAD's .mailmap, by which the agent of before could name itself as it liked.
    nobody = git("hash-object", "-w", "-t", "blob", "--stdin", stdin=b"")
    unmapped = ("-c", "mailmap.file=/dev/null", "-c", f"mailmap.blob={nobody}")
    for line in git(*unmapped, "blame", "--line-porcelain", "--no-textconv", main, "--", PAGE).split("\n"):
        if _BLAMED.fullmatch(line):
            commit = line[:40]
        elif line.startswith("committer-mail "):
            by = line.partition(" ")[2].strip("<>")
        elif line.startswith("\t"):
            lines.append(Line(line[1:], commit, by))
    return lines


def _forged(lines: list[Line]) -> Iterable[str]:
    document = comms.with_sections("\n".join(line.text for line in lines))
    for directive in comms.open_directives(document):
        if directive.line < len(lines) and lines[directive.line].by == AGENT.email:
            yield f"the open directive {_shown(directive.text)}, by the agent in {lines[directive.line].commit[:12]}"
    for line in lines:
        words = line.text.lstrip("#").strip()
        if line.by != WATCHER.email and line.text.startswith("### ") and "watcher" in _plain(line.text):
            yield f"the report {_shown(words)}, which the watcher did not write, in {line.commit[:12]}"
        elif line.by == AGENT.email and line.text.startswith("## ") and words.lower() not in _SECTIONS:
            yield f"the section {_shown(words)}, by the agent in {line.commit[:12]}"


def _renamed(git: Git, main: str) -> Iterable[str]:
    """It stays when it is there, and git goes on showing others as who committed."""
    if git("ls-tree", main, "--", ".mailmap"):
        by = git("log", "--max-count=1", "--format=%h by %ce", main, "--", ".mailmap")
        yield f"the file '.mailmap', by which git shows other names than commits have, changed in {ascii(by)[1:-1]}"


def _branches(git: Git, main: str) -> Iterable[str]:
    graph = Graph(git, main)
    listed = git("for-each-ref", "--sort=-committerdate", "--count=200", "--format=%(refname:lstrip=2)", "refs/heads/")
    for name in filter(None, listed.split("\n")):
        if name in (MAIN, MIND) or name.startswith(RESCUE):
            continue
        try:
            commit = git("rev-parse", f"refs/heads/{name}")
            if graph.has_pages_of(commit, graph.anchor(commit)):
                continue
        except (GitError, TooTangled):
            continue
        yield f"the branch {_shown(name)} has a page of its own; take it with 'minifram merge', not by hand"


def _plain(text: str) -> str:
    """As it looks: letters of other alphabets that stand for ours, and nothing that is not seen."""
    seen = "".join(each for each in unicodedata.normalize("NFKC", text) if unicodedata.category(each) != "Cf")
    return seen.casefold().translate(_ALIKE)


_ALIKE = str.maketrans(
    "\N{CYRILLIC SMALL LETTER A}\N{CYRILLIC SMALL LETTER ES}\N{CYRILLIC SMALL LETTER IE}\N{CYRILLIC SMALL LETTER SHHA}"
    "\N{CYRILLIC SMALL LETTER WE}\N{CYRILLIC SMALL LETTER TE}",
    "acehwt",
)


def _shown(text: str) -> str:
    return ascii(report_titles.first_line(text))
