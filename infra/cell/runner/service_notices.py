"""Notices to the model that the file of its services cannot be used: each problem once."""

from __future__ import annotations

from infra.cell.services.supervisor import Services


class ServiceNotices:
    """Of one run."""

    def __init__(self, services: Services | None) -> None:
        self._services = services
        self._told = ""

    def news(self) -> str | None:
        """Words for the model; None for none."""
        if self._services is None:
            return None
        self._services.refresh()  # the step may have written it
        before, self._told = self._told, self._services.problem
        return (
            f"{self._told}. Until it is mended no other service is started." if self._told not in (before, "") else None
        )
