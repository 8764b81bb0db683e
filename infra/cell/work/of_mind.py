"""What a run tells of itself to the mind, which knows nothing of runners."""

from __future__ import annotations

import time

from infra.cell.cell import Cell, agent_git
from infra.cell.mind.mind import MindContext
from infra.cell.policy.gate import gate_of, nobody
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.tool import Position, Toolbox
from infra.shared.branches import MAIN
from infra.shared.clock import began
from infra.shared.paths import PAGE
from infra.shared.repository.tip import read_file
from infra.shared.requests import TaintedBy


def mind_context(context: Cell, position: Position | None = None) -> MindContext:
    """`position`: of the run, whose reads of the web count since it began; without one, from now on."""
    now = time.time()

    def taint() -> TaintedBy:
        return context.keep.taint(began(position.run if position else "") or now)

    places = context.boot.places
    return MindContext(
        places=places,
        git=agent_git(places.mind, places),
        remote_url=context.boot.remote_url,
        exploration_usd=context.boot.exploration_usd,
        note=context.log.info,
        ask=context.ask,
        origins=lambda: taint().origins,
        is_tainted=lambda: taint().is_tainted,
        record=context.keep.record,
        page=lambda: read_file(context.git, f"refs/remotes/origin/{MAIN}", PAGE) or "",
        now=time.time,
        interruption=context.interruption,
        toolbox_in=lambda directory: _toolbox(context, directory),
    )


def _toolbox(context: Cell, directory: str) -> Toolbox:
    """bash and the file tools, in a directory of its own; nobody is there to be asked."""
    limits, notice = context.boot.limits, context.log
    gate = gate_of(context.boot.policy, directory, nobody)
    bash = bash_tool(directory, limits.bash_seconds, limits.output_chars, context.interruption)

    def on_bug(error: BaseException) -> None:
        notice.error("act.broken", exc_info=error)

    return Toolbox((*file_tools(directory, limits.output_chars), bash), gate, on_bug)
