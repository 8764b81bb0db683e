"""What the web door served to a run, and whether the agent is tainted by the web: by the keep's word, whenever it
matters."""

from __future__ import annotations

import time

from infra.cell.doors import Keep, Refused
from infra.shared.door import DoorAway
from infra.shared.requests import TaintedBy


class WebReads:
    """Of one run."""

    def __init__(self, keep: Keep, began: float | None = None) -> None:
        self.began = time.time() if began is None else began
        """When the run began; a resumed one as well."""
        self._keep = keep

    def origins(self) -> tuple[str, ...]:
        """Whose text the run was served. Raises OSError when the keep does not say."""
        return self._ask().origins

    def is_tainted(self) -> bool:
        """Whether the agent is, by this run or an earlier one. Raises OSError when the keep does not say."""
        return self._ask().is_tainted

    def _ask(self) -> TaintedBy:
        try:
            return self._keep.taint(max(0.0, self.began))
        except (Refused, DoorAway) as error:
            raise OSError(f"whether the web was read cannot be told: {error}; try again later") from None
