"""Gives a page the token of the user who is logged in. It needs nothing but Python's standard library."""

import json
import os
import urllib.request
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL, KEY = os.environ["FLEETLINE_URL"], os.environ["FLEETLINE_API_KEY"]


def token_for(user):
    request = urllib.request.Request(
        f"{URL}/v1/tokens",
        data=json.dumps({"user": user}).encode(),
        headers={"authorization": f"Bearer {KEY}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["token"]


def user_of(headers):
    """Stands in for the login of your application. It believes every cookie, so replace it."""
    cookie = SimpleCookie(headers.get("cookie", "")).get("user")
    return cookie and cookie.value


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        user = user_of(self.headers)
        if not user:
            self.send_error(401, "Log in first")
            return
        try:
            token = token_for(user).encode()
        except OSError:  # no answer, or an answer that is not 2xx
            self.send_error(503, "There is no token now")
            return
        self.send_response(200)
        self.send_header("cache-control", "no-store")
        self.send_header("content-length", str(len(token)))
        self.end_headers()
        self.wfile.write(token)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("localhost", int(os.environ.get("PORT", "3000"))), Handler)
    print(f"Listening on http://localhost:{server.server_port}/", flush=True)
    server.serve_forever()
