"""What the documentation shows runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from conftest import DEADLINE

ROOT = Path(__file__).parent.parent.parent


def run(code: str, folder: Path) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_example_remembers_from_one_run_to_the_next(tmp_path: Path) -> None:
    code = (ROOT / "examples" / "remember.py").read_text()
    assert run(code, tmp_path) == "the model also gets 0 messages\n"
    assert run(code, tmp_path) == "the model also gets 2 messages\n"


def test_the_quick_start_is_the_example_and_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme[readme.index("\n## In Python\n") :]
    snippet = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert snippet
    run(snippet[1], tmp_path)
    example = (ROOT / "examples" / "remember.py").read_text()
    for line in snippet[1].splitlines():
        assert line.split("  #")[0] in example, line
