"""A plain HTTP server on 127.0.0.1 that keeps what is PUT to it in a directory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def serving(directory: Path, writable: bool = True) -> Iterator[str]:
    """Its URL, and `directory` has a file for each entry."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = directory / self.path.lstrip("/")
            self.reply(200, path.read_bytes()) if path.is_file() else self.reply(404)

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if not writable:
                return self.reply(403)
            path = directory / self.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            return self.reply(201)

        def reply(self, code: int, data: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
