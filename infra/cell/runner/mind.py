"""What a run tells of itself to the mind, which knows nothing of runners."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from infra.cell.loop.bash_tool import bash_tool
from infra.cell.loop.file_tools import file_tools
from infra.cell.loop.registry import Verdict
from infra.cell.loop.toolbox import Toolbox
from infra.cell.mind.heads import ask_heads, note_head
from infra.cell.mind.mind import MindContext
from infra.cell.policy.gate import gate_of
from infra.cell.runner.context import RunnerContext
from infra.cell.runner.web_taint import WebTaint
from infra.shared import mind_settings
from infra.shared.people import AGENT
from infra.shared.protocol.shapes import DENIED
from infra.shared.repository.git import Git


def mind_context(context: RunnerContext, taint: WebTaint | None = None) -> MindContext:
    """`taint`: of the present work; without it, the keep is asked."""
    taint = taint or WebTaint(context.boot.places.request_socket, context.log.info)
    origins = taint.origins
    places = context.boot.places
    return MindContext(
        places=places,
        git=Git(places.mind, AGENT, env={"GIT_CONFIG_GLOBAL": places.cell_git_config}),
        remote_url=context.boot.remote_url,
        settings=mind_settings.from_json(context.boot.mind),
        note=context.log.info,
        ask=context.ask,
        origins=origins,
        now=time.time,
        interruption=context.interruption,
        held=lambda: taint.held,
        heads=functools.partial(ask_heads, places.request_socket),
        note_head=functools.partial(note_head, places.request_socket),
        toolbox_in=lambda directory: _toolbox(context, directory, origins),
    )


def _toolbox(context: RunnerContext, directory: str, origins: Callable[[], tuple[str, ...]]) -> Toolbox:
    """bash and the file tools, in a directory of its own; nobody is there to be asked."""
    limits, notice = context.boot.limits, context.log
    gate = gate_of(context.boot.policy, directory, _nobody, origins)
    bash = bash_tool(directory, limits.bash_seconds, limits.output_chars, context.interruption)

    def on_bug(error: BaseException) -> None:
        notice.error("act.broken", exc_info=error)

    return Toolbox((*file_tools(directory, limits.output_chars), bash), gate, on_bug)


def _nobody(tool: str, given: Mapping[str, Any], why: str) -> Verdict:
    return Verdict(False, f"the PM would be asked ({why}), and is not asked in maintenance", DENIED, (DENIED,))
