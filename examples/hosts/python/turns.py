"""The open turns of a stream of many conversations: what a question leaves for its answers."""

import sys
from dataclasses import dataclass

# A host that serves more conversations than this at once forgets the oldest question first.
MAX_TURNS = 1000


def text_of(value):
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True)
class Address:
    """Which transcript metadata name."""

    session: str
    user: str | None
    is_node: bool
    is_explicit: bool
    app: str | None
    node: str | None

    @property
    def key(self):
        return self.session, self.user, (self.app, self.node) if self.is_node else None


@dataclass
class Turn:
    at: Address | None
    state: str
    text: str | None


def agree(named, own):
    return named is None or named == own


def may_take(turn, named):
    """Whether an answer that names this may belong to the turn."""
    at = turn.at
    if at is None or at.session != named.session:
        return False
    if named.is_explicit and named.is_node != at.is_node:
        return False
    if at.user is not None and not agree(named.user, at.user):
        return False
    return not at.is_node or (agree(named.app, at.app) and agree(named.node, at.node))


class Turns:
    def __init__(self, is_by_node=False):
        """`is_by_node`: whether entries that don't say so are about nodes' transcripts (the option `memory_mode`)."""
        self.turns, self.last, self.is_by_node = {}, None, is_by_node  # the oldest first

    def address(self, metadata):
        """None: no session."""
        metadata = metadata if isinstance(metadata, dict) else {}
        session, user, app, node = (text_of(metadata.get(f"{name}_id")) for name in ("session", "user", "app", "node"))
        if session is None:
            return None
        is_node = {"node": True, "conversation": False}.get(text_of(metadata.get("memory_mode")))
        is_explicit = is_node is not None
        return Address(session, user, is_node if is_explicit else self.is_by_node, is_explicit, app, node)

    def ask(self, metadata, text, state):
        """A question begins a turn, in the place of an earlier one of its transcript. `state` is of the filter's reply."""
        at = self.address(metadata)
        key = at and at.key
        self.turns.pop(key, None)
        self.turns[key] = self.last = Turn(at, state, text)
        if len(self.turns) > MAX_TURNS:
            dropped = self.turns.pop(next(iter(self.turns)))
            if dropped.text is not None:
                print(
                    f"keepline: more than {MAX_TURNS} turns: the answer to the oldest question will lack its question",
                    file=sys.stderr,
                )

    def find(self, metadata):
        """The turn of an answer: of the session that it names, else of the question asked last; never of another one."""
        named = self.address(metadata)
        if named is None:
            return self.last
        turns = [turn for turn in self.turns.values() if may_take(turn, named)]
        if named.node is not None:
            return ([turn for turn in turns if turn.at.is_node] or turns or [None])[-1]
        waiting = [turn for turn in turns if turn.text is not None]
        meant = [turn for turn in waiting if turn.at.is_node == self.is_by_node]
        return (meant or waiting or turns or [None])[-1]

    def open(self, metadata):
        """A new conversation begins: of the session that is named, or of all."""
        named = self.address(metadata)
        ended = [key for key, turn in self.turns.items() if named is None or may_take(turn, named)]
        for key in ended:
            if self.turns.pop(key) is self.last:
                self.last = None

    def forget_last(self):
        """After a line that can't be read, which may have been a question."""
        self.last = None
