"""The adapters by the names of their providers. Another provider is a line here and in `shared.providers`, and a
model of `model.Model`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from infra.keep import model_settings
from infra.keep.ledger.prices import FREE, Tariff, tariff
from infra.keep.model_door.call import StreamedModel
from infra.keep.model_door.chat import CHAT
from infra.keep.model_door.keys import Key, read_key
from infra.keep.model_door.messages import MESSAGES, ClaudeModel
from infra.keep.model_door.model import CallFailure, Model
from infra.keep.model_door.ollama import OLLAMA as OLLAMA_CHAT
from infra.keep.model_door.responses import RESPONSES
from infra.keep.model_door.script import DEMO, ScriptedModel, read_script
from infra.keep.model_settings import Choice, ModelSettings, choices
from infra.keep.providers import ANTHROPIC, KEYS, OLLAMA, OPENAI, PROVIDERS, SCRIPTED
from infra.shared.paths import Paths

FREE_OF_COST = frozenset([SCRIPTED, OLLAMA])


class ProviderContext(NamedTuple):
    """What a model is made in."""

    settings: ModelSettings
    places: Paths
    settings_directory: str
    """A script's path is relative to it."""
    idle_seconds: float = 120.0
    """A stream with no new content for so long is given up: models think for a minute without a word."""

    def key(self, provider: str) -> Key:
        return read_key(f"{self.places.secrets}/{PROVIDERS[provider].key}")


class Offer(NamedTuple):
    """A model that calls may go to."""

    model: Model
    price: Tariff | None
    """None when it is not known."""
    has_tools: bool = True
    """False: it is asked for acts by lists in plain text."""


def make_offers(around: ProviderContext) -> tuple[Offer, ...]:
    """In the order in which they are asked. Raises ScriptError."""
    there = [key for key in KEYS if os.path.lexists(f"{around.places.secrets}/{key}")]
    return tuple(
        Offer(_MAKERS[choice.provider](choice, around), _price_of(choice, around.settings), choice.has_tools)
        for choice in choices(around.settings, there)
    )


def _price_of(choice: Choice, settings: ModelSettings) -> Tariff | None:
    return tariff(choice.name, settings.prices) or (FREE if choice.provider in FREE_OF_COST else None)


def no_price(model: Model) -> CallFailure:
    return CallFailure(
        "invalid_request",
        f"no price is known for the model {model.name!r}, so its calls cannot be kept within the budget; "
        "set model.prices for it in minifram.yaml (US dollars per million tokens: input, output)",
    )


def _scripted(choice: Choice, around: ProviderContext) -> Model:
    path = DEMO if choice.name == PROVIDERS[SCRIPTED].model else os.path.join(around.settings_directory, choice.name)
    return ScriptedModel(choice.name, read_script(path), choice.max_tokens)


def _openai(choice: Choice, around: ProviderContext) -> Model:
    dialect = RESPONSES if choice.api == model_settings.RESPONSES else CHAT
    return StreamedModel(choice, dialect, around.idle_seconds, around.key(OPENAI))


_MAKERS: dict[str, Callable[[Choice, ProviderContext], Model]] = {
    SCRIPTED: _scripted,
    ANTHROPIC: lambda choice, around: ClaudeModel(choice, MESSAGES, around.idle_seconds, around.key(ANTHROPIC)),
    OPENAI: _openai,
    OLLAMA: lambda choice, around: StreamedModel(choice, OLLAMA_CHAT, around.idle_seconds),
}
