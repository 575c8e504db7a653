"""What follows from Figure 5a's rows: paired differences, the table, the claims and the sentences."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from prgd.claims import Finding, claim
from prgd.reproduce.curves import mean_interval
from prgd.reproduce.figures import Table

METHODS = ("GD", "NGD", "PRGD(poly)", "dual acceleration", "game dynamics")
SCALINGS = ("raw", "standardised")
TEST_SHARE = 114 / 341  # rows for testing over rows for training
WHERE = "Section 7.2, Figure 5a"
figure_5a_claim = partial(claim, where=WHERE, experiment="figure-5a")


def curves_of(rows: Any, scaling: str) -> Any:
    """Return the accuracies of the tuned methods on one scaling."""
    return rows[(rows.kind == "curve") & (rows.scaling == scaling)]


def splits(rows: Any) -> int:
    """Return the number of splits."""
    return int(rows[rows.kind == "curve"].seed.nunique())


def difference(
    rows: Any, scaling: str, other: str, t: int | None = None, later: int = 0
) -> tuple[float, float, float]:
    """Return PRGD's mean accuracy less another method's at step t (default: the last), with its interval.

    PRGD is taken ``later`` steps later; its warm-up is left out if that is the number of warm-up steps.
    """
    some = curves_of(rows, scaling)
    t = int(some.t.max()) if t is None else t
    table = some.pivot(index="seed", columns=["method", "t"], values="accuracy")
    return mean_interval(table["PRGD(poly)", t + later] - table[other, t], TEST_SHARE)


def points(d: tuple[float, float, float]) -> str:
    """Return a mean difference and its interval in percentage points.

    Examples
    --------
    >>> points((0.01, -0.005, 0.025))
    '+1.00 points [-0.50, +2.50]'
    """
    if not math.isfinite(d[1]):
        return f"{100 * d[0]:+.2f} points (one split: no interval)"
    return f"{100 * d[0]:+.2f} points [{100 * d[1]:+.2f}, {100 * d[2]:+.2f}]"


def early(settings: Any) -> int:
    """Return a small budget that was recorded: the last time up to a fifth of the whole."""
    last = max(settings.steps // 5, settings.times[0])
    return int(max(t for t in settings.times if t <= last))


def tables(rows: Any, settings: Any) -> list[Table]:
    """Return accuracies at two budgets and the paired differences."""
    lines = []
    for scaling in SCALINGS:
        some = curves_of(rows, scaling)
        for method in METHODS:
            mine = some[some.method == method]
            cells = []
            for t in (early(settings), int(some.t.max())):
                cells.append(f"{100 * mine[mine.t == t].accuracy.mean():.2f} %")
                cells.append("-" if method == "PRGD(poly)" else points(difference(rows, scaling, method, t)))
            chosen = mine[mine.t == mine.t.max()].chosen.mode().iloc[0]
            lines.append((scaling, method, *cells, chosen))
    soon, end = early(settings), settings.steps
    return [
        Table(
            f"Mean test accuracy over {splits(rows)} splits, and PRGD(poly) less each method, paired, "
            "with 95 % intervals (corrected for splits that share rows, Nadeau and Bengio 2003).",
            (
                "features",
                "method",
                f"at {soon:,} steps",
                "PRGD less it",
                f"at {end:,} steps",
                "PRGD less it, end",
                "most often chosen",
            ),
            tuple(lines),
            numbers=(f"at {soon:,} steps", f"at {end:,} steps"),
        )
    ]


@figure_5a_claim(
    "section-7.2-cancer-separable",
    "The Cancer set is not linearly separable.",
)
def cancer_is_not_separable(rows: Any, settings: Any) -> Finding:
    """Ask for a positive margin through the origin, certified and in exact arithmetic."""
    facts = rows[rows.kind == "fact"]
    f = dict(zip(facts.name, facts.value, strict=True))
    return Finding(
        (f["margin"], "<=", 0.0),
        f"All {f['n']:.0f} rows are separable, even through the origin and without scaling: the certified "
        f"margin is {f['margin']:.4e} (relative gap {f['gap']:.0e}), {f['margin'] / f['largest norm']:.1e} "
        f"of the largest row norm, with {f['support']:.0f} support vectors. In exact rational arithmetic the "
        f"smallest y <w, x> of the w returned is {f['smallest exact margin']:.3g}, above 0.",
    )


@figure_5a_claim(
    "section-7.2-cancer",
    "PRGD generalizes better than GD and NGD on Cancer.",
)
def prgd_generalizes_better(rows: Any, settings: Any) -> Finding:
    """Compare test accuracies at the end, paired by split, on both scalings."""
    end = {(s, other): difference(rows, s, other) for s in SCALINGS for other in ("NGD", "GD")}
    t = early(settings)
    soon = {s: points(difference(rows, s, "NGD", t)) for s in SCALINGS}
    later = ""
    if t + settings.warm_up in settings.times:
        left_out = points(difference(rows, "raw", "NGD", t, settings.warm_up))
        later = f" ({left_out} on raw ones with its warm-up left out)"
    above = sum(low > 0.0 for _, low, _ in end.values())
    raw, scaled = ({other: points(end[s, other]) for other in ("NGD", "GD")} for s in SCALINGS)
    return Finding(
        (min(low for _, low, _ in end.values()), ">", 0.0),
        f"Over {splits(rows)} splits, every method tuned over as many settings, the test accuracy of PRGD "
        f"after {settings.steps:,} steps less NGD's is {scaled['NGD']} and less GD's {scaled['GD']} on "
        f"standardised features, and {raw['NGD']} and {raw['GD']} on raw ones. At {t} steps it is, less "
        f"NGD's, {soon['raw']} on raw features{later} and {soon['standardised']} on standardised ones. At "
        f"the end {above} of {len(end)} intervals lie above 0. The paper gives neither its preprocessing nor "
        "its budget.",
    )


def reading(rows: Any, settings: Any) -> str:
    """Return what the figure shows, in figures."""
    t = early(settings)
    return (
        f"On raw features PRGD less NGD is {points(difference(rows, 'raw', 'NGD', t))} at {t} steps and "
        f"{points(difference(rows, 'raw', 'NGD'))} at {settings.steps:,}; on standardised ones it is "
        f"{points(difference(rows, 'standardised', 'NGD'))} at the end. Where the interval holds 0 the "
        "splits do not tell the methods apart."
    )
