"""`minifram runs`: the agent's runs, by the transcripts in its clones, which are its own words and read as such, and by
the keep's ledger; the steps of one; and its replay, with nobody asked and nothing done."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from host.cli import command
from host.errors import conflict, failure, not_found
from host.home import AgentPaths, Context
from host.screen import Say, Shown, bad, counted, duration, good, one_line, plain, seconds_of, strong
from infra.cell.clones import with_clones
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.paths import TRANSCRIPTS
from infra.shared.safe_files import Below, Entry, opened_file
from infra.shared.text import cut, first_line

if TYPE_CHECKING:
    from infra.cell.loop.replay import Replay

SUFFIX = ".jsonl"
TAIL_BYTES = 64 << 10
LINE_BYTES = 2 << 20
"""A longer line is passed over."""
MOST_BYTES, LEDGER_BYTES = 32 << 20, 64 << 20
"""Of the beginning of one run; of the ledger's end."""
MOST_RUNS = 2000
"""Of one clone."""
TEXT_CHARS, DIFFERENCE_CHARS = 400, 300


class Step(NamedTuple):
    """One line of a transcript."""

    at: str
    kind: str
    facts: dict[str, Any]


class StepRow(NamedTuple):
    """A step of a run, for people."""

    id: str
    kind: str
    words: str
    result: str
    took: str
    is_bad: bool


NO_STEP = Step("", "", {})


@command
@click.argument("run", required=False)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many runs.")
@click.option("--replay", "replays", is_flag=True, help="Replay RUN by the installed loop; 8 when something differs.")
def runs(context: Context, say: Say, run: str | None, number: int, replays: bool) -> Iterator[Shown]:
    """The agent's runs, the newest last: end, time, tokens and money, and what each was about; with RUN (the beginning
    of its name is enough) all steps of that one.

    They are the agent's own record in its clones, 'logs/transcripts'. Tokens and money are the keep's, from the ledger.
    A replay calls no provider and executes nothing; a difference means that the installed version handles the same
    replies differently from the version that ran, or that the transcript was changed.

    \b
    Examples:
      minifram runs
      minifram runs 2026-01-31T10 --json
      minifram runs 2026-01-31T10 --replay
    """
    home = context.initialised()
    if run is None:
        if replays:
            raise click.UsageError("--replay replays one run: name it")
        found = last_runs(home, number)
        advice = "" if found else "no run yet; 'minifram tell' gives a directive"
        yield Shown({"runs": found}, (line for each in found for line in _run_lines(each)), advice)
    elif replays:
        name, replay = replayed(home, run)
        code = Exit.FINDINGS if replay.differences else Exit.OK
        yield Shown({"run": name, **plain(replay)}, _replay_lines(name, replay), code=code, schema="replay")
    else:
        for step in steps_of(home, *named(home, run)):
            yield Shown(step, step_line(step), schema="run-step")


def named(home: AgentPaths, run: str) -> tuple[str, str]:
    """Branch and whole name of a run, by the beginning of its name. Raises CommandError when there is none, or more
    than one."""
    found = sorted(each for each in names_of(home) if each[1].startswith(run))
    if not found:
        raise not_found(f"no such run: {run!r}; 'minifram runs' lists them")
    if len(found) > 1:
        which = one_line(", ".join(name for _, name in found[:3]), 400)
        raise conflict(f"{len(found)} runs begin with {run!r}; give more of the name, such as {which}")
    return found[0]


def names_of(home: AgentPaths) -> Iterator[tuple[str, str]]:
    """Branch and name of each transcript."""
    bot = Below(home.places.bot)
    for branch in with_clones(bot):
        for entry in bot.walk(f"{branch}/minifram/{TRANSCRIPTS}", depth=0, most=MOST_RUNS, enter=lambda _: False):
            if isinstance(entry, Entry) and entry.path.endswith(SUFFIX) and stat.S_ISREG(entry.status.st_mode):
                yield branch, os.path.basename(entry.path).removesuffix(SUFFIX)


def steps_of(home: AgentPaths, branch: str, name: str) -> Iterator[Step]:
    """The lines of a run, within its first `MOST_BYTES`. Raises OSError."""
    with Below(home.places.bot).opened(_path_of(branch, name)) as file:
        while file.tell() < MOST_BYTES and (line := file.readline(LINE_BYTES)):
            if step := _step(line):
                yield step


def last_runs(home: AgentPaths, number: int) -> list[dict[str, Any]]:
    """The last `number` runs, oldest first, as --json shows them: by the first and the last lines of their transcripts,
    which the agent wrote, and by the ledger. Raises OSError."""
    tokens, nano_usd = _costs(home)
    newest = sorted(((name, branch) for branch, name in names_of(home)), reverse=True)[:number]
    return [
        _run(home, branch, name) | {"tokens": tokens[name], "usd": round(nano_usd[name] / 1e9, 6)}
        for name, branch in reversed(newest)
    ]


def _run(home: AgentPaths, branch: str, name: str) -> dict[str, Any]:
    tail = Below(home.places.bot).tail(_path_of(branch, name), TAIL_BYTES)
    steps = [step for step in map(_step, tail.splitlines()) if step]
    first, last = next(steps_of(home, branch, name), NO_STEP), steps[-1] if steps else NO_STEP
    ended = last.facts if last.kind == "ended" else {}
    answered = [step.facts.get("step_id") for step in steps if step.kind == "answered"]
    done = str(ended.get("steps", answered[-1] if answered else 0))
    end = seconds_of(last.at) or 0.0
    return {
        "run": name,
        "branch": branch,
        "directives": _directives(first),
        "at": last.at,
        "seconds": max(0, int(end - (seconds_of(first.at) or end))),
        "end": str(ended.get("end", "")),  # empty while it goes on, or when it was cut short
        "steps": int(done) if done.isdecimal() and len(done) < 10 else 0,
        "failure": str(ended.get("failure", "")),
    }


def _directives(opened: Step) -> tuple[str, ...]:
    """The first line of each, at most ten, from the page that the run was given; else its id."""
    ids, request = opened.facts.get("directives"), opened.facts.get("request")
    system = request.get("system") if isinstance(request, dict) else None
    texts = dict[str, str]()
    for page in system if isinstance(system, list) else []:
        with contextlib.suppress(comms.CommsError):
            texts |= {each.id: first_line(each.text) for each in comms.directives(str(page))}
    return tuple(texts.get(str(id), str(id)) for id in (ids[:10] if isinstance(ids, list) else []))


def _costs(home: AgentPaths) -> tuple[Counter[str], Counter[str]]:
    """Tokens and billionths of a dollar of each run. Raises OSError."""
    from infra.keep.ledger.lines import Settled, line_of

    tokens, nano_usd = Counter[str](), Counter[str]()
    with contextlib.suppress(FileNotFoundError), opened_file(home.places.ledger) as file:
        file.seek(max(0, file.seek(0, 2) - LEDGER_BYTES))
        for line in map(line_of, file):
            if isinstance(line, Settled) and line.run:
                tokens[line.run] += sum(line.usage)
                nano_usd[line.run] += line.nano_usd
    return tokens, nano_usd


def _path_of(branch: str, name: str) -> str:
    return f"{branch}/minifram/{TRANSCRIPTS}/{name}{SUFFIX}"


def _step(line: bytes) -> Step | None:
    """None for a line that is none of a transcript's."""
    try:
        facts = plain(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return Step(str(facts.pop("at", "")), str(facts.pop("kind", "")), facts) if isinstance(facts, dict) else None


def replayed(home: AgentPaths, run: str) -> tuple[str, Replay]:
    """Its whole name and the result. Raises CommandError for a run that is missing or cannot be read."""
    from infra.cell.loop.record import parse
    from infra.cell.loop.replay import replay

    branch, name = named(home, run)
    with Below(home.places.bot).opened(_path_of(branch, name)) as file:
        content = file.read(MOST_BYTES)
    try:
        return name, replay(parse(content))
    except ValueError as error:
        raise failure(f"the record of run {run!r} cannot be used: {error}") from None


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    end = one_line(f"{run['end'] or 'goes on, or was cut short'} {run['failure']}".strip(), TEXT_CHARS)
    took = f"{duration(run['seconds'])}  {run['tokens']:,} tokens  ${run['usd']:.4f}"
    name, branch = strong(one_line(run["run"], 80)), one_line(run["branch"], 60)
    yield f"{name}  {branch}  {counted(run['steps'], 'step')}  {took}  {end}"
    yield from (f"    {one_line(text, 120)}" for text in run["directives"])


def row_of(step: Step) -> StepRow:
    """A result is given for a call, and for what failed."""
    facts = step.facts
    took = f"{facts['duration_ms']} ms" if "duration_ms" in facts else ""
    result, is_bad = "", False
    match step.kind:
        case "answered":
            completion = facts.get("completion")
            content = completion.get("content") if isinstance(completion, dict) else None
            blocks = content if isinstance(content, list) else []
            words = "\n".join(filter(None, (str(each.get("text", "")) for each in blocks if isinstance(each, dict))))
        case "acted":
            words = f"{facts.get('tool_name', '')} {cut(json.dumps(facts.get('args'), ensure_ascii=False), 2000)}"
            result, is_bad = str(facts.get("content", "")), facts.get("status") != "ok"
            result = f"{facts.get('status', '')} ({facts.get('error_code', '')}): {result}" if is_bad else result
        case "told" | "ended":
            words = "\n".join(str(facts[key]) for key in ("own", "pm", "runtime", "end") if facts.get(key))
            result, is_bad = str(facts.get("failure", "")), bool(facts.get("failure"))
        case _:
            words = " ".join(f"{key}={value}" for key, value in facts.items() if isinstance(value, str | int | float))
    return StepRow(str(facts.get("step_id", "")), step.kind, words, result, took, is_bad)


def step_line(step: Step) -> str:
    """For a terminal."""
    row = row_of(step)
    outcome = f" -> {row.result if row.is_bad else 'ok'}" if row.is_bad or row.kind == "acted" else ""
    head = f"{step.at} {row.kind:<8} {row.id:<6} {row.took}".rstrip()
    # The words are cut, so that the outcome stays on the line.
    return one_line(f"{head} {cut(row.words, TEXT_CHARS // 2)}{outcome}".partition("\n")[0], TEXT_CHARS)


def _replay_lines(name: str, found: Replay) -> Iterator[str]:
    for each in found.differences:
        yield bad(one_line(each.where, 20))
        yield f"  recorded  {one_line(each.recorded, DIFFERENCE_CHARS)}"
        yield f"  replayed  {one_line(each.replayed, DIFFERENCE_CHARS)}"
    different = counted(len(found.differences), "difference") if found.differences else good("all as recorded")
    yield f"{one_line(name, 80)}: {counted(found.events, 'event')}, {different}"
