"""Table 1: fitted rates of every method beside the theorems', on sets for which the assumptions hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from prgd.algorithms import GD, NGD, PRGD, DualAcceleration
from prgd.datasets import Dataset, toy
from prgd.problem import Problem
from prgd.schedules import Every, Geometric, LiftTo
from prgd_paper.claims import Finding, claim
from prgd_paper.methods import GameDynamics
from prgd_paper.report.elements import Table
from prgd_paper.reproduce import curves
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.theory.infimum import numerical_constants
from prgd_paper.theory.rates import LETTERS, Model, fit_rate
from prgd_paper.theory.ray_geometry import geometry, margin_errors
from prgd_paper.theory.sampled_runs import gradient_flow, iterates
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import signed_rows
from prgd_paper.theory.velocity import direction_error

PROOF = "PRGD(proof)"
CLOSE = 0.1  # a fitted exponent agrees with the theorem's if it is this near
QUANTITIES = ("direction", "margin")
COLUMNS = ("kind", "set", "method", "t", "quantity", "value", "rate", "constant", "low", "high", "reason")


@dataclass(frozen=True)
class Settings:
    """Steps of each method; the sets are the toy set and random non-degenerate ones of seeds 0, 1, 2, ...

    Theorem 6.4 is for small steps, and every result about GD allows ``gd_eta`` = 1/2. GD takes ``gd_steps``.
    From step ``flow_from`` on gradient flow is followed too, up to the last of ``gd_decades``: powers of 10
    between which GD's rate is fitted, the last pair for the verdict. The rates of NGD and of the
    accelerated methods are fitted from ``ngd_from`` and ``dual_from`` on.
    """

    gd_eta: float = 0.5
    eta: float = 1.0  # of the other methods, and of the warm-up
    toy_gamma_star: float = 0.3
    growth: float = 1.2  # PRGD(exp) has R_k = R_0 growth^k and phases of ``phase`` steps, as in Section 7.1
    phase: int = 5
    warm_up: int = 1_000
    gd_steps: int = 1_000_000
    flow_from: int = 100_000
    gd_decades: tuple[tuple[int, int], ...] = ((3, 5), (3, 6), (6, 12), (10, 30), (20, 100))
    ngd_steps: int = 1_000_000
    ngd_from: int = 100_000
    dual_steps: int = 100_000
    dual_from: int = 10_000
    prgd_steps: int = 500
    proof_steps: int = 20_000
    floor: float = 1e-13  # a run ends when its direction error is below this: rounding shows there
    stored: int = 60  # points of each curve that are kept; the fits use all points
    seeds: int = 20


class Theorem(NamedTuple):
    """What Table 1 prints for a method, and the model and exponent that a fit must find.

    An upper bound, ``is_bound``, is met by what falls faster too.
    """

    direction: str
    margin: str
    model: Model
    exponent: float | None = None
    is_bound: bool = False


THEOREMS = {
    "GD": Theorem("Theta(1 / log t)", "O(1 / log t), Omega(1 / log^2 t)", "1/log t"),
    "NGD": Theorem("Theta(1 / t_k)", "O(1 / t), Omega(1 / t_k^2)", "t^-a", 1.0),
    "dual acceleration": Theorem("-", "O~(1 / t^2)", "t^-a", 2.0, is_bound=True),
    "game dynamics": Theorem("-", "O~(1 / t^2)", "t^-a", 2.0, is_bound=True),
    PROOF: Theorem("e^-Omega(t)", "e^-Omega(t)", "e^-ct"),
    "PRGD(exp)": Theorem("-", "-", "e^-ct"),
}


def tasks(settings: Settings) -> Sequence[str]:
    """Return one task for each set."""
    return ("toy", *(f"random-{seed}" for seed in range(settings.seeds)))


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the errors of every method on one set, and the rate fitted to each."""
    seed = task.removeprefix("random-")
    data = toy(settings.toy_gamma_star) if task == "toy" else random_nondegenerate(int(seed))
    g = geometry(data)
    w_star = g.reference.w_star if data.w_star is None else data.w_star
    problem = Problem(data.X, data.y, scale="none", n_jobs=1)
    rows: list[Row] = []
    for name, algorithm, w0, times in _runs(settings, g, w_star, problem):
        W = iterates(
            problem, algorithm, times, w0, until=lambda w: direction_error(w, w_star) < settings.floor
        )
        t = times[: len(W)].astype(float)
        if name == "GD":
            t, W, off = _farther(settings, data, t, W)
            rows.append({"kind": "flow", "set": task, "method": name, "value": off})
        for quantity, error in zip(
            QUANTITIES, (direction_error(W, w_star), margin_errors(g, W)), strict=True
        ):
            base = {"set": task, "method": name, "quantity": quantity}
            kept = np.unique(np.linspace(0, t.size - 1, settings.stored).round().astype(int))
            rows += [base | {"kind": "curve", "t": float(t[k]), "value": float(error[k])} for k in kept]
            begins = dict.fromkeys(("dual acceleration", "game dynamics"), settings.dual_from)
            begins["NGD"] = settings.ngd_from
            windows = {"fit": (float(begins[name]), math.inf) if name in begins else None}
            if name == "GD":
                windows = {
                    f"fit {a} to {b}": (0.999 * 10.0**a, 1.001 * 10.0**b) for a, b in settings.gd_decades
                }
                windows["fit"] = list(windows.values())[-1]
            for kind, window in windows.items():
                fit = fit_rate(t, error, window)
                found = {"rate": fit.rate, "constant": fit.constant, "reason": fit.reason or "-"}
                rows.append(base | {"kind": kind, **found, "low": fit.interval[0], "high": fit.interval[1]})
    return curves.padded(rows, COLUMNS)


def _runs(settings: Settings, g: Any, w_star: Any, problem: Problem) -> list[tuple[str, Any, Any, Any]]:
    """Return each method's name, algorithm, start and recorded times."""
    warm = curves.warm_start(problem, settings.warm_up, settings.eta)
    c = numerical_constants(g)
    exp = PRGD(Geometric(settings.growth), Every(settings.phase), settings.eta)
    # PRGD(proof) is the algorithm of Theorem 6.1's proof, which knows w_star; D and mu are numerical.
    proof = PRGD(LiftTo(c.D, w_star), Every(2), eta=c.mu * c.D)
    dual_times = curves.record_times(settings.dual_steps, first=2)
    return [
        ("GD", GD(settings.gd_eta), None, curves.record_times(settings.gd_steps, first=2)),
        ("NGD", NGD(settings.eta), None, curves.record_times(settings.ngd_steps, first=2)),
        ("dual acceleration", DualAcceleration(settings.eta), None, dual_times),
        ("game dynamics", GameDynamics(settings.eta), None, dual_times),
        ("PRGD(exp)", exp, warm, np.arange(settings.phase, settings.prgd_steps + 1, settings.phase)),
        (PROOF, proof, warm, np.arange(2, settings.proof_steps + 1, 2)),
    ]


def _farther(settings: Settings, data: Dataset, t: Any, W: Any) -> tuple[Any, Any, float]:
    """Return GD's path with gradient flow after it, and how far the flow is from GD at GD's last step.

    The distance is that of the two directions over the direction's own change since the flow began.
    """
    k = int(np.argmin(np.abs(t - settings.flow_from)))
    last = settings.gd_decades[-1][1]
    later = 10.0 ** np.arange(math.log10(t[-1]) + 0.05, last + 1e-9, 0.05)
    flow = gradient_flow(signed_rows(data), W[k], t[k], np.log([t[-1], *later]), settings.gd_eta)
    end, same, begin = (w / np.linalg.norm(w) for w in (W[-1], flow[0], W[k]))
    off = float(np.linalg.norm(same - end) / np.linalg.norm(begin - end))
    return np.concatenate([t, later]), np.vstack([W, flow[1:]]), off


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return the paper's table with the counts of our fits, and GD's horizons."""
    counted = []
    for quantity in QUANTITIES:
        for method, theorem in THEOREMS.items():
            c = count(rows, method, quantity)
            line = {"quantity": f"{quantity} error", "method": method, "paper": getattr(theorem, quantity)}
            line |= {"model": theorem.model, "fitted": str(c.right), "undecided": str(c.undecided)}
            counted.append(line | {"another rate": str(c.other), "constants": c.constants})
    caption = (
        f"On how many of {_n(rows)} sets each rate is fitted. The sets, toy and seeds 0 to {_n(rows) - 2}, "
        "have support vectors that span and whose mean is not gamma_star w_star; PRGD(proof) is the "
        "algorithm of Theorem 6.1's proof, which knows w_star."
    )
    numbers = ("fitted", "undecided", "another rate")
    return [Table.of(caption, counted, numbers=numbers), _horizons(rows, settings)]


def _horizons(rows: Any, settings: Settings) -> Table:
    lines = []
    for a, b in settings.gd_decades:
        found = [count(rows, "GD", quantity, f"fit {a} to {b}") for quantity in QUANTITIES]
        cells = [f"{c.right} ({c.undecided} undecided, {c.other} another)" for c in found]
        lines.append(
            {"t": f"1e{a} to 1e{b}"} | dict(zip(("direction error", "margin error"), cells, strict=True))
        )
    caption = (
        f"GD: sets of {_n(rows)} on which 1 / log t is fitted, by horizon. Up to t = {settings.gd_steps:,} "
        f"these are steps of GD, beyond it gradient flow, which is off GD by at most {_off(rows):.0e} at "
        "that step."
    )
    return Table.of(caption, lines)


def _n(rows: Any) -> int:
    return int(rows["set"].nunique())


def _off(rows: Any) -> float:
    return float(curves.where(rows, kind="flow").value.max())


class Count(NamedTuple):
    """On how many sets the fitted rate is the theorem's, another one, or undecided; and the constants."""

    right: int
    undecided: int
    other: int
    constants: str


def count(rows: Any, method: str, quantity: str, kind: str = "fit") -> Count:
    """Return on how many sets the fitted rate of a method is that of its theorem."""
    theorem, fits = THEOREMS[method], curves.where(rows, kind=kind, method=method, quantity=quantity)
    agrees = fits.rate == theorem.model
    if theorem.exponent is not None:
        far = fits.constant - theorem.exponent
        agrees &= far >= -CLOSE if theorem.is_bound else far.abs() <= CLOSE
    if theorem.is_bound:
        agrees |= fits.rate == "e^-ct"
    undecided = int((fits.rate == "undecided").sum())
    right = fits[agrees]
    constants = curves.span(right.constant, ".3g") if len(right) else "none"
    return Count(len(right), undecided, len(fits) - len(right) - undecided, constants)


def _frozen(rows: Any, settings: Settings) -> int:
    """Return on how many sets PRGD(exp) stops early: its error falls by less than 1 % over its last half."""
    found = 0
    for _, curve in curves.where(rows, kind="curve", method="PRGD(exp)", quantity="direction").groupby("set"):
        half = curve.value[curve.t <= 0.5 * curve.t.max()].iloc[-1]
        found += bool(curve.value.iloc[-1] > max(0.99 * half, 1e3 * settings.floor))
    return found


def _judge(method: str, quantity: str, rows: Any, settings: Settings) -> Finding:
    """Count the sets on which the fitted rate is the theorem's; a set on which none wins is no evidence."""
    c, model, n = count(rows, method, quantity), THEOREMS[method].model, _n(rows)
    sentence = (
        f"Fitted on {c.right} of {n} sets: {model} with {LETTERS[model]} = {c.constants}; {c.undecided} "
        "undecided."
    )
    steps = {"GD": _gd_window(settings), "NGD": f"steps {settings.ngd_from:,} to {settings.ngd_steps:,}"}
    steps |= {
        PROOF: f"{settings.proof_steps:,} steps after {settings.warm_up:,} of GD, radii that know w_star"
    }
    return Finding(
        ((c.right / n, (n - c.other) / n), ">=", 0.5),
        sentence,
        f"Another rate is fitted on {c.other} of {n} sets at this horizon, which is ours." if c.other else "",
        what="share of sets",
        setting=f"The toy set with gamma_star = {settings.toy_gamma_star:g} and random sets of seeds 0 to "
        f"{n - 2} that meet Table 1's conditions; {steps.get(method, f'{settings.dual_steps:,} steps')}.",
        not_given="the step from which on its asymptotic rate must show",
        would_change="Another rate, fitted on more than half of the sets, at ever longer horizons.",
        figures={"right": c.right, "undecided": c.undecided, "another rate": c.other},
    )


def _gd_window(settings: Settings) -> str:
    a, b = settings.gd_decades[-1]
    steps = f"{settings.gd_steps:,} steps with eta = {settings.gd_eta:g}"
    return f"{steps}, then gradient flow, fitted on t = 1e{a} to 1e{b}"


def _best_rate(settings: Settings) -> str:
    growth, phase = settings.growth, settings.phase
    return f"log({growth:g}) / {phase} = {math.log(growth) / phase:.4f}"


for _method, _name, _quantity, _statement, _quote in (
    (
        "GD",
        "gd",
        "direction",
        "GD's direction error is Theta(1 / log t).",
        r"{\rm e}(t)=\Theta\left(1/\log t\right)",
    ),
    ("NGD", "ngd", "direction", "NGD's direction error is Theta(1 / t_k).", r"{\rm e}(t_k)= \Theta(1/t_k)"),
    (
        "dual acceleration",
        "dual",
        "margin",
        "Nesterov acceleration has margin error O~(1 / t^2).",
        r"{\rm r}(t)=\tilde{\cO}(1/t^2)",
    ),
    (PROOF, "prgd", "margin", "PRGD has margin error e^-Omega(t).", r"{\rm r}(t)=e^{-\Omega(t)}"),
):
    _measure = partial(_judge, _method, _quantity)
    claim(f"table-1-{_name}", _statement, where="Table 1", experiment="table-1", quote=_quote)(_measure)


@claim("table-1-prgd-exp", where=OURS, experiment="table-1")
def exp_freezes(rows: Any, settings: Settings) -> Finding:
    """With Section 7's radii R_0 1.2^k, and as long a warm-up, PRGD freezes on most random sets that meet
    Table 1's conditions: its error stops falling before it is small.

    Count the sets on which the direction error stops falling.
    """
    random = rows[rows["set"] != "toy"]
    n, frozen, c = _n(random), _frozen(random, settings), count(random, "PRGD(exp)", "margin")
    low, high = curves.share_interval(frozen, n)
    return Finding(
        ((low, high), ">", 0.5),
        f"It freezes on {frozen} of {n} random sets (95 % interval {low:.0%} to {high:.0%}), and falls like "
        f"e^-ct on {c.right}, where the best c is {_best_rate(settings)}, which the radii dictate. The paper "
        "does not say otherwise: by Theorem 6.1 some radii serve, after a warm-up that is long enough.",
        setting=f"Random sets of seeds 0 to {n - 1} that meet Table 1's conditions; {settings.warm_up:,} GD "
        f"steps of warm-up as in Appendix E.1, then {settings.prgd_steps:,} steps with R_k = R_0 "
        f"{settings.growth:g}^k.",
        what="share of random sets on which it freezes",
        would_change="A longer warm-up: it is ours on these sets.",
        figures={"frozen": frozen, "exponential": c.right},
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the table shows, in figures."""
    n, gd, ngd = _n(rows), count(rows, "GD", "direction"), count(rows, "NGD", "direction")
    proof, exp = count(rows, PROOF, "margin"), count(rows, "PRGD(exp)", "margin")
    return (
        f"The direction error is fitted as 1 / log t for GD on {gd.right} of {n} sets ({gd.undecided} "
        f"undecided) and as t^-a with a = {ngd.constants} for NGD on {ngd.right}. The proof's algorithm "
        f"falls like e^-ct on {proof.right}, with c = {proof.constants}. With Section 7's radii the same is "
        f"fitted on {exp.right}, at best with c = {_best_rate(settings)}, and w freezes on "
        f"{_frozen(rows, settings)}."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=7,
    title="Rates of direction and margin",
    where="Table 1, Section 1",
    quick=Settings(
        gd_steps=5_000,
        flow_from=1_000,
        ngd_steps=5_000,
        ngd_from=500,
        dual_steps=2_000,
        dual_from=200,
        proof_steps=600,
        seeds=2,
    ),
    seconds=2.5,
)
