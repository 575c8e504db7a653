r"""Write the verdicts: all of them to docs/verdicts.md, and their counts into the README.

First ``prgd reproduce`` and ``prgd claims --json claims.json``, then ``python docs/write_verdicts.py``.
Verdicts, reasons and caveats come from that file, words that no run can tell from ``words.toml`` in
``prgd_paper/claims``.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from prgd_paper.claims import Judgement
from prgd_paper.claims.quotes import readable
from prgd_paper.claims.registry import WORDS, rests_on
from prgd_paper.report.elements import pretty
from prgd_paper.reproduce.store import write_whole

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"
FIGURES = {
    "figure-3": "Margin error on a synthetic set for GD, NGD and PRGD, at two time scales",
    "figure-4-long": "Margin error on the digits; T_0, warm-up and horizon are ours, and nothing is decided",
}
HEAD = """# What holds

{summary}

Claims are statements of the paper, and lines of its proofs that we asked for by name. A line may fail while
what is proved stands, and no statement fails for a line of its proof. Lines that no claim is about are not
counted here: the [errata](errata.md) open with all formulas that we found false as printed.
"""
RULE = """## How to read this

One [rule](reproduce.md#claims-and-verdicts) decides all claims. ✗ needs figures that disagree in a setting
that the paper gives. The rule is not symmetric: in a setting of ours agreement counts, and disagreement is
?. A rate is ✓ if it is fitted on at least half of the sets, ◐ if another one is fitted on some, else ?.

*Proved*: the verdict follows from a proof, the paper's as corrected in the errata or ours, and runs agree.
*Measured*: it follows from runs alone. The tables are in our words; the lists have the paper's own, in
quotation marks. `prgd claims NAME` prints what was run, what came out with its interval, and what would
change the verdict.
"""
# Table 1 prints rates that theorems of the paper state.
REPEATS = {
    "table-1-gd": "theorem-6.4-gd-direction",
    "table-1-ngd": "theorem-6.4-ngd-direction",
    "table-1-prgd": "theorem-6.1",
}
GROUPS = {
    Judgement.FAILS: "✗ What does not hold",
    Judgement.NOT_DECIDED: "? What is not decided",
    Judgement.CAVEAT: "◐ What holds with a caveat",
}
# Macros of the paper, and angle brackets.
MACROS = (
    (r"\\[<>]", lambda m: r"\langle " if m[0] == r"\<" else r"\rangle "),
    (r"\\left<", r"\\left\\langle "),
    (r"\\right>", r"\\right\\rangle "),
    (r"\\b([wxvzuk])(?![a-zA-Z])", r"\\mathbf{\1}"),
    (r"\\brho(?![a-zA-Z])", r"\\boldsymbol{\\rho}"),
    (r"\\bzero(?![a-zA-Z])", r"\\mathbf{0}"),
    (r"\\c([ILOPS])(?![a-zA-Z])", r"\\mathcal{\1}"),
    (r"\\bb([ABCRS])(?![a-zA-Z])", r"\\mathbb{\1}"),
    (r"\\rank(?![a-zA-Z])", r"\\operatorname{rank}"),
    (r"\\(?:begin|end)\{align\*\}|\\\\|&", " "),
    (r"\|([^|]*)\|", r"\\lvert \1\\rvert "),
    (r"\s+", " "),
)
# Names in our own texts that are symbols of the paper.
SYMBOLS = (
    (r"\bgamma_star w_star\b", r"\gamma^\star w^\star"),
    (r"\bgamma_star\b", r"\gamma^\star"),
    (r"\bw_star\b", r"w^\star"),
    (r"\blambda_min\b", r"\lambda_{\min}"),
    (r"\bsum_i k_i k_i\^T", r"\sum_i k_i k_i^\top"),
    (r"\bR_1 w / \|\|w\|\|", r"R_1 w / \lVert w \rVert"),
    (r"\bD / \|\|w\|\|", r"D / \lVert w \rVert"),
    (r"\|\|w\|\|", r"\lVert w \rVert"),
    (r"\bw -> c w\b", r"w \to c w"),
    (r"(?i)\balpha = beta = ([\d.]*\d)", r"\alpha = \beta = \1"),
    (r"\balpha = ([\d.]*\d)", r"\alpha = \1"),
    (r"\bbeta = ([\d.]*\d)", r"\beta = \1"),
    (r"\bmu\b", r"\mu"),
    (r"\b([RTD])_([01k])\b", r"\1_\2"),
)


def mathematics(quote: str) -> str:
    r"""Return a quotation of the paper's TeX as Markdown with formulas, which GitHub and Sphinx both set.

    Examples
    --------
    >>> mathematics(r"for any $\bw\in\bbR^d$ ... \norm{\bw}\leq|\cI|")
    'for any $\\mathbf{w}\\in\\mathbb{R}^d$ … $\\lVert \\mathbf{w}\\rVert \\leq\\lvert \\mathcal{I}\\rvert$'
    """
    return " … ".join(map(_piece, quote.split(" ... ")))


def _piece(tex: str) -> str:
    label, rest = re.match(r"((?:\((?:S\d|iv)\)\.(?: ?\}|\\ )?)?)\s*(.*)", tex, re.DOTALL).groups()
    is_formula = (
        not re.search(r"\$|\\begin|\\text", rest) and re.search(r"\\[a-z]", rest) and not label.endswith(".")
    )
    parts = (
        [f"${rest}$"]
        if is_formula and "~" not in rest
        else re.split(r"(\$[^$]*\$|\\begin\{align\*\}.*?(?:\\end\{align\*\}|$))", rest)
    )
    words = label.rstrip("}\\ ") + " " * bool(label)
    for part in parts:
        if part.startswith(("$", "\\begin")):
            words += _formula(part.strip("$"))
        elif part:
            space = [part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :]]
            words += readable(part).strip().join(space) if part.strip() else part
    return words


def _formula(tex: str) -> str:
    for name, left, right in (("norm", r"\lVert ", r"\rVert "), ("bracket", "(", ")")):
        while (at := tex.find(f"\\{name}{{")) >= 0:
            begin = end = at + len(name) + 2
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(tex[end], 0)
                end += 1
            tex = tex[:at] + left + tex[begin : end - 1] + right + tex[end:]
    for pattern, symbol in MACROS:
        tex = re.sub(pattern, symbol, tex)
    return f"${tex.strip()}$"


def symbols(text: str) -> str:
    r"""Return a text of ours as Markdown, with symbols of the paper as formulas.

    Examples
    --------
    >>> symbols("gamma_star w_star <= R_1 w / ||w||")
    '$\\gamma^\\star w^\\star$ ≤ $R_1 w / \\lVert w \\rVert$'
    """
    found: list[str] = []

    def keep(match: re.Match[str], symbol: str) -> str:
        found.append(
            match.expand(symbol.replace("\\", "\\\\").replace("\\\\1", "\\1").replace("\\\\2", "\\2"))
        )
        return f"\0{len(found) - 1}\0"

    for pattern, symbol in SYMBOLS:
        text = re.sub(pattern, lambda m, symbol=symbol: keep(m, symbol), text)
    text = pretty(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
    return re.sub("\0(\\d+)\0", lambda m: f"${found[int(m[1])]}$", text)


def page(claims: list[dict[str, Any]]) -> str:
    r"""Return docs/verdicts.md: what does not hold, is not decided or has a caveat; then the rest, folded.

    Parameters
    ----------
    claims : list of dict
        What ``prgd claims --json`` writes.

    Examples
    --------
    >>> claim = {"name": "a", "statement": "a <= b", "where": "Section 7", "verdict": "holds"}
    >>> [line for line in page([claim]).splitlines() if "`a`" in line]
    ['- ✓ `a` · Section 7 · measured: a ≤ b']
    """
    papers, ours = ([c for c in claims if c.get("is_ours", False) is is_ours] for is_ours in (False, True))
    lines = [HEAD.format(summary=summary(claims))]
    lines += _groups(papers, "The paper states, in short", "##")
    lines += [RULE, *(f"![{words}](images/{name}.png)" for name, words in FIGURES.items()), ""]
    if ours:
        lines += [f"## Statements of ours, which the paper does not make: {_counts(ours)}", ""]
        lines += _groups(ours, "Statement of ours", "###")
    return "\n".join(lines).rstrip()


def _groups(claims: list[dict[str, Any]], head: str, level: str) -> list[str]:
    lines = []
    for verdict, title in GROUPS.items():
        if some := [c for c in claims if c["verdict"] == verdict]:
            lines += [f"{level} {title}: {len(some)}", "", *_table(some, head), ""]
    plain = [c for c in claims if c["verdict"] == Judgement.HOLDS]
    quoted = [c for c in claims if c not in plain and c.get("quote")]
    lines += _folded("All of these in the paper's own words", quoted) if quoted else []
    return lines + (_folded(f"✓ {len(plain)} hold", plain) if plain else [])


def summary(claims: list[dict[str, Any]]) -> str:
    """Return the sentences of the README."""
    papers = [c for c in claims if not c.get("is_ours", False)]
    lines = [c for c in papers if c.get("is_line", False)]
    others = [c for c in papers if c not in lines]
    repeats = sum(c["name"] in REPEATS for c in papers)
    words = f"Of {len(others)} statements of the paper that were made into claims, {_counts(others)}"
    words += f"; of {len(lines)} lines of its proofs, {_counts(lines)}." if lines else "."
    if repeats:
        words += (
            f" {repeats} rows of Table 1 repeat Theorems 6.1 and 6.4, so that {len(papers) - repeats} of the "
            f"{len(papers)} claims are distinct."
        )
    return words


def _counts(claims: list[dict[str, Any]]) -> str:
    found = [Judgement(c["verdict"]) for c in claims]
    return ", ".join(verdict.counted(found.count(verdict)) for verdict in Judgement if verdict in found)


def _table(claims: list[dict[str, Any]], head: str) -> list[str]:
    rows = []
    for c in claims:
        words = WORDS.get(c["name"], {})
        said = words.get("statement") or symbols(c["statement"])
        # That an interval contains both answers is what the sign says.
        why = words.get("why") or symbols(
            c.get("why", "").replace("The interval contains both answers. ", "")
        )
        matters = [] if c.get("is_ours", False) else [words.get("matters", "")]
        rows.append(
            [f"{_signed(c)}<br>{said}<br>*{symbols(c['where'])}*", why, *matters, rests_on(c["name"])]
        )
    columns = [head, "why", *["does it matter?"] * (len(rows[0]) == 4), "proved or measured"]
    lines = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def _folded(title: str, claims: list[dict[str, Any]]) -> list[str]:
    """Return a list that opens on a click: the paper's words with formulas, or a statement of ours."""
    items = [f"- {_signed(c)} · {symbols(c['where'])} · {rests_on(c['name'])}: {_said(c)}" for c in claims]
    return [f"<details><summary>{title}</summary>", "", *items, "", "</details>", ""]


def _said(claim: dict[str, Any]) -> str:
    quote, given = claim.get("quote", ""), claim.get("not_given", "")
    words = f"“{mathematics(quote)}”" if quote else symbols(claim["statement"])
    if quote and claim["name"].startswith("table-2"):
        words += f" {symbols(claim['statement'])}"
    ours = given and claim["verdict"] == Judgement.HOLDS
    return f"{words} (In a setting of ours: the paper does not give {symbols(given)}.)" if ours else words


def _signed(claim: dict[str, Any]) -> str:
    return f"{Judgement(claim['verdict']).sign} `{claim['name']}`"


def main(report: Path = Path("report"), claims: Path = Path("claims.json"), root: Path = Path()) -> None:
    """Write docs/verdicts.md with its figures, and what stands between the two marks of README.md."""
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{readme} must hold {BEGIN} and {END}, each once.")
    found = json.loads(claims.read_text(encoding="utf-8"))
    if missing := [c["name"] for c in found if c["verdict"] == Judgement.NOT_RUN]:
        raise ValueError(f"{claims} lacks verdicts ({', '.join(missing)}): run prgd reproduce first.")
    images = root / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        shutil.copyfile(report / "figures" / f"{name}.png", images / f"{name}.png")
    write_whole(root / "docs" / "verdicts.md", f"{page(found)}\n".encode())
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    write_whole(readme, f"{before}{BEGIN}\n{summary(found)}\n{END}{after}".encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
