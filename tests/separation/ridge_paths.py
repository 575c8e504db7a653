"""Separated regressions of all families, followed as a ridge penalty vanishes, against verdicts and fits.

`draw` generates sets with factors, interactions, weights and offsets, and `compare` follows the maximisers of
``loglike - alpha ||beta||^2 / 2`` from alpha = 1 to 1e-10, where torch differentiates the likelihoods of
textbooks. Nothing here knows which rows are separated, nor the rows of the recession cone.

- A coefficient of verdict ``+inf`` or ``-inf`` grows with that sign, and one of verdict ``either`` with the
  sign at maximum margin, by steps that do not shrink from decade to decade.
- A ``finite`` one converges to the estimate of ``found.fit()``, and so do its standard error, the fitted
  probabilities, and the likelihood-ratio statistics at the ends of profile intervals.
- The estimates of ``found.fit("firth")`` zero the gradient of the likelihood with Jeffreys' prior.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

import prgd

KINDS = (
    *("level", "reference level", "cells", "complete", "slope"),  # binomial
    *("counts", "multinomial", "poisson", "ordinal", "cells of grades"),
)
ALPHAS = 10.0 ** -np.array([0.0, 2.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0])
_LAST = 3  # decades over which infinite coefficients must grow
_SHRINKS = 0.5  # steps over a decade shrink if each is less than this fraction of the one before
CLOSE = 1e-4  # difference of estimates and standard errors from their limits
QUANTILE = 3.841458820694124  # of the chi-squared distribution of one degree of freedom, at 0.95


@dataclass(frozen=True)
class Sample:
    """A separated set; X has no intercept."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None

    @property
    def family(self) -> str:
        if self.kind in ("multinomial", "poisson"):
            return self.kind
        return "ordinal" if self.kind in ("ordinal", "cells of grades") else "binomial"


def draw(seed: int, index: int) -> Sample:
    """Return a random set that is made to be separated, in the way that its number names.

    Every fifth one has a column that depends exactly on others; some have weights, and some an offset.
    """
    rng = np.random.default_rng([seed, index])
    kind = KINDS[index % len(KINDS)]
    n, levels = int(rng.integers(30, 101)), int(rng.integers(3, 6))
    numeric = np.round(4.0 * rng.standard_normal((n, int(rng.integers(1, 4))))) / rng.choice([2.0, 4.0, 8.0])
    level = np.concatenate([np.arange(levels).repeat(2), rng.integers(levels, size=n - 2 * levels)])
    dummies = (level[:, None] == np.arange(1, levels)).astype(float)
    group = (rng.random(n) < 0.5).astype(float)
    score = numeric @ rng.normal(0.0, 0.7, numeric.shape[1]) + rng.normal(0.0, 0.7, levels)[level]
    noisy = (rng.random(n) < expit(score)).astype(int)
    special, one = level == (0 if kind == "reference level" else levels - 1), int(rng.integers(2))
    X, y = np.column_stack([numeric, dummies]), np.where(special, one, noisy)
    if kind.startswith("cells"):  # an interaction of which one cell has a single value of y
        X = np.column_stack([numeric, dummies, group, dummies * group[:, None]])
        special &= group == 1.0
        y = np.where(special, one, noisy)
    if kind == "complete":  # with a margin: coefficients grow slowly without
        center = score - np.median(score)
        keep = np.abs(center) > 0.3 * min(center.max(), -center.min())
        X, y, n = X[keep], (center > 0.0)[keep].astype(int), int(keep.sum())
    elif kind == "slope":  # one level has a slope and an intercept of its own, and they separate it
        X = np.column_stack([X, numeric[:, 0] * special])
        y = np.where(special, numeric[:, 0] > rng.normal(0.0, 0.2), noisy)
    elif kind == "poisson":
        y = np.where(special, 0, rng.poisson(np.exp(0.5 * score.clip(-4.0, 4.0) + 0.3)))
    elif kind == "counts":
        successes = np.where(special, 4 * one, rng.binomial(4, expit(score)))
        y = np.column_stack([successes, 4 - successes])
    elif kind == "multinomial":
        y = np.argmax(score[:, None] * [0.0, 1.0, -1.0] + rng.gumbel(size=(n, 3)), axis=1)
        y = np.where(special & (y == 2), rng.integers(2, size=n), y)
    elif kind in ("ordinal", "cells of grades"):
        y = np.where(special, 2 * one, np.digitize(score + rng.logistic(size=n), [-0.8, 0.8]))
    if index % 5 == 4:
        column = [2.0 * X[:, 0], np.zeros(n), np.full(n, 3.0)][index % 3]
        X = np.column_stack([X, column])
    weight = [None, rng.integers(1, 4, n) * 1.0, rng.uniform(0.5, 2.0, n)][index // len(KINDS) % 3]
    offset = None if kind == "multinomial" or index % 3 else rng.normal(0.0, 0.5, n)
    return Sample(kind, X, y, weight, offset)


class Likelihood:
    """The log-likelihood of a sample as textbooks write it, in the coefficients that are not aliased."""

    def __init__(self, sample: Sample, kept: np.ndarray) -> None:
        self.kind = "counts" if sample.y.ndim == 2 else sample.family
        self.kept = torch.eye(len(kept), dtype=torch.float64)[:, torch.as_tensor(kept)]
        n = len(sample.X)
        ones = [] if sample.family == "ordinal" else [np.ones(n)]
        self.X = torch.as_tensor(np.column_stack([*ones, sample.X]))
        self.y = torch.as_tensor(sample.y)
        self.weight = torch.as_tensor(np.ones(n) if sample.weight is None else sample.weight)
        self.offset = torch.as_tensor(np.zeros(n) if sample.offset is None else sample.offset)

    def probabilities(self, beta: torch.Tensor) -> torch.Tensor:
        """Return the fitted probabilities, or rates, of all observations."""
        whole = self.kept @ beta
        if self.kind == "multinomial":
            eta = self.X @ whole.reshape(2, -1).T
            return torch.softmax(torch.cat([torch.zeros_like(eta[:, :1]), eta], 1), 1)
        if self.kind == "ordinal":
            below = torch.sigmoid(whole[:2] - (self.X @ whole[2:] + self.offset)[:, None])
            zero = torch.zeros_like(below[:, :1])
            return torch.diff(torch.cat([zero, below, zero + 1.0], 1))
        eta = self.X @ whole + self.offset
        return torch.exp(eta) if self.kind == "poisson" else torch.sigmoid(torch.stack([eta, -eta], 1))

    def __call__(self, beta: torch.Tensor) -> torch.Tensor:
        p = self.probabilities(beta)
        if self.kind == "poisson":
            return self.weight @ (self.y * torch.log(p) - p)
        if self.kind == "counts":
            return self.weight @ (self.y * torch.log(p)).nan_to_num(0.0).sum(1)
        column = 1 - self.y if self.kind == "binomial" else self.y
        return self.weight @ torch.log(p.gather(1, column[:, None]))[:, 0]

    def penalised(self, beta: torch.Tensor) -> torch.Tensor:
        """Return the log-likelihood with Jeffreys' prior: the information of these families is observed."""
        return self(beta) + 0.5 * torch.logdet(-torch.func.hessian(self)(beta))

    def path(self, free: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the maximisers over the free coefficients as the ridge penalty vanishes, one in each row."""
        beta, path = torch.as_tensor(start), []
        gradient, hessian = torch.func.grad(self), torch.func.hessian(self)
        place = torch.as_tensor(np.flatnonzero(free))
        for alpha in ALPHAS:
            for _ in range(100):
                slope = (gradient(beta) - alpha * beta)[place]
                matrix = -hessian(beta)[place][:, place] + alpha * torch.eye(len(place), dtype=torch.float64)
                scale = matrix.diagonal().rsqrt()
                step = scale * torch.linalg.solve(matrix * scale * scale[:, None], scale * slope)
                here, size = self(beta) - 0.5 * alpha * beta @ beta, 1.0
                while size > 1e-4:
                    new = beta.index_add(0, place, size * step)
                    if self(new) - 0.5 * alpha * new @ new >= here - 1e-12 * abs(here):
                        break
                    size /= 2.0
                beta = new
                if step.abs().max() < 1e-9 * (1.0 + beta.abs().max()):
                    break
            path.append(beta.numpy())
        return np.array(path)

    def supremum(self, path: np.ndarray) -> float:
        """Return the limit of the log-likelihood, whose distance is nearly proportional to alpha."""
        before, last = (float(self(torch.as_tensor(beta))) for beta in path[-2:])
        return last + (last - before) / 9.0


def compare(sample: Sample, profiles: int = 1) -> tuple[dict, list[str]]:
    """Return the verdicts that are not aliased, and the disagreements in words.

    The ends of intervals of so many coefficients, infinite ones first, and of a finite one are followed too.
    """
    found = prgd.separability(sample.X, sample.y, family=sample.family, sample_weight=sample.weight)
    words = {name: word.value for name, word in found.coefficients.items() if word != "aliased"}
    likelihood = Likelihood(sample, np.array([name in words for name in found.coefficients]))
    fitted = found.fit(offset=sample.offset)
    table = [line for line in fitted.coefficients if line.name in words]
    start = np.zeros(len(table))
    start[:2] = [-0.5, 0.5] if sample.family == "ordinal" else 0.0
    path = likelihood.path(np.ones(len(table), bool), start)
    last = torch.as_tensor(path[-1])
    wrong = [] if {"+inf", "-inf", "either"} & {*words.values()} else ["the set is not separated"]
    information = ALPHAS[-1] * torch.eye(len(table)) - torch.func.hessian(likelihood)(last)
    errors = torch.linalg.inv(information).diagonal().sqrt().tolist()
    for line, values, error in zip(table, path.T, errors, strict=True):
        if line.verdict == "finite" and error < 100.0:  # The path is too short for flatter likelihoods.
            pairs = (line.estimate, values[-1]), (line.std_error, error)
            far = [(a, b) for a, b in pairs if not abs(a - b) <= CLOSE * (1.0 + abs(b))]
            wrong += [f"{line.name}: {a}, in the limit {b}" for a, b in far]
        sign = found.max_margin_signs.get(line.name, line.verdict[0])
        if sign in "+-" and not grows(values if sign == "+" else -values):
            wrong.append(f"{line.name}, {line.verdict} ({sign}): {np.array2string(values, precision=5)}")
    theirs, ours = likelihood.probabilities(last).numpy(), fitted.predict(sample.X, offset=sample.offset)
    theirs = theirs[:, 0] if theirs.ndim > ours.ndim else theirs
    if not np.abs(ours - theirs).max() <= CLOSE:
        wrong.append(f"probabilities differ by {np.abs(ours - theirs).max()}")
    order = sorted(range(len(table)), key=lambda k: (table[k].verdict == "finite", k))
    finite = [k for k in order[-1:] if table[k].verdict == "finite"]
    for k in {*order[:profiles], *finite}:
        wrong += profile(likelihood, table[k], k, start, likelihood.supremum(path))
    if sample.family != "ordinal":
        firth = found.fit("firth", offset=sample.offset, level=None).coefficients
        beta = torch.as_tensor(np.array([line.estimate for line in firth if line.name in words]))
        slope = float(torch.func.grad(likelihood.penalised)(beta).abs().max())
        wrong += [f"the modified score is {slope}"] * (not slope <= 1e-8)
    return words, wrong


def profile(likelihood: Likelihood, line, k: int, start: np.ndarray, top: float) -> list[str]:
    """Compare the statistics at the ends of an interval, and at 0, with those of the whole likelihood."""
    wrong, free = [], np.arange(start.size) != k
    for value, target in ((line.lower, QUANTILE), (line.upper, QUANTILE), (0.0, line.statistic)):
        if np.isfinite(value):
            at = np.where(free, start, value)
            if likelihood.kind == "ordinal" and k < 2:
                at[1 - k] = value + (1 - 2 * k)  # thresholds in their order
            statistic = 2.0 * (top - likelihood.supremum(likelihood.path(free, at)))
            if not abs(statistic - target) <= 1e-6 * (1.0 + target):
                wrong.append(f"{line.name} = {value}: {statistic}, not {target}")
    return wrong


def grows(values: np.ndarray) -> bool:
    """Say whether values rise in each of the last decades, by steps that do not shrink."""
    steps = np.diff(values)[-_LAST:]
    return bool((steps > 0.0).all() and steps[-1] >= _SHRINKS * steps[-2])
