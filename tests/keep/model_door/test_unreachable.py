"""Providers that cannot be reached, or cannot prove who they are: a failure that may pass, and no key is sent."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.keep.model_door.model import CallFailure
from infra.keep.programs import keep_environment
from tests.keep.model_door.doors import KEY
from tests.keep.model_door.test_anthropic_model import ask

ASK = """
from infra.keep.model_door.model import NOTHING, CallFailure
from tests.keep.model_door.test_anthropic_model import ask
try:
    ask("https://provider.invalid")
except CallFailure as failure:
    print(failure.type, failure.usage == NOTHING, failure.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace for a test")
def test_no_name_is_resolved() -> None:
    """Fault: there is no network at all, and so no resolver; expected: the model is unavailable, nothing is charged.
    In a namespace of its own, so that the question goes nowhere."""
    words = ["unshare", "--net", sys.executable, "-c", ASK]
    done = subprocess.run(words, env=keep_environment(), capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("unavailable True"), done.stdout + done.stderr
    assert "ConnectError" in done.stdout


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """Fault: the server's certificate is its own; expected: the model is unavailable, and the server reads nothing."""
    if not shutil.which("openssl"):
        pytest.fail("openssl(1), which makes a certificate, is not installed: apt-get install openssl")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    read: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                try:
                    with context.wrap_socket(client, server_side=True) as wrapped:
                        read.append(wrapped.recv(65536))
                except (ssl.SSLError, ConnectionError) as error:
                    read.append(f"refused: {error}".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(CallFailure) as caught:
            ask(f"https://127.0.0.1:{server.getsockname()[1]}")
        thread.join(10)
    assert caught.value.type == "unavailable"
    assert len(read) == 1
    assert read[0].startswith(b"refused: ") or read[0] == b""
    assert KEY.encode() not in read[0]
