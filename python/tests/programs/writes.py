"""Stores pairs until it is killed, and prints the number of each that was acknowledged."""

import itertools
import sys

from langchain_core.messages import AIMessage, HumanMessage

import keepline
from keepline.langchain import KeeplineChatMessageHistory

memory = keepline.Keepline.open(backend="redis", redis_url=sys.argv[1], key_prefix="killed", conversation=True)
history = KeeplineChatMessageHistory("anna", memory)
for number in itertools.count():
    history.add_messages([HumanMessage(f"{number}/q"), AIMessage(f"{number}/a")])
    print(number)
