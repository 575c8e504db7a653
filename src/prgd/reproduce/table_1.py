"""Table 1: fitted rates of every method beside the theorems', on sets for which the assumptions hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from prgd.algorithms import GD, NGD, PRGD, DualAcceleration, GameDynamics
from prgd.claims import Finding, claim
from prgd.datasets import toy
from prgd.problem import Problem
from prgd.reproduce.curves import error_lines, padded, record_times, warm_start, where
from prgd.reproduce.experiment import Experiment, Row
from prgd.reproduce.figures import LEFT_OUT, STYLES, Figure, Table, log_log
from prgd.schedules import Every, Geometric, LiftTo
from prgd.theory import fit_rate, numerical_constants
from prgd.theory.claims.runs import SEEDS
from prgd.theory.rates import LETTERS, Model
from prgd.theory.ray_geometry import geometry, margin_errors
from prgd.theory.sampled_runs import iterates
from prgd.theory.samples import random_nondegenerate
from prgd.theory.velocity import direction_error

PROOF = "PRGD(proof)"
FLOOR = 1e-13  # a run ends when its direction error is below this: rounding shows there
COLUMNS = ("kind", "set", "method", "t", "quantity", "value", "rate", "constant", "low", "high", "reason")


@dataclass(frozen=True)
class Settings:
    """Steps of each method; ``sets`` are the toy set and random non-degenerate ones by seed.

    Theorem 6.4 is for small steps, and every result about GD allows ``gd_eta`` = 1/2. GD's rate is fitted
    from step ``gd_from`` on.
    """

    gd_eta: float = 0.5
    growth: float = 1.2  # PRGD(exp) has R_k = R_0 growth^k and phases of ``phase`` steps, as in Section 7.1
    phase: int = 5
    warm_up: int = 1_000
    gd_steps: int = 60_000
    ngd_steps: int = 20_000
    dual_steps: int = 5_000
    prgd_steps: int = 500
    proof_steps: int = 2_000
    gd_from: int = 1_000
    sets: tuple[str, ...] = ("toy", *(f"random-{seed}" for seed in SEEDS))


class Theorem(NamedTuple):
    """What Table 1 prints for a method, and the model and exponent that a fit must find."""

    direction: str
    margin: str
    model: Model
    exponent: float | None


THEOREMS = {
    "GD": Theorem("Theta(1 / log t)", "O(1 / log t), Omega(1 / log^2 t)", "1/log t", None),
    "NGD": Theorem("Theta(1 / t_k)", "O(1 / t), Omega(1 / t_k^2)", "t^-a", 1.0),
    "dual acceleration": Theorem("-", "O~(1 / t^2)", "t^-a", 2.0),
    "game dynamics": Theorem("-", "O(1 / t^2)", "t^-a", 2.0),
    PROOF: Theorem("e^-Omega(t)", "e^-Omega(t)", "e^-ct", None),
    "PRGD(exp)": Theorem("e^-Omega(t)", "e^-Omega(t)", "e^-ct", None),
}


def tasks(settings: Settings) -> Sequence[str]:
    """Return one task for each set."""
    return settings.sets


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the errors of every method on one set, and the rate fitted to each."""
    data = toy(0.3) if task == "toy" else random_nondegenerate(int(task.removeprefix("random-")))
    g = geometry(data)
    w_star = g.reference.w_star if data.w_star is None else data.w_star
    problem = Problem(data.X, data.y, scale="none", n_threads=1)
    warm = warm_start(problem, settings.warm_up)
    c = numerical_constants(g)
    exp = PRGD(Geometric(settings.growth), Every(settings.phase))
    # PRGD(proof) is the algorithm of Theorem 6.1's proof, which knows w_star; D and mu are numerical.
    proof = PRGD(LiftTo(c.D, w_star), Every(2), eta=c.mu * c.D)
    runs = [
        ("GD", GD(settings.gd_eta), None, record_times(settings.gd_steps, first=2)),
        ("NGD", NGD(), None, record_times(settings.ngd_steps, first=2)),
        ("dual acceleration", DualAcceleration(), None, record_times(settings.dual_steps, first=2)),
        ("game dynamics", GameDynamics(), None, record_times(settings.dual_steps, first=2)),
        ("PRGD(exp)", exp, warm, np.arange(settings.phase, settings.prgd_steps + 1, settings.phase)),
        (PROOF, proof, warm, np.arange(2, settings.proof_steps + 1, 2)),
    ]
    rows: list[Row] = []
    for name, algorithm, w0, times in runs:
        W = iterates(problem, algorithm, times, w0, until=lambda w: direction_error(w, w_star) < FLOOR)
        t, errors = times[: len(W)], {"direction": direction_error(W, w_star), "margin": margin_errors(g, W)}
        window = (settings.gd_from, math.inf) if name == "GD" else None
        for quantity, error in errors.items():
            base = {"set": task, "method": name, "quantity": quantity}
            rows += [base | {"kind": "curve", "t": int(a), "value": b} for a, b in zip(t, error, strict=True)]
            fit = fit_rate(t, error, window)
            low, high = fit.interval
            found = {"rate": fit.rate, "constant": fit.constant, "low": low, "high": high}
            rows.append(base | {"kind": "fit", **found, "reason": fit.reason or "-"})
    return padded(rows, COLUMNS)


def _constant(fit: Any) -> str:
    if fit.rate == "undecided":
        return "undecided"
    return f"{fit.rate}, {LETTERS[fit.rate]} = {fit.constant:.3g} [{fit.low:.3g}, {fit.high:.3g}]"


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return the paper's table with our fits: one line a method and quantity, one column a set."""
    lines = []
    for quantity in ("direction", "margin"):
        for method, theorem in THEOREMS.items():
            fits = _fits(rows, method, quantity).set_index("set")
            line = {"quantity": f"{quantity} error", "method": method, "paper": getattr(theorem, quantity)}
            lines.append(line | {name: _constant(fits.loc[name]) for name in settings.sets})
    caption = (
        "Rates fitted to runs, with 95 % intervals, beside the rates that the paper proves or cites. The "
        "sets have support vectors that span and whose mean is not gamma_star w_star; PRGD(proof) is the "
        "algorithm of Theorem 6.1's proof, which knows w_star."
    )
    return [Table.of(caption, lines)]


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return the curves that were fitted: direction and margin error on two of the sets."""
    panels = []
    for name in settings.sets[:2]:
        for quantity, symbol in (("direction", "||w/||w|| - w_star||"), ("margin", "gamma_star - gamma(w)")):
            some = where(rows, kind="curve", set=name, quantity=quantity)
            marks = error_lines(some, some.value, THEOREMS, styles={PROOF: STYLES["PRGD(poly)"]})
            panels.append(log_log(f"{name}: {quantity} error", marks, LEFT_OUT, symbol, 1e-14, 2.0))
    alt = (
        "Errors of direction and of margin against steps on logarithmic axes. GD bends like 1 / log t, NGD "
        "is a line of slope -1, dual acceleration and game dynamics lines of slope -2, and both kinds of "
        "PRGD bend down exponentially."
    )
    return [Figure("table-1", "The runs behind the fitted rates", alt, tuple(panels), columns=2)]


def _fits(rows: Any, method: str, quantity: str) -> Any:
    return where(rows, kind="fit", method=method, quantity=quantity)


def _agree(rows: Any, method: str, quantity: str) -> tuple[int, int, str]:
    """Return on how many sets the fitted model is the theorem's, of how many, and its constants."""
    theorem, fits = THEOREMS[method], _fits(rows, method, quantity)
    right = fits[fits.rate == theorem.model]
    if theorem.exponent is not None:
        right = right[(right.constant - theorem.exponent).abs() <= 0.1]
    others = fits[~fits.index.isin(right.index)]
    wrong = "".join(f"; {fit.set}: {fit.rate}" for fit in others.itertuples())
    constants = f"{right.constant.min():.3g} to {right.constant.max():.3g}" if len(right) else "none"
    return len(right), len(fits), constants + wrong


def _judge(method: str, quantity: str, rows: Any, settings: Settings) -> Finding:
    """Count the sets on which the fitted model is the theorem's."""
    right, n, constants = _agree(rows, method, quantity)
    model, fits = THEOREMS[method].model, _fits(rows, method, quantity)
    # A set on which no model wins clearly is no evidence either way; a wrong winner is.
    wrong = int(((fits.rate != model) & (fits.rate != "undecided")).sum())
    caveat = ""
    if method == "PRGD(exp)":
        caveat = (
            f"The best c is {_best_rate(settings)}, which the radii dictate; where the warm start is not "
            "good enough w freezes instead."
        )
    elif right < n:
        caveat = f"On {n - right} of {n} sets the fit does not decide or differs."
    return Finding(
        (float(right), ">=", math.ceil(0.5 * n) if wrong == 0 else float(n)),
        f"Fitted on {right} of {n} sets: {model} with {LETTERS[model]} = {constants}.",
        caveat,
    )


def _best_rate(settings: Settings) -> str:
    growth, phase = settings.growth, settings.phase
    return f"log({growth:g}) / {phase} = {math.log(growth) / phase:.4f}"


for _method, _name, _quantity, _statement in (
    ("GD", "gd", "direction", "GD's direction error is Theta(1 / log t)."),
    ("NGD", "ngd", "direction", "NGD's direction error is Theta(1 / t)."),
    ("dual acceleration", "dual", "margin", "Nesterov acceleration has margin error O~(1 / t^2)."),
    (PROOF, "prgd", "margin", "PRGD has margin error e^-Omega(t), for the proof's radii."),
    (
        "PRGD(exp)",
        "prgd-exp",
        "margin",
        "PRGD has margin error e^-Omega(t), for Section 7's radii R_0 1.2^k.",
    ),
):
    _measure = partial(_judge, _method, _quantity)
    claim(f"table-1-{_name}", _statement, where="Table 1", experiment="table-1")(_measure)


def reading(rows: Any, settings: Settings) -> str:
    """Return what the table shows, in figures."""
    names = ("NGD", "dual acceleration", PROOF)
    ngd, dual, proof = (_agree(rows, name, "margin")[2].split(";")[0] for name in names)
    return (
        f"Fitted exponents of the margin error are {ngd} for NGD and {dual} for dual acceleration, as the "
        f"theorems say. The proof's algorithm falls like e^-ct with c = {proof}; PRGD(exp) can do no better "
        f"than c = {_best_rate(settings)}, since its radii grow no faster, and only where "
        "its warm start is good."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=7,
    title="Rates of direction and margin",
    where="Table 1, Section 1",
    quick=Settings(
        gd_steps=10_000, ngd_steps=3_000, dual_steps=2_000, proof_steps=600, sets=("toy", "random-117")
    ),
    seconds=4.0,
)
