"""The PM's look at the ledger of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from host.commands.options import command
from host.context import Context
from host.display import Screen, counted, one_line
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.ledger import LabelSum
    from infra.keep.ledger.chain import Checked


@command
@click.argument("what", type=click.Choice(["verify", "labels"]))
def ledger(context: Context, screen: Screen, what: str) -> int:
    """Check that no line of the ledger of model calls was changed, added or removed; exits with 8 when one was.
    With 'labels': what the calls came to, by what they were for (task, maintenance, exploration), as the runner said.

    Each line contains a hash over itself and the line before it. Removal of the last lines leaves no trace in the
    file: note the head that this prints, and search for it later ('grep').

    \b
    Examples:
      minifram ledger verify
      minifram ledger verify --json
      minifram ledger labels
    """
    from host.agent.ledger import by_label, verify

    home = context.initialised()
    if what == "labels":
        sums = by_label(home)
        screen.show(
            {"agent": home.agent, "labels": {label: each._asdict() for label, each in sums.items()}}, _sums(sums)
        )
        return Exit.OK
    file, found = home.places.ledger, verify(home)
    screen.show({"agent": home.agent, "file": file, **found._asdict()}, _verified(file, found, screen))
    return Exit.FINDINGS if found.findings else Exit.OK


def _sums(sums: Mapping[str, LabelSum]) -> Iterator[str]:
    for label, each in sums.items():
        yield f"{label:<20} {counted(each.calls, 'call'):>12}  {each.tokens:>14,} tokens  ${each.usd:.4f}"


def _verified(file: str, found: Checked, screen: Screen) -> Iterator[str]:
    yield f"{screen.strong('ledger')}   {file}: {counted(found.lines, 'line')}, {counted(found.calls, 'call')}"
    for count, words in ((found.unlinked, "from before lines had a hash"), (found.torn, "cut short, passed over")):
        if count:
            yield f"         {counted(count, 'line')} {words}"
    yield from (f"{screen.bad('finding')}  {one_line(finding, 300)}" for finding in found.findings)
    if not found.findings:
        yield f"{screen.good('whole')}    head {found.head or 'none: no line yet'}"
