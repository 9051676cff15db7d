"""Cancelled tasks, and several event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from conftest import DEADLINE, RedisServer

import keepline


def test_a_cancelled_task_cancels_its_call(silent_server: Any) -> None:
    async def main() -> None:
        fields = {"backend": "redis", "redis_url": f"redis://127.0.0.1:{silent_server.port}"}
        memory = await keepline.AsyncKeepline.open(**fields, store_timeout_ms=300_000)
        calls = [asyncio.ensure_future(memory.pipe().question("?", {"session_id": f"s{n}"})) for n in range(8)]
        while memory.metrics()["instances_at_work"] < len(calls):
            await asyncio.sleep(0.001)
        for call in calls:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * len(calls)
        # Nothing has answered: they were dropped.
        while memory.metrics()["instances_at_work"] > 0:
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(memory.pipe().question("?", {"session_id": "late"}), 0.05)

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_two_loops_share_a_keepline(redis_server: RedisServer) -> None:
    memory = keepline.Keepline.open(
        backend="redis", redis_url=redis_server.url, key_prefix="loops", store_timeout_ms=60_000
    )
    shared = keepline.AsyncKeepline(memory._native)
    failed: list[BaseException] = []

    async def converse(session: str) -> None:
        pipe = shared.pipe()
        for _ in range(50):
            await pipe.question("?", {"session_id": session})
            assert (await pipe.answer("An answer.")).effect == "stored"

    def run(session: str) -> None:
        try:
            asyncio.run(converse(session))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(f"loop{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not failed
    assert [memory.sessions().get(f"loop{number}", "answer_count") for number in range(2)] == [50, 50]


def test_a_loop_that_was_closed_is_no_ones_problem(silent_server: Any) -> None:
    memory = keepline.Keepline.open(
        backend="redis", redis_url=f"redis://127.0.0.1:{silent_server.port}", store_timeout_ms=300_000
    )
    shared = keepline.AsyncKeepline(memory._native)

    async def begin() -> None:
        call: Any = asyncio.ensure_future(shared.pipe().question("?", {"session_id": "anna"}, timeout=0.2))
        # That it is left pending is the case here, and asyncio need not warn of it.
        call._log_destroy_pending = False
        while memory.metrics()["instances_at_work"] < 1:
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().stop()

    loop = asyncio.new_event_loop()
    loop.create_task(begin())
    loop.run_forever()
    loop.close()
    # The call ends, and its outcome has nowhere to go; another loop works as before.
    assert asyncio.run(shared.pipe().question("?", {"session_id": "anna"}, timeout=0.01)).effect == "failed"


def test_a_pipe_is_one_tasks_at_a_time(redis_server: RedisServer) -> None:
    async def main() -> None:
        fields: dict[str, Any] = {"redis_url": redis_server.url, "key_prefix": "one-pipe", "store_timeout_ms": 60_000}
        async with await keepline.AsyncKeepline.open(backend="redis", **fields) as memory:
            pipe = memory.pipe()
            await asyncio.gather(*(pipe.answer("An answer.", {"session_id": "anna"}) for _ in range(20)))
            assert await memory.sessions().get("anna", "answer_count") == 20

    asyncio.run(asyncio.wait_for(main(), DEADLINE))
