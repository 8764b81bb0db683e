"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("minifram", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.load_profile("minifram")
