"""Waits for a call that nobody answers, until it is interrupted."""

import signal
import sys
import threading

import keepline

# Whoever started this may ignore it, as shells do for what runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
url = f"redis://127.0.0.1:{sys.argv[1]}"
memory = keepline.Keepline.open(backend="redis", redis_url=url, store_timeout_ms=300_000)


def announce() -> None:
    while memory.metrics()["instances_at_work"] == 0:
        pass
    print("waits")


threading.Thread(target=announce, daemon=True).start()
try:
    memory.pipe().question("?", {"session_id": "anna"})
except KeyboardInterrupt:
    while memory.metrics()["instances_at_work"] > 0:
        pass
    print("interrupted")
