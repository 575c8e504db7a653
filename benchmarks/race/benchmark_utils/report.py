"""Tables for the terminal and for Markdown, and the page of performance profiles."""

import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .score import AIMS, OURS, Scores, power, profile, summarise, three_digits, verdict
from .sweep import show

# Okabe and Ito's colours, told apart with any colour vision; ours is the black line
STYLES = {
    OURS: ("#000000", "-"),
    "LIBLINEAR": ("#D55E00", "-"),
    "LIBSVM": ("#0072B2", "-"),
    "Clarabel": ("#009E73", "-"),
    "PIQP": ("#CC79A7", "-"),
    "SciPy NNLS": ("#E69F00", "--"),
    "logistic regression": ("#56B4E9", "--"),
    "dual acceleration": ("#0072B2", ":"),
    "NGD": ("#D55E00", ":"),
    "PRGD Algorithm 1": ("#009E73", ":"),
}
HEADS = {
    OURS: "prgd (ours)",
    "logistic regression": "logistic",
    "dual acceleration": "dual acc.",
    "PRGD Algorithm 1": "PRGD Alg. 1",
}

Lines = list[list[str]]


def times_table(scores: Scores, target: float) -> tuple[list[str], Lines]:
    peers = scores.peers()
    head = ["set", *(HEADS.get(peer, peer) for peer in peers)]
    lines = [
        [str(case), *(str(row[peer]) if peer in row else "-" for peer in peers)]
        for case, row in scores.times.get(target, {}).items()
    ]
    return head, lines


def ratios_table(scores: Scores, target: float) -> tuple[list[str], Lines]:
    """Our time over each peer's; ``<`` where the peer was capped: the true ratio is smaller still."""
    peers = [peer for peer in scores.peers(with_best=True) if peer != OURS]
    ratios = {peer: scores.ratios(target, peer) for peer in peers}
    lines = []
    for case, row in scores.times.get(target, {}).items():
        line = [str(case)]
        for peer in peers:
            ratio, is_capped = ratios[peer].get(case, (float("nan"), False))
            # where we are capped ourselves the ratio is a lower bound
            sign = (">" if row[OURS].is_capped else "<") if is_capped else ""
            line.append(sign + three_digits(ratio))
        lines.append(line)
    means = [summarise(scores, target, peer) for peer in peers]
    lines.append(["geometric mean, all", *(three_digits(mean.mean) for mean in means)])
    lines.append(["geometric mean, uncapped", *(three_digits(mean.mean_uncapped) for mean in means)])
    lines.append(["worst", *(three_digits(mean.worst) for mean in means)])
    lines.append(["capped", *(f"{mean.capped} of {mean.cases}" for mean in means)])
    return ["prgd's time over", *(HEADS.get(peer, peer) for peer in peers)], lines


def aims_table(scores: Scores) -> tuple[list[str], Lines]:
    target = min(scores.targets)
    lines = []
    for aim in AIMS:
        mean = summarise(scores, target, aim.peer)
        lines.append(
            [
                aim.peer,
                three_digits(mean.mean),
                three_digits(mean.mean_uncapped),
                f"at most {aim.mean:g}",
                f"{three_digits(mean.worst)} ({mean.worst_case})" if mean.worst_case else "-",
                "-" if aim.worst is None else f"at most {aim.worst:g}",
                verdict(mean, aim),
            ]
        )
    head = ["against", "mean", "mean, uncapped", "aim", "worst", "aim", f"verdict at {power(target)}"]
    return head, lines


def winners_table(scores: Scores) -> tuple[list[str], Lines]:
    """The settings that won each sweep."""
    target = min(scores.targets)
    peers = scores.peers()
    lines = [
        [str(case), HEADS.get(peer, peer), str(row[peer]), show(row[peer].parameters or {}) or "-"]
        for case, row in scores.times.get(target, {}).items()
        for peer in peers
        if peer in row and not row[peer].is_capped
    ]
    return ["set", "peer", "seconds", "settings"], lines


def notes(about: dict[str, Any]) -> list[str]:
    worst = max((c["gap"] for c in about.get("certificates", {}).values()), default=0.0)
    found = [
        f"Seconds until the true relative gap is met, at most {about['limit']:g} s a run, "
        f"{about['threads']} threads; '>' marks a peer that never met it (counted as the limit).",
        f"gamma_star is certified to a relative gap of {worst:.0e} or better on every case. "
        "prgd must certify the gap itself; LIBLINEAR and SciPy NNLS penalise their intercept.",
    ]
    found += [f"Left out: {name}: {reason}." for name, reason in about.get("skipped", {}).items()]
    machine = about["machine"]
    found.append(", ".join(f"{key} {value}" for key, value in machine.items() if value is not None) + ".")
    return found


# Terminal


def print_all(scores: Scores, about: dict[str, Any], console: Console) -> None:
    for target in sorted(scores.targets, reverse=True):
        print_table(console, f"Seconds to a relative gap of {power(target)}", *times_table(scores, target))
    target = min(scores.targets)
    print_table(console, f"Ratios at {power(target)}", *ratios_table(scores, target), rule_before=4)
    print_table(console, "Aims", *aims_table(scores))
    for note in notes(about):
        console.print(note, highlight=False)


def print_table(console: Console, title: str, head: list[str], lines: Lines, rule_before: int = 0) -> None:
    table = Table(title=title, title_justify="left")
    for k, name in enumerate(head):
        table.add_column(name, justify="right" if k else "left", overflow="fold")
    for k, line in enumerate(lines):
        table.add_row(*line, end_section=bool(rule_before) and k == len(lines) - 1 - rule_before)
    console.print(table)


# Markdown


def markdown(head: list[str], lines: Lines) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def docs_part(scores: Scores, about: dict[str, Any]) -> str:
    target = min(scores.targets)
    parts = ["### Against the aims\n\n" + markdown(*aims_table(scores))]
    parts.append(f"### Ratios at {power(target)}\n\n" + markdown(*ratios_table(scores, target)))
    parts.append(f"### Seconds to {power(target)}\n\n" + markdown(*times_table(scores, target)))
    parts.append("\n".join(f"- {note}" for note in notes(about)))
    return "\n\n".join(parts)


def write_between(path: Path, name: str, text: str) -> None:
    """Put the text between the marks ``<!-- name:begin -->`` and ``<!-- name:end -->`` of a file."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    whole = path.read_text(encoding="utf-8")
    if whole.count(begin) != 1 or whole.count(end) != 1:
        raise SystemExit(f"{path} must hold {begin} and {end} once each.")
    before, rest = whole.split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


# Page


def figure(scores: Scores) -> Any:
    """Draw one performance profile for each target."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.fonttype"] = "none"
    targets = sorted(scores.targets, reverse=True)
    drawing, axes = plt.subplots(
        1, len(targets), figsize=(4.6 * len(targets), 4.2), sharey=True, layout="constrained", squeeze=False
    )
    curves = {(target, peer): profile(scores, target, peer) for target in targets for peer in scores.peers()}
    widest = 2.0 * max((curve[-1][0] for curve in curves.values() if curve), default=10.0)
    for axis, target in zip(axes[0], targets, strict=True):
        for peer in scores.peers():
            curve = curves[target, peer]
            colour, style = STYLES.get(peer, ("#777777", "-."))
            x = [1.0, *(ratio for ratio, _ in curve), widest]
            y = [0.0, *(share for _, share in curve), curve[-1][1] if curve else 0.0]
            axis.step(
                x,
                y,
                where="post",
                color=colour,
                linestyle=style,
                linewidth=2.6 if peer == OURS else 1.6,
                label=HEADS.get(peer, peer),
                zorder=3 if peer == OURS else 2,
            )
        axis.set(xscale="log", xlim=(1.0, widest), ylim=(-0.02, 1.03), title=f"gap {power(target)}")
        axis.set_xlabel("time over that of the fastest")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("share of the cases solved")
    drawing.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
    )
    return drawing


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The max-margin race</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }}
svg {{ max-width: 100%; height: auto; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
th {{ border-bottom: 2px solid #555; }}
p, li {{ max-width: 50rem; }}
</style>
<h1>The max-margin race</h1>
<p>A curve shows on which share of the cases a peer met the gap within a given multiple of the fastest
peer's time. Higher is better; the height at 1 is the share of wins, the height at the right end the share
of cases solved at all within {limit:g} s.</p>
<figure class="wide">{svg}</figure>
{tables}
<h2>Notes</h2>
<ul>{notes}</ul>
</html>
"""


def write_page(path: Path, scores: Scores, about: dict[str, Any]) -> None:
    from matplotlib import pyplot as plt

    drawing = figure(scores)
    image = io.StringIO()
    drawing.savefig(image, format="svg", metadata={"Date": None})
    plt.close(drawing)
    target = min(scores.targets)
    tables = [
        _html("Aims", *aims_table(scores)),
        _html(f"Ratios at {power(target)}", *ratios_table(scores, target)),
    ]
    for each in sorted(scores.targets):
        tables.append(_html(f"Seconds to {power(each)}", *times_table(scores, each)))
    tables.append(_html(f"Settings that won at {power(target)}", *winners_table(scores)))
    text = PAGE.format(
        limit=about["limit"],
        svg=image.getvalue()[image.getvalue().index("<svg") :],
        tables="\n".join(tables),
        notes="".join(f"<li>{html.escape(note)}</li>" for note in notes(about)),
    )
    path.write_text(text, encoding="utf-8")


def _html(title: str, head: list[str], lines: Lines) -> str:
    def row(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(row(line, "td") for line in lines)
    return (
        f'<h2>{html.escape(title)}</h2>\n<div class="wide"><table>\n{row(head, "th")}\n{body}\n</table></div>'
    )
