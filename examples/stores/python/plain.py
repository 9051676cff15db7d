"""Values of the contract as dicts with its names, and variants as pairs of case and record: what `checks.py` looks at."""

import dataclasses
import enum
import re


def plain(value):
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", "-")
    if not dataclasses.is_dataclass(value):
        return value
    _, _, case = type(value).__name__.partition("_")
    if case:
        return re.sub(r"(?<!^)(?=[A-Z])", "-", case).lower(), plain(value.value)
    return {field.name.replace("_", "-"): plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
