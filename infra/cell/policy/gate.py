"""The gate of a runner: looks at a call, asks the policy, and the PM where that says so.

It touches the file system (where a path leads) and, through `ask`, the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infra.cell.actions import DENIED
from infra.cell.mind.notes import NOTE
from infra.cell.policy.rules import FILE_TOOLS, Call, Names, decide
from infra.cell.tools.tool import Gate, Tool, Verdict
from infra.shared.policy import ALLOW, ASK, DENY, EXECUTE, READ, Policy

INSTEAD = "Do something else, or say in your report why it is needed"

Ask = Callable[[str, Mapping[str, Any], str], Verdict]
"""What the PM says of a call of this tool with these arguments, which is asked for the given reason."""


def gate_of(policy: Policy, checkout: str, ask: Ask) -> Gate:
    def gate(tool: Tool, given: Mapping[str, Any]) -> Verdict:
        decisions = [decide(policy, call) for call in _calls(checkout, tool, given)]
        decision = max(reversed(decisions), key=lambda each: (ALLOW, ASK, DENY).index(each.do))
        if decision.do == ALLOW:
            return Verdict(True, flags=decision.flags)
        if decision.do == ASK:
            verdict = ask(tool.name, given, decision.why)
            return verdict._replace(flags=(*decision.flags, *verdict.flags))
        words = f"the PM's policy denies this ({decision.why}). {INSTEAD}"
        return Verdict(False, words, DENIED, (*decision.flags, DENIED))

    return gate


def _calls(checkout: str, tool: Tool, given: Mapping[str, Any]) -> Sequence[Call]:
    """What the policy looks at. A note's words are words, whatever hosts they name, and its check is a command."""
    if tool.name == NOTE:
        check = given.get("check", "").strip()
        return (Call(NOTE, READ, {}), *([Call("bash", EXECUTE, {"command": check})] if check else []))
    file = file_at(checkout, given["path"]) if tool.name in FILE_TOOLS else ()
    return (Call(tool.name, tool.side_effect_class.value, given, file),)


def file_at(checkout: str, given: str) -> tuple[Names, ...]:
    """Where a path of the model's seems to lead, and where it leads."""
    if "\0" in given:
        return ()  # no tool takes it
    path = os.path.join(os.path.abspath(checkout), given)
    return tuple(_names(look(path), look(checkout)) for look in (os.path.abspath, os.path.realpath))


def _names(path: str, root: str) -> Names:
    inside = os.path.relpath(path, root)
    return (path,) if inside.partition("/")[0] == os.pardir else (inside, path)
