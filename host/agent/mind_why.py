"""Why the agent holds something to be so: from a belief or an item of long-term memory back to its observations, their
events, the runs and steps that made them, and the directive or page behind those. Each link is looked up, none is
believed: what cannot be found, or is not what it was, is a broken link."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from host.agent import runs
from host.errors import CommandError, not_found, usage
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.mind.beliefs import BELIEFS_FILE
from infra.shared.mind.claims import Belief, Origin
from infra.shared.mind.event import GENESIS, MindEvent, each_event, hash_of, lines_of
from infra.shared.mind.heads import FILE, Head, read_heads, standing
from infra.shared.mind.layout import EVENTS, ROOT
from infra.shared.mind.long_term import LONG_TERM_FILE
from infra.shared.mind.notes import details_of, origin_of
from infra.shared.mind.statements import key_of
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below
from infra.shared.text import one_line

MIND_REF: Final = "refs/heads/mind"
MOST_HEADS_BYTES, MOST_FILES, MOST_COMMITS = 16 << 20, 10_000, 3
_ID = re.compile(r"([BL])-[0-9]{1,12}")
_PLACE = re.compile(rf"(?:event )?({EVENTS}/[0-9-]{{10}}\.jsonl):([0-9]{{1,9}})")
_COMMIT = re.compile(r"commit ([0-9a-f]{7,64})")


class WhyLink(NamedTuple):
    """One step back on the way."""

    kind: str
    """`statement`, `commit`, `event`, `observation`, `run`, `directive`, `page`."""
    words: str
    broken: str = ""
    """Why it leads nowhere."""
    depth: int = 0


class _Claim(NamedTuple):
    """What is asked about."""

    path: str
    key: str
    words: str
    evidence: tuple[tuple[str, str], ...]
    """Source and hash."""


def why(home: AgentPaths, git: Git, id: str, now: float) -> tuple[WhyLink, ...]:
    """Raises CommandError for an id that is none or is not there, GitError."""
    if not _ID.fullmatch(id):
        raise usage(f"{id[:40]!r} is no id; expected one such as B-000001 or L-000001")
    commit = resolve_commit(git, MIND_REF)
    if commit is None:
        raise not_found("this agent has no mind yet; 'minifram up' gives it one")
    claim, line, last = _claim(git, commit, id, now)
    events = _Events(home)
    links = [WhyLink("statement", f"{id} ({claim.path}:{line}) {claim.words}")]
    links += _commits(git, commit, claim.path, line, last)
    if not claim.evidence:
        links.append(WhyLink("event", "it names no evidence", "whoever wrote it, learning did not", 1))
    for source, hash in claim.evidence:
        links += _evidence(home, git, events, claim, source, hash)
    return tuple(links)


def _claim(git: Git, commit: str, id: str, now: float) -> tuple[_Claim, int, int]:
    """And its first and last line in the file. Raises CommandError."""
    file = BELIEFS_FILE if id.startswith("B") else LONG_TERM_FILE
    text = read_file(git, commit, file.path) or ""
    parsed: Any = file.parse(text, now)
    section, item = parsed.document.find(id), parsed.find(id)
    if section is None:
        raise not_found(f"{file.path} on branch mind has no {id}; 'minifram mind recall WORD' finds ids")
    if item is None:
        wrong = [str(problem) for problem in parsed.problems if id in problem.what][:1]
        raise CommandError(Exit.FAILURE, f"{id} cannot be read: {(wrong or ['see the file'])[0]}")
    line = 1 + parsed.document.head.count("\n")
    for each in parsed.document.sections:
        if each is section:
            break
        line += each.text.count("\n")
    last = line + max(0, section.text.rstrip("\n").count("\n"))
    return _of_item(file.path, item), line, last


def _of_item(path: str, item: Any) -> _Claim:
    if isinstance(item, Belief):
        state = f"{item.status.value}, confidence {item.confidence:g}, last validated {item.last_validated or 'never'}"
        evidence = tuple((each.source, each.evidence.removeprefix("hash:")) for each in item.provenance)
        return _Claim(path, key_of(item.subject, item.claim), f"{item.claim} [{state}]", evidence)
    state = f"{item.status.value}, added {item.added}, last validated {item.last_validated or 'never'}"
    evidence = tuple((each.line, each.hash) for each in item.evidence)
    return _Claim(path, key_of(item.subject, item.statement), f"{item.subject}: {item.statement} [{state}]", evidence)


def _commits(git: Git, commit: str, path: str, line: int, last: int) -> Iterator[WhyLink]:
    """Who wrote the lines, by git's word."""
    try:
        told = git("blame", "--porcelain", f"-L{line},{last}", commit, "--", path)
    except GitError as error:
        yield WhyLink("commit", "git blame", str(error), 1)
        return
    found = dict.fromkeys(re.findall(r"(?m)^([0-9a-f]{40,64}) \d+ \d+ \d+$", told))
    for each in list(found)[:MOST_COMMITS]:
        about = git("log", "-1", "--format=%h %an %cI %s", "--end-of-options", each)
        yield WhyLink("commit", one_line(about), depth=1)


def _evidence(home: AgentPaths, git: Git, events: _Events, claim: _Claim, source: str, hash: str) -> Iterator[WhyLink]:
    place, commit = _PLACE.fullmatch(source), _COMMIT.fullmatch(source)
    if commit:
        there = resolve_commit(git, commit[1])
        on_mind = there is not None and git.ok("merge-base", "--is-ancestor", there, MIND_REF)
        yield WhyLink("commit", f"{commit[1][:12]}: {hash}", "" if on_mind else "branch mind has no such commit", 1)
        return
    if place is None:
        path = source.removeprefix(f"{ROOT}/").lstrip("/")
        has_file = not path.startswith("-") and read_file(git, MIND_REF, path) is not None
        yield WhyLink("file", source, "" if has_file else "branch mind has no such file, and it is no event", 1)
        return
    event, problem = events.at(place[1], int(place[2]), hash)
    if event is None:
        yield WhyLink("event", source, problem, 1)
        return
    words = f"{source} event {event.seq} at {event.timestamp}, hash {event.hash[:12]}{events.noted(event)}"
    yield WhyLink("event", words, problem, 1)
    yield from _observation(claim, event)
    yield from _run(home, git, event)


def _observation(claim: _Claim, event: MindEvent) -> Iterator[WhyLink]:
    details = details_of(event.metadata.details) if event.event_type == "note" else None
    if details is None:
        yield WhyLink("observation", f"a {event.event_type} of the tool {event.metadata.tool!r}", "it notes nothing", 2)
        return
    origin = origin_of(details, bool(event.metadata.origins), False)
    words = f"{details.subject}: {details.statement} [{origin.value}]"
    same = key_of(details.subject, details.statement) == claim.key
    yield WhyLink("observation", words, "" if same else "it says something else", 2)
    if details.check:
        yield WhyLink("check", f"{one_line(details.check)} ended with {details.exit_status}", depth=3)
    if details.quote:
        yield WhyLink("quote", f"the PM's words: {details.quote}", depth=3)
    if origin is Origin.PAGE:
        yield WhyLink("page", f"the run had read {', '.join(event.metadata.origins[:5])}", depth=3)


def _run(home: AgentPaths, git: Git, event: MindEvent) -> Iterator[WhyLink]:
    """The run and its step, by its transcript; and the directive, by COMMS.md or the task's file."""
    try:
        branch, name = runs.named(home, event.run_id) if event.run_id else ("", "")
    except CommandError:
        name = ""
    if not name:
        yield WhyLink("run", event.run_id or "none", "there is no transcript of it any more", 2)
    else:
        step = event.step_id.partition(".")[0]
        has_step = any(
            str(each.facts.get("step_id", "")).partition(".")[0] == step for each in runs.steps_of(home, name)
        )
        problem = "" if has_step else "its transcript has no such step"
        yield WhyLink("run", f"{branch}/{name} step {event.step_id}", problem, 2)
    if event.context.task_id:
        yield _directive(git, event.context.task_id)


def _directive(git: Git, id: str) -> WhyLink:
    from infra.shared import comms

    page = read_file(git, "refs/heads/main", "COMMS.md") or ""
    found = next((each.text for each in comms.directives(page) if each.id == id), "")
    if found:
        return WhyLink("directive", f"{id}: {one_line(found)}", depth=2)
    for folder in ("completed", "blocked"):
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", id) and read_file(git, MIND_REF, f"tasks/{folder}/{id}.md") is not None:
            return WhyLink("directive", f"{id}: tasks/{folder}/{id}.md", depth=2)
    if id in (read_file(git, MIND_REF, "tasks/inbox.md") or ""):
        return WhyLink("directive", f"{id}: tasks/inbox.md", depth=2)
    return WhyLink("directive", id, "COMMS.md and tasks/ do not hold it any more", 2)


class _Events:
    """The lines of the logs, and whether they are those that the keep noted."""

    def __init__(self, home: AgentPaths) -> None:
        self._mind = Below(home.places.mind)
        self._heads = standing(read_heads(Below(home.places.var).tail(FILE, MOST_HEADS_BYTES)))
        self._chain: dict[int, tuple[str, str]] | None = None

    def at(self, path: str, line: int, hash: str) -> tuple[MindEvent | None, str]:
        """The event, and what is wrong with it."""
        try:
            with self._mind.opened(path) as file:
                found = next((each for each in each_event(lines_of(file), path) if each.line == line), None)
        except OSError as error:
            return None, f"the log cannot be read: {error.strerror or error}"
        if found is None or found.event is None:
            return None, found.why if found else "the log has no such line"
        event = found.event
        if event.hash != hash:
            return event, f"its hash is {event.hash[:12]}, the evidence says {hash[:12]}: one of them was changed"
        if hash_of(json.loads(found.raw)) != event.hash:
            return event, "it is not what its hash says: it was rewritten"
        return event, self._broken_chain(event)

    def noted(self, event: MindEvent) -> str:
        head = self._head_after(event)
        return f", in the chain that the keep noted after run {head.run}" if head else ", not noted by the keep yet"

    def _head_after(self, event: MindEvent) -> Head | None:
        return next((head for head in self._heads if head.seq >= event.seq), None)

    def _broken_chain(self, event: MindEvent) -> str:
        """From the event to the next head that the keep has noted."""
        head = self._head_after(event)
        if head is None:
            return ""
        chain, at, hash = self._all(), event.seq, event.hash
        while at < head.seq:
            previous, following = chain.get(at + 1, (GENESIS, ""))
            if previous != hash:
                return f"the chain is broken behind event {at}: event {at + 1} is missing or was rewritten"
            at, hash = at + 1, following
        return "" if hash == head.hash else f"event {at} is not the one with which run {head.run} ended"

    def _all(self) -> dict[int, tuple[str, str]]:
        """The hash before and the hash of each event that is what it says."""
        if self._chain is None:
            self._chain = {}
            for name in sorted(self._mind.names(EVENTS, MOST_FILES)):
                with self._mind.opened(f"{EVENTS}/{name}") as file:
                    for line in each_event(lines_of(file), name):
                        if line.event and hash_of(json.loads(line.raw)) == line.event.hash:
                            self._chain[line.event.seq] = (line.event.previous, line.event.hash)
        return self._chain
