"""A stand-in for an OpenAI-compatible server on loopback: steps of a known length, one chunk an iteration, counters."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Engine:
    """step_s: of an iteration. gamma, alpha: drafted tokens and their acceptance; gamma 0 has no counters.

    counts: whether chunks say how many tokens there are so far. merge: iterations in one chunk.
    """

    def __init__(self, step_s: float = 0.004, gamma: int = 0, alpha: float = 0.5, counts: bool = True, merge: int = 1):
        self.step_s, self.gamma, self.alpha, self.counts, self.merge = step_s, gamma, alpha, counts, merge
        self.drafts, self.accepted = 0, [0] * gamma
        self.lock, self.draw = threading.Lock(), random.Random(0)
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.fail: str | None = None

    def iteration(self) -> int:
        """Tokens that one gains."""
        with self.lock:
            gained = 0
            while gained < self.gamma and self.draw.random() < self.alpha:
                self.accepted[gained] += 1
                gained += 1
            self.drafts += 1
        return gained + 1

    def metrics(self) -> str:
        rows = [f"vllm:spec_decode_num_drafts_total {self.drafts}.0"]
        rows.append(f"vllm:spec_decode_num_draft_tokens_total {self.drafts * self.gamma}.0")
        rows += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{j}"}} {n}.0'
            for j, n in enumerate(self.accepted)
        ]
        return "\n".join(rows) + "\n"


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The URL of a server of it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {"/v1/models": json.dumps({"data": [{"id": "tiny"}]}), "/version": '{"version": "9.9"}'}
            if engine.gamma:
                pages["/metrics"] = engine.metrics()
            text = pages.get(self.path)
            self.send_response(200 if text else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            engine.requests.append(body)
            engine.keys.append(self.headers["Authorization"])
            self.send_response(500 if engine.fail else 200)
            self.end_headers()
            if engine.fail:
                self.wfile.write(engine.fail.encode())
                return
            done = 0
            while done < body["max_tokens"]:
                time.sleep(engine.step_s * engine.merge)
                done = min(done + sum(engine.iteration() for _ in range(engine.merge)), body["max_tokens"])
                event: dict = {"choices": [{"text": "x"}]}
                if engine.counts:
                    event["usage"] = {"completion_tokens": done}
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
            last = {"choices": [], "usage": {"completion_tokens": done}}
            self.wfile.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
