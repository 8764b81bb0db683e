"""How a run asks for acts: by calls of tools where all models have these, else by operations in plain text.

One way holds for a whole run, since a conversation of calls cannot go on at a model without them; so it is chosen by
what all of the PM's models can do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from infra.keep.model_door.model import CallFailure, Model
from infra.keep.model_door.ollama import OllamaModel
from infra.keep.model_settings import ModelSettings
from infra.keep.providers import PROVIDERS
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Request

SHOW_SECONDS = 3.0
"""For one server's word on its model."""


class Acts:
    """Which of the models have tools: as the settings say, and as Ollama says of its own."""

    def __init__(self, settings: ModelSettings, models: Sequence[Model]) -> None:
        self._models = models
        self._known = {
            (each.provider, each.name or PROVIDERS[each.provider].model): each.tools for each in settings.then
        } | {(model.provider, model.name): settings.tools for model in models[:1]}

    async def chosen(self) -> str:
        """TOOLS or OPERATIONS, for a run that begins now. Without a word on the first model operations, which every
        model can say; a later one is asked when its turn comes."""
        first, *others = await asyncio.gather(*map(self._has_tools, self._models))
        return TOOLS if first and False not in others else OPERATIONS

    @property
    def lacking(self) -> list[str]:
        """The models that are known to have none."""
        return [model.name for model in self._models if self._known.get((model.provider, model.name)) is False]

    def able(self, models: Sequence[Model], request: Request) -> Sequence[Model]:
        """Those that may be asked this. Raises CallFailure when none may."""
        able = tuple(model for model in models if not request.tools or model.name not in self.lacking)
        if not able:
            names = ", ".join(model.name for model in models)
            words = f"the conversation has tools, and {names} cannot call any; expected operations in plain text"
            raise CallFailure("invalid_request", words)
        return able

    async def check(self, model: Model, request: Request) -> None:
        """Just before it is asked. Raises CallFailure for a model that has no tools, as its server says now."""
        if request.tools and await self._has_tools(model) is False:
            raise CallFailure("unavailable", f"{model.name} has no tools, as its server says now")

    async def _has_tools(self, model: Model) -> bool | None:
        """None when nobody says."""
        which = model.provider, model.name
        if self._known.get(which) is None and isinstance(model, OllamaModel):
            told = await _told_by(model)
            if told is None:
                return None
            can = told.get("capabilities")  # which servers of before 2025 do not say
            self._known[which] = not isinstance(can, list) or "tools" in can
        return self._known.get(which) is not False


async def _told_by(model: OllamaModel) -> dict[str, Any] | None:
    """What the server tells of its model; None when it tells nothing."""
    try:
        async with asyncio.timeout(SHOW_SECONDS):
            client = await model.client.value()
            response = await client.post(f"{model.base_url.rstrip('/')}/api/show", json={"model": model.name})
            told = response.json() if response.status_code == 200 else None
    except Exception:  # whatever it is, the call of the model will meet it as well, and say so
        return None
    return told if isinstance(told, dict) else None
