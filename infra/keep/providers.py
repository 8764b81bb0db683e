"""The providers of models: what each is called, its usual model, where it is, and under which name its key lies.

Their adapters are the model door's (`infra/keep/model_door`); this is what settings, host and keep have to agree on.
Which of
them a call goes to, in which order, is told by `choices`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

SCRIPTED, ANTHROPIC, OPENAI, OLLAMA = "scripted", "anthropic", "openai", "ollama"
AUTO = "auto"


class Provider(NamedTuple):
    model: str
    """What it runs when the settings name no model."""
    base_url: str = ""
    """Its own address; empty for one that is not reached by network."""
    key: str = ""
    """The file in `<run>/secrets/` with its key, in capitals also the variable that `up` takes it from; empty: none."""
    title: str = ""
    """For people, where the name alone says little."""


PROVIDERS = {
    SCRIPTED: Provider("demo"),
    ANTHROPIC: Provider("claude-opus-5-5", "https://api.anthropic.com", "anthropic_api_key", "Claude"),
    # Of the newest family the one that takes tools over Chat Completions as well (November 2026; `chat`).
    OPENAI: Provider("gpt-6.1-terra", "https://api.openai.com/v1", "openai_api_key", "OpenAI"),
    OLLAMA: Provider("qwen3", "http://127.0.0.1:11434"),
}
KEYS = tuple(provider.key for provider in PROVIDERS.values() if provider.key)
"""The names of all keys, in the order in which `auto` looks for them."""


def variable_of(key: str) -> str:
    """The environment variable that `minifram up` takes this key from."""
    return key.upper()


VARIABLES = tuple(variable_of(key) for key in KEYS)


def settled_provider(provider: str, keys: Collection[str]) -> str:
    """Who thinks, with `auto` settled by which keys there are: the first provider of the table that has its own."""
    if provider != AUTO:
        return provider
    return next((name for name, known in PROVIDERS.items() if known.key and known.key in keys), SCRIPTED)


def provider_with(key: str) -> str:
    """Whose key is called so."""
    return next(name for name, known in PROVIDERS.items() if known.key == key)
