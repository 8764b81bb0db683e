"""The directive that has the agent go on from an earlier run."""

from __future__ import annotations

import re

GO_ON_FROM = re.compile(
    r"Go on from run ([0-9A-Za-z][0-9A-Za-z.:-]{0,99}) after step ([1-9][0-9]{0,5})\b"
    r"(?: with model ([0-9A-Za-z](?:[\w./:-]{0,98}[0-9A-Za-z])?))?",
    re.IGNORECASE,
)
"""The beginning of a directive that asks for it; `minifram resume` writes it so."""
