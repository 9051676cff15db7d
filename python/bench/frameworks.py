"""Measures pairs on memory, and the frameworks' sessions beside their own Redis classes on one server.

Prints medians in microseconds. ``--quick``: fewer rounds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import redis
import redis.asyncio
from agents.extensions.memory.redis_session import RedisSession
from conftest import RedisServer
from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage

import keepline
from keepline.langchain import KeeplineChatMessageHistory
from keepline.openai_agents import KeeplineSession

QUICK = "--quick" in sys.argv
ROUNDS = 5 if QUICK else 21
SIZES = (10, 100, 1000)
QUESTION, ANSWER = "Where is my parcel? " * 4, "It left Hamburg this morning. " * 8


def medians(contenders: Sequence[Sequence[Callable[[], Any]]]) -> list[float]:
    """The median of each contender's runs, in microseconds. They run in turn, and none collects another's garbage."""
    times: list[list[float]] = [[] for _ in contenders]
    for runs in zip(*contenders, strict=True):
        for taken, run in zip(times, runs, strict=True):
            gc.collect()
            began = time.perf_counter()
            run()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) * 1e6 for taken in times]


async def async_medians(contenders: Sequence[Sequence[Callable[[], Awaitable[Any]]]]) -> list[float]:
    times: list[list[float]] = [[] for _ in contenders]
    for runs in zip(*contenders, strict=True):
        for taken, run in zip(times, runs, strict=True):
            gc.collect()
            began = time.perf_counter()
            await run()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) * 1e6 for taken in times]


def pairs_on_memory() -> None:
    count, rounds = 1000, 5 if QUICK else 15

    def sync(fields: dict[str, Any]) -> float:
        memory = keepline.Keepline.open(**fields)
        times = []
        for number in range(rounds):
            pipe, metadata = memory.pipe(), {"session_id": f"s{number}"}
            began = time.perf_counter()
            for _ in range(count):
                pipe.question("Where is my parcel?", metadata)
                pipe.answer("In Leipzig.")
            times.append((time.perf_counter() - began) / count * 1e6)
        return statistics.median(times)

    async def awaited(fields: dict[str, Any]) -> float:
        memory = await keepline.AsyncKeepline.open(**fields)
        times = []
        for number in range(rounds):
            pipe, metadata = memory.pipe(), {"session_id": f"s{number}"}
            began = time.perf_counter()
            for _ in range(count):
                await pipe.question("Where is my parcel?", metadata)
                await pipe.answer("In Leipzig.")
            times.append((time.perf_counter() - began) / count * 1e6)
        return statistics.median(times)

    print("| a pair, µs | waited for | awaited |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            "memory": {},
            "memory, conversation": {"conversation": True},
            "directory": {"backend": "directory", "directory": folder},
        }
        for name, fields in stores.items():
            print(f"| {name} | {sync(fields):.1f} | {asyncio.run(awaited(fields)):.1f} |", flush=True)


def round_trips(server: RedisServer) -> None:
    """What two requests to this server take at least: a pair is written by one, and read by another."""
    with redis.Redis(port=server.port) as client:
        two = medians([[lambda: (client.ping(), client.ping())] * 200])
    print(f"\ntwo PINGs of redis-py: {two[0]:.0f} µs")


def langchain(server: RedisServer, memory: keepline.Keepline) -> None:
    pair = [HumanMessage(QUESTION), AIMessage(ANSWER)]
    heading("LangChain")
    for size in SIZES:
        # Each round has a session of its own, which is as long as it is said to be.
        names = [uuid.uuid4().hex for _ in range(ROUNDS)]
        ours: list[Any] = [KeeplineChatMessageHistory(name, memory) for name in names]
        theirs: list[Any] = [RedisChatMessageHistory(name, url=server.url) for name in names]
        for history in ours + theirs:
            for _ in range(size // 2):
                history.add_messages(pair)

        def ours_turn(history: Any) -> None:
            history.add_messages(pair)
            assert len(history.newest(20)) == min(20, size + 2)

        def theirs_turn(history: Any) -> None:
            history.add_messages(pair)
            assert len(history.messages[-20:]) == min(20, size + 2)

        def both(ours_do: Callable[[Any], Any], theirs_do: Callable[[Any], Any]) -> list[float]:
            return medians([[partial(ours_do, one) for one in ours], [partial(theirs_do, one) for one in theirs]])

        def read(history: Any) -> None:
            assert history.messages

        def add(history: Any) -> None:
            history.add_messages(pair)

        row("read all", size, *both(read, read))
        [made] = medians([[lambda: [HumanMessage(QUESTION) if n % 2 else AIMessage(ANSWER) for n in range(size)]] * ROUNDS])
        print(f"| of which LangChain's constructors alone | {size} | {made:.0f} | {made:.0f} | |", flush=True)
        row("store a pair, read the newest 20", size, *both(ours_turn, theirs_turn))
        row("store a pair", size, *both(add, add))


async def openai_agents(server: RedisServer, memory: keepline.Keepline) -> None:
    pair: list[Any] = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    heading("Agents SDK")
    for size in SIZES:
        names = [uuid.uuid4().hex for _ in range(ROUNDS)]
        ours: list[Any] = [KeeplineSession(name, memory) for name in names]
        client = redis.asyncio.Redis(port=server.port)
        theirs: list[Any] = [RedisSession(name, redis_client=client) for name in names]
        for session in ours + theirs:
            for _ in range(size // 2):
                await session.add_items(pair)

        async def turn(session: Any) -> None:
            await session.add_items(pair)
            assert len(await session.get_items(20)) == min(20, size + 2)

        async def both(do: Callable[[Any], Awaitable[Any]]) -> list[float]:
            return await async_medians([[partial(do, one) for one in ours], [partial(do, one) for one in theirs]])

        row("read all", size, *await both(lambda session: session.get_items()))
        row("store a pair, read the newest 20", size, *await both(turn))
        row("store a pair", size, *await both(lambda session: session.add_items(pair)))
        row("store one message", size, *await both(lambda session: session.add_items(pair[:1])))
        await client.aclose()


def heading(framework: str) -> None:
    print(f"\n| {framework}, µs | messages | Keepline | its Redis class | times |\n|---|---|---|---|---|")


def row(what: str, size: int, ours: float, theirs: float) -> None:
    print(f"| {what} | {size} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.1f} |", flush=True)


def main() -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {ROUNDS} rounds\n")
    pairs_on_memory()
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            # As a server is, that is not asked to wait for its disk.
            subprocess.run(["redis-cli", "-p", str(server.port), "config", "set", "appendonly", "no"], check=True, capture_output=True)
            memory = keepline.Keepline.open(
                backend="redis", redis_url=server.url, conversation=True, store_timeout_ms=60_000
            )
            round_trips(server)
            langchain(server, memory)
            asyncio.run(openai_agents(server, memory))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
