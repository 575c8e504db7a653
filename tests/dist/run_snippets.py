"""Run the Python snippets of a page in turn, each with names of its own: run_snippets.py PAGE [--first]."""

import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
blocks = [block.split("```", 1)[0] for block in text.split("```python\n")[1:]]
if not blocks:
    raise SystemExit(f"{sys.argv[1]} has no Python snippet.")
for block in blocks[:1] if "--first" in sys.argv else blocks:
    exec(compile(block, sys.argv[1], "exec"), {})  # noqa: S102
