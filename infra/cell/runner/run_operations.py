"""A program: carries out the operations of a reply, as a run would, and prints the events.

It is for `minifram protocol run` and for trying things out: no model, no agent, no hop. The reply comes on stdin."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from infra.cell.loop.bash_tool import bash_tool
from infra.cell.loop.file_tools import file_tools
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.operations import carry_out, message_of
from infra.cell.loop.reach import Workspace
from infra.cell.loop.registry import Verdict
from infra.cell.loop.toolbox import Toolbox
from infra.cell.policy.gate import gate_of
from infra.shared.exit_codes import Exit
from infra.shared.protocol.read import Requested, read
from infra.shared.protocol.shapes import AWAITING, OK, ProtocolEvent
from infra.shared.secret_shapes import redacted, redacted_value

SECONDS, OUTPUT_CHARS = 600.0, 10_000


def _nobody(tool: str, given: Mapping[str, Any], why: str) -> Verdict:
    return Verdict(False, f"the policy asks first ({why}), and nobody is asked here", AWAITING)


def shown(events: Sequence[ProtocolEvent]) -> str:
    return json.dumps(redacted_value(json.loads(message_of(events))), ensure_ascii=False, indent=2)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run_operations", description=__doc__)
    parser.add_argument("--workspace", default=".")
    parser.add_argument("--policy", default="", help="as MINIFRAM_BOOT carries it")
    asked = parser.parse_args(words)
    try:
        found = read(sys.stdin.buffer.read().decode())
    except UnicodeDecodeError as error:
        print(f"nothing was carried out: the reply is not UTF-8 ({error}); expected it as it came", file=sys.stderr)
        return Exit.FINDINGS
    if not isinstance(found, Requested):
        why = redacted(getattr(found, "message", "the reply holds no operations"))
        print(f"nothing was carried out: {why}", file=sys.stderr)
        return Exit.FINDINGS
    workspace = os.path.realpath(asked.workspace)
    tools = (
        *file_tools(workspace, OUTPUT_CHARS, Workspace(workspace, outside=())),
        bash_tool(workspace, SECONDS, OUTPUT_CHARS, Interruption(), is_for_events=True),
    )
    events = list(carry_out(found.items, Toolbox(tools, gate_of(asked.policy, workspace, _nobody)).call))
    print(shown(events))
    return Exit.OK if all(event.status == OK for event in events) else Exit.FINDINGS


if __name__ == "__main__":
    sys.exit(main())
