"""The providers of models, and which models calls go to, in order; their adapters are the model door's."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from infra.shared.network import address_of

if TYPE_CHECKING:
    from infra.keep.settings.schema import ModelSettings, NextModel

SCRIPTED, ANTHROPIC, OPENAI, OLLAMA = "scripted", "anthropic", "openai", "ollama"
AUTO = "auto"


class Provider(NamedTuple):
    model: str
    """What it runs when the settings name no model."""
    base_url: str = ""
    """Its own address; empty for one that is not reached by network."""
    key: str = ""
    """The file in `<run>/secrets/` with its key, in capitals also the variable that `up` takes it from; empty: none."""


PROVIDERS = {
    SCRIPTED: Provider("demo"),
    ANTHROPIC: Provider("claude-opus-5-5", "https://api.anthropic.com", "anthropic_api_key"),
    # Of the newest family the one that takes tools over Chat Completions as well (November 2026; `chat`).
    OPENAI: Provider("gpt-6.1-terra", "https://api.openai.com/v1", "openai_api_key"),
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


class Choice(NamedTuple):
    """One model that calls may go to."""

    provider: str
    """A name of `PROVIDERS`."""
    name: str
    base_url: str
    """Empty for a provider that is not reached by network."""
    max_tokens: int
    api: str = ""
    """`responses` or `chat`, for OpenAI."""
    vision: bool = False
    """It takes images; another is told their kind and size."""
    has_tools: bool = True


def choices(model: ModelSettings, keys: Collection[str]) -> tuple[Choice, ...]:
    """The models that calls go to, in order. `keys`: the names of the keys that there are, which settle `auto`."""
    first = settled_provider(model.provider, keys)
    # An address beside `auto` is meant for Claude: nobody else's key, and no conversation with it, goes there.
    is_meant = model.provider != AUTO or not model.base_url or first == ANTHROPIC
    return (
        _choice(model, first, is_meant, model.max_tokens),
        *(_choice(one, one.provider, True, model.max_tokens) for one in model.then),
    )


def _choice(model: ModelSettings | NextModel, provider: str, is_meant: bool, max_tokens: int) -> Choice:
    known = PROVIDERS[provider]
    url = (model.base_url if is_meant else None) or known.base_url
    usual = "responses" if origin(url) == origin(known.base_url) else "chat"
    return Choice(
        provider,
        (model.name if is_meant else None) or known.model,
        url,
        model.max_tokens or max_tokens,
        (usual if model.api == AUTO else model.api) if provider == OPENAI else "",
        provider in (ANTHROPIC, OPENAI),
        model.tools,
    )


def keys_needed(model: ModelSettings, keys: Collection[str]) -> tuple[str, ...]:
    """The names of the keys that the models of `choices` need."""
    return tuple(
        dict.fromkeys(PROVIDERS[one.provider].key for one in choices(model, keys) if PROVIDERS[one.provider].key)
    )


def problems_with_keys(model: ModelSettings) -> tuple[str, ...]:
    """A problem for each key that would be sent to two servers. A key is meant for one of them; the operator of the
    other must not receive it."""
    found: dict[str, str] = {}
    instead = ", and name model.provider instead of auto" if model.provider == AUTO else ""
    for keys in ((), *((key,) for key in KEYS)):
        to: dict[str, Choice] = {}
        for choice in choices(model, keys):
            key = PROVIDERS[choice.provider].key
            if key and origin(choice.base_url) != origin(to.setdefault(key, choice).base_url):
                servers = " and ".join(each.base_url.rpartition("@")[2] for each in (to[key], choice))  # no password
                found[key] = (
                    f"{variable_of(key)} would go to two servers, {servers}; give all {choice.provider} models "
                )
                found[key] += f"one scheme, host and port in base_url{instead}"
    return tuple(found.values())


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; a text that is not an address is its own origin."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url, "", None
    if not parts.hostname:
        return url, "", None
    return parts.scheme, parts.hostname, port if port is not None else {"https": 443, "http": 80}.get(parts.scheme)


def model_words(model: ModelSettings, keys: Collection[str]) -> str:
    """For people: the model that is asked first, and how many stand behind it."""
    first, *others = choices(model, keys)
    words = first.provider if first.provider == "scripted" else f"{first.provider} {first.name}"
    return words + (f" (then {', '.join(f'{one.provider} {one.name}' for one in others)})" if others else "")


def problem_with_base_url(url: str, example: str = "https://api.anthropic.com", has_key: bool = True) -> str | None:
    """Why no call may be sent there; one with a key goes unencrypted to this machine only."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"model.base_url {url!r} is not an address: {error}"
    if any(not char.isprintable() or char in " \\" for char in url):
        return f"model.base_url {url!r} is not an address: it holds a character that no address has"
    if not host or parts.scheme not in ("https", "http"):
        return f"model.base_url {url!r} is not an address; expected something like {example}"
    if parts.username is not None or parts.query or parts.fragment:
        return "model.base_url holds a user, a query or a fragment; expected an address and nothing else"
    if has_key and parts.scheme == "http" and not _is_this_machine(host):
        return f"model.base_url {url!r} would send the key unencrypted; use https"
    return None


def _is_this_machine(host: str) -> bool:
    """However it is written."""
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)
