"""For developers: `python -m infra.cell.protocol < reply.txt` names what of a reply would not be carried out."""

from __future__ import annotations

import sys

from infra.cell.protocol.read import RefusedOperation, Requested, read
from infra.shared.exit_codes import Exit

found = read(sys.stdin.read())
if isinstance(found, Requested):
    problems = [each.message for each in found.items if isinstance(each, RefusedOperation)]
else:
    problems = [getattr(found, "message", "the reply holds no operations")]
print("\n".join(problems) or "ok")
sys.exit(Exit.FINDINGS if problems else Exit.OK)
