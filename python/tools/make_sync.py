"""Makes ``_sync….py`` of ``_async….py``, so that both have the same methods. ``--check``: fails if one is out of date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "package" / "keepline"
FILES = {
    "_async.py": ("_sync.py", "The library for programs without an event loop."),
    "_async_items.py": ("_sync_items.py", "Items of agent frameworks in a session's transcript, without an event loop."),
}
CHANGES = [
    (r"from \._callbacks import running_loop\n", "", 1),
    (r"running_loop\(\)", "None", 0),
    (r"async def __aenter__", "def __enter__", 0),
    (r"async def __aexit__", "def __exit__", 0),
    (r"\basync def ", "def ", 0),
    (r"await call\b", "call.wait()", 0),
    (r"await (self\.)", r"\1", 0),
    (r"await async_pause", "pause", 0),
    (r"\basync_pause", "pause", 0),
    (r"from \._async import", "from ._sync import", 0),
    (r"\bAsync(ItemLog|Keepline|Pipe|Sessions|Maintenance|Pipelines)\b", r"\1", 0),
    (r"use it from many tasks", "use it from many threads", 0),
]


def make_sync(source: str) -> str:
    text = (PACKAGE / source).read_text()
    _, title = FILES[source]
    text = re.sub(r'""".*?"""', f'"""{title} Made of ``{source}``: don\'t edit it."""', text, count=1, flags=re.DOTALL)
    for pattern, replacement, count in CHANGES:
        text = re.sub(pattern, replacement, text, count=count, flags=re.DOTALL)
    left = re.search(r"^.*(\bawait\b|\basync\b).*$", text, flags=re.MULTILINE)
    if left:
        raise SystemExit(f"make_sync: something asynchronous is left of {source}, extend CHANGES: {left[0]}")
    return text


def main() -> None:
    for source, (target, _) in FILES.items():
        made = make_sync(source)
        if "--check" not in sys.argv:
            (PACKAGE / target).write_text(made)
        elif (PACKAGE / target).read_text() != made:
            raise SystemExit(f"package/keepline/{target} is out of date: run tools/make_sync.py")


if __name__ == "__main__":
    main()
