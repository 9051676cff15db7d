"""Reads JSON lines {"lane": "questions" | "answers", "text", "metadata"} and writes them with their memory:

    python host.py keepline.wasm memory.db

{"lane": "open"} begins a new conversation. All that the filter does not change passes byte for byte, and so does
what is no such line.
"""

import json
import os
import re
import sys

from filter import Filter
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


class Conversation:
    def __init__(self, filter):
        self.filter, self.turn = filter, ""

    def next(self, raw):
        """The bytes to write for this line, and the work that it made due."""
        line, entry = parse(raw)
        lane, text = (entry.get("lane"), entry.get("text", "")) if entry else (None, None)
        if lane not in ("questions", "answers") or not isinstance(text, str):
            if lane != "open":
                print("keepline: a line that is no entry passes as it is", file=sys.stderr)
            self.turn = ""
            return raw, []
        span = place(line, "metadata")
        metadata = line[slice(*span)] if span else "{}"
        if lane == "questions":
            reply = self.filter.question(text, metadata)
            self.turn = reply["turn"] if reply else ""
        else:
            reply = self.filter.answer(text, metadata, self.turn)
        if not reply or reply["metadata"] is None:
            return raw, reply["due"] if reply else []
        start, end = span or (line.rindex("}"),) * 2
        changed = line[:start] + ("" if span else ',"metadata":') + reply["metadata"] + line[end:]
        return changed.encode(), reply["due"]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python host.py COMPONENT DATABASE")
    component, database = sys.argv[1:]
    filter = Filter(component, SqliteStore(database), os.environ.get("KEEPLINE_OPTIONS", "{}"))
    conversation = Conversation(filter)
    for raw in sys.stdin.buffer:
        line, due = conversation.next(raw)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        filter.maintain(due)


if __name__ == "__main__":
    main()
