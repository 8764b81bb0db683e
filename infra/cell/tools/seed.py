"""The nine tools of a runner in its checkout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infra.cell.interruption import Interruption
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.hop import hop_tools
from infra.cell.tools.tool import Gate, Position, Tool, Toolbox
from infra.cell.tools.web import web_tools
from infra.shared.boot import Boot
from infra.shared.repository.git import Git


def seed_tools(
    boot: Boot,
    checkout: str,
    git: Git,
    interruption: Interruption,
    on_bug: Callable[[BaseException], None] = lambda error: None,
    gate: Gate | None = None,
    position: Position | None = None,
    more: Sequence[Tool] = (),
    preflight: Callable[[], str] = lambda: "",
) -> Toolbox:
    """`git` is the checkout's, with the agent's git configuration; `on_bug` is that of `Toolbox`; `more` are tools of
    the caller's; `preflight` says why the agent must not become another version now."""
    limits, at, web = boot.limits, position or Position(), boot.places.web_socket
    return Toolbox(
        (
            *file_tools(checkout, limits.output_chars),
            bash_tool(checkout, limits.bash_seconds, limits.output_chars, interruption, web, at),
            *web_tools(checkout, web, limits.output_chars, at),
            *hop_tools(boot, git, preflight),
            *more,
        ),
        gate=gate,
        on_bug=on_bug,
    )
