"""An agent that speaks AG-UI, with nothing but Python's standard library. It counts words with a tool."""

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


def text_of(content):
    """The content of a message: a text, or parts of which some are texts."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part["type"] == "text")


def answer(run):
    """The events of one run."""
    asked = text_of(run["messages"][-1].get("content", "")) or "nothing"
    counted = run["state"].get("counted", 0) + 1
    ids = {"threadId": run["threadId"], "runId": run["runId"]}
    yield {"type": "RUN_STARTED", **ids, "protocolVersion": "1.0"}
    call = f"call-{counted}"
    yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "count_words"}
    yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": json.dumps({"text": asked})}
    yield {"type": "TOOL_CALL_END", "toolCallId": call}
    count = len(asked.split())
    yield {"type": "TOOL_CALL_RESULT", "messageId": f"result-{counted}", "toolCallId": call, "content": str(count)}
    yield {"type": "STATE_SNAPSHOT", "snapshot": {"counted": counted}}
    message = {"messageId": f"message-{counted}"}
    yield {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"}
    for word in re.findall(r"\S+\s*", f"You said {count} words: {asked}"):
        yield {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": word}
        time.sleep(0.05)  # a model takes its time
    yield {"type": "TEXT_MESSAGE_END", **message}
    yield {"type": "RUN_FINISHED", **ids}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size) if 0 <= size <= MOST_BYTES else b""
        if not is_signed(self.headers, body):
            self.send_error(401, "Not signed by Fleetline")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for event in answer(json.loads(body)):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        except ConnectionError:
            pass  # the reply was stopped


if __name__ == "__main__":
    server = ThreadingHTTPServer(("localhost", int(os.environ.get("PORT", "3000"))), Handler)
    print(f"Listening on http://localhost:{server.server_port}/", flush=True)
    server.serve_forever()
