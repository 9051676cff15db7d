"""Reads JSON lines {"lane": "questions" | "answers", "text", "metadata"} and writes them with their memory:

    python host.py keepline.wasm memory.db

Conversations may be interleaved: each entry belongs to the session that its metadata name, or to that of the last
question. {"lane": "open"} begins a new conversation, in the session that its metadata name, or in all. All that the
filter does not change passes byte for byte, and so does what is no such line.
"""

import json
import os
import re
import sys

from filter import Filter
from store import SqliteStore
from turns import Turns

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


class Conversations:
    def __init__(self, filter, is_by_node):
        self.filter, self.turns = filter, Turns(is_by_node)
        self.reported = set()

    def next(self, raw):
        """The bytes to write for this line, and the work that it made due."""
        line, entry = parse(raw)
        lane, text = (entry.get("lane"), entry.get("text", "")) if entry else (None, None)
        if lane == "open":
            self.turns.open(entry.get("metadata"))
            return raw, []
        if lane not in ("questions", "answers") or not isinstance(text, str):
            print("keepline: a line that is no entry passes as it is", file=sys.stderr)
            self.turns.forget_last()
            return raw, []
        span = place(line, "metadata")
        metadata = line[slice(*span)] if span else "{}"
        if lane == "questions":
            reply = self.filter.question(text, metadata)
            self.turns.ask(entry.get("metadata"), text, reply["turn"] if reply else "")
        else:
            turn = self.turns.find(entry.get("metadata"))
            reply = self.filter.answer(text, metadata, turn.state if turn else "", turn and turn.text)
            if turn and reply and reply["effect"] in ("stored", "repeated"):
                turn.text = None
        if reply and reply["problem"]:
            self.report(**reply["problem"])
        if not reply or reply["metadata"] is None:
            return raw, reply["due"] if reply else []
        start, end = span or (line.rindex("}"),) * 2
        changed = line[:start] + ("" if span else ',"metadata":') + reply["metadata"] + line[end:]
        return changed.encode(), reply["due"]

    def report(self, code, message):
        """Reports a problem on stderr. An id that can't be a session's is reported once: each further entry of its chat
        has the same one."""
        if code.startswith("session-id-") and code in self.reported:
            return
        self.reported.add(code)
        print(f"keepline: {message}", file=sys.stderr)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python host.py COMPONENT DATABASE")
    component, database = sys.argv[1:]
    options = os.environ.get("KEEPLINE_OPTIONS", "{}")
    filter = Filter(component, SqliteStore(database), options)
    conversations = Conversations(filter, json.loads(options).get("memory_mode") == "node")
    for raw in sys.stdin.buffer:
        line, due = conversations.next(raw)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        filter.maintain(due)


if __name__ == "__main__":
    main()
