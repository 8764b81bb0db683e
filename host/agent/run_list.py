"""The agent's runs as a list: by its transcript what each was about and how it ended, by the ledger what it cost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from host.agent.runs import LINE_BYTES, Step, lines_of, names_of, path_of, states_of, step_of
from host.display import seconds_of
from host.errors import CommandError
from host.paths import AgentPaths
from host.repository.open import open_repository
from host.repository.review import main_commit, page_at
from infra.shared import comms
from infra.shared.report_titles import first_line
from infra.shared.repository.git import GitError
from infra.shared.run_states import stop_reason_of
from infra.shared.safe_files import Below, opened_file

TAIL_BYTES = 64 * 1024
LEDGER_BYTES = 64 << 20
"""Of its end: some hundred thousand calls."""
SEARCHED_BYTES = 64 << 20
"""Of one run."""


class Run(NamedTuple):
    """One run, by the first and the last lines of its transcript."""

    run: str
    branch: str
    directives: tuple[str, ...]
    """The first line of each; the id of one that stands nowhere any more."""
    at: str
    """Of the last line."""
    seconds: int
    """From its first line to its last."""
    end: str
    """Empty while it goes on, or when it was cut short."""
    state: str
    """The last that is on record; empty for a run of a version that wrote none."""
    steps: int
    failure: str
    tokens: int
    usd: float
    """As the ledger has it, which is the keep's; 0 for what never asked a model."""
    bytes: int


class Cost(NamedTuple):
    tokens: int = 0
    nano_usd: int = 0


def last_runs(home: AgentPaths, number: int, words: str = "") -> list[Run]:
    """The last `number` runs in which all of `words` occur, oldest first. Raises OSError."""
    costs = _costs(home)
    wanted = [json.dumps(word.lower())[1:-1].encode() for word in words.split()]
    found: list[Run] = []
    for name, branch in sorted(((name, branch) for branch, name in names_of(home)), reverse=True):
        if len(found) == number:
            break
        run = _run(home, branch, name, costs.get(name, Cost()))
        if not wanted or _mentions(home, run, wanted):
            found.append(run)
    return found[::-1]


def _run(home: AgentPaths, branch: str, name: str, cost: Cost) -> Run:
    path = path_of(branch, name)
    piece = Below(home.places.bot).piece(path, TAIL_BYTES)
    steps = [step for step in map(step_of, piece.content.splitlines() if piece else []) if step]
    last = steps[-1] if steps else Step("", "", {})
    first = step_of(next(lines_of(home, path, LINE_BYTES), b"")) or Step("", "", {})
    ended = last.facts if last.kind == "ended" else {}
    said = str(ended.get("end", ""))
    reason = stop_reason_of(said)
    answered = [str(step.facts.get("step_id")) for step in steps if step.kind == "answered"]
    done = str(ended.get("steps", answered[-1] if answered else 0))
    return Run(
        run=name,
        branch=branch,
        directives=_directives(home, first),
        at=last.at,
        seconds=max(0, int((seconds_of(last.at) or 0.0) - (seconds_of(first.at) or seconds_of(last.at) or 0.0))),
        end=reason.value if reason else said,
        state=next((states[-1] for states in map(states_of, reversed(steps)) if states), ""),
        steps=int(done) if done.isdecimal() and len(done) < 10 else 0,
        failure=str(ended.get("failure", "")),
        tokens=cost.tokens,
        usd=round(cost.nano_usd / 1e9, 6),
        bytes=piece.end if piece else 0,
    )


def _directives(home: AgentPaths, opened: Step) -> tuple[str, ...]:
    """The run was given the page with them; what is redacted there is looked up on main's."""
    ids, system = opened.facts.get("directives"), opened.facts.get("system")
    if not isinstance(ids, list):
        return ()
    texts = _texts(str(part) for part in (system if isinstance(system, list) else []))
    if not texts.keys() >= set(map(str, ids)):
        with contextlib.suppress(CommandError, GitError):  # a repository that cannot be read is other commands' to tell
            git = open_repository(home)
            texts = _texts([page_at(git, main_commit(git))]) | texts
    return tuple(texts.get(str(id), str(id)) for id in ids)


def _texts(pages: Iterator[str] | list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for page in pages:
        with contextlib.suppress(comms.CommsError):
            found |= {each.id: first_line(each.text) for each in comms.directives(page)}
    return found


def _mentions(home: AgentPaths, run: Run, wanted: list[bytes]) -> bool:
    """In its directives, or in what was said, called and answered; every run's opening holds the whole page."""
    missing = {word for word in wanted if word not in json.dumps(run.directives).lower().encode()}
    for number, line in enumerate(lines_of(home, path_of(run.branch, run.run), SEARCHED_BYTES)):
        if not missing:
            break
        if number:
            lower = line.lower()
            missing -= {word for word in missing if word in lower}
    return not missing


def _costs(home: AgentPaths) -> Mapping[str, Cost]:
    """What each run cost. Raises OSError."""
    from infra.keep.ledger.ledger import Settled, line_of, settled_cost

    found: dict[str, Cost] = {}
    with contextlib.suppress(FileNotFoundError), opened_file(home.places.ledger) as file:
        file.seek(max(0, file.seek(0, 2) - LEDGER_BYTES))
        for line in map(line_of, file):
            if isinstance(line, Settled) and line.run:
                cost, before = settled_cost(line), found.get(line.run, Cost())
                found[line.run] = Cost(before.tokens + cost.tokens, before.nano_usd + cost.nano_usd)
    return found
