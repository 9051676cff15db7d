"""Imports the library in a sub-interpreter."""

import importlib
import sys

for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        continue
else:
    print("refused")
    sys.exit(0)

import keepline  # noqa: E402, F401  (in the main one it works)

program = f"""
import sys
sys.path[:] = {sys.path!r}
try:
    import keepline
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise AssertionError("it was imported")
"""
failed = interpreters.run_string(interpreters.create(), program)
assert failed is None, failed
print("refused")
