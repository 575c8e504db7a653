"""Problem: what a method may ask of the data at w, each answer from one Tally."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.errors import ZeroRowWarning
from prgd.losses import EXPONENTIAL, Loss, as_loss
from prgd.norms import norm
from prgd.rows import DenseRows, Rows, SparseRows
from prgd.tally import Tally

Scale = Literal["max", "none"]


class Problem:
    r"""Minimise ``L(w) = mean_i l(<w, z_i>)``, with ``z_i = y_i x_i``, and measure margins.

    Parameters
    ----------
    X : array, sparse matrix or Rows
        Dense (float32 or float64, any order, mapped or not), any SciPy sparse format, or an engine
        of `prgd.rows`. Never copied where it is float32 or float64 already.
    y : array of shape (n,), optional
        Labels of two classes; the larger one is +1. ``None``: the rows are z_i already.
    loss : {"exponential", "logistic"}
    sample_weight : array of shape (n,), optional
        Weight 3 on a row is the same as three copies of it; rows of weight 0 do not count.
    fit_intercept : bool
        Minimise over an unpenalised intercept b too, by its closed form (exponential loss only).
    scale : {"max", "none"}
        The paper asks for rows of norm at most 1 and ``eta <= 1``. ``"max"`` measures step sizes in
        units of ``1 / max ||x_i||^2``, which is the paper's algorithm on the scaled rows; ``"none"``
        takes ``eta`` literally. Margins are in the units of X either way.
    n_threads : int, optional

    Examples
    --------
    >>> problem = Problem([[3.0, 4.0], [-3.0, 4.0]], [1, -1])
    >>> w = np.array([1.0, 0.0])
    >>> problem.gamma(w), problem.max_norm
    (3.0, 5.0)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        loss: Loss | str = "exponential",
        sample_weight: Any = None,
        fit_intercept: bool = False,
        scale: str = "max",
        n_threads: int | None = None,
    ) -> None:
        self.loss = as_loss(loss)
        self.fit_intercept = bool(fit_intercept)
        if self.fit_intercept and self.loss != EXPONENTIAL:
            raise ValueError(
                "fit_intercept=True needs loss='exponential': only there the unpenalised intercept "
                f"has a closed form; got loss={loss!r}. Or add a constant column to X."
            )
        if scale not in ("max", "none"):
            raise ValueError(f"scale must be 'max' or 'none'; got {scale!r}.")
        self.scale = scale
        self.rows: Rows = as_rows(X, y, sample_weight, n_threads)
        self.n, self.d, self.classes = self.rows.n, self.rows.d, self.rows.classes
        if self.fit_intercept and min(self.rows.class_weights) == 0.0:
            raise ValueError(
                "fit_intercept=True needs rows of positive weight in both classes; got only one."
            )
        self.max_norm, zero_rows = self.rows.measure()
        self.unit = self._step_unit()
        if zero_rows and not self.fit_intercept:
            warnings.warn(
                f"{zero_rows} of {self.n} rows are zero: their margin is 0 for every w, so there is "
                "no positive margin through the origin. Remove them, or use fit_intercept=True.",
                ZeroRowWarning,
                stacklevel=2,
            )
        self.passes = 0
        self._cached_w: Array | None = None
        self._cached: tuple[Tally, ...] = ()

    def _step_unit(self) -> float:
        if self.scale == "none" or self.max_norm == 0.0:
            return 1.0
        if not 1e-150 < self.max_norm < 1e150:
            raise ValueError(
                f"The largest row norm is {self.max_norm:.3g}: its square leaves the floating range. "
                "Multiply X by a constant, or use scale='none' and choose eta yourself."
            )
        return 1.0 / self.max_norm**2

    def __repr__(self) -> str:
        options = f"loss={str(self.loss)!r}, fit_intercept={self.fit_intercept}, scale={self.scale!r}"
        return f"Problem({self.n} x {self.d} {type(self.rows).__name__}, {options})"

    def tallies(self, w: Array) -> tuple[Tally, ...]:
        """Return the Tally of all rows (one for each class with an intercept), by one pass.

        The last one is kept: the loss, gradient, margin and bound at one w cost one reading.
        """
        last = self._cached_w
        if last is None or not (w is last or (w.flags.writeable and np.array_equal(w, last))):
            if w.shape != (self.d,):
                raise ValueError(f"w must have shape ({self.d},); got {w.shape}.")
            tallies = self.rows.tallies(w, self.loss, self.fit_intercept)
            # both at once: an interrupt in between must not pair an old w with new sums
            self._cached_w, self._cached = (w.copy() if w.flags.writeable else w), tallies
            self.passes += 1
        return self._cached

    def log_loss(self, w: Array) -> float:
        r"""Return ``log L(w)``, minimised over the intercept where there is one.

        .. math:: \log L = \tfrac12 (\mathrm{LSE}(-X_+ w) + \mathrm{LSE}(X_- w)) + \log 2 - \log n
        """
        tallies = self.tallies(w)
        if self.fit_intercept:
            plus, minus = tallies
            return 0.5 * (plus.log_sum + minus.log_sum) + math.log(2.0) - math.log(plus.count + minus.count)
        return tallies[0].log_sum - math.log(tallies[0].count)

    def dual(self, w: Array) -> Array:
        r"""Return ``u = Z^T p`` with ``p = weights(w)``: its norm bounds ``gamma_star`` from above."""
        tallies = self.tallies(w)
        if self.fit_intercept:
            return 0.5 * (tallies[0].mean_row + tallies[1].mean_row)
        return tallies[0].mean_row

    def normalized_gradient(self, w: Array) -> Array:
        r"""Return :math:`\nabla L(w) / L(w)` (equation of NGD, Section 3)."""
        if self.loss == EXPONENTIAL:
            return -self.dual(w)
        return -self.tallies(w)[0].slope_over_value * self.dual(w)

    def gradient(self, w: Array) -> Array:
        r"""Return :math:`\nabla L(w)`; it underflows to 0 where L does, at margins above 745."""
        log_loss = self.log_loss(w)
        value = math.exp(log_loss) if log_loss < 709.0 else math.inf
        return value * self.normalized_gradient(w)

    def smallest_margin(self, w: Array) -> float:
        """Return ``min_i <w, z_i>``, at the best intercept where there is one; not normalized."""
        tallies = self.tallies(w)
        # the midpoint between the classes, never the loss's b: they agree only as ||w|| grows
        return sum(t.margin for t in tallies) / len(tallies)

    def gamma(self, w: Array) -> float:
        r"""Return the normalized margin of ``w``.

        .. math:: \gamma(w) = \min_i \langle w, z_i \rangle / \|w\|_2

        Parameters
        ----------
        w : ndarray of shape (d,), non-zero; its length does not matter.
        """
        length = norm(w)
        if length == 0.0:
            raise ValueError("gamma(w) is not defined at w = 0. Take a step first.")
        return self.smallest_margin(w) / length

    def upper_bound(self, w: Array) -> float:
        """Return ``||Z^T p||`` with ``p = weights(w)``: at least ``gamma_star``."""
        return norm(self.dual(w))

    def gap_split(self, w: Array) -> tuple[float, float]:
        """Split ``||u|| - gamma(w)``: the direction has not settled, and the radius is too soft.

        Returns ``(||u|| - <u, w>/||w||, <u, w>/||w|| - gamma(w))`` with ``u = dual(w)``.
        """
        along = float(self.dual(w) @ (w / norm(w)))
        return self.upper_bound(w) - along, along - self.gamma(w)

    def intercept(self, w: Array) -> float:
        """Return the b that gives both classes the same smallest margin (0 without an intercept)."""
        if not self.fit_intercept:
            return 0.0
        plus, minus = self.tallies(w)
        return 0.5 * (minus.margin - plus.margin)

    def margins(self, w: Array) -> Array:
        """Return ``y_i (<w, x_i> + b)`` for every row, b from `intercept`."""
        margins = self.rows.margins(w)
        return margins + self.intercept(w) * self.rows.signs() if self.fit_intercept else margins

    def near(self, w: Array, width: float) -> npt.NDArray[np.int64]:
        """Return the rows with a margin within ``width`` of the smallest (of their class), by one pass.

        Rows of weight 0 are left out.
        """
        margins, sample_weight = self.rows.margins(w), self.rows.weights()
        self.passes += 1
        if sample_weight.size:
            margins[sample_weight == 0.0] = np.inf
        for group in self._classes():
            margins[group] -= margins[group].min()
        return np.flatnonzero(margins <= width)

    def _classes(self) -> list[Any]:
        """Return which rows share a softmax: those of one class with an intercept, else all."""
        signs = self.rows.signs()
        return [signs > 0, signs < 0] if self.fit_intercept else [slice(None)]

    def weights(self, w: Array) -> Array:
        """Return the p of the certificate: ``s_i (-l'(m_i))``, of sum 1 (of 1/2 in each class)."""
        exponent = self.loss.log_slope(self.rows.margins(w))
        sample_weight = self.rows.weights()
        if sample_weight.size:
            exponent[sample_weight == 0.0] = -np.inf
        groups = self._classes()
        for group in groups:
            part = np.exp(exponent[group] - exponent[group].max())
            if sample_weight.size:
                part *= sample_weight[group]
            exponent[group] = part / (part.sum() * len(groups))
        return exponent


def as_rows(X: Any, y: Any, sample_weight: Any, n_threads: int | None) -> Rows:
    """Return the engine for X: itself where it is one, else dense or sparse rows."""
    if isinstance(X, Rows):
        if y is not None or sample_weight is not None or n_threads is not None:
            raise ValueError(
                "X is an engine that holds its labels, weights and threads already: "
                "give y, sample_weight and n_threads to the engine, not to Problem."
            )
        return X
    if type(X).__module__.partition(".")[0] == "torch":
        from prgd.rows.gpu.tensor_rows import TensorRows

        if n_threads is not None:
            raise ValueError("n_threads is for arrays; tensors on the CPU take torch.set_num_threads.")
        return TensorRows(X, y, sample_weight)
    engine = SparseRows if hasattr(X, "tocsr") else DenseRows
    return engine(X, y, sample_weight, n_threads=n_threads)
