"""`minifram mind`: the snapshots of the agent's memory, the way back to one, and why it holds something to be so.

History only grows; by plain git the PM may edit the branch like anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import click

from host import runs
from host.cli import agent_option, command
from host.errors import CommandError, failure, not_found
from host.home import AgentPaths, Context
from host.repository import edit_branch, open_as_pm, open_repository
from host.screen import Say, Shown, bad, counted, harmless, one_line
from infra.cell.mind.history import converted
from infra.cell.mind.memory import PATHS, Source, memory_of
from infra.cell.mind.notes import NoteDetails, PmWords, origin_of, pm_words, said_in
from infra.cell.mind.statements import key_of
from infra.keep.mind.snapshots import snapshots as read_snapshots
from infra.shared.branches import MIND
from infra.shared.exit_codes import Exit
from infra.shared.mind.event import PLACE, MindEvent, event_at
from infra.shared.mind.layout import ROOT
from infra.shared.mind.sections import sections
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.tip import TreeEntry, list_tree, read_file
from infra.shared.safe_files import Below

REF = f"refs/heads/{MIND}"
LIST_SECONDS = 3.0
MOST_COMMITS = 3
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class WhyLink(NamedTuple):
    """One step on the way back."""

    kind: str
    """`statement`, `commit`, `event`, `note`, `run`, `directive`, `file`."""
    words: str
    broken: str = ""
    """Why it leads nowhere."""
    depth: int = 0


def mind_commit(git: Git) -> str:
    """Raises CommandError for an agent without a mind."""
    found = resolve_commit(git, REF)
    if found is None:
        raise not_found(f"{git.directory} has no branch {MIND!r}: this agent has no mind; 'minifram up' makes one")
    return found


@click.group("mind")
def mind() -> None:
    """The agent's memory: its snapshots, and why it holds something to be so."""


mind.params.append(agent_option())


@command
def snapshots(context: Context, say: Say) -> Shown:
    """List the snapshots of the mind, with the time, the commit and the reason of each.

    The keep makes them: daily, weekly, monthly, and before each self-modification.
    """
    found = read_snapshots(open_repository(context.initialised()))
    width = max((len(each.name) for each in found), default=0)
    lines = [f"{each.name:<{width}}  {each.commit[:12]}  {one_line(each.reason, 200)}" for each in found]
    advice = "'minifram mind restore SNAPSHOT' gives the mind the content of one"
    none = "there is no snapshot yet: the first comes within a minute of the agent's start"
    value = {"snapshots": [{**each._asdict(), "kind": each.kind, "at": each.at} for each in found]}
    return Shown(value, lines, advice if found else none)


@command
@click.argument("snapshot")
@click.argument("paths", metavar="[PATH]…", nargs=-1)
def restore(context: Context, say: Say, snapshot: str, paths: tuple[str, ...]) -> Shown:
    """Give the mind the content of SNAPSHOT, or only PATHs of it, as a new commit of yours on the branch.

    SNAPSHOT is a name from 'minifram mind snapshots', or a commit of the mind's history. The agent may run: it brings
    the change together with what it has not pushed yet, and your text stands. Prints what changed, and how to undo it.
    """
    git = open_as_pm(context)
    mind_commit(git)
    target, wanted = _target(git, snapshot), [path.removeprefix(f"{ROOT}/").strip("/") for path in paths]
    for path in wanted:
        if path not in list_tree(git, target, path) and path not in list_tree(git, REF, path):
            raise not_found(f"{path!r} is neither in {snapshot} nor in the mind; see 'git ls-tree -r {target[:12]}'")
    what = ", ".join(wanted[:5]) if wanted else "The whole mind"

    def change(seen: str) -> tuple[dict[str, TreeEntry | None], str]:
        there = list_tree(git, target, *wanted)
        gone = dict.fromkeys(wanted or list_tree(git, seen))
        return {**gone, **there}, f"Restore {snapshot}\n\n{what}, as at {target[:12]}. Decided by the PM."

    before, commit = edit_branch(git, MIND, change)
    value = {"snapshot": snapshot, "target": target, "commit": commit, "before": before, "changes": [], "undo": ""}
    if commit == before:
        return Shown(value, f"nothing to do: the mind ({commit[:12]}) already has that content")
    listed = git.within(LIST_SECONDS)("diff", "--no-renames", "--name-status", before, commit)
    changes = [each.replace("\t", " ") for each in listed.split("\n") if each]
    undo = f"minifram mind restore {before}{context.agent_words}"
    done = f"restored  the mind is now {commit}, with the content of {target[:12]}"
    lines = [done, *(f"  {harmless(change)}" for change in changes), f"undo:     {undo}"]
    return Shown(value | {"changes": changes, "undo": undo}, lines)


def _target(git: Git, named: str) -> str:
    """The commit of a snapshot, or one of the mind's own history. Raises CommandError."""
    for each in read_snapshots(git):
        if each.name == named:
            return each.commit
    commit = resolve_commit(git, named) if _COMMIT.fullmatch(named) else None
    if commit and git.ok("merge-base", "--is-ancestor", commit, REF):
        return commit
    raise not_found(f"{named!r} is no snapshot and no commit of the mind's history; see 'minifram mind snapshots'")


@command
@click.argument("id")
def why(context: Context, say: Say, id: str) -> Shown:
    """Show why the agent holds ID to be so: the belief or item, the commits that wrote it, the events it names, and the
    run and the directive behind each; exits with 8 when a link is broken.

    \b
    Examples:
      minifram mind why B-000001
      minifram mind why L-000012 --json
    """
    home = context.initialised()
    links = list(_why(home, open_repository(home), id))
    broken = sum(bool(each.broken) for each in links)
    lines = (
        f"{'  ' * each.depth}{each.kind:<11} {one_line(each.words, 400)}"
        + (f"  {bad('broken: ' + one_line(each.broken, 200))}" if each.broken else "")
        for each in links
    )
    advice = f"{counted(broken, 'link')} broken: what stands there is not borne out any more" if broken else ""
    return Shown({"id": id, "links": links}, lines, advice, Exit.FINDINGS if broken else Exit.OK)


def _why(home: AgentPaths, git: Git, id: str) -> Iterator[WhyLink]:
    """Raises CommandError for an id that is not there, GitError."""
    commit, path = mind_commit(git), PATHS.get(id[:1], PATHS["L"])
    text = read_file(git, commit, path) or ""
    section = next((each for each in sections(text)[1:] if each.id == id), None)
    if section is None:
        raise not_found(f"{path} on branch mind has no {id[:40]!r}; 'git grep WORD mind' finds ids")
    facts = memory_of({path: text})
    fact = facts.find(id)
    if fact is None:
        wrong = next((str(each) for each in facts.problems if each.what.startswith(f"{id}: ")), "see the file")
        raise failure(f"{id} cannot be read: {wrong}")
    added = f", added {fact.added}" if fact.added else ""
    state = f"{fact.status}, confidence {fact.confidence:g}{added}"
    yield WhyLink("statement", f"{id} ({path}:{section.line}) {fact.subject}: {fact.claim} [{state}]")
    last = section.line + section.text.rstrip("\n").count("\n")
    wrote = ("--no-patch", f"-{MOST_COMMITS}", f"-L{section.line},{last}:{path}", "--format=%h %an %cI %s")
    for each in git("log", *wrote, commit).splitlines():
        yield WhyLink("commit", each, depth=1)
    if not fact.provenance:
        yield WhyLink("event", "it names no evidence", "whoever wrote it, learning did not", 1)
    words = pm_words(read_file(git, "refs/heads/main", PAGE) or "", git, REF)
    for source in fact.provenance:
        yield from _evidence(home, git, fact.key, source, words)


def _evidence(home: AgentPaths, git: Git, key: str, source: Source, words: PmWords) -> Iterator[WhyLink]:
    if not PLACE.fullmatch(source.source.removeprefix("event ")):
        path = source.source.removeprefix(f"{ROOT}/").lstrip("/")
        is_there = not path.startswith("-") and read_file(git, REF, path) is not None
        yield WhyLink("file", source.source, "" if is_there else "branch mind has no such file, and it is no event", 1)
        return
    event, broken = _event(home, source.source)
    yield WhyLink("event", f"{source.source}{f' at {event.timestamp}' if event else ''}", broken, 1)
    if event is None:
        return
    details = converted(event.metadata.details, NoteDetails) if event.event_type == "note" else None
    said = said_in(details.quote, words) if details else ""
    if details is None:
        yield WhyLink("note", f"a {event.event_type} of the tool {event.metadata.tool!r}", "it notes nothing", 2)
    else:
        pages = f", after reading {', '.join(event.metadata.origins[:5])}" if event.metadata.origins else ""
        quote = f", in the PM's words: {details.quote}" if said else ""
        origin = origin_of(details, bool(event.metadata.origins), False, said)
        says_it = key_of(details.subject, details.statement) == key
        faults = [] if says_it else ["it says something else"]
        if details.quote and not said:
            faults.append(f"neither COMMS.md nor a task of the inbox says {details.quote!r}")
        yield WhyLink("note", f"{details.subject}: {details.statement} [{origin}{pages}{quote}]", "; ".join(faults), 2)
    yield _run(home, event)
    if about := said or event.context.task_id:
        text = next((text for id, text in words if id == about), "")
        gone = "" if text else "COMMS.md and the inbox do not hold it any more"
        yield WhyLink("directive", f"{about}: {text}" if text else about, gone, 2)


def _event(home: AgentPaths, place: str) -> tuple[MindEvent | None, str]:
    """The event, or why there is none."""
    try:
        event = event_at(Below(home.places.events), place)
    except OSError as error:
        return None, f"the log cannot be read: {error.strerror or error}"
    return event, "" if event else "the log has no such event"


def _run(home: AgentPaths, event: MindEvent) -> WhyLink:
    try:
        branch, name = runs.named(home, event.run_id) if event.run_id else ("", "")
    except CommandError:
        name = ""
    if not name:
        return WhyLink("run", event.run_id or "none", "there is no transcript of it any more", 2)
    return WhyLink("run", f"{branch}/{name} step {event.step_id}", depth=2)


for _each in (snapshots, restore, why):
    mind.add_command(_each)
