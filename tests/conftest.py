"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it; and Ctrl-C works as on
a terminal, also where the tests were started in the background of a shell, which has its children ignore it."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("minifram", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.load_profile("minifram")
