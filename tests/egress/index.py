"""An index of packages that speaks TLS, with one package."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import zipfile
from pathlib import Path

HOST, OTHER = "index.example", "other.example"
"""Both have the certificate and the packages; only the first is one that the PM names."""
WHEEL = "sealedpkg-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """The smallest package there is."""
    info = "sealedpkg-1.0.dist-info"
    files = {
        "sealedpkg.py": "WORD = 'installed'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: sealedpkg\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return held.getvalue()


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
    content = wheel()
    link = f'<a href="/files/{WHEEL}#sha256={hashlib.sha256(content).hexdigest()}">{WHEEL}</a>'
    listed = f"<!DOCTYPE html><html><body>{link}</body></html>".encode()
    found = {"/simple/sealedpkg/": listed, f"/files/{WHEEL}": content}
    return {path: base64.b64encode(body).decode() for path, body in found.items()}
