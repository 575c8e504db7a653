"""Write the times measured by ``benchmarks/separation_coefficients.py`` into docs/separability.md."""

from __future__ import annotations

import json
from pathlib import Path

PAGE = Path(__file__).with_name("separability.md")
RECORD = Path(__file__).parents[1] / "benchmarks/records/separation_coefficients.json"
BEGIN, END = "<!-- separation_coefficients: begin -->\n", "<!-- separation_coefficients: end -->"


def times() -> str:
    """Return the times measured by benchmarks/separation_coefficients.py as a table."""
    if not RECORD.exists():
        return "*Not measured yet.*\n"
    record = json.loads(RECORD.read_text())
    rows = [
        "| set | rows x columns | infinite | separability, s | check, s | HiGHS, s | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in record["sets"]:
        words = one["coefficients"]
        infinite = sum(words.get(word, 0) for word in ("+inf", "-inf", "either"))
        is_whole = one["highs_decided"] == one["highs_needed"]
        highs = f"{one['highs_total_seconds']:,.3g}" if is_whole else f"({one['highs_total_seconds']:,.0f})"
        cells = [
            one["set"],
            f"{one['n']:,} x {one['d']:,}",
            f"{infinite:,} of {sum(words.values()):,}",
            f"{one['seconds']:.2f}",
            f"{one['check_seconds']:.2f}",
            highs,
            f"{one['ratio']:.2g}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"Geometric mean of the ratios: {record['geometric_mean']:.2g}.", ""])


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + times() + END + rest.partition(END)[2])
