"""The chat store of LlamaIndex, with LlamaIndex itself, beside its Redis class on the same server."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

from conftest import DEADLINE, RedisServer
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.storage.chat_store.redis import RedisChatStore

import keepline
from keepline.llama_index import KeeplineChatStore

MESSAGES = [
    ChatMessage(role=MessageRole.USER, content="Where is parcel 7?"),
    ChatMessage(role=MessageRole.SYSTEM, content="Be short."),
    ChatMessage(role=MessageRole.ASSISTANT, content="", additional_kwargs={"tool_calls": [{"id": "c1"}]}),
    ChatMessage(role=MessageRole.TOOL, content="left Hamburg", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role=MessageRole.ASSISTANT, content="It left Hamburg."),
    ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="And this?"), ImageBlock(url="https://x.example/y.png")]),
    ChatMessage(role=MessageRole.USER, content="[not] a list"),
    ChatMessage(role=MessageRole.DEVELOPER, content="ä\n\u2028 \U0001f4e6"),
]


def open_on(server: RedisServer) -> keepline.Keepline:
    return keepline.Keepline.open(
        backend="redis",
        redis_url=server.url,
        key_prefix=f"llama:{uuid.uuid4().hex}",
        conversation=True,
        store_timeout_ms=60_000,
    )


def same(found: list[ChatMessage] | None, wanted: list[ChatMessage]) -> bool:
    return [m.model_dump() for m in found or []] == [m.model_dump() for m in wanted]


def test_a_store_keeps_its_contract(redis_server: RedisServer) -> None:
    ours = KeeplineChatStore(open_on(redis_server))
    theirs = RedisChatStore(redis_url=redis_server.url)
    for store in (ours, theirs):
        assert isinstance(store, BaseChatStore)
        key, other = f"a{uuid.uuid4().hex}", f"b{uuid.uuid4().hex}"
        assert store.get_messages(key) == []
        store.set_messages(key, MESSAGES)
        assert same(store.get_messages(key), MESSAGES)
        store.add_message(key, MESSAGES[0])
        store.add_message(other, MESSAGES[4])
        assert same(store.get_messages(key), [*MESSAGES, MESSAGES[0]])
        assert {key, other} <= set(store.get_keys())
        removed: list[Any] = [store.delete_last_message(key), store.delete_message(key, 1)]
        # The Redis class returns what it has stored as bytes, and of the others it turns the order round.
        if store is ours:
            assert same(removed, MESSAGES[:2])
            assert same(store.get_messages(key), [MESSAGES[0], *MESSAGES[2:]])
        assert store.delete_message(key, 99) is None
        store.set_messages(key, MESSAGES[:1])
        assert same(store.get_messages(key), MESSAGES[:1])
        store.delete_messages(key)
        assert store.get_messages(key) == [] and store.delete_last_message(key) is None
        assert key not in store.get_keys()
    ours.set_messages("place", MESSAGES[:2])
    ours.add_message("place", MESSAGES[4], idx=1)
    assert same(ours.get_messages("place"), [MESSAGES[0], MESSAGES[4], MESSAGES[1]])
    assert same(ours.newest("place", 1), [MESSAGES[1]])


def test_the_same_with_an_event_loop(redis_server: RedisServer) -> None:
    async def main() -> None:
        store = KeeplineChatStore(open_on(redis_server))
        await store.aset_messages("anna", MESSAGES)
        await store.async_add_message("anna", MESSAGES[0])
        await store.async_add_message("anna", MESSAGES[4], idx=0)
        assert same(await store.aget_messages("anna"), [MESSAGES[4], *MESSAGES, MESSAGES[0]])
        assert await store.aget_keys() == ["anna"]
        assert await store.adelete_last_message("anna") is not None
        assert await store.adelete_message("anna", 0) is not None
        assert same(await store.adelete_messages("anna"), MESSAGES)
        assert await store.aget_messages("anna") == []

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_other_keys_are_hashed_and_listed(redis_server: RedisServer) -> None:
    fields = {"backend": "redis", "redis_url": redis_server.url, "key_prefix": f"llama:{uuid.uuid4().hex}"}
    with keepline.Keepline.open(**fields, conversation=True, session_ids="hash") as memory:
        store, keys = KeeplineChatStore(memory), [f"user {number}/chat" for number in range(70)]
        for key in keys:
            store.add_message(key, MESSAGES[0])
        assert store.get_keys() == sorted(keys)
        assert same(store.get_messages(keys[0]), [MESSAGES[0]])


def test_a_memory_buffer_works_on_it(redis_server: RedisServer) -> None:
    memory = open_on(redis_server)
    buffer = ChatMemoryBuffer.from_defaults(chat_store=KeeplineChatStore(memory), chat_store_key="anna")
    for message in (MESSAGES[0], MESSAGES[4]):
        buffer.put(message)
    again = ChatMemoryBuffer.from_defaults(chat_store=KeeplineChatStore(memory), chat_store_key="anna")
    assert same(again.get(), [MESSAGES[0], MESSAGES[4]])


def test_eight_threads_lose_nothing(redis_server: RedisServer) -> None:
    store, failed = KeeplineChatStore(open_on(redis_server)), []

    def write(writer: int) -> None:
        try:
            for number in range(5):
                store.add_message("shared", ChatMessage(role=MessageRole.USER, content=f"{writer}/{number}"))
        except BaseException as error:
            failed.append(error)

    threads: list[Any] = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    texts = [str(message.content) for message in store.get_messages("shared")]
    assert not failed and len(texts) == len(set(texts)) == 40
