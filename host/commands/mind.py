"""`minifram mind …`: the PM's commands on the agent's memory. Each is a command of its own, added to the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from host.commands.options import agent_option, command
from host.context import Context
from host.display import Screen, harmless, harmless_lines, one_line
from infra.shared.exit_codes import Exit
from infra.shared.text import counted

if TYPE_CHECKING:
    from host.agent.forget import MindForgot
    from host.agent.mind_why import WhyLink
    from host.repository.mind import MindRestored
    from infra.shared.mind.search import Hit
    from infra.shared.mind.snapshots import Snapshot

RECALLED_CHARS = 2_000
"""Of a section."""


@click.group("mind")
def mind() -> None:
    """The agent's memory: its snapshots, what it recalls and why, and how to have it forget."""


mind.params.append(agent_option())


@command
def snapshots(context: Context, screen: Screen) -> None:
    """List the snapshots of the mind, with the time, the commit and the reason of each.

    The keep makes them: daily, weekly, monthly, and before each self-modification. How many are kept, 'mind.keep_…' in
    the settings says.
    """
    from host.repository.open import open_repository
    from infra.shared.mind import snapshots as shared

    found = shared.snapshots(open_repository(context.initialised()))
    screen.show(
        {"snapshots": [each._asdict() | {"kind": each.kind.value} for each in found]}, _snapshots(found), verbatim=True
    )
    if not found:
        screen.advise("there is no snapshot yet: the first comes within a minute of the agent's start")
    else:
        screen.advise("'minifram mind restore SNAPSHOT' gives the mind the content of one")


def _snapshots(found: list[Snapshot]) -> Iterator[str]:
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        yield f"{each.name:<{width}}  {each.commit[:12]}  {one_line(each.reason, 200)}"


@command
@click.argument("id")
def why(context: Context, screen: Screen, id: str) -> int:
    """Show why the agent holds ID to be so: belief or item, the commits that wrote it, its observations, their events,
    the run and step of each, and the directive or page behind it; exits with 8 when a link is broken.

    \b
    Examples:
      minifram mind why B-000001
      minifram mind why L-000012 --json
    """
    import time

    from host.agent.mind_why import why as links_of
    from host.repository.open import open_repository

    home = context.initialised()
    links = links_of(home, open_repository(home), id, time.time())
    broken = [each for each in links if each.broken]
    screen.show({"id": id, "links": [each._asdict() for each in links]}, _links(links, screen), verbatim=True)
    if broken:
        screen.advise(f"{counted(len(broken), 'link')} broken: what stands there is not borne out any more")
    return Exit.FINDINGS if broken else Exit.OK


def _links(links: Sequence[WhyLink], screen: Screen) -> Iterator[str]:
    for each in links:
        words = f"{'  ' * each.depth}{each.kind:<11} {one_line(each.words, 400)}"
        yield f"{words}  {screen.bad('broken: ' + one_line(each.broken, 200))}" if each.broken else words


mind.add_command(snapshots)


@command
@click.argument("snapshot")
@click.argument("paths", metavar="[PATH]…", nargs=-1)
def restore(context: Context, screen: Screen, snapshot: str, paths: tuple[str, ...]) -> None:
    """Give the mind the content of SNAPSHOT, or only PATHs of it, as a new commit of yours on the branch.

    SNAPSHOT is a name from 'minifram mind snapshots', or a commit of the mind's history. The agent may run: it brings
    the change together with what it has not pushed yet, and your text stands. Prints what changed, and how to undo it.
    """
    from host.repository.mind import restore_mind
    from host.repository.open import open_as_pm

    done = restore_mind(open_as_pm(context), snapshot, paths, context.option)
    screen.show(done, _restored(done))


def _restored(done: MindRestored) -> Iterator[str]:
    if done.commit == done.before:
        yield f"nothing to do: the mind ({done.commit[:12]}) already has that content"
        return
    yield f"restored  the mind is now {done.commit}, with the content of {done.target[:12]}"
    yield from (f"  {harmless(change)}" for change in done.changes)
    yield f"undo:     {done.undo}"


mind.add_command(restore)
mind.add_command(why)


@command
@click.argument("what", metavar="ID|WORDS…", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(context: Context, screen: Screen, what: tuple[str, ...], yes: bool) -> int:
    """Take a fact, or a secret that slipped in, out of the mind: out of each file, each commit of its history, the
    snapshots, the events, and so out of later backups.

    Each ID is an item such as B-000123: its section goes, and its statement wherever it stands. All else are words as
    they stand in the text: '[forgotten]' takes their place; quote words that belong together. With '-' they are read
    from standard input, a line each, so that a secret stands in no list of processes. The agent must be down. There is
    no undo. Backups of before, and clones of others, still hold it: a secret that was here counts as known.
    """
    import sys
    import time

    from host.agent.forget import forget as forget_all

    def may(words: str) -> bool:
        return yes or click.confirm(f"{words}. Go on?", err=True)

    if "-" in what:
        lines = [line.strip() for line in sys.stdin.read().split("\n")]
        what = (*(each for each in what if each != "-"), *filter(None, lines))
    done = forget_all(context, what, may, time.time(), screen.progress)
    if done is None:
        screen.progress("nothing was changed")
        return Exit.FAILURE
    screen.show(done, _forgot(done))
    if done.commits or done.events:
        screen.advise("its next start makes the agent's clone of the mind again: 'minifram up'")
    return Exit.OK


def _forgot(done: MindForgot) -> Iterator[str]:
    if not done.commits and not done.events:
        yield "nothing of it was found in the mind, its history and its events"
    else:
        numbers = (counted(done.files, "file"), counted(done.commits, "commit"), counted(done.events, "event"))
        yield f"forgotten  in {', '.join(numbers)}"
        yield from (f"  moved {harmless(ref)}" for ref in done.refs)
    yield from (f"left as it is, with the old history: {harmless(ref)}" for ref in done.elsewhere)
    yield from (f"it still stands, outside of the mind, in: {harmless(place)}" for place in done.still)


mind.add_command(forget)


@command
@click.argument("words", metavar="WORD…", nargs=-1, required=True)
@click.option(
    "--kind", default="", metavar="KIND", help="Only belief, memory, summary, task, skill, archive, reflection."
)
@click.option("--since", default="", metavar="T", help="Nothing older: a date such as 2026-01-31, or 7d, or 4w.")
@click.option(
    "-n", "--number", type=click.IntRange(min=1, max=1000), default=8, show_default=True, help="Most matches."
)
@click.option("--all", "with_deprecated", is_flag=True, help="Deprecated beliefs and skills as well.")
def recall(
    context: Context,
    screen: Screen,
    words: tuple[str, ...],
    kind: str,
    since: str,
    number: int,
    with_deprecated: bool,
) -> None:
    """Search the mind as the agent does: what a run would find of these words, with scores, the best first.

    A section with one of the words is a match, in any grammatical form; synonyms are words like others. Behind the
    matches stand their neighbours, the sections before and after. What was pushed is searched, not what the agent has
    only in its clone.

    \b
    Examples:
      minifram mind recall deploy release rollout
      minifram mind recall port --kind belief
      minifram mind recall importer --since 4w --json
    """
    import time

    from host.agent.mind_recall import recall as find
    from host.repository.open import open_repository
    from infra.shared.mind.search import shown

    git = open_repository(context.initialised())
    found = find(git, " ".join(words), kind, since, number, with_deprecated, time.time())
    problems = list(found.refreshed.problems)
    screen.show(
        {"hits": [_plain(hit) for hit in found.hits], "problems": problems},
        (line for hit in found.hits for line in (*harmless_lines(shown(hit, RECALLED_CHARS)), "")),
        verbatim=True,
    )
    for problem in problems:
        screen.advise(f"not searched: {one_line(problem, 300)}")
    if not found.hits:
        screen.advise("nothing in the mind has one of these words; try synonyms")


def _plain(hit: Hit) -> dict[str, object]:
    names = ("path", "id", "heading", "text", "score", "is_neighbour", "status", "against", "kind", "date", "validated")
    return {name: getattr(hit, name) for name in names}


mind.add_command(recall)


@command
def health(context: Context, screen: Screen) -> int:
    """Check the agent's mind: sandbox, logging, coherence, task loop, skills. Exits with 8 when something is wrong."""
    import time

    from host.agent.mind_health import read_health
    from host.repository.open import open_repository
    from host.repository.skills import mind_commit
    from infra.shared.mind.health import FAIL, WARN

    home = context.initialised()
    git = open_repository(home)
    mind_commit(git)
    checks = read_health(home, git, time.time())
    marks = {FAIL: screen.bad, WARN: screen.mark}
    lines = [f"{_mark(marks, each.level)} {each.name:<10} {one_line(each.words, 400)}" for each in checks]
    screen.show({"checks": [each._asdict() for each in checks]}, lines, verbatim=True)
    return Exit.FINDINGS if any(each.level in marks for each in checks) else Exit.OK


def _mark(marks: Mapping[str, Callable[[str], str]], level: str) -> str:
    return marks.get(level, str)(f"{level:<5}")


mind.add_command(health)
