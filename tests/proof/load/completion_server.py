"""A completions server in a thread, which remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CompletionServer:
    """What was asked: ``bodies`` in the order they came, under which ``keys``, ``most_in_flight`` at once."""

    def __init__(self, fails_at, step):
        self.step = step
        self.bodies = []
        self.keys = set()
        self.most_in_flight = self.in_flight = 0
        self.fails_at = fails_at
        self.lock = threading.Lock()


@contextmanager
def completion_server(fails_at=None, step=0.003):
    """A server's base URL and its record. Request ``fails_at`` is cut off; a token takes ``step`` seconds."""
    record = CompletionServer(fails_at, step)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with record.lock:
                number = len(record.bodies)
                record.bodies.append(body)
                record.keys.add(self.headers["Authorization"])
                record.in_flight += 1
                record.most_in_flight = max(record.most_in_flight, record.in_flight)
            time.sleep(0.02)
            events = [
                {
                    "choices": [
                        {"text": "a", "finish_reason": None if i + 1 < body["max_tokens"] else "length"}
                    ]
                }
                for i in range(body["max_tokens"])
            ]
            events.append({"choices": [], "usage": {"completion_tokens": body["max_tokens"]}})
            with record.lock:
                record.in_flight -= 1
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in (*map(json.dumps, events), "[DONE]"):
                if number == record.fails_at:
                    self.close_connection = True
                    return
                time.sleep(record.step)
                data = f"data: {event}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", record
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
