"""`minifram runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.runs import Step

TEXT_CHARS = 400


@click.command("runs", cls=Verb)
@click.argument("run", required=False)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many runs.")
@click.option("--spans", "as_spans", is_flag=True, help="RUN as OpenTelemetry spans: OTLP in JSON, one a line.")
@json_option
@click.pass_context
def verb(ctx: click.Context, run: str | None, number: int, as_spans: bool, as_json_: bool) -> int:
    """The agent's runs, each one unit of work; with RUN (the beginning of its name is enough) all steps of that one.

    They are the agent's own record in its clones, 'logs/transcripts'; what has the shape of a key is not shown.

    \b
    Examples:
      minifram runs
      minifram runs 2026-01-31T10
      minifram runs 2026-01-31T10 --json
      minifram runs 2026-01-31T10 --spans > spans.jsonl
    """
    from host.agent import runs
    from host.display import as_json, counted, one_line, plain

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    if as_spans:
        from host.agent.spans import spans

        if run is None or as_json_:
            raise click.UsageError("--spans shows one run: name it, and leave out --json")
        for line in spans(run, runs.steps(home, run)):
            screen.result(line)
        return Exit.OK
    if run is not None:
        for step in runs.steps(home, run):
            screen.result(as_json("run-step", step) if as_json_ else shown(step))
        return Exit.OK
    found = runs.runs(home, number)
    if as_json_:
        screen.result(as_json("runs", {"runs": plain(found)}))
        return Exit.OK
    for each in found:
        how = one_line(f"{each.end or 'goes on, or was cut short'} {each.failure}".strip(), TEXT_CHARS)
        name, branch = screen.strong(one_line(each.run, 80)), one_line(each.branch, 60)
        screen.result(f"{name}  {branch}  {counted(each.steps, 'step')}  {how}")
    if not found:
        screen.progress("no run yet; 'minifram tell' gives the agent something to do")
    return Exit.OK


def shown(step: Step) -> str:
    import json

    from host.display import one_line

    facts = step.facts
    match step.kind:
        case "answered":
            parts = facts.get("content")
            blocks = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            said = [str(block.get("text", "")) for block in blocks]
            words = f"{facts.get('stop_reason', '')} {' '.join(filter(None, said))}"
        case "acted":
            call = facts.get("call")
            given = json.dumps(call.get("input") if isinstance(call, dict) else None, ensure_ascii=False)
            words = f"{facts.get('tool_name', '')} {given} -> {facts.get('error_code') or facts.get('status', '')}"
        case "shortened":
            words = f"{facts.get('blocks', 0)} texts, {_tokens(facts)}"
        case "summed_up":
            words = (
                f"for {facts.get('for', '')}, by {facts.get('by', '')}, {_tokens(facts)}: {facts.get('content', '')}"
            )
        case "ended":
            words = f"{facts.get('end', '')} {facts.get('failure', '')}"
        case _:
            words = str(facts.get("schema", ""))
    took = f" {facts['duration_ms']} ms" if "duration_ms" in facts else ""
    return one_line(f"{step.at} {step.kind:<8} {facts.get('step_id') or ''!s:<6}{took} {words}".rstrip(), TEXT_CHARS)


def _tokens(facts: dict[str, Any]) -> str:
    return f"{facts.get('tokens_before', '?')} -> {facts.get('tokens_after', '?')} tokens"
