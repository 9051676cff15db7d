"""JSON as the library takes it: UTF-8 as it is, no NaN, no whitespace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def write_object(value: Mapping[str, Any] | str | None) -> str:
    """A JSON object. A text is taken for one that is written already."""
    if value is None:
        return "{}"
    return value if isinstance(value, str) else write(value)
