"""Children of the runner that are neither a tool's nor a service's: the probe's git."""

from __future__ import annotations

import threading

OWN_CHILDREN = threading.Lock()
"""Held by whoever has one beside the main thread, so that it is not taken for one that a run left behind."""
