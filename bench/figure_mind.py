"""Recall in a large memory: how long its index and its searches take, and what they find, beside grep and bm25s; and
what placing the memory before a run costs when there is ten times as much of it.

The index of ours is on the disk, as a run has it. bm25s has its own in memory, and makes it anew in each process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.decisions import Edit, Read, Shell, Write
from bench.mind_facts import NOTES, Note, Question, long_term, notes, questions, thesaurus_of, with_synonyms
from bench.peers import PEERS_BIN, Missing
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, Verdict, milliseconds, spread, times, times_row
from bench.tasks import tasks
from infra.cell.loop.context.clip import clip
from infra.cell.loop.seed_tools import SEED_TOOLS
from infra.cell.mind.assemble import INDEX, Opening, opening
from infra.cell.mind.files import CloneFiles
from infra.shared.conversation import to_plain
from infra.shared.mind.search import Query, search, words_of
from infra.shared.mind_settings import MindSettings
from infra.shared.paths import ROOT

ROUNDS, BEST = 30, 5
OURS, GREP, BM25S = "minifram", "grep", "bm25s"
TIME_GOAL, SIZE_GOAL = 1.1, 1.0
SHARED_GOAL, SYNONYM_GOAL = 0.95, 0.80
NOW = 1_769_860_800.0
OUTPUT_CHARS = 16_000
"""Of a result, as limits.output_chars has it at first."""


def run(directory: Path, rounds: int | None) -> Figure:
    """Raises Missing."""
    rounds = rounds or ROUNDS
    figures = (_search(directory / "search", rounds), _placing(directory, rounds))
    return Figure(
        tuple(table for figure in figures for table in figure.tables),
        tuple(verdict for figure in figures for verdict in figure.verdicts),
    )


def _search(root: Path, rounds: int) -> Figure:
    made = notes(NOTES)
    asked = questions(made)
    thesaurus = thesaurus_of(Path(ROOT, "bench/thesaurus.txt").read_text())
    kinds: dict[str, list[str]] = {
        "shared words": [each.shared for each in asked],
        "no word in common": [each.synonyms for each in asked],
        "with up to 8 synonyms": [with_synonyms(each.synonyms, thesaurus) for each in asked],
    }
    write(root, {"memory/long_term.md": long_term(made)})
    first, changed = _indexing(root, made, min(rounds, 10))
    theirs = {name: _bm25s(made, words) for name, words in kinds.items()}
    rows, seconds, found = list[tuple[str, ...]](), dict[str, dict[str, list[float]]](), dict[str, dict[str, int]]()
    for name, words in kinds.items():
        progress("mind", name)
        ours, took = _asked(words, lambda each: _ours(root, each))
        grepped, took_grep = _asked(words, lambda each: _grep(root, each))
        lists = {OURS: ours, GREP: grepped, BM25S: theirs[name]["found"]}
        found[name] = {who: _right(asked, each) for who, each in lists.items()}
        seconds[name] = {OURS: took, GREP: took_grep, BM25S: theirs[name]["seconds"]}
        rows.append((name, *(f"{found[name][who]} of {len(asked)}" for who in (OURS, GREP, BM25S))))
    indexed = [each["indexed"] for each in theirs.values()]
    timed = (
        times_row(f"{OURS}: first index", first),
        times_row(f"{BM25S}: its index, each time", indexed, first),
        times_row(f"{OURS}: one changed note", changed, first),
    )
    each_query = tuple(
        times_row(f"{who}: {name}", took, seconds[name][OURS]) for name in kinds for who, took in seconds[name].items()
    )
    shared, near = (found[name][OURS] / len(asked) for name in ("shared words", "with up to 8 synonyms"))
    tables = (
        Table(f"Right among the first {BEST}, of {NOTES:,} notes", ("", OURS, GREP, BM25S), tuple(rows)),
        Table(f"Indexing {NOTES:,} notes", TIMES_HEAD, timed),
        Table(f"One search of {NOTES:,} notes, process and all for grep", TIMES_HEAD, each_query),
    )
    best = max(found["shared words"][who] for who in (GREP, BM25S)) / len(asked)
    verdicts = (
        _share(f"recall@{BEST} with shared words (the best of the others {best:.0%})", shared, SHARED_GOAL),
        _share(f"recall@{BEST} with synonyms", near, SYNONYM_GOAL),
        Verdict(
            spread(changed).median < spread(first).median,
            f"mind: a changed note is indexed in {milliseconds(spread(changed).median)} ms, all of them in "
            f"{milliseconds(spread(first).median)} ms; goal less",
        ),
    )
    return Figure(tables, verdicts)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "scratch").mkdir(parents=True, exist_ok=True)


def _indexing(root: Path, made: Sequence[Note], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the first index, and of one note that changed; each with a search."""
    first, changed = list[float](), list[float]()
    for number in range(rounds):
        progress("mind: indexing", f"{number} of {rounds}")
        (root / INDEX).unlink(missing_ok=True)
        took, done = _timed(lambda: search(f"{root}/{INDEX}", CloneFiles(str(root)), Query("printer")).refreshed)
        assert done.added == len(made)
        first.append(took)
        other = made[number]._replace(statement=f"The heron number {number} stands here.")
        write(root, {"memory/long_term.md": long_term([*made[:number], other, *made[number + 1 :]])})
        took, done = _timed(lambda: search(f"{root}/{INDEX}", CloneFiles(str(root)), Query("heron")).refreshed)
        assert (done.added, done.removed) == (1, 1)
        changed.append(took)
        write(root, {"memory/long_term.md": long_term(made)})
        search(f"{root}/{INDEX}", CloneFiles(str(root)), Query("heron"))
        time.sleep(0.06)  # a stamp that fresh is not trusted
    search(f"{root}/{INDEX}", CloneFiles(str(root)), Query("heron"))
    return first, changed


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    got = do()
    return time.perf_counter() - began, got


def _asked(words: Sequence[str], ask: Callable[[str], list[str]]) -> tuple[list[list[str]], list[float]]:
    answers = [_timed(functools.partial(ask, each)) for each in words]
    return [found for _, found in answers], [took for took, _ in answers]


def _ours(root: Path, words: str) -> list[str]:
    found = search(f"{root}/{INDEX}", CloneFiles(str(root)), Query(words, results=BEST))
    return [hit.id for hit in found.hits if not hit.is_neighbour]


def _grep(root: Path, words: str) -> list[str]:
    """The notes with the most of the words in them, as somebody with a shell would rank them."""
    chosen = words_of(words)
    pattern = [part for word in chosen for part in ("-e", word)]
    ran = subprocess.run(
        ["grep", "-n", "-o", "-i", "-F", *pattern, f"{root}/memory/long_term.md"], capture_output=True, text=True
    )
    counts: dict[int, set[str]] = {}
    for line in ran.stdout.splitlines():
        number, _, word = line.partition(":")
        counts.setdefault(_note_at(int(number)), set()).add(word.casefold())
    best = sorted(counts, key=lambda note: (-len(counts[note]), note))[:BEST]
    return [f"L-{note:06}" for note in best]


def _note_at(line: int) -> int:
    """A note takes five lines, behind two."""
    return (line - 3) // 5 + 1


def _bm25s(made: Sequence[Note], words: Sequence[str]) -> dict[str, Any]:
    plain = [{"id": note.id, "text": f"{note.subject} {note.statement}"} for note in made]
    asked = json.dumps({"notes": plain, "questions": words, "best": BEST})
    try:
        script = f"{ROOT}/bench/mind_peers.py"
        ran = subprocess.run(
            [f"{PEERS_BIN}/python", "-I", script], input=asked.encode(), stdout=subprocess.PIPE, check=True
        )
    except FileNotFoundError:
        raise Missing("bm25s is missing; run 'make setup-bench', then again") from None
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def _right(asked: Sequence[Question], found: Sequence[Sequence[str]]) -> int:
    return sum(question.note in ids[:BEST] for question, ids in zip(asked, found, strict=True))


def _share(what: str, share: float, goal: float) -> Verdict:
    met = share >= goal
    return Verdict(met, f"mind: {what}: {share:.1%}; goal {goal:.0%}: {'met' if met else 'MISSED'}")


def _placing(directory: Path, rounds: int) -> Figure:
    """Placing by turns in a memory of a month and in one of ten months."""
    small, large = directory / "small", directory / "large"
    for root, months in ((small, 1), (large, 10)):
        write(root, memory_of(months))
    asked = questions(notes(NOTES // 10), rounds)  # of the first month, which is in both
    found = {small: 0, large: 0}
    took: dict[Path, list[float]] = {small: [], large: []}
    sizes: dict[Path, list[int]] = {small: [], large: []}
    time.sleep(0.06)
    for number in range(-2, rounds):
        progress("mind: placing", f"{number} of {rounds}")
        for root in (small, large):
            question = asked[max(0, number)]
            seconds, made = _timed(functools.partial(_opened, root, question.shared))
            if number >= 0:
                took[root].append(seconds)
                sizes[root].append(made.placed.tokens)
                sections = {section for part in made.placed.parts for section in part.sections}
                found[root] += f"memory/long_term.md#{question.note}" in sections
    tokens = {root: spread(list(map(float, each))).median for root, each in sizes.items()}
    ratio = spread(took[large]).median / spread(took[small]).median
    size, most = tokens[large] / tokens[small], max(sizes[large])
    memory, conversations = _bytes_of(_opened(large, asked[0].shared)), _conversations(directory / "work")
    shares = [memory / (memory + each) for each in conversations]
    rows = (times_row("a month", took[small]), times_row("ten months", took[large], took[small]))
    budget = MindSettings().context_tokens
    verdicts = (
        _share("the note that is asked for is placed, in a month's memory", found[small] / rounds, SHARED_GOAL),
        _share("the same at 10x memory", found[large] / rounds, SHARED_GOAL),
        _at_most("time of placing at 10x memory", ratio, TIME_GOAL),
        _at_most("tokens placed at 10x memory", size, SIZE_GOAL),
        Verdict(most <= budget, f"mind: at most {most:,} tokens placed; the budget is {budget:,}"),
        Verdict(
            None,
            f"mind: {memory:,} bytes of memory before a run, {spread(shares).median:.1%} of a conversation (the median "
            f"of {len(shares)} tasks of `talk`, {min(shares):.1%} to {max(shares):.1%}); no goal, shown",
        ),
    )
    return Figure((Table("Placing the memory before a run", TIMES_HEAD, rows),), verdicts)


def memory_of(months: int) -> dict[str, str]:
    """So many months at 1,000 notes, 30 summaries and 100 finished tasks a month."""
    made = notes(NOTES // 10 * months)
    boot = {
        f"boot/{name}.md": f"# {name}\n" + "What holds for every run stands here, in a few lines.\n" * 20
        for name in ("identity", "operating_principles", "invariants")
    }
    days = {
        f"logs/daily/2025-{1 + day // 30:02}-{1 + day % 30:02}.md": "# A day\n\n## Work\n"
        + "".join(f"- {note.statement}\n" for note in made[day * 10 : day * 10 + 10])
        for day in range(30 * months)
    }
    done = {
        f"tasks/completed/TASK-{number:04}.md": f"# Task: TASK-{number:04}\n\n## Summary\n{note.statement}\n"
        for number, note in enumerate(made[: 100 * months])
    }
    return {
        **boot,
        **days,
        **done,
        "skills/index.md": "# Skills\n" + "- learned/one: what it is for\n" * 20,
        "memory/working.md": "# Working memory\n\n## Now\nNothing is half done.\n",
        "memory/long_term.md": long_term(made),
        "memory/beliefs.md": "# Beliefs\n",
    }


def _opened(root: Path, words: str) -> Opening:
    settings = MindSettings()
    return opening(str(root), words, settings.context_tokens, settings.recall_results, NOW)


def _bytes_of(made: Opening) -> int:
    return sum(len(json.dumps([dict(call.args), got.payload], ensure_ascii=False).encode()) for call, got in made.reads)


def _conversations(directory: Path) -> list[int]:
    """Bytes of the tasks of `talk` as conversations: what stands before them, calls and results."""
    with open(f"{ROOT}/SYSTEM.md", "rb") as file:
        before = len(file.read()) + sum(len(json.dumps(to_plain(tool))) for tool in SEED_TOOLS)
    sizes = list[int]()
    for number, task in enumerate(tasks()):
        progress("mind: conversations", task.name)
        place = directory / str(number)
        write(place, dict(task.files))
        sizes.append(before + sum(_bytes_of_act(place, act) for step in task.steps for act in step))
    return sizes


def _bytes_of_act(place: Path, act: Shell | Write | Read | Edit) -> int:
    match act:
        case Shell():
            ran = subprocess.run(["bash", "-c", act.command], cwd=place, capture_output=True, text=True, env=os.environ)
            result = clip(ran.stdout + ran.stderr, OUTPUT_CHARS)
        case Read():
            result = clip((place / act.path).read_text(), OUTPUT_CHARS)
        case Write():
            write(place, {act.path: act.content})
            result = "written"
        case Edit():
            text = (place / act.path).read_text()
            (place / act.path).write_text(text.replace(act.old, act.new, 1))
            result = "replaced 1"
    return len(json.dumps([*act, result], ensure_ascii=False).encode())


def _at_most(what: str, ratio: float, goal: float) -> Verdict:
    met = ratio <= goal
    return Verdict(met, f"mind: {what}: {times(ratio)}; goal at most {goal:g}x: {'met' if met else 'MISSED'}")
