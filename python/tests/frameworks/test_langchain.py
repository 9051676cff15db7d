"""The chat history of LangChain, with LangChain itself, beside its Redis class on the same server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE, RedisServer
from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

import keepline
from keepline.langchain import KeeplineChatMessageHistory

MESSAGES: list[BaseMessage] = [
    HumanMessage("Where is parcel 7?"),
    SystemMessage("Be short."),
    AIMessage("", tool_calls=[{"name": "track", "args": {"parcel": 7}, "id": "c1", "type": "tool_call"}]),
    ToolMessage("left Hamburg", tool_call_id="c1", artifact={"a": [1]}),
    AIMessage("It left Hamburg.", id="m1", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
    HumanMessage([{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": "x"}}]),
    HumanMessage("Named", name="anna", additional_kwargs={"k": "v"}),
    AIMessage("<think>aloud</think> ä\n\u2028 \U0001f4e6"),
    HumanMessage('[{"type": "text", "text": "as a text"}]'),
    HumanMessage(" "),
    ChatMessage("as another role", role="critic"),
    FunctionMessage("f", name="g"),
]


def open_on(server: RedisServer, prefix: str | None = None) -> keepline.Keepline:
    return keepline.Keepline.open(
        backend="redis",
        redis_url=server.url,
        key_prefix=prefix or f"langchain:{uuid.uuid4().hex}",
        conversation=True,
        store_timeout_ms=60_000,
    )


def test_messages_come_back_as_they_were(redis_server: RedisServer) -> None:
    ours = KeeplineChatMessageHistory("anna", open_on(redis_server))
    theirs = RedisChatMessageHistory(uuid.uuid4().hex, url=redis_server.url)
    for history in (ours, theirs):
        assert isinstance(history, BaseChatMessageHistory)
        assert history.messages == []
        history.clear()
        history.add_messages(MESSAGES)
        history.add_user_message("One more?")
        history.add_ai_message("One more.")
        assert history.messages == [*MESSAGES, HumanMessage("One more?"), AIMessage("One more.")]
        history.clear()
        assert history.messages == []
    ours.add_messages([HumanMessage("Where?"), AIMessage("There.")])
    assert ours.newest(1) == [AIMessage("There.")]
    ours.messages = [HumanMessage("Replaced")]  # type: ignore[assignment]
    assert ours.messages == [HumanMessage("Replaced")]


def test_the_same_with_an_event_loop(redis_server: RedisServer) -> None:
    async def main() -> None:
        history = KeeplineChatMessageHistory("anna", open_on(redis_server))
        await history.aadd_messages(MESSAGES)
        assert await history.aget_messages() == MESSAGES
        assert await history.anewest(2) == MESSAGES[-2:]
        await history.aclear()
        assert await history.aget_messages() == []

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_keeplines_own_windows_have_what_users_and_models_said(redis_server: RedisServer) -> None:
    memory = open_on(redis_server)
    history = KeeplineChatMessageHistory("anna", memory)
    history.add_messages(MESSAGES[:5])
    window = memory.pipe().question("And now?", {"session_id": "anna"}).messages
    assert [(message["role"], message["content"]) for message in window] == [
        ("user", "Where is parcel 7?"),
        ("assistant", "It left Hamburg."),
    ]


def test_thousands_of_messages_keep_their_order(redis_server: RedisServer) -> None:
    history = KeeplineChatMessageHistory("anna", open_on(redis_server))
    messages = [HumanMessage(f"message {number}") for number in range(4_500)]
    history.add_messages(messages)
    assert history.messages == messages
    assert history.newest(1_500) == messages[-1_500:]


def test_a_chain_remembers(redis_server: RedisServer) -> None:
    memory = open_on(redis_server)
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
    chain = RunnableWithMessageHistory(
        prompt | FakeListChatModel(responses=["In Leipzig.", "Still there."]),
        lambda session_id: KeeplineChatMessageHistory(session_id, memory),
        input_messages_key="question",
        history_messages_key="history",
    )
    config: Any = {"configurable": {"session_id": "anna"}}
    chain.invoke({"question": "Where is my parcel?"}, config)
    asyncio.run(chain.ainvoke({"question": "And now?"}, config))
    said = [message.content for message in KeeplineChatMessageHistory("anna", memory).messages]
    assert said == ["Where is my parcel?", "In Leipzig.", "And now?", "Still there."]
    assert len(memory.pipe().question("?", {"session_id": "anna"}).messages) == 4


def test_eight_threads_lose_nothing_and_keep_pairs_together(redis_server: RedisServer) -> None:
    memory, failed = open_on(redis_server), []

    def write(writer: int) -> None:
        try:
            history = KeeplineChatMessageHistory("shared", memory)
            for number in range(5):
                history.add_messages([HumanMessage(f"{writer}/{number}/q"), AIMessage(f"{writer}/{number}/a")])
                history.add_messages([HumanMessage(f"{writer}/{number}/x"), SystemMessage(f"{writer}/{number}/y")])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not failed
    texts = [str(message.content) for message in KeeplineChatMessageHistory("shared", memory).messages]
    assert len(texts) == len(set(texts)) == 8 * 5 * 4
    for first, second in zip(texts[::2], texts[1::2]):
        assert first[:-1] == second[:-1]


def test_cut_connections_lose_and_repeat_nothing(redis_server: RedisServer) -> None:
    history, done = KeeplineChatMessageHistory("anna", open_on(redis_server)), threading.Event()

    def cut() -> None:
        while not done.wait(0.02):
            redis_server.cut_connections()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for number in range(100):
            history.add_messages([HumanMessage(f"{number}/q"), AIMessage(f"{number}/a")])
    finally:
        done.set()
        cutter.join(DEADLINE)
    assert [m.content for m in history.messages] == [f"{n}/{part}" for n in range(100) for part in "qa"]


def test_a_killed_writer_and_a_killed_server_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        program = str(Path(__file__).parent.parent / "programs" / "writes.py")
        writer = subprocess.Popen([sys.executable, "-u", program, server.url], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait(DEADLINE)
        server.kill()
        server.start()
        history = KeeplineChatMessageHistory("anna", open_on(server, "killed"))
        texts = [message.content for message in history.messages]
        assert len(texts) % 2 == 0
        assert texts[: 2 * len(acknowledged)] == [f"{n}/{part}" for n in range(len(acknowledged)) for part in "qa"]
        # The one that was under way, at most.
        assert len(texts) // 2 - len(acknowledged) in (0, 1)
    finally:
        server.kill()


def test_a_session_of_another_user_is_refused(redis_server: RedisServer) -> None:
    memory = open_on(redis_server)
    KeeplineChatMessageHistory("anna", memory, user_id="anna").add_user_message("Hello")
    for use in (lambda history: history.messages, lambda history: history.add_user_message("x")):
        with pytest.raises(keepline.KeeplineError):
            use(KeeplineChatMessageHistory("anna", memory, user_id="eve"))
