"""Passes questions and answers through LangChain's chat history on Redis, a line each: `q SESSION` or `a SESSION TEXT`."""

import sys

from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage

url, question = sys.argv[1:]
for line in sys.stdin:
    kind, session, *text = line.rstrip("\n").split(" ", 2)
    history = RedisChatMessageHistory(session, url=url, ttl=86_400)
    if kind == "q":
        read = len(history.messages)
    else:
        history.add_messages([HumanMessage(question), AIMessage(*text)])
        read = 0
    print(read, flush=True)
