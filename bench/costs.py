"""What a process has taken: the kernel's own counts."""

from __future__ import annotations

import time
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    # clock_getcpuclockid(3): the clock of all that the process has run, whatever thread it was.
    return time.clock_gettime(~pid << 3 | 2)


def memory_of(pid: int) -> tuple[float, float]:
    """RSS and PSS (resident, with what is shared counted in parts) in MiB."""
    sizes = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    rss, pss = (int(sizes[name].split()[0]) / 1024 for name in ("Rss", "Pss"))
    return rss, pss
