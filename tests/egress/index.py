"""An index of packages that speaks TLS, with one package for pip and uv and one for npm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from tests.egress.test_packages import WHEEL, wheel

HOST, OTHER = "index.example", "other.example"
"""Both have the certificate and the packages; only the first is one that the PM names."""


def certificate(folder: Path) -> tuple[Path, Path]:
    """Two files: what the index shows, with its key, and what a client trusts."""
    key, shown = folder / "index.pem", folder / "index.crt"
    words = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 7 -subj /CN=index"
    named = f"-addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:{HOST},DNS:{OTHER}"
    subprocess.run([*words.split(), *named.split(), "-keyout", key, "-out", shown], check=True, capture_output=True)
    key.write_bytes(key.read_bytes() + shown.read_bytes())
    return key, shown


def pages() -> dict[str, str]:
    """As `far_end.publish` takes them."""
    content, packed = wheel(), _tarball()
    link = f'<a href="/files/{WHEEL}#sha256={hashlib.sha256(content).hexdigest()}">{WHEEL}</a>'
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(packed).digest()).decode()}"
    dist = {"tarball": f"https://{HOST}/sealedpkg.tgz", "integrity": integrity}
    version = {"name": "sealedpkg", "version": "1.0.0", "dist": dist}
    listed = {"name": "sealedpkg", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    found = {
        "/simple/sealedpkg/": f"<!DOCTYPE html><html><body>{link}</body></html>".encode(),
        f"/files/{WHEEL}": content,
        "/sealedpkg": json.dumps(listed).encode(),
        "/sealedpkg.tgz": packed,
    }
    return {path: base64.b64encode(body).decode() for path, body in found.items()}


def _tarball() -> bytes:
    """The smallest package of npm's."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name, text in (("package.json", '{"name": "sealedpkg", "version": "1.0.0"}'), ("index.js", "")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return held.getvalue()
