"""Providers that cannot be reached, or cannot prove who they are: a failure that may pass, and no key is sent."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from infra.keep.model_door.keys import Key
from infra.keep.model_door.model import NOTHING, CallFailure
from tests.keep.model_door.dialects import Anthropic, Dialect
from tests.keep.model_door.doors import KEY, a_request
from tests.keep.model_door.peer import Answer, Peer
from tests.keep.model_door.test_conformance import ask, every_dialect
from tests.keep.web_door.sites import certificate


@pytest.mark.fault("F77")
def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """Fault: the server's certificate is its own; expected: the model is unavailable, and the server reads nothing."""
    peer = Peer("", lambda body: Answer())
    peer._server.socket = certificate(tmp_path, "localhost").wrap_socket(peer._server.socket, server_side=True)
    with peer, pytest.raises(CallFailure, match="certificate") as caught:
        ask(Anthropic(), peer.url.replace("http://127.0.0.1", "https://localhost"))
    assert (caught.value.type, peer.requests) == ("unavailable", [])


@pytest.mark.fault("F77")
@every_dialect
def test_a_provider_that_nobody_is_or_that_does_not_speak_tls_costs_nothing(dialect: Dialect) -> None:
    """Nothing was sent, so nothing is charged, and nobody who cannot prove who it is has the key."""
    with socket.socket() as closed, Peer(dialect.content_type, lambda body: Answer()) as peer:
        closed.bind(("127.0.0.1", 0))
        for url in (f"http://127.0.0.1:{closed.getsockname()[1]}", peer.url.replace("http://", "https://")):
            with pytest.raises(CallFailure, match="ConnectError") as caught:
                ask(dialect, url)
            assert (caught.value.type, caught.value.usage) == ("unavailable", NOTHING)
    assert peer.requests == []


@pytest.mark.parametrize(
    ("key", "url", "type"),
    [
        (Key(None, "no key there"), "http://127.0.0.1:1", "authentication"),
        (Key(KEY, None), "http://provider.example", "invalid_request"),
    ],
)
def test_a_call_that_cannot_work_is_not_prepared(key: Key, url: str, type: str) -> None:
    """Neither a library nor the budget has anything to do with it."""
    model = Anthropic().model(url)
    model.key = key
    with pytest.raises(CallFailure) as caught:
        model.prepare(a_request())

    assert (caught.value.type, caught.value.message) == (type, model.problem)
