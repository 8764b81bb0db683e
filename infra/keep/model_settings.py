"""The settings of `model`: who thinks, and which models calls go to, in order."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from infra.keep.providers import ANTHROPIC, AUTO, KEYS, OPENAI, PROVIDERS, settled_provider, variable_of
from infra.keep.section import Section
from infra.shared.addresses import readings


class Price(Section, frozen=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_write: float | None = None
    """Default: 1.25 x input."""
    cache_read: float | None = None
    """Default: 0.1 x input."""


class NextModel(Section, frozen=True):
    """A model that is tried when those before it cannot answer; what is left out is as for any model."""

    provider: Literal["scripted", "anthropic", "openai", "ollama"]
    name: str | None = None
    base_url: str | None = None
    max_tokens: int | None = None
    api: Literal["auto", "responses", "chat"] = "auto"
    tools: bool = True


class ModelSettings(Section, frozen=True):
    provider: Literal["auto", "scripted", "anthropic", "openai", "ollama"] = "auto"
    """scripted: fixed words, no key, no cost; anthropic: Claude; openai: OpenAI and servers that speak as it does;
    ollama: models of your own machine; auto: Claude when ANTHROPIC_API_KEY is
    set at `up`, else OpenAI when OPENAI_API_KEY is, else scripted."""
    name: str | None = None
    """The provider's model name; None: claude-opus-5-5, gpt-6.1-terra or qwen3. For scripted, a script's path."""
    max_tokens: int = 16_000
    """Output tokens of one call."""
    base_url: str | None = None
    """Where the provider is; None is the provider's own address, for ollama http://127.0.0.1:11434. With auto, it and
    the name beside it are Claude's alone."""
    api: Literal["auto", "responses", "chat"] = "auto"
    """openai only: the Responses API, in which models reason while they use tools, or Chat Completions, which more
    servers speak. auto: responses at OpenAI's own address, chat at any other."""
    prices: dict[str, Price] = {}  # noqa: RUF012 - msgspec copies it
    """Prices by model name, for names that the model door does not know."""
    then: tuple[NextModel, ...] = ()
    """Models to try, in this order, when one is too busy or cannot be reached, such as
    [{provider: ollama, name: qwen3}]; each is asked twice before the next. Keys: provider, name, base_url,
    max_tokens, api, tools."""
    tools: bool = True
    """false: the model has no tool calling, and asks for acts by lists in plain text (`SPEC_PROTOCOL`), and so do the
    others."""


MAX_NEXT_MODELS = 8


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


RESPONSES, CHAT = "responses", "chat"


def choices(model: ModelSettings, keys: Collection[str]) -> tuple[Choice, ...]:
    """The models that calls go to, in order. `keys`: the names of the keys that there are, which settle `auto`."""
    first = settled_provider(model.provider, keys)
    # An address beside `auto` is meant for Claude: nobody else's key, and no conversation with it, goes there.
    is_meant = model.provider != AUTO or not model.base_url or first == ANTHROPIC
    name, base_url = (model.name, model.base_url) if is_meant else (None, None)
    return (
        _choice(first, name, base_url, model.max_tokens, model.api, model.tools),
        *(
            _choice(one.provider, one.name, one.base_url, one.max_tokens or model.max_tokens, one.api, one.tools)
            for one in model.then
        ),
    )


def _choice(provider: str, name: str | None, base_url: str | None, max_tokens: int, api: str, tools: bool) -> Choice:
    known = PROVIDERS[provider]
    url = base_url or known.base_url
    if api == AUTO:
        api = RESPONSES if origin(url) == origin(known.base_url) else CHAT
    return Choice(
        provider,
        name or known.model,
        url,
        max_tokens,
        api if provider == OPENAI else "",
        provider in (ANTHROPIC, OPENAI),
        tools,
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
                found.setdefault(
                    key,
                    f"{variable_of(key)} would go to two servers, {_shown(to[key])} and {_shown(choice)}; "
                    f"give all {choice.provider} models one scheme, host and port in base_url{instead}",
                )
    return tuple(found.values())


def lacks_tools(model: ModelSettings) -> bool:
    """One of its models has no tool calling, as the settings say."""
    return not (model.tools and all(each.tools for each in model.then))


def _shown(choice: Choice) -> str:
    """Its address without a password."""
    return choice.base_url.rpartition("@")[2]


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
    """However it is written; where an address can be read in two ways, by both."""
    addresses = readings(host)
    return host == "localhost" or (bool(addresses) and all(address.is_loopback for address in addresses))
