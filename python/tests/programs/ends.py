"""Ends while calls wait for a server that never answers."""

import asyncio
import sys
import threading

import keepline

how, port = sys.argv[1:]
fields = {"backend": "redis", "redis_url": f"redis://127.0.0.1:{port}", "store_timeout_ms": 300_000}
memory = keepline.Keepline.open(**fields)


async def begin() -> None:
    shared = keepline.AsyncKeepline(memory._native)
    tasks = [asyncio.ensure_future(shared.pipe().question("?", {"session_id": "anna"})) for _ in range(4)]
    while memory.metrics()["instances_at_work"] < len(tasks):
        await asyncio.sleep(0)


def wait() -> None:
    memory.pipe().question("?", {"session_id": "anna"})


if how == "threads":
    for _ in range(4):
        threading.Thread(target=wait, daemon=True).start()
    while memory.metrics()["instances_at_work"] < 4:
        pass
elif how == "tasks":
    asyncio.run(begin())
else:
    # The calls are still at work, and their loop is left as it is.
    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
print("ends")
if how == "exception":
    raise SystemExit(1)
