"""An agent with nothing but Python's standard library. It says what it was told, word by word."""

import base64
import hashlib
import hmac
import json
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["AGENT_SECRET"].removeprefix("whsec_"))
MOST_BYTES = 8 * 1024 * 1024
MOST_SECONDS = 300  # between Fleetline's clock and this one


def is_signed(headers, body):
    """Standard Webhooks: a MAC over the id, the time and the body."""
    call_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not re.fullmatch(r"[0-9]{1,12}", sent_at) or abs(time.time() - int(sent_at)) > MOST_SECONDS:
        return False
    mac = hmac.digest(KEY, f"{call_id}.{sent_at}.".encode() + body, hashlib.sha256)
    own = b"v1," + base64.b64encode(mac)
    given = headers.get("webhook-signature", "").encode().split()
    return any(hmac.compare_digest(own, one) for one in given)


def answer(call):
    """Chunks of the AI SDK's UI message stream."""
    parts = call["messages"][-1]["parts"]
    asked = next((part["text"] for part in parts if part["type"] == "text"), "nothing")
    yield {"type": "start"}
    yield {"type": "text-start", "id": "1"}
    for word in re.findall(r"\S+\s*", f"You said: {asked}"):
        yield {"type": "text-delta", "id": "1", "delta": word}
        time.sleep(0.05)  # a model takes its time
    yield {"type": "text-end", "id": "1"}
    yield {"type": "finish"}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size) if 0 <= size <= MOST_BYTES else b""
        if not is_signed(self.headers, body):
            self.send_error(401, "Not signed by Fleetline")
            return
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.end_headers()
        try:
            for chunk in answer(json.loads(body)):
                self.wfile.write(json.dumps(chunk).encode() + b"\n")
        except ConnectionError:
            pass  # the reply was stopped


if __name__ == "__main__":
    server = ThreadingHTTPServer(("localhost", int(os.environ.get("PORT", "3000"))), Handler)
    print(f"Listening on http://localhost:{server.server_port}/", flush=True)
    server.serve_forever()
