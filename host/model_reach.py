"""Which models a sandbox can reach; pure. The sealed container reaches no private address; this
is checked before it starts."""

from __future__ import annotations

from urllib.parse import urlsplit

from infra.keep.settings.models import KEYS, PROVIDERS, SCRIPTED, choices
from infra.keep.settings.schema import ModelSettings
from infra.shared.network import INNER_NAMES, address_of, is_private

SEALED = "podman"


def problem_in_sandbox(model: ModelSettings, sandbox: str) -> str | None:
    """Why a model of these settings cannot work in `sandbox`; None when it may."""
    if sandbox != SEALED:
        return None
    # Which keys there are settles `auto` alone, and its providers have public addresses of their own.
    for choice in dict.fromkeys(one for keys in ((), *((key,) for key in KEYS)) for one in choices(model, keys)):
        if choice.provider == SCRIPTED and choice.name != PROVIDERS[SCRIPTED].model:
            return (
                f"model.name is {choice.name}, a file of this machine, which is not in the sealed container; use "
                "'sandbox: process', or leave it out"
            )
        if choice.base_url and is_inner(choice.base_url):
            return (
                f"the model {choice.provider} {choice.name} is at {_told(choice.base_url)}, a private address, which "
                "the sealed container does not reach; give a public address in base_url, or use 'sandbox: process'"
            )
    return None


def is_inner(url: str) -> bool:
    """Whether an address is this machine's own or its network's, as far as that can be seen without asking anybody."""
    host = _host(url)
    if host is None:
        return False  # told where the address is used
    address = address_of(host)
    if address is not None:
        return not address.is_global or is_private(address)
    return "." not in host or any(host.endswith(f".{name}") for name in INNER_NAMES)


def _host(url: str) -> str | None:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return None


def _told(url: str) -> str:
    """With the usual spelling of an address that is written in another one, such as 127.1."""
    host = _host(url) or ""
    address = address_of(host)
    return f"{url} ({address})" if address is not None and str(address) != host else url
