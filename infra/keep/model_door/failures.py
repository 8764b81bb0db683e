"""What goes wrong between the door and a provider, as the failure that the runner is told; what only one provider's
library raises, its adapter knows."""

from __future__ import annotations

from collections.abc import Callable

from infra.keep.model_door.errors import ProviderError, shortened
from infra.keep.model_door.model import CallFailure
from infra.shared.conversation import Usage


def failure_of(
    error: BaseException,
    most: Usage | None,
    measured: bool,
    idle_seconds: float,
    classify: Callable[[ProviderError], str],
) -> CallFailure | None:
    """None for a bug of ours. `most`, `measured`: what the provider can charge, and whether it said so itself;
    `classify`: the type of the provider's own error."""
    import httpx2

    match error:
        case CallFailure():
            return error
        case TimeoutError():
            words = f"no new content from the provider for {idle_seconds:g} s; given up"
            return CallFailure("unavailable", words, None, most, measured)
        case ProviderError():
            words = f"the provider broke off its reply: {error.type}: {shortened(error.message)}"
            return CallFailure(classify(error), words, None, most, measured)
        case httpx2.InvalidURL():
            words = f"model.base_url is no address that can be asked: {shortened(str(error))}"
            return CallFailure("unavailable", words)  # nothing was sent
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
            return CallFailure("unavailable", _lost(error))  # nothing was sent
        case httpx2.TransportError() | OSError():
            return CallFailure("unavailable", _lost(error), None, most, measured)
        case httpx2.HTTPError() | ValueError() | AssertionError() | RecursionError():
            return unusable(error, most, measured)
    return None


def unusable(error: BaseException, most: Usage | None, measured: bool) -> CallFailure:
    words = f"the provider's reply cannot be used: {shortened(str(error)) or type(error).__name__}"
    return CallFailure("provider_error", words, None, most, measured)


def _lost(error: BaseException) -> str:
    return f"the connection to the provider failed: {shortened(f'{type(error).__name__} {error}')}"
