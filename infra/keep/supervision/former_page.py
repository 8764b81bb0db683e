"""What the agent wrote on the page in others' places before the keep became its only writer: reported once, never
changed, as the page is the PM's to judge. It shows in who committed each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from infra.keep.git_door.pages import Graph, TooTangled
from infra.keep.supervision.decide.events import Tell
from infra.shared import comms, report_titles
from infra.shared.branches import MAIN, MIND, RESCUE
from infra.shared.paths import Paths
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page import reported
from infra.shared.repository.page_text import PAGE

LOOKED_AT = "refs/minifram/page"
"""There when this has been reported, or there was nothing to report."""
ID = "former-page"
SECONDS = 20.0
MOST_TOLD = 20
_BLAMED = re.compile(r"[0-9a-f]{40} [0-9]+ [0-9]+(?: [0-9]+)?")
_AS_THE_WATCHER = re.compile(r"###\s+(?:[^@]*watcher|(?:[0-9][0-9TZ:.+-]*\s+)?[^\s@:0-9][^@:]*:)", re.IGNORECASE)
"""The watcher's reports begin with a time and its name, which other letters can look like; the agent's with
`<branch>@<commit>`. As loose as markdown is: how many blanks there are makes no difference to a reader."""


class Line(NamedTuple):
    text: str
    commit: str
    by: str
    """The address of who committed it."""


def look(places: Paths) -> Tell | None:
    """The report about the former page, until it stands on the page; None for nothing. Raises GitError, OSError."""
    git = Git(places.remote).within(SECONDS)
    main = resolve_commit(git, f"refs/heads/{MAIN}")
    if main is None or resolve_commit(git, LOOKED_AT):
        return None
    found: list[str] = []
    if ID not in reported(git, WATCHER):
        found = [*_forged(_lines(git, main)), *_renamed(git, main), *_branches(git, main)]
    if not found:
        update_refs(git, f"update {LOOKED_AT} {main}")
        return None
    more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
    listed = "\n".join(f"- {each}" for each in [*found[:MOST_TOLD], *more])
    title = report_titles.watcher(f"{PAGE} contains text that the agent wrote in others' sections")
    return Tell(title, f"The agent can no longer do that. Check the text and remove what is wrong.\n\n{listed}", ID)


def _lines(git: Git, main: str) -> list[Line]:
    """Each line of the page with who committed it; not a merge, but the commit that made the line."""
    if not git("ls-tree", main, "--", PAGE):
        return []
    lines: list[Line] = []
    commit, by = "", ""
    # In a bare repository git reads HEAD's .mailmap, by which the agent could name itself as it liked.
    empty = git("hash-object", "-w", "-t", "blob", "--stdin", stdin=b"")
    unmapped = ("-c", "mailmap.file=/dev/null", "-c", f"mailmap.blob={empty}")
    for line in git(*unmapped, "blame", "--line-porcelain", "--no-textconv", main, "--", PAGE).split("\n"):
        if _BLAMED.fullmatch(line):
            commit = line[:40]
        elif line.startswith("committer-mail "):
            by = line.partition(" ")[2].strip("<>")
        elif line.startswith("\t"):
            lines.append(Line(line[1:], commit, by))
    return lines


def _forged(lines: list[Line]) -> Iterator[str]:
    document = comms.with_sections("\n".join(line.text for line in lines))
    for directive in comms.open_directives(document):
        if directive.line < len(lines) and lines[directive.line].by == AGENT.email:
            yield f"the open directive {_shown(directive.text)}, by the agent in {lines[directive.line].commit[:12]}"
    for line in lines:
        words = line.text.lstrip("#").strip()
        if line.by != WATCHER.email and _AS_THE_WATCHER.match(line.text):
            yield f"the report {_shown(words)}, which the watcher did not write, in {line.commit[:12]}"
        elif line.by == AGENT.email and line.text.startswith("## ") and words.lower() not in ("directives", "reports"):
            yield f"the section {_shown(words)}, by the agent in {line.commit[:12]}"


def _renamed(git: Git, main: str) -> Iterator[str]:
    """It stays when it is there, and git goes on showing others as who committed."""
    if git("ls-tree", main, "--", ".mailmap"):
        by = git("log", "--max-count=1", "--format=%h by %ce", main, "--", ".mailmap")
        yield f"the file '.mailmap', by which git shows other names than commits have, changed in {ascii(by)[1:-1]}"


def _branches(git: Git, main: str) -> Iterator[str]:
    graph = Graph(git, main)
    shown = "--format=%(objectname) %(refname:lstrip=2)"
    for line in git("for-each-ref", "--sort=-committerdate", "--count=200", shown, "refs/heads/").splitlines():
        commit, _, name = line.partition(" ")
        if name in (MAIN, MIND) or name.startswith(RESCUE):
            continue
        try:
            if not graph.has_pages_of(commit, graph.anchor(commit)):
                yield f"the branch {_shown(name)} has a page of its own; take it with 'minifram merge', not by hand"
        except (GitError, TooTangled):
            continue


def _shown(text: str) -> str:
    return ascii(report_titles.first_line(text))
