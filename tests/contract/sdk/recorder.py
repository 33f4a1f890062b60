"""A server on loopback that gives prepared answers and keeps what it was asked."""

import json
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# So few bytes at once that characters and fields are cut in the middle.
PIECE_BYTES = 61


@dataclass(frozen=True)
class Answer:
    """What to say: one JSON value, or the events of a stream."""

    content_type: str
    body: bytes


@dataclass(frozen=True)
class Asked:
    """What somebody sent."""

    path: str
    headers: dict
    body: dict


def whole(text):
    """An answer in one piece."""
    return Answer("application/json", text.encode())


def stream(events):
    """An answer as server-sent events: pairs of a name, or none, and data."""
    lines = (f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n" for name, data in events)
    return Answer("text/event-stream; charset=utf-8", "".join(lines).encode())


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # Whoever has heard all may hang up.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Recorder:
    """The server. It stops with the block that it was made for."""

    def __init__(self):
        self._lock = threading.Lock()
        self._answers = []
        self.asked = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                recorder._answer(self, self.rfile.read(length))

            def log_message(self, *_):
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def play(self, answers):
        """Forgets everything and gives these answers from now on."""
        with self._lock:
            self._answers = list(answers)
            self.asked = []

    def _answer(self, handler, body):
        with self._lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.asked.append(Asked(handler.path, headers, json.loads(body)))
            answer = self._answers.pop(0) if self._answers else None
        if answer is None:
            handler.send_error(418, "nothing is left to say")
            return
        handler.send_response(200)
        handler.send_header("content-type", answer.content_type)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for at in range(0, len(answer.body), PIECE_BYTES):
            piece = answer.body[at : at + PIECE_BYTES]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")
