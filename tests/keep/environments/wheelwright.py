"""Wheels made by hand, and an index on loopback (PEP 503) that serves them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_wheel(directory: Path, name: str, version: str, code: str = "", requires: tuple[str, ...] = ()) -> Path:
    """One module `name` with this code, and a program of the same name."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n{code}\ndef main():\n    print(VERSION)\n",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), content)  # its fixed date: the same content is the same hash
    return wheel


def repacked(directory: Path, name: str) -> Path:
    """The wheel of a package that is installed here, and works here."""
    found = importlib.metadata.distribution(name)
    tags = re.findall(r"^Tag: (.+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    interpreter, abi, _ = tags[0].split("-")
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    wheel = directory / f"{name.replace('-', '_')}-{found.version}-{interpreter}-{abi}-{platforms}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts and file.name != "direct_url.json":
                archive.write(Path(str(file.locate())), str(file))
    return wheel


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Index:
    """What an index has, a folder of wheels for each package, and what it was asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[str] = []
        self.stall = threading.Event()
        """While set, no question is answered."""
        self.go_on = threading.Event()
        self.status = 200
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def has(self, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
        make_wheel(self.directory / name, name, version, requires=requires)


@contextlib.contextmanager
def serving(index: Index) -> Iterator[Index]:
    """The index in reach for as long as the block lasts; at the same port each time."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            if index.stall.is_set():
                index.go_on.wait(30)
            elif index.status != 200:
                self.send_error(index.status)
            else:
                super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            return

    handler = functools.partial(Handler, directory=str(index.directory))
    server = ThreadingHTTPServer(("127.0.0.1", index.port), handler)
    index.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield index
    finally:
        index.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
