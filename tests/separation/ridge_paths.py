"""Coefficients under a vanishing ridge penalty: infinite ones grow, and finite ones converge.

`draw` generates separated sets of 30 to 100 rows with numeric columns and factors, and `compare` follows the
minimisers of ``-loglike / n + alpha ||beta||^2 / 2`` (the objective of statsmodels' ``fit_regularized``) from
alpha = 1e-2 to 1e-10, and compares them with `prgd.separability`:

- a coefficient of verdict ``+inf`` or ``-inf`` grows with that sign, and one of verdict ``either`` with the
  sign at maximum margin, by steps that do not shrink from decade to decade;
- the steps of a ``finite`` one vanish, and its limit agrees to 1e-3 with the estimate of statsmodels on the
  limiting model alone.

Five of seven sets are binomial.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, logsumexp

import prgd
from prgd.regression.families import model_rows

KINDS = ("level", "reference level", "cells", "complete", "slope", "poisson", "multinomial")
_PER_DECADE = 4  # minimisers that are found in each decade of alpha, each from the one before
DECADES = np.arange(2, 11)  # alpha = 10^-k
_LAST = 3  # decades over which infinite coefficients must grow
_SHRINKS = 0.5  # steps over a decade shrink if each is less than this fraction of the one before
CLOSE = 1e-3  # difference between the limit of a finite coefficient and its estimate on the limiting rows


@dataclass(frozen=True)
class Sample:
    """A separated set: the columns of the model matrix without its intercept, and the response."""

    kind: str
    X: np.ndarray
    y: np.ndarray

    @property
    def family(self) -> str:
        return self.kind if self.kind in ("poisson", "multinomial") else "binomial"

    @property
    def matrix(self) -> np.ndarray:
        """The model matrix with its intercept."""
        return np.column_stack([np.ones(len(self.y)), self.X])

    def glm(self, rows, columns: list[int]):
        """Return the model of statsmodels on some rows and columns."""
        import statsmodels.api as sm

        family = sm.families.Poisson() if self.family == "poisson" else sm.families.Binomial()
        return sm.GLM(self.y[rows], self.matrix[rows][:, columns], family=family)


# ------------------------------------------------------------------------------------------ generated sets


def _separated(seed: int, index: int) -> Sample:
    """Return a random set that is made to be separated, in the way that its number names."""
    rng = np.random.default_rng([seed, index])
    kind = KINDS[index % len(KINDS)]
    n, levels = int(rng.integers(30, 101)), int(rng.integers(3, 6))
    numeric = np.round(rng.standard_normal((n, int(rng.integers(1, 4)))), 3) * rng.choice([0.5, 1.0, 3.0])
    level = np.concatenate([np.arange(levels).repeat(2), rng.integers(levels, size=n - 2 * levels)])
    dummies = (level[:, None] == np.arange(1, levels)).astype(float)
    group = (rng.random(n) < 0.5).astype(float)
    score = numeric @ rng.normal(0.0, 0.7, numeric.shape[1]) + rng.normal(0.0, 0.7, levels)[level]
    noisy = (rng.random(n) < expit(score)).astype(int)
    special = level == (0 if kind == "reference level" else levels - 1)
    X = np.column_stack([numeric, dummies])
    if kind in ("level", "reference level"):
        return Sample(kind, X, np.where(special, int(rng.integers(2)), noisy))
    if kind == "cells":  # an interaction of which one cell has a single value of y
        X = np.column_stack([numeric, dummies, group, dummies * group[:, None]])
        return Sample(kind, X, np.where(special & (group == 1.0), int(rng.integers(2)), noisy))
    if kind == "complete":
        return Sample(kind, X, (score > np.median(score)).astype(int))
    if kind == "slope":  # one level has a slope and an intercept of its own, and they separate it
        X = np.column_stack([numeric, dummies, numeric[:, 0] * special])
        return Sample(kind, X, np.where(special, numeric[:, 0] > rng.normal(0.0, 0.2), noisy))
    if kind == "poisson":
        counts = rng.poisson(np.exp(0.5 * score.clip(-4.0, 4.0) + 0.3))
        return Sample(kind, X, np.where(special, 0, counts))
    labels = np.argmax(score[:, None] * [0.0, 1.0, -1.0] + rng.gumbel(size=(n, 3)), axis=1)
    return Sample(kind, X, np.where(special & (labels == 2), rng.integers(2, size=n), labels))


def draw(seed: int, index: int) -> Sample:
    """Return a random separated set; every fifth one has a column that depends exactly on others."""
    sample = _separated(seed, index)
    if index % 5 < 4:
        return sample
    X = sample.X
    column = [2.0 * X[:, 0], np.zeros(len(X)), np.full(len(X), 3.0)][index % 3]
    return replace(sample, X=np.column_stack([X, column]))


# ------------------------------------------------------------------------------------------- ridge minimisers


@dataclass(frozen=True)
class Model:
    """The log-likelihood of a family: its gradient and Hessian in the coefficients of each class."""

    family: str
    X: np.ndarray  # with its intercept
    y: np.ndarray
    allowed: np.ndarray | None = None  # multinomial: the classes that each row may still take

    @property
    def classes(self) -> int:
        """The number of classes that have coefficients."""
        return len(np.unique(self.y)) - 1 if self.family == "multinomial" else 1

    def evaluate(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return ``-loglike / n`` up to a constant, its gradient and its Hessian; beta is class-major."""
        n = len(self.y)
        eta = self.X @ beta.reshape(self.classes, -1).T
        if self.family == "multinomial":
            hit = (self.y[:, None] == np.unique(self.y)[1:]).astype(float)
            full = np.column_stack([np.zeros(n), eta])
            if self.allowed is not None:
                full[~self.allowed] = -np.inf
            log_p = full - logsumexp(full, axis=1, keepdims=True)
            p = np.exp(log_p[:, 1:])
            loss = -log_p[np.arange(n), np.searchsorted(np.unique(self.y), self.y)].sum()
            curvature = p[:, :, None] * np.eye(self.classes) - p[:, :, None] * p[:, None, :]
            # 1 - p loses digits where p is near 1; the other probabilities of the row give it in full.
            others = np.exp(log_p)
            missing = np.stack([np.delete(others, k + 1, axis=1).sum(axis=1) for k in range(self.classes)], 1)
            slope = np.where(hit == 1.0, -missing, p)
            for k in range(self.classes):
                curvature[:, k, k] = p[:, k] * missing[:, k]
        elif self.family == "poisson":
            mean = np.exp(eta[:, 0])
            loss = (mean - self.y * eta[:, 0]).sum()
            slope, curvature = (mean - self.y)[:, None], mean[:, None, None]
        else:
            sign = 2.0 * self.y - 1.0
            margin = sign * eta[:, 0]
            loss = -log_expit(margin).sum()
            slope = (-sign * expit(-margin))[:, None]
            curvature = (expit(margin) * expit(-margin))[:, None, None]
        gradient = (slope.T @ self.X).ravel()
        hessian = np.einsum("iab,ic,id->acbd", curvature, self.X, self.X).reshape(beta.size, beta.size)
        return float(loss) / n, gradient / n, hessian / n

    def minimiser(self, alpha: float, beta: np.ndarray, penalised: np.ndarray) -> np.ndarray:
        """Return the minimiser of the penalised objective by Newton's method with halved steps."""
        penalty = alpha * penalised

        def objective(at: np.ndarray) -> float:
            with np.errstate(over="ignore"):
                return self.evaluate(at)[0] + 0.5 * float(penalty @ at**2)

        for _ in range(200):
            _, gradient, hessian = self.evaluate(beta)
            scale = 1.0 / np.sqrt(np.diag(hessian) + penalty + 1e-300)
            matrix = (hessian + np.diag(penalty)) * scale * scale[:, None]
            step = scale * np.linalg.solve(matrix, scale * (gradient + penalty * beta))
            size, here = 1.0, objective(beta)
            while size > 1e-3 and not objective(beta - size * step) <= here + 1e-13 * abs(here):
                size /= 2.0
            beta = beta - size * step
            if np.abs(step).max() <= 1e-9 * (1.0 + np.abs(beta).max()):
                return beta
        raise RuntimeError(f"Newton's method did not converge at alpha = {alpha:g}; last step {step}")


def ridge_path(model: Model, penalised: np.ndarray) -> np.ndarray:
    """Return the minimisers for alpha = 1e-2, 1e-3, ..., 1e-10, one in each row."""
    beta, path = np.zeros(penalised.size), []
    for k in range(_PER_DECADE * int(DECADES[0]), _PER_DECADE * int(DECADES[-1]) + 1):
        beta = model.minimiser(10.0 ** (-k / _PER_DECADE), beta, penalised)
        if k % _PER_DECADE == 0:
            path.append(beta)
    return np.array(path)


# ------------------------------------------------------------------------------------------------ comparison


def limiting_estimates(sample: Sample, kept: list[int], found) -> np.ndarray:
    """Return the maximum-likelihood estimates of the limiting model; only finite coefficients are unique."""
    X, rows = sample.matrix[:, kept], found.limiting_rows
    if sample.family == "multinomial":
        model = Model("multinomial", X, sample.y, remaining_classes(sample, found))
        return ridge_path(model, np.ones(len(kept) * model.classes))[-1]
    # The column of a finite coefficient never depends on others there, so it is never left out.
    X, estimates = X[rows], np.zeros(len(kept))
    chosen: list[int] = []
    for j in range(len(kept)):
        if np.linalg.matrix_rank(X[:, [*chosen, j]]) > len(chosen):
            chosen.append(j)
    fit = sample.glm(rows, [kept[j] for j in chosen]).fit(tol=1e-12, maxiter=200)
    estimates[chosen] = fit.params
    return estimates


def remaining_classes(sample: Sample, found) -> np.ndarray:
    """Return which classes have a positive probability for each observation in the limiting model."""
    model = model_rows(sample.X, sample.y, family="multinomial")
    X, classes = sample.matrix, len(np.unique(sample.y))
    allowed = sample.y[:, None] == np.unique(sample.y)
    Z = model.rows.take(found.boundary_rows)[:, model.columns].reshape(-1, classes - 1, X.shape[1])
    for i, row in zip(model.observations[found.boundary_rows], Z, strict=True):
        wrong = [k + 1 for k, block in enumerate(row) if np.allclose(block, -X[i])]
        allowed[i, wrong[0] if wrong else 0] = True  # the block of the reference is not written
    return allowed


def compare(sample: Sample) -> tuple[dict, list[str]]:
    """Return the verdict on each coefficient that is not aliased, and the disagreements in words."""
    found = prgd.separability(sample.X, sample.y, family=sample.family)
    words = {name: word.value for name, word in found.coefficients.items() if word != "aliased"}
    width = len(found.coefficients) // (len(np.unique(sample.y)) - 1 if sample.family == "multinomial" else 1)
    kept = [j for j, word in enumerate(list(found.coefficients.values())[:width]) if word != "aliased"]
    model = Model(sample.family, sample.matrix[:, kept], sample.y)
    path = ridge_path(model, np.ones(len(words)))
    wrong = []
    if sample.family != "multinomial":
        theirs = sample.glm(slice(None), kept).fit_regularized(alpha=1e-2, L1_wt=0.0).params
        if np.abs(theirs - path[0]).max() > 1e-2:
            wrong.append(f"statsmodels finds {theirs} at alpha = 1e-2, Newton's method {path[0]}")
    finite = {k: name for k, (name, word) in enumerate(words.items()) if word == "finite"}
    if len(finite) == len(words):
        wrong.append("the set is not separated")
    limits = limiting_estimates(sample, kept, found) if finite else ()
    for k, name in finite.items():
        if not abs(limit(path[:, k]) - limits[k]) <= CLOSE:
            wrong.append(f"{name}: {limit(path[:, k]):.6g}, in the limiting model {limits[k]:.6g}")
    signs = {"+inf": 1, "-inf": -1, "finite": 0}
    for (name, word), values in zip(words.items(), path.T, strict=True):
        sign = signs[word] if word in signs else {"+": 1, "-": -1, "0": 0}[found.max_margin_signs[name]]
        is_open = word == "either" and sign == 0  # zero at maximum margin
        if not (is_open or (grows(sign * values) if sign else converges(values))):
            wrong.append(f"{name}, {word} ({sign:+d}): {np.array2string(values, precision=5)}")
    return words, wrong


def grows(values: np.ndarray) -> bool:
    """Say whether values rise in each of the last decades, by steps that do not shrink."""
    steps = np.diff(values)[-_LAST:]
    return bool((steps > 0.0).all() and steps[-1] >= _SHRINKS * steps[-2])


def converges(values: np.ndarray) -> bool:
    """Say whether the steps of values shrink, or have vanished but for rounding."""
    steps = np.abs(np.diff(values))
    return bool(steps[-1] < 1e-6 or steps[-1] < _SHRINKS * steps[-2])


def limit(values: np.ndarray) -> float:
    """Return the limit of values whose distance from it is proportional to alpha, that is to 10^-k."""
    return float(values[-1] + (values[-1] - values[-2]) / 9.0)
