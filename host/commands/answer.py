"""`minifram answer`."""

from __future__ import annotations

import sys

import click

from host.commands.options import Verb, caller_of, json_option, screen_of


@click.command("answer", cls=Verb)
@click.argument("text", required=False)
@click.option("--words", is_flag=True, help="TEXT is words alone: no line of it is a tool call.")
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait until something is asked.")
@json_option
@click.pass_context
def verb(ctx: click.Context, text: str | None, words: bool, wait: float, as_json_: bool) -> None:
    """Be the model: show what the agent asks, and answer it. For 'provider: manual'.

    Without TEXT, what is new is shown, and on a terminal the answer is read, up to Ctrl-D; an empty one leaves the
    question open. TEXT of '-' is read from standard input. A line that begins with '{' is a tool call, all others are
    words:

    \b
      {"name": "bash", "input": {"command": "ls"}}

    An answer without a tool call ends the agent's work on its directives. With --json the question is printed, whole.

    \b
    Examples:
      minifram answer --wait 600
      minifram answer "All done."
      minifram answer --json | my-model | minifram answer -
    """
    from host.agent import answering
    from host.display import as_json, counted
    from infra.shared.conversation import to_plain
    from infra.shared.manual import MAX_ANSWER_BYTES

    caller, screen = caller_of(ctx), screen_of(ctx)
    home = caller.initialised()
    question = answering.oldest(home, wait)
    if text is None and as_json_:
        told = {"id": question.id, "at": question.at, "others": question.others}
        screen.result(as_json("answer", told | {"request": to_plain(question.request)}))
        return
    if text is None:
        for line in answering.news(question.request):
            screen.result(line)
        if not sys.stdin.isatty():
            return
        screen.progress("your answer, then Ctrl-D:")
    if text is None or text == "-":
        text = sys.stdin.buffer.read(MAX_ANSWER_BYTES + 1).decode(errors="replace")
        if not text.strip() and sys.stdin.isatty():
            screen.progress("no answer; the question stays open")
            return
    answering.answer(home, question, text, words)
    if as_json_:
        screen.result(as_json("answer", {"id": question.id, "others": question.others}))
        return
    others = f"; {counted(question.others, 'other question')} wait" if question.others else ""
    screen.result(f"answered{others}")
