"""`minifram mind forget`: takes a fact, or a secret that slipped in, out of the mind: every file, every commit, the
snapshots, the events, and so out of later backups.

Only the PM does this, while the agent is down. Each step may be repeated: one that was broken off is begun again by the
same command. Nothing that is to be forgotten is written down, nor stands on a command line of another program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from host.agent import forget_cell
from host.agent.forget_cell import DO, LOOK, CellForgotten
from host.context import Context
from host.display import Say, counted
from host.errors import failure, not_found, usage
from host.paths import AgentPaths
from host.repository import forget as history
from host.repository.mind import REF, mind_commit
from host.repository.open import open_as_pm
from host.running.watcher import kept_down
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.identity import OURS
from infra.shared.mind import beliefs, heads, layout, long_term
from infra.shared.mind.forgetting import LEAST_CHARS, Forgetting, forgetting_of
from infra.shared.mind.forgotten import add_forgotten
from infra.shared.mind.heads import Forgotten
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below, Unseen, whole_file

HEADS_BYTES = 256 << 20
LOGS_DEPTH, LOGS_FILES, LOG_BYTES, LOGS_SECONDS = 4, 5000, 32 << 20, 20.0
MOST_SHOWN = 10


class MindForgot(NamedTuple):
    """What was touched; never the words."""

    files: int
    """Of the newest commit, that held something of it."""
    commits: int
    """That are others now."""
    refs: tuple[str, ...]
    events: int
    elsewhere: tuple[str, ...]
    """Refs that lead to the old history and were left as they are."""
    still: tuple[str, ...]
    """Where it stands yet, outside of the mind."""


def forget(
    context: Context, asked: Sequence[str], may: Callable[[str], bool], now: float, say: Say
) -> MindForgot | None:
    """`may` is asked with words on what is there; when it says no, nothing is done and None is given. Raises
    CommandError."""
    home = context.initialised()
    git = open_as_pm(context)
    mind_commit(git)
    try:
        forgetting = forgetting_of(asked)
    except ValueError as error:
        raise usage(str(error)) from None
    with kept_down(home, "would push again what it has"):
        forgetting = _with_statements(git, forgetting, now)
        files, events = _files_with(git, forgetting), _in_cell(context, home, forgetting, LOOK).events
        found = f"{counted(files, 'file')} of the mind and {counted(events, 'event')} hold it now"
        if not may(f"{found}. Its whole history is rewritten, and there is no undo"):
            return None
        return _forget(context, home, git, forgetting, files, now, say)


def _forget(
    context: Context, home: AgentPaths, git: Git, forgetting: Forgetting, files: int, now: float, say: Say
) -> MindForgot:
    at = timestamp(now)
    hashes = _in_cell(context, home, forgetting, LOOK).hashes
    say("rewriting the history of the mind")
    done = history.forget_in_history(
        git, forgetting, hashes, lambda commits: add_forgotten(home.places.var, at, commits)
    )
    _chain_anew(home, at, hashes)
    events = _in_cell(context, home, forgetting, DO).events
    if done.commits:
        say("removing the old objects")
        history.remove_old_objects(git)
    still = [*history.still_holding(git, forgetting), *_logs_with(home, forgetting)]
    return MindForgot(files, len(done.commits), done.refs, events, done.elsewhere, tuple(still))


def _with_statements(git: Git, forgetting: Forgetting, now: float) -> Forgetting:
    """With the words of the items that are named by their ids. Raises CommandError for one that is not there."""
    said: dict[str, str] = {}
    text = read_file(git, REF, layout.BELIEFS) or ""
    said |= {belief.id: belief.claim for belief in beliefs.parse(text, now).found}
    text = read_file(git, REF, layout.LONG_TERM) or ""
    said |= {item.id: item.statement for item in long_term.parse(text, now).found}
    words = list(forgetting.words)
    for id in forgetting.ids:
        if id not in said and not any(f"## {id}".encode() in content for content in _contents(git)):
            raise not_found(f"{id} is no item of the mind; 'minifram mind recall' finds items, or give its words")
        statement = " ".join(said.get(id, "").split()).rstrip(".!?")  # a quote of it ends without
        if len(statement) >= LEAST_CHARS:
            words.append(statement)
    return forgetting._replace(words=tuple(dict.fromkeys(words)))


def _contents(git: Git) -> Iterator[bytes]:
    """Of all files of the newest commit."""
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", REF).decode(errors="surrogateescape")
    ids = [words.split(" ")[2] for words in listed.split("\0") if words.startswith(("100", "120"))]
    ids = [id.partition("\t")[0] for id in ids]
    answer = git.raw("cat-file", "--batch", "--buffer", stdin="".join(f"{id}\n" for id in ids).encode())
    at = 0
    while at < len(answer):
        head, _, _ = answer[at : at + 200].partition(b"\n")
        size = int(head.split(b" ")[2])
        at += len(head) + 1
        yield answer[at : at + size]
        at += size + 1


def _files_with(git: Git, forgetting: Forgetting) -> int:
    return sum(forgetting.is_in(content) for content in _contents(git))


def _in_cell(context: Context, home: AgentPaths, forgetting: Forgetting, how: str) -> CellForgotten:
    bot = home.places.bot
    if not os.path.isdir(bot):
        return CellForgotten(0, {})
    if os.stat(bot).st_uid == context.uid:
        return forget_cell.forget_in_cell(bot, OURS, forgetting, how == DO)
    from host.container.choice import podman_at_hand
    from host.container.words import CELL_UID

    wanted = {"bot": bot, "uid": CELL_UID, "words": forgetting.words, "ids": forgetting.ids, "do": how}
    python = (sys.executable, "-s", "-P", "-m", "host.agent.forget_cell")
    said = podman_at_hand(context)(
        *("unshare", "env", f"PYTHONPATH={context.root}", *python),
        stdin=json.dumps(wanted).encode(),
        seconds=history.SECONDS,
    )
    try:
        return CellForgotten(**json.loads(said))
    except (ValueError, TypeError):
        raise failure(f"the agent's files could not be read in its user namespace: {said[:300]!r}") from None


def _chain_anew(home: AgentPaths, at: str, hashes: dict[str, str]) -> None:
    """The keep's heads say that the chain was made anew, and where the runs end in it. Before the events change: the
    same forgetting, broken off and repeated, gives the same chain."""
    path = f"{home.places.var}/{heads.FILE}"
    try:
        before = whole_file(path, HEADS_BYTES)
    except FileNotFoundError:
        return
    if not hashes:
        return
    standing = heads.standing(heads.read_heads(before))
    anew = [head._replace(hash=hashes.get(head.hash, head.hash)) for head in standing]
    gap = b"" if before.endswith(b"\n") else b"\n"
    write_whole(path, before + gap + heads.line_of(Forgotten(at)) + b"".join(map(heads.line_of, anew)), 0o600)


def _logs_with(home: AgentPaths, forgetting: Forgetting) -> list[str]:
    """Logs of the agent's main clone that hold it: records of its runs, which belong to no mind."""
    bot, found = Below(home.places.bot), list[str]()
    where = "main/minifram/logs"
    if not bot.is_directory(where):
        return []
    for entry in bot.walk(where, depth=LOGS_DEPTH, most=LOGS_FILES, seconds=LOGS_SECONDS):
        if isinstance(entry, Unseen) or len(found) >= MOST_SHOWN:
            continue
        content = bot.tail(entry.path, LOG_BYTES)
        if content and forgetting.is_in(content):
            found.append(f"{home.places.bot}/{entry.path}")
    return found
