"""A completions server that can fail in each possible way: ``fake_server.py PORT MODE [STEP_SECONDS]``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODES = (
    "good",
    "never-healthy",
    "dies-at-start",
    "dies-under-load",
    "ignores-sigint",
    "ignores-all-but-sigkill",
    "leaves-children",  # in a session of their own, and deaf to SIGINT
    "refuses",  # every request
    "cuts-off",  # each stream in its middle
    "hangs",  # at the first request
)


class Handler(BaseHTTPRequestHandler):
    mode = "good"
    step = 0.005  # between tokens, so that they do not come at once
    requests = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        self.send_response(503 if self.mode == "never-healthy" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            Handler.requests += 1
        if self.mode == "dies-under-load" and Handler.requests > 1:
            print("fake server: out of memory", flush=True)
            os._exit(7)
        if self.mode == "hangs":
            time.sleep(1000)
        if self.mode == "refuses":
            self.send_error(400, "no such model")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        tokens = body["max_tokens"]
        for i in range(tokens):
            if self.mode == "cuts-off" and i == tokens // 2:
                return
            time.sleep(self.step)
            last = i == tokens - 1
            self.event({"choices": [{"text": "a", "finish_reason": "length" if last else None}]})
        self.event({"choices": [], "usage": {"completion_tokens": tokens}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, value: object) -> None:
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    port, Handler.mode = int(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        Handler.step = float(sys.argv[3])
    assert Handler.mode in MODES
    print(f"fake server: CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
    if Handler.mode == "dies-at-start":
        sys.exit("fake server: no such checkpoint")
    deaf = {"ignores-sigint": [signal.SIGINT], "ignores-all-but-sigkill": [signal.SIGINT, signal.SIGTERM]}
    for number in deaf.get(Handler.mode, []):
        signal.signal(number, signal.SIG_IGN)
    if Handler.mode == "leaves-children":
        child = [
            sys.executable,
            "-c",
            "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)",
            str(port),  # how a test finds it
        ]
        subprocess.Popen(child, start_new_session=True)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        os._exit(0)


if __name__ == "__main__":
    main()
