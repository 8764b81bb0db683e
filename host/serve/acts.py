"""What the PM does on the page: each act is a command, a form names exactly what it does, and a form that is sent twice
does it once."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click
from starlette.types import Scope

from host import decide, talk, tasks, trust, up
from host.repository import open_as_pm
from host.review import have_examined
from host.serve.access import WHAT
from host.serve.agents import Agent
from host.serve.calls import Done, Problem, call, problem_of
from infra.cell.actions import VALIDATION

MOST_RESULTS = 1000
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""It stands in an address, behind an agent and an act: nobody's key is another's."""
UP_SECONDS = 90.0


class Act(NamedTuple):
    command: click.Command
    parameters: Callable[[Mapping[str, str]], dict[str, Any]]
    """The command's, from the fields of a form."""


def _fields(*names: str, **fixed: Any) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    return lambda given: {name: given.get(name, "").strip() for name in names} | fixed


ACTS: Mapping[str, Act] = {
    "tell": Act(talk.tell, _fields("text", wait=False, timeout=0.0)),
    "task": Act(
        tasks.add, lambda given: {"priority": "medium"} | _fields("text", "priority", "deadline", "background")(given)
    ),
    "approve": Act(talk.approve, _fields("id")),
    "deny": Act(talk.deny, _fields("id", "why")),
    "merge": Act(
        decide.merge, lambda given: {"branch": given.get("branch", ""), "unexamined": given.get("unexamined") == "on"}
    ),
    "reject": Act(decide.reject, _fields("branch", "because")),
    "rollback": Act(decide.rollback, _fields("ref")),
    "retry": Act(decide.retry, _fields()),
    "trust": Act(trust.trust, _fields()),
    "up": Act(up.up, _fields(rebuild=False, foreground=False, timeout=UP_SECONDS)),
    "restart": Act(up.restart, _fields(rebuild=False, timeout=UP_SECONDS)),
    "down": Act(up.down, _fields(timeout=UP_SECONDS)),
}


class Result(NamedTuple):
    """How an act ended, as the next page shows it."""

    act: str
    done: Done | None
    problem: Problem | None = None


class Results:
    """The last results, by the key of their form. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = dict[str, threading.Lock]()
        self._results = OrderedDict[str, Result]()

    def get(self, key: str) -> Result | None:
        return self._results.get(key)

    def act(self, agent: Agent, name: str, fields: Mapping[str, str], scope: Scope) -> tuple[str, Result]:
        """Do it, unless a form with the same key has done it; gives the key of the result, too. Raises Problem for what
        is no act."""
        if name not in ACTS and name != "examine":
            raise Problem(VALIDATION, f"there is no act {name[:40]!r}", 404)
        given = {key: value for key, value in fields.items() if key not in ("back", "key")}
        scope[WHAT] = {"agent": agent.name, "act": name, **given}
        if not _KEY.fullmatch(mine := fields.get("key") or secrets.token_hex(16)):
            raise Problem(VALIDATION, "key is of letters and digits, at most 64")
        key = f"{agent.name}.{name}.{mine}"
        with self._lock:
            one_at_a_time = self._under_way.setdefault(key, threading.Lock())
        with one_at_a_time:
            if (result := self.get(key)) is None:
                result = _result(agent, name, given)
                agent.look_again()
                with self._lock:
                    self._results[key] = result
                    self._under_way.pop(key, None)
                    while len(self._results) > MOST_RESULTS:
                        self._results.popitem(last=False)
        return key, result


def _result(agent: Agent, name: str, fields: Mapping[str, str]) -> Result:
    """Raises nothing but bugs."""
    try:
        if name == "examine":
            return Result(name, _examine(agent, fields.get("branch", "")))
        act = ACTS[name]
        return Result(name, call(act.command, agent.context, **act.parameters(fields)))
    except Exception as error:
        return Result(name, None, problem_of(error))


def _examine(agent: Agent, branch: str) -> Done:
    """Ask the keep, and do not wait: the page shows the verdict when it is there."""
    asked = have_examined(agent.home, open_as_pm(agent.context), branch, 0.0, lambda line: None)
    words = str(asked.lines) if asked else f"examined  {branch}"
    return Done({"branch": branch}, (words,), asked.advice if asked else "")
