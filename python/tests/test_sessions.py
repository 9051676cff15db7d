"""Sessions, transcripts, users and memories."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import keepline


def converse(memory: keepline.Keepline, session: str, user: str | None = None) -> None:
    pipe = memory.pipe()
    metadata = {"session_id": session} if user is None else {"session_id": session, "user_id": user}
    pipe.question("My dog is called Bruno.", metadata)
    pipe.answer("A fine name for a dog.")


def test_values_keep_their_types(memory: keepline.Keepline) -> None:
    sessions = memory.sessions()
    state = sessions.create("anna")
    assert state["key_count"] == 0 and state["created_at"] > 0
    for value in [None, True, 12345678901234567890123, 1.5, "ä\n", [1, {"a": []}], {}]:
        sessions.put("anna", "value", value)
        assert sessions.get("anna", "value", "absent") == value
    assert sessions.put("anna", "value", 1) is True
    assert sessions.increment("anna", "value", 41) == 42
    assert sessions.keys("anna") == ["value"]
    assert [record["operation"] for record in sessions.history("anna", limit=2)["records"]] == ["put", "increment"]
    assert sessions.clear("anna", "value") == ["value"]
    assert sessions.get("anna", "value", "absent") == "absent"
    assert sessions.list()["sessions"] == ["anna"]
    assert sessions.resume("anna")["key_count"] == 0
    assert sessions.delete("anna")["key_count"] == 0


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("not-found", lambda sessions: sessions.keys("nobody")),
        ("invalid-session", lambda sessions: sessions.keys("not/an id")),
        ("invalid-key", lambda sessions: sessions.put("anna", "__meta__", 1)),
        ("already-exists", lambda sessions: sessions.create("anna")),
        ("not-a-counter", lambda sessions: sessions.increment("anna", "text")),
    ],
)
def test_errors_have_the_librarys_code_and_message(memory: keepline.Keepline, code: str, call: Any) -> None:
    sessions = memory.sessions()
    sessions.create("anna")
    sessions.put("anna", "text", "x")
    with pytest.raises(keepline.SessionError) as raised:
        call(sessions)
    assert raised.value.code == code and raised.value.message
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), again.code, again.message) == (keepline.SessionError, code, raised.value.message)


def test_messages_are_read_edited_and_replaced(memory: keepline.Keepline) -> None:
    converse(memory, "anna")
    sessions = memory.sessions()
    page = sessions.messages("anna")
    assert [(message["role"], message["content"]) for message in page["messages"]] == [
        ("user", "My dog is called Bruno."),
        ("assistant", "A fine name for a dog."),
    ]
    assert page["older"] is None
    assert sessions.content("anna", page["messages"][0]["position"]) == ("My dog is called Bruno.", 23)
    assert sessions.find_lines("anna", 0, "bruno", ignore_case=True)["lines"][0]["is_match"]
    assert sessions.rewrite("anna", 1, "Indeed.")["count"] == 1
    assert [message["position"] for message in sessions.messages("anna", contains="indeed")["messages"]] == [1]
    assert sessions.set_title("anna", "Dogs") == "Dogs"
    assert sessions.set_settings("anna", context_window=8000)["context_window"] == 8000
    state = sessions.describe("anna")
    assert (state["title"], state["next"], state["settings"]["context_window"]) == ("Dogs", 2, 8000)
    changed = sessions.set_messages("anna", [{"role": "user", "content": "Hello"}], next=2)
    assert changed == {"count": 1, "next": 3}
    with pytest.raises(keepline.SessionError) as raised:
        sessions.set_messages("anna", [{"role": "user", "content": "Hello"}], next=2)
    assert raised.value.code == "conflict"
    stored = {"role": "assistant", "kind": "other", "content": "x", "extras": {"raw": {"a": [1]}, "source": "test"}}
    sessions.set_messages("anna", [stored])
    (message,) = sessions.messages("anna")["messages"]
    assert (message["kind"], message["extras"]["raw"], message["extras"]["source"]) == ("other", {"a": [1]}, "test")
    assert sessions.clear_messages("anna")["count"] == 1


def test_a_message_of_the_wrong_type_is_named(memory: keepline.Keepline) -> None:
    memory.sessions().create("anna")
    with pytest.raises(ValueError, match="content"):
        memory.sessions().set_messages("anna", [{"kind": "message", "role": "user", "content": 7}])  # type: ignore[typeddict-item, list-item]


def test_a_session_of_another_user_is_out_of_reach(memory: keepline.Keepline) -> None:
    converse(memory, "anna", "anna@example.org")
    with pytest.raises(keepline.SessionError) as raised:
        memory.sessions(owner="eve@example.org").put("anna", "x", 1)
    assert raised.value.code == "not-found"
    assert memory.sessions(owner="anna@example.org").put("anna", "x", 1) is False


def test_users_are_searched_and_forgotten(memory: keepline.Keepline) -> None:
    sessions = memory.sessions()
    converse(memory, "one", "anna")
    sessions.put_user_value("anna", "city", "Leipzig")
    assert sessions.user_values("anna") == {"city": "Leipzig"}
    assert [summary["session"] for summary in sessions.user_sessions("anna")["sessions"]] == ["one"]
    found = sessions.search_user("anna", "bruno")["found"]
    assert [(each["session"], each["message"]["role"]) for each in found] == [("one", "user")]
    while sessions.forget_user("anna")["remaining"]:
        pass
    assert sessions.user_values("anna") == {} and sessions.list()["sessions"] == []


def test_memories_are_stored_once_and_found() -> None:
    async def main() -> None:
        async with await keepline.AsyncKeepline.open(conversation=True, recall="user") as memory:
            maintenance = memory.maintenance()
            messages = [
                {"role": "user", "content": "My dog is called Bruno."},
                {"role": "assistant", "content": "A fine name."},
            ]
            stored = await memory.remember("anna", messages, session="chat-1", metadata={"source": "test"})
            assert stored["outcome"] == "stored"
            again = await memory.remember("anna", messages, session="chat-1")
            assert (again["outcome"], again["message_id"]) == ("repeated", stored["message_id"])
            for task in stored["due"]:
                assert (await maintenance.run(task))["outcome"] == "done"
            skipped = await memory.remember("anna", messages[:1], session="chat-1")
            assert skipped["outcome"] == "skipped" and skipped["problem"] is not None
            for by_words in (False, True):
                found = await memory.memories("anna", "dog", by_words=by_words)
                assert found["found"][0]["user_message"] == "My dog is called Bruno."
                assert "Bruno" in found["prompt"]
            assert (await memory.memories("nobody", "dog"))["prompt"] == ""

    asyncio.run(main())
