"""Remembers from one run to the next: run it twice.

    make python && python/target/package/venv/bin/python examples/remember.py
"""

import keepline

memory = keepline.Keepline.open(profile="chat", directory="./memory")
pipe = memory.pipe()
asked = pipe.question("Where is my parcel?", {"session_id": "anna"})
print(f"the model also gets {len(asked.messages)} messages")
pipe.answer("In Leipzig.")
