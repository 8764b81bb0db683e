"""What the door keeps out: environment variables that would change where an SDK sends, as whom, or what it writes
down. They are removed from the door's own environment before anything reads them."""

from __future__ import annotations

from collections.abc import MutableMapping

_PREFIXES = ("ANTHROPIC_", "OPENAI_", "AZURE_OPENAI_", "OLLAMA_", "OTEL_", "OPENTELEMETRY_")
_NAMES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "NETRC",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSLKEYLOGFILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)


def remove_foreign_settings(environment: MutableMapping[str, str]) -> list[str]:
    """Remove them; gives the names that were there."""
    found = [name for name in environment if name.upper().startswith(_PREFIXES) or name.upper() in _NAMES]
    for name in found:
        del environment[name]
    return sorted(found)
