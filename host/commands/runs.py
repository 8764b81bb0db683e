"""Commands on the agent's runs and on what it and the keep recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from host.commands.options import command
from host.commands.status import web_line
from host.context import Context
from host.display import Screen, counted, duration, harmless, harmless_lines, one_line, plain
from host.errors import not_contained
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.egress import Egress
    from host.agent.logs import Line
    from host.agent.run_list import Run
    from host.agent.runs import Step
    from infra.cell.loop.replay import Replay

TEXT_CHARS = 400
DIFFERENCE_CHARS = 300
ARGUMENTS_CHARS = 200
DIRECTIVES_SHOWN = 3


@command
@click.argument("run", required=False)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many runs.")
@click.option("--find", "words", default="", metavar="WORDS", help="Only runs in which all these words occur.")
@click.option("--spans", "as_spans", is_flag=True, help="RUN as OpenTelemetry spans: OTLP in JSON, one a line.")
def runs(context: Context, screen: Screen, run: str | None, number: int, words: str, as_spans: bool) -> None:
    """The agent's runs, the newest last: end, time, tokens and money, and what each was about; with RUN (the beginning
    of its name is enough) all steps of that one.

    They are the agent's own record in its clones, 'logs/transcripts'; strings in the format of a key are hidden. Tokens
    and money are the keep's, from the ledger. --find looks at directives, replies, calls and results.

    \b
    Examples:
      minifram runs
      minifram runs --find "parser test"
      minifram runs 2026-01-31T10
      minifram runs 2026-01-31T10 --json
      minifram runs 2026-01-31T10 --spans > spans.jsonl
    """
    from host.agent.run_list import last_runs
    from host.agent.runs import steps_of

    home = context.initialised()
    if as_spans:
        from host.agent.spans import spans

        if run is None or screen.schema:
            raise click.UsageError("--spans shows one run: name it, and leave out --json")
        screen.show(None, spans(run, steps_of(home, run)), verbatim=True)
    elif run is not None:
        for step in steps_of(home, run):
            screen.show(step, shown(step), "run-step", verbatim=True)
    else:
        found = last_runs(home, number, words)
        screen.show({"runs": plain(found)}, (line for each in found for line in _run(each, screen)), verbatim=True)
        if not found:
            none = f"no run mentions {words!r}" if words else "no run yet"
            screen.advise(f"{none}; " + ("'minifram runs' lists all" if words else "'minifram tell' gives a directive"))


def _run(run: Run, screen: Screen) -> Iterator[str]:
    underway = f"goes on, or was cut short{f', in {run.state}' if run.state else ''}"
    end = one_line(f"{run.end or underway} {run.failure}".strip(), TEXT_CHARS)
    took = f"{duration(run.seconds)}  {run.tokens:,} tokens  ${run.usd:.4f}"
    name = screen.strong(one_line(run.run, 80))
    yield f"{name}  {one_line(run.branch, 60)}  {counted(run.steps, 'step')}  {took}  {end}"
    yield from (f"    {one_line(text, 120)}" for text in run.directives[:DIRECTIVES_SHOWN])
    if len(run.directives) > DIRECTIVES_SHOWN:
        yield f"    and {counted(len(run.directives) - DIRECTIVES_SHOWN, 'more directive')}"


def shown(step: Step) -> str:
    from host.agent.runs import states_of

    facts = step.facts
    tokens = f"{facts.get('tokens_before', '?')} -> {facts.get('tokens_after', '?')} tokens"
    match step.kind:
        case "answered":
            parts = facts.get("content")
            blocks = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            said = [str(block.get("text", "")) for block in blocks]
            words = f"{facts.get('stop_reason', '')} {' '.join(filter(None, said))}"
        case "acted":
            call = facts.get("call")
            given = json.dumps(call.get("input") if isinstance(call, dict) else None, ensure_ascii=False)
            words = f"{facts.get('tool_name', '')} {_cut(given)} -> {_outcome(facts)}"
        case "shortened":
            words = f"{facts.get('blocks', 0)} texts, {tokens}"
        case "summed_up":
            words = f"for {facts.get('for', '')}, by {facts.get('by', '')}, {tokens}: {facts.get('content', '')}"
        case "ended":
            words = f"{facts.get('end', '')} {facts.get('failure', '')}"
        case _:
            words = str(facts.get("schema", ""))
    took = f" {facts['duration_ms']} ms" if "duration_ms" in facts else ""
    states = "".join(f" {state}" for state in states_of(step))
    head = f"{step.at} {step.kind:<8} {facts.get('step_id') or ''!s:<6}{states}{took}"
    return one_line(f"{head} {words}".rstrip(), TEXT_CHARS)


def _outcome(facts: dict[str, Any]) -> str:
    """How a call ended; of a push and of a refusal what that word alone does not say."""
    status, code, content = (str(facts.get(key) or "") for key in ("status", "error_code", "content"))
    outcome = code if code and status in _NOT_DONE else status
    if facts.get("detail") and outcome == code:
        outcome = f"{code} ({facts['detail']})"
    if refused := _REFUSED_PUSH.search(content):
        return f"{outcome}, but its push was refused: {refused[0].strip()}"
    if outcome not in ("denied", "awaiting_approval"):
        return outcome
    given = facts.get("policy_flags")
    flags = [str(flag) for flag in given if flag != outcome] if isinstance(given, list) else []
    by = ", ".join(_WHOSE.get(flag.partition(" ")[0], "{}").format(flag) for flag in flags)
    return f"{outcome} by {by or 'the policy'}: {content.strip().partition(chr(10))[0]}"


_NOT_DONE = ("failed", "error")
"""Statuses that an error code explains; the second is that of the version before."""
_REFUSED_PUSH = re.compile(r"^ *! \[(?:remote )?rejected\].*$|^error: failed to push some refs.*$", re.MULTILINE)
"""git's words. A pipeline's status is that of its last command."""
_WHOSE = {
    "rule": "the policy's {}",
    "denied": "you ({})",
    "asked": "the policy, which asked you ({})",
    "private_address": "the policy ({})",
}


def _cut(given: str) -> str:
    """So much of the arguments that the outcome stays on the line."""
    return given if len(given) <= ARGUMENTS_CHARS else f"{given[:ARGUMENTS_CHARS]}…"


@command
@click.argument("run")
def replay(context: Context, screen: Screen, run: str) -> int:
    """Replay a run through the installed loop, with the recorded replies and results; exits with 8 when something
    differs. No provider is called and no tool is executed.

    RUN is the beginning of its name, as 'minifram runs' shows it. A difference means that the installed version
    handles the same replies differently from the version that ran, or that the transcript was changed.

    \b
    Examples:
      minifram replay 2026-01-31T10
      minifram replay 2026-01-31T10 --json
    """
    from host.agent.runs import replayed

    name, found = replayed(context.initialised(), run)
    screen.show({"run": name, **plain(found)}, _replayed(name, found, screen), verbatim=True)
    return Exit.FINDINGS if found.differences else Exit.OK


def _replayed(name: str, found: Replay, screen: Screen) -> Iterator[str]:
    for each in found.differences:
        yield screen.bad(one_line(each.where, 20))
        yield f"  recorded  {one_line(each.recorded, DIFFERENCE_CHARS)}"
        yield f"  replayed  {one_line(each.replayed, DIFFERENCE_CHARS)}"
    different = counted(len(found.differences), "difference") if found.differences else screen.good("all as recorded")
    yield f"{one_line(name, 80)}: {counted(found.events, 'event')}, {different}"


@command
@click.argument("run")
@click.argument("text", default="")
@click.option("--from", "step", type=click.IntRange(min=1), help="The step to continue from; the last if not given.")
@click.option("--model", help="The model that is asked first, of those in your settings.")
def resume(context: Context, screen: Screen, run: str, text: str, step: int | None, model: str | None) -> None:
    """Have the agent continue a run after one of its steps, as a new run: the same conversation up to there, then a
    different continuation. TEXT says what to do differently.

    This adds a directive, which you can also write by hand: 'Go on from run RUN after step 7.' Effects of later steps
    remain; the model is told to check.

    \b
    Examples:
      minifram resume 2026-01-31T10 --from 7 "leave the parser as it is"
      minifram resume 2026-01-31T10 --model claude-opus-5-5
    """
    from host.agent.runs import resuming
    from host.repository.comms import add_directive
    from host.repository.open import open_as_pm

    words = resuming(context.initialised(), run, step, model, text)
    directive = add_directive(open_as_pm(context), words)
    told = f"told  {directive.commit[:12]} directive {directive.id}: {one_line(words, 200)}"
    screen.show(directive, told)


@command
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come; end with Ctrl-C.")
@click.option(
    "--source",
    type=click.Choice(["watcher", "doors", "runner", "boot", "all"]),
    default="all",
    help="Whose lines (default: all).",
)
@click.option("-n", "--lines", type=click.IntRange(min=0), default=100, show_default=True, help="How many at first.")
def logs(context: Context, screen: Screen, follow: bool, source: str, lines: int) -> None:
    """The logs of watcher and agent, in chronological order.

    'watcher' and 'doors' are the keep's own logs; 'runner' is the output of each version of the agent, 'boot' its
    boot log. With -f --json each line is a JSON object of its own.

    \b
    Examples:
      minifram logs -n 20
      minifram logs -f --source watcher
    """
    from host.agent.logs import follow_lines, last_lines

    places = context.initialised().places
    if follow:
        for line in follow_lines(places, source, lines):
            screen.show(line, _line(line, screen), "log-line", verbatim=True)
        return
    found = last_lines(places, source, lines)
    screen.show({"lines": plain(found)}, (_line(line, screen) for line in found), verbatim=True)
    if lines and not found:
        screen.advise("no log lines yet; 'minifram up' starts the agent")


_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}")
"""Boot ids and commits: twelve digits are enough for people."""
_ENVELOPE = ("timestamp", "time", "at", "event", "level")


def _line(line: Line, screen: Screen) -> str:
    whose = f"{line.source} {line.branch}".strip()
    if line.event is not None and "event" in line.event:
        text = _event_text({key: value for key, value in line.event.items() if value != line.branch})
    else:
        text = line.text.removeprefix(f"{line.time} ")
    return f"{screen.faint(line.time)} {screen.mark(f'{harmless(whose):<14}')} {chr(10).join(harmless_lines(text))}"


def _event_text(event: dict[str, Any]) -> str:
    """A structured line for people: `level event key=value …`."""
    pairs = (f"{key}={_value(value)}" for key, value in event.items() if key not in _ENVELOPE)
    level = str(event.get("level", ""))
    head = f"{level} {event['event']}" if level not in ("", "info") else str(event["event"])
    return " ".join([head, *pairs]).replace("\n", "\n    ")


def _value(value: Any) -> str:
    if isinstance(value, str) and _ID.fullmatch(value):
        return value[:12]
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)


@command
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many names.")
def egress(context: Context, screen: Screen, number: int) -> None:
    """The network requests of the agent in its container: names, and packets that the rules rejected.

    A name with many bytes in many queries may be a tunnel. Rules are explained in nftables/egress.nft.
    """
    from host.agent.egress import read_egress
    from host.container.choice import podman_at_hand
    from host.running.record import PODMAN, is_running, read, sandbox_in_use

    home = context.initialised()
    if sandbox_in_use(home) != PODMAN:
        raise not_contained(home.agent, "nothing else counts what it sends")
    if read(home).get("settings", {}).get("podman.network") == "none":
        screen.advise("it has no network ('podman.network: none'), so it can ask for no name and send no packet")
    found = read_egress(home, podman_at_hand(context) if is_running(home) else None, number)
    screen.show(found, _egress(found, screen))


def _egress(found: Egress, screen: Screen) -> Iterator[str]:
    from host.agent.egress import WORDS

    yield f"{screen.strong('mode')}: {found.mode}, the agent reaches {WORDS.get(found.mode, 'what that allows')}"
    yield from _names_and_packets(found, screen)
    yield f"{screen.strong('web')}: {web_line(found.web)}"
    if found.web.hosts:
        yield screen.faint(f"  {'host, by its pages and packages':<40} {'served':>7}")
    for host, times in found.web.hosts.items():
        yield f"  {one_line(host, 60):<40} {times:>7}"
    if found.web.denied_for:
        yield screen.faint(f"  {'denied for':<40} {'times':>7}")
    for why, times in found.web.denied_for.items():
        yield f"  {one_line(why, 60):<40} {times:>7}"


def _names_and_packets(found: Egress, screen: Screen) -> Iterator[str]:
    yield (
        f"{screen.strong('names')}: {counted(found.total.questions, 'question')}, {found.total.sent} went out, "
        f"with {found.total.bytes} bytes in front of the registered names"
    )
    if found.names:
        yield screen.faint(f"  {'name':<40} {'asked':>7} {'sent':>7} {'bytes':>9}")
    for name, asked in found.names.items():
        yield f"  {one_line(name, 60):<40} {asked.questions:>7} {asked.sent:>7} {asked.bytes:>9}"
    if found.rejected is None:
        yield f"{screen.strong('rejected')}: not known: {one_line(found.why_unknown, 200)}"
        return
    packets = sum(count.packets for count in found.rejected.values())
    yield f"{screen.strong('rejected')}: {counted(packets, 'packet')} since the container was started"
    if found.rejected:
        yield screen.faint(f"  {'rule':<40} {'packets':>7} {'bytes':>17}")
    for rule, count in found.rejected.items():
        yield f"  {one_line(rule, 60):<40} {count.packets:>7} {count.bytes:>17}"
