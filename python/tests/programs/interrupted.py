"""Waits for a call that nobody answers, until it is interrupted."""

import sys
import threading

import keepline

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
