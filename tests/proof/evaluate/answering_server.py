"""A server of fixed completions and counters, in a thread."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{{model_name="m"}} {drafts}
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{{model_name="m"}} {accepted}
"""


class Record:
    def __init__(self):
        self.bodies, self.headers = [], []
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()


def said(text, finish_reason="stop"):
    return {"choices": [{"text": text, "finish_reason": finish_reason}], "usage": {"completion_tokens": 7}}


@contextmanager
def answering(respond, models=("m",)):
    """A server's URL and record. ``respond(body, number)``: a completion, (status, text), or None: cut off.

    Each completion counts as ten drafts with 23 accepted tokens.
    """
    record = Record()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/metrics":
                count = len(record.bodies)
                self.send(200, METRICS.format(drafts=10 * count, accepted=23 * count))
            else:
                self.send(200, json.dumps({"data": [{"id": name} for name in models]}))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with record.lock:
                number = len(record.bodies)
                record.bodies.append(body)
                record.headers.append(dict(self.headers))
                record.in_flight += 1
                record.most_in_flight = max(record.most_in_flight, record.in_flight)
            time.sleep(0.01)
            response = respond(body, number)
            with record.lock:
                record.in_flight -= 1
            if response is None:
                self.close_connection = True
            elif isinstance(response, tuple):
                self.send(*response)
            else:
                self.send(200, json.dumps(response))

        def send(self, status, text):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", record
    finally:
        server.shutdown()
        server.server_close()
