"""Reads JSON lines {"lane": "questions" | "answers", "text", "metadata"} and writes them with their memory:

    python host.py keepline.wasm memory.db

{"lane": "tools", "tool": {"call_id", "name", "arguments", "output", "error"}} tells what a tool did. Conversations may be
interleaved: each entry belongs to the session that its metadata name, or to that of the last question. {"lane": "open"}
begins a new conversation, in the session that its metadata name, or in all. All that the filter does not change passes
byte for byte, and so does what is no such line.
"""

import json
import os
import re
import sys

from conversations import Conversations
from filter import Filter, Plugin
from store import SqliteStore

TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+')


def place(line, name):
    """Where the value of a member stands in a line of valid JSON; of duplicates, the last one's.

    Metadata goes through as text: to parse it and write it again would change how numbers are spelled.
    """
    depth, end, last, key, start, found = 0, 0, "", None, None, None
    for match in TOKENS.finditer(line):
        token = match[0]
        if depth == 1 and token in (",", "}"):
            if key == name:
                found = (start, end)
            key = None
        elif depth == 1 and token == ":":
            key, start = json.loads(last), None
        elif key is not None and start is None:
            start = match.start()
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        last, end = token, match.end()
    return found


def parse(raw):
    """The line and its entry; an entry of none where it has none."""
    try:
        line = raw.decode()
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return "", None
    return line, entry if isinstance(entry, dict) else None


def activity(text):
    """What a line says of a tool, as the filter takes it. None: it says nothing of use. Values stay as they are spelled."""
    tool = json.loads(text)
    if not isinstance(tool, dict) or not isinstance(tool.get("call_id"), str):
        return None

    def spelled(name):
        value = tool.get(name)
        return value if isinstance(value, str) else text[slice(*place(text, name))]

    error = None if tool.get("error") is None else spelled("error")
    return {"call-id": tool["call_id"], "name": tool.get("name") or "", "details": None, "error": error,
            "arguments": text[slice(*place(text, "arguments"))] if "arguments" in tool else None,
            "output": spelled("output") if "output" in tool else None}


def passed(raw, conversations):
    """The bytes to write for this line."""
    line, entry = parse(raw)
    lane, text = (entry.get("lane"), entry.get("text", "")) if entry else (None, None)
    span = place(line, "metadata") if entry else None
    metadata = line[slice(*span)] if span else "{}"
    tool = activity(line[slice(*place(line, "tool"))]) if lane == "tools" and "tool" in entry else None
    if lane == "open":
        conversations.open(metadata)
    elif tool is not None:
        conversations.tool(tool, metadata)
    elif lane == "answers" and isinstance(text, str):
        conversations.answer(text, metadata)
    elif lane == "questions" and isinstance(text, str):
        changed = conversations.question(text, metadata)
        if changed != metadata:
            start, end = span or (line.rindex("}"),) * 2
            return (line[:start] + ("" if span else ',"metadata":') + changed + line[end:]).encode()
    else:
        conversations.unreadable()
    return raw


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python host.py COMPONENT DATABASE")
    component, database = sys.argv[1:]
    options = os.environ.get("KEEPLINE_OPTIONS", "{}")
    conversations = Conversations(Filter(Plugin(component), SqliteStore(database), options))
    for raw in sys.stdin.buffer:
        sys.stdout.buffer.write(passed(raw, conversations))
        sys.stdout.buffer.flush()
        conversations.work()


if __name__ == "__main__":
    main()
