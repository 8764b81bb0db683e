"""The models that the settings name. Another provider is a line here and in `keep.settings.models`, and a `Dialect`."""

from __future__ import annotations

import os
from typing import NamedTuple

from infra.keep.ledger.prices import FREE, Tariff, tariff
from infra.keep.model_door.call import StreamedModel
from infra.keep.model_door.chat import CHAT
from infra.keep.model_door.keys import read_key
from infra.keep.model_door.messages import MESSAGES, ClaudeModel
from infra.keep.model_door.ollama import OLLAMA as OLLAMA_CHAT
from infra.keep.model_door.responses import RESPONSES
from infra.keep.model_door.script import DEMO, ScriptedModel, read_script
from infra.keep.settings.models import ANTHROPIC, KEYS, OLLAMA, PROVIDERS, SCRIPTED, Choice, choices
from infra.keep.settings.schema import ModelSettings
from infra.shared.paths import Paths

Model = StreamedModel | ScriptedModel
FREE_OF_COST = frozenset([SCRIPTED, OLLAMA])


class Offer(NamedTuple):
    """A model that calls may go to."""

    model: Model
    price: Tariff | None
    """None when it is not known."""
    has_tools: bool = True
    """False: it is asked for acts by lists in plain text."""

    @property
    def words(self) -> str:
        return f"{self.model.provider} {self.model.name}"

    @property
    def problem(self) -> str | None:
        """Why its calls cannot work as things are; None when nothing is known to be wrong."""
        if self.price:
            return self.model.problem
        return (
            f"no price is known for the model {self.model.name!r}, so its calls cannot be kept within the budget; "
            "set model.prices for it in minifram.yaml (US dollars per million tokens: input, output)"
        )


def make_offers(settings: ModelSettings, places: Paths, directory: str) -> tuple[Offer, ...]:
    """In the order in which they are asked. A script's path is relative to `directory`. Raises ScriptError."""
    there = [key for key in KEYS if os.path.lexists(f"{places.secrets}/{key}")]
    return tuple(
        Offer(
            _made(choice, places, directory),
            tariff(choice.name, settings.prices) or (FREE if choice.provider in FREE_OF_COST else None),
            choice.has_tools,
        )
        for choice in choices(settings, there)
    )


def _made(choice: Choice, places: Paths, directory: str) -> Model:
    if choice.provider == SCRIPTED:
        own = choice.name == PROVIDERS[SCRIPTED].model
        path = DEMO if own else os.path.join(directory, choice.name)
        return ScriptedModel(choice.name, read_script(path), choice.max_tokens)
    if choice.provider == OLLAMA:
        return StreamedModel(choice, OLLAMA_CHAT)
    key = read_key(f"{places.secrets}/{PROVIDERS[choice.provider].key}")
    if choice.provider == ANTHROPIC:
        return ClaudeModel(choice, MESSAGES, key)
    dialect = RESPONSES if choice.api == "responses" else CHAT
    return StreamedModel(choice, dialect, key)
