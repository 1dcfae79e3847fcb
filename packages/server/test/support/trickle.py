# COUNT readers of one URL that take a little now and then, so that none of them stalls, and come back when they are closed;
# and one that takes all it gets. Receive buffers are small (Node cannot set that), so that what is not taken stays with the
# pod. Says, once a second, how many are open, how many were closed, and how many bytes the one that reads has had.
import json
import random
import socket
import sys
import time
from urllib.parse import urlsplit

url, count = urlsplit(sys.argv[1]), int(sys.argv[2])
EVERY_S, AGAIN_S, STARTS = 2, 1, 20  # STARTS: in one pass, of 20 ms
REQUEST = f"GET {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\n\r\n".encode()


def start(is_slow=True):
    one = socket.socket()
    if is_slow:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(30)
    one.connect((url.hostname, url.port))
    one.sendall(REQUEST)
    one.setblocking(False)
    return one


def take(one, most):
    """The bytes that are there; None: it was closed."""
    try:
        return one.recv(most) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


def later():
    return time.monotonic() + EVERY_S * random.uniform(0.5, 1.5)


slow, again, closed = [], [0] * count, 0  # slow: when it takes something again, its socket
reader, taken, begun, last, resumed, said = None, 0, 0, 0, 0, 0
while True:
    now = time.monotonic()
    for _ in range(STARTS):
        if again and again[0] <= now:
            again.pop(0)
            slow.append((later(), start()))
    kept = []
    for when, one in slow:
        if when > now:
            kept.append((when, one))
        elif take(one, 2048) is not None:
            kept.append((later(), one))
        else:
            one.close()
            closed += 1
            again.append(now + AGAIN_S)
    slow = kept
    if reader is None and (begun or len(slow) > 0.9 * count):
        reader, begun = start(is_slow=False), begun or now
    for _ in range(1000):
        more = take(reader, 1 << 20) if reader else b""
        if more is None:  # what it asked for could not be read in time: it comes back
            reader, resumed = None, resumed + 1
        if not more:
            break
        taken, last = taken + len(more), now
    if now - said >= 1:
        line = {"open": len(slow), "closed": closed, "taken": taken, "resumed": resumed, "s": last - begun if begun else 0}
        print(json.dumps(line), flush=True)
        said = now
    time.sleep(0.002 if reader else 0.02)
