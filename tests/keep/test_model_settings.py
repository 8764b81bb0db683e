"""Which models calls go to, and what a sandbox reaches."""

from __future__ import annotations

from typing import Any

from host.model_reach import is_inner, problem_in_sandbox
from infra.keep.settings.check import checked
from infra.keep.settings.models import KEYS, PROVIDERS, Choice, choices, keys_needed, model_words
from infra.keep.settings.schema import ModelSettings, NextModel
from tests.shared.rows import each_row

ANTHROPIC, OPENAI = KEYS


@each_row("keys, provider", [((), "scripted"), ((OPENAI,), "openai"), ((ANTHROPIC,), "anthropic"), (KEYS, "anthropic")])
def test_auto_is_settled_by_the_keys(keys: tuple[str, ...], provider: str) -> None:
    """Claude before OpenAI before the script; and the key of the one that was found is needed, no other."""
    model = ModelSettings()

    assert choices(model, keys)[0].provider == provider
    assert keys_needed(model, keys) == tuple(key for key in [PROVIDERS[provider].key] if key)


def test_an_address_beside_auto_is_claude_s_alone() -> None:
    """OpenAI's key never goes to a gateway that is Claude's, nor is its model asked there by Claude's name."""
    model = ModelSettings(name="claude-x", base_url="https://claude.example.org")

    assert choices(model, (OPENAI,))[0][:3] == ("openai", "gpt-6.1-terra", "https://api.openai.com/v1")
    assert choices(model, ())[0][:3] == ("scripted", "demo", "")
    assert choices(model, KEYS)[0][:3] == ("anthropic", "claude-x", "https://claude.example.org")
    assert choices(ModelSettings(name="gpt-x"), (OPENAI,))[0].name == "gpt-x", "a name alone is for whoever is found"


@each_row(
    "first, then, told",
    [
        (("openai", None), [("openai", "https://other.org/v1")], [("OPENAI", "api.openai.com", "other.org")]),
        (("openai", "https://a.org"), [("openai", "https://a.org:8443")], [("OPENAI", "a.org", "a.org:8443")]),
        (("anthropic", "https://[bad"), [("anthropic", None)], [("ANTHROPIC", "[bad", "api.anthropic.com")]),
        (("auto", "https://a.org"), [("anthropic", None)], [("ANTHROPIC", "a.org", "api.anthropic.com")]),
        (("auto", None), [("openai", "https://other.org")], [("OPENAI", "api.openai.com", "other.org")]),
        (
            ("openai", "https://u:pass@a.org"),
            [("anthropic", None), ("anthropic", "https://b.org"), ("openai", None)],
            [("ANTHROPIC", "api.anthropic.com", "b.org"), ("OPENAI", "a.org", "api.openai.com")],
        ),
        (("openai", "https://A.org/v1"), [("openai", "https://a.org:443/v2"), ("anthropic", "https://b.org")], []),
        (("ollama", "http://a.lan"), [("ollama", "http://b.lan")], []),
        (("auto", "https://a.org"), [("openai", "https://b.org")], [("OPENAI", "api.openai.com", "b.org", "of auto")]),
    ],
)
def test_one_key_goes_to_one_server(
    first: tuple[str, str | None], then: list[tuple[str, str | None]], told: list[tuple[str, ...]]
) -> None:
    """By scheme, host and port, whichever keys there are; both servers are named, no password is. What has no key may
    be anywhere."""
    raw = {"provider": first[0], "base_url": first[1], "then": [{"provider": p, "base_url": u} for p, u in then]}

    problems: list[str] = []
    checked(raw, ModelSettings, "model", problems)
    assert len(problems) == len(told)
    for words in told:
        assert any(all(word in problem for word in words) for problem in problems), problems
    assert "pass" not in "".join(problems)


def test_what_is_left_out_is_the_provider_s_own() -> None:
    """Name and address by provider, tokens by the first model; in the order of the settings."""
    model = ModelSettings(
        provider="ollama",
        max_tokens=7,
        then=(
            NextModel(provider="openai", max_tokens=8),
            NextModel(provider="anthropic", name="x", base_url="https://y"),
        ),
    )

    assert choices(model, ()) == (
        Choice("ollama", "qwen3", "http://127.0.0.1:11434", 7),
        Choice("openai", "gpt-6.1-terra", "https://api.openai.com/v1", 8, "responses", vision=True),
        Choice("anthropic", "x", "https://y", 7, vision=True),
    )
    assert keys_needed(model, ()) == (OPENAI, ANTHROPIC)
    assert model_words(model, ()) == "ollama qwen3 (then openai gpt-6.1-terra, anthropic x)"


@each_row(
    "given, api",
    [
        ({}, "responses"),
        ({"base_url": "https://API.openai.com:443/v1"}, "responses"),
        ({"base_url": "https://other.org/v1"}, "chat"),
        ({"base_url": "https://other.org/v1", "api": "responses"}, "responses"),
        ({"api": "chat"}, "chat"),
    ],
)
def test_openai_s_own_address_is_spoken_to_by_responses(given: dict[str, Any], api: str) -> None:
    """Any other by what most servers speak, unless the settings say; also as a fallback model."""
    assert choices(ModelSettings(provider="openai", **given), ())[0].api == api
    assert choices(ModelSettings(provider="ollama", then=(NextModel(provider="openai", **given),)), ())[1].api == api


def test_who_takes_images() -> None:
    """A model that almost always does."""
    for provider, sees in (("anthropic", True), ("openai", True), ("ollama", False)):
        assert choices(ModelSettings(provider=provider), ())[0].vision is sees  # type: ignore[arg-type]


ADDRESSES = [
    ("http://127.0.0.1:11434", True),
    ("http://[::1]:11434", True),
    ("http://192.168.1.5:11434", True),
    ("http://10.0.0.1", True),
    ("http://169.254.169.254/", True),
    ("http://[fd00::1]/", True),
    ("http://localhost:11434", True),
    ("http://gpu:11434", True),
    ("http://gpu.lan", True),
    ("http://gpu.local.", True),
    ("http://127.1:8080", True),
    ("http://0x7f.1", True),
    ("http://2130706433", True),
    ("http://0300.0250.1", True),
    ("http://169.254.43518", True),
    ("http://[::ffff:10.0.0.1]", True),
    ("http://[64:ff9b::a00:1]", True),
    ("https://93.12146", False),
    ("https://api.openai.com/v1", False),
    ("https://93.184.216.34", False),
    ("https://[2606:2800:220:1::1]", False),
    ("http://[bad", False),
]


def test_an_address_of_this_network_is_told_from_a_public_one() -> None:
    """As far as it can be seen in the address itself."""
    assert [(url, is_inner(url)) for url, _ in ADDRESSES] == ADDRESSES


def test_the_sealed_container_is_told_what_it_does_not_reach() -> None:
    """A model at a private address; the process sandbox reaches it."""
    ollama = ModelSettings(provider="ollama")

    assert "private address" in (problem_in_sandbox(ollama, "podman") or "")
    short = ModelSettings(provider="ollama", base_url="http://127.1:11434")
    assert "http://127.1:11434 (127.0.0.1), a private address" in (problem_in_sandbox(short, "podman") or "")
    for reached in (ModelSettings(), ModelSettings(provider="openai")):
        assert problem_in_sandbox(reached, "podman") is None
    assert problem_in_sandbox(ollama, "process") is None
    scripted = ModelSettings(provider="scripted", name="/home/pm/script.yaml")
    assert "not in the sealed container" in (problem_in_sandbox(scripted, "podman") or "")
    assert problem_in_sandbox(scripted, "process") is None
