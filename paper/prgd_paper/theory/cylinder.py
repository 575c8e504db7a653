r"""The favourable cylinder of Theorem 5.5: constants as printed, as corrected, and by a shorter proof."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prgd.core.checks import check_positive
from prgd_paper.theory.ray_geometry import Geometry, inradius, lambda_min, require_nondegenerate
from prgd_paper.theory.ray_geometry import geometry as geometry_of
from prgd_paper.theory.velocity import decompose

SPAN_TOL = 1e-9  # a w farther than this share of its norm from the span of the data is outside it
Kind = Literal["printed", "corrected", "convexity", "numerical"]


@dataclass(frozen=True)
class Cylinder:
    r"""A semi-infinite hollow cylinder around the max-margin ray, in the span of the data.

    .. math::

        C(D_1, D_2; H) = \{ w \in \mathrm{span}\{x_i\} :
        D_1 \le \|P_\perp(w)\| \le D_2, \; \langle w, w^\star \rangle \ge H \}

    Parameters
    ----------
    D1, D2 : float
        Inner and outer radius, ``0 < D1 <= D2``; ``D2`` may be infinite.
    H : float
        The height from which the cylinder extends, at least 0.

    References
    ----------
    Definition 5.3 of the paper.

    Examples
    --------
    >>> Z = [[0.6, 0.8], [0.6, -0.8]]
    >>> Cylinder(1.0, 2.0, 3.0).contains([4.0, -1.5], Z)
    True
    """

    D1: float
    D2: float
    H: float

    def __post_init__(self) -> None:
        check_positive("D1 of a cylinder", self.D1)
        if not self.D2 >= self.D1:
            raise ValueError(f"A cylinder needs D2 >= D1; got D1 = {self.D1!r} and D2 = {self.D2!r}.")
        if not (math.isfinite(self.H) and self.H >= 0.0):
            raise ValueError(
                f"H of a cylinder must be finite and at least 0; got {self.H!r}. Below height 0 even the "
                "support vectors have negative margins along w_star."
            )

    def contains(self, w: Any, data: Any, *, tol: float = 1e-9) -> bool:
        """Say whether w lies in the cylinder of the data, within ``tol`` of each bound, relative.

        Parameters
        ----------
        w : array of shape (d,)
        data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
        tol : float
        """
        g = geometry_of(data)
        along, off = decompose(w, g.reference.w_star)
        length = float(np.linalg.norm(off))
        outside_span = float(np.linalg.norm(off - g.basis @ (g.basis.T @ off)))
        inside = self.D1 * (1.0 - tol) <= length <= self.D2 * (1.0 + tol) and along >= self.H * (1.0 - tol)
        return inside and outside_span <= SPAN_TOL * math.hypot(along, length)


@dataclass(frozen=True)
class Constants:
    """One set of constants D, H, mu for ``inf of the velocity over C(D, 2D; H) >= mu``.

    Attributes
    ----------
    kind : {"printed", "corrected", "convexity", "numerical"}
    D, H : float
        Radius and height of the cylinder, in the units of w that belong to the data as given.
    log_mu : float
        The logarithm of the bound on the velocity, in the units of the rows as given: mu itself may
        underflow.
    scale : float
        Rows are divided by this to have norm at most 1, as the paper assumes.

    Examples
    --------
    >>> favorable_cylinder([[0.6, 0.8], [0.6, -0.8]]).convexity.mu
    0.4
    """

    kind: Kind
    D: float
    H: float
    log_mu: float
    scale: float = 1.0

    @property
    def mu(self) -> float:
        """The bound itself; 0 if it underflows."""
        return math.exp(self.log_mu) if self.log_mu > -745.0 else 0.0

    @property
    def cylinder(self) -> Cylinder:
        """The cylinder ``C(D, 2D; H)``."""
        return Cylinder(self.D, 2.0 * self.D, self.H)

    @property
    def epsilon(self) -> float:
        """The angle at which the warm-up ends: ``min(D / 2H, 1/2)`` (Phase I, Appendix C.1)."""
        return min(self.D / (2.0 * self.H), 0.5) if self.H > 0.0 else 0.5


@dataclass(frozen=True, eq=False)
class FavorableCylinder:
    r"""The constants of Theorem 5.5 for one data set; made by `favorable_cylinder`.

    Attributes
    ----------
    printed : Constants
        As Step III of the proof prints them. They are not always favourable.
    corrected : Constants
        With the factor that D_0 lacks and the log 2 that H lacks.
    convexity : Constants
        By a proof of ours from convexity: ``D = 2 log n / rho``, ``H = 0``, ``mu = rho / 2``.
    lambda_min : float
        For rows of norm at most 1.
    rho : float
        The inradius, in the units of Z, or a proven lower bound of it (see `inradius`).
    geometry : Geometry
    """

    printed: Constants
    corrected: Constants
    convexity: Constants
    lambda_min: float
    rho: float
    geometry: Geometry

    def __getitem__(self, kind: str) -> Constants:
        """Return the constants of that kind."""
        if kind not in ("printed", "corrected", "convexity"):
            raise ValueError(f"Constants are 'printed', 'corrected' or 'convexity'; got {kind!r}.")
        found: Constants = getattr(self, kind)
        return found


def favorable_cylinder(data: Any) -> FavorableCylinder:
    r"""Return the constants of Theorem 5.5: as the proof prints them, corrected, and by convexity.

    With :math:`N = |I|` and :math:`\Delta = \gamma^\star_{\rm sub} - \gamma^\star`, the proof prints

    .. math::

        D_0 = \log \frac{4 N^2}{\sqrt{\lambda_{\min}}}, \quad
        H = \max\Big\{ H_0, \frac{1}{\Delta} \Big(2 D_0
            + \log \frac{4 N (n - N)}{\sqrt{\lambda_{\min}}} \Big) \Big\}, \quad
        \mu = \frac{\sqrt{\lambda_{\min}}\, e^{-2 D_0}}{16 N^2}

    with :math:`H_0 = \Delta^{-1} \log \max\{2 (n - N) / N, 2\}`. The steps of the proof need
    :math:`D_0 = (2 N / \sqrt{\lambda_{\min}}) \log (4 N^2 / \sqrt{\lambda_{\min}})`, and 8 in place of the
    4 in H. If every row supports, H is 0, as the velocity does not depend on the height.

    By convexity of :math:`D \mapsto \log \sum_i e^{-\langle h w^\star + D v, z_i \rangle}`,

    .. math::

        \varphi(h w^\star + D v) \ge \rho - \frac{1}{D} \log\big( N + (n - N) e^{-h \Delta} \big)
        \ge \rho - \frac{\log n}{D} \qquad (h \ge 0)

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
        Non-degenerate. Rows of norm above 1 are divided by the largest norm first, and the constants come
        back in the units of the data as given.

    Returns
    -------
    FavorableCylinder

    Raises
    ------
    NotSeparableError
        When there is no separator; ``weights`` are Gordan's.
    ValueError
        When Assumption 5.4 fails, as no favourable cylinder exists then.

    References
    ----------
    Theorem 5.5 and its proof, Appendix B of the paper. The derivations are in ``docs/theory.md``.

    Examples
    --------
    >>> found = favorable_cylinder([[0.2, 0.1], [0.2, -0.01]])
    >>> round(found.printed.D, 3), round(found.corrected.D, 1), round(found.convexity.D, 1)
    (7.126, 2217.2, 138.6)
    """
    g = require_nondegenerate(data)
    root, rho = math.sqrt(lambda_min(g)), inradius(g).value
    n, N, scale = g.n, g.n_support, g.scale
    delta = g.delta / scale  # infinite if n = N
    ratio = math.log(4.0 * N * N / root)

    def step_three(kind: Kind, D: float, inside: float) -> Constants:
        H = 0.0
        if n > N:
            H_0 = math.log(max(2.0 * (n - N) / N, 2.0)) / delta
            H = max(H_0, (2.0 * D + math.log(inside * N * (n - N) / root)) / delta)
        log_mu = math.log(root) - 2.0 * D - math.log(16.0 * N * N)
        return Constants(kind, D / scale, H / scale, log_mu + math.log(scale), scale)

    return FavorableCylinder(
        printed=step_three("printed", ratio, 4.0),
        corrected=step_three("corrected", 2.0 * N / root * ratio, 8.0),
        convexity=Constants("convexity", 2.0 * math.log(n) / rho, 0.0, math.log(rho / 2.0), scale),
        lambda_min=root * root,
        rho=rho,
        geometry=g,
    )


def velocity_bound(data: Any, cylinder: Cylinder) -> float:
    r"""Return a proven lower bound of the velocity over any cylinder; it says something if it is positive.

    .. math::

        \inf_{w \in C(D_1, D_2; H)} \varphi(w) \ge
        \rho - \frac{1}{D_1} \log\big( |I| + (n - |I|) e^{-H (\gamma^\star_{\rm sub} - \gamma^\star)} \big)

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
    cylinder : Cylinder
        ``D2`` does not matter: along each direction the velocity does not fall as D grows.

    Returns
    -------
    float

    References
    ----------
    Ours: Theorem 5.5 with explicit constants; derived in ``docs/theory.md``.

    Examples
    --------
    >>> round(velocity_bound([[0.6, 0.8], [0.6, -0.8]], Cylinder(2.0, 4.0, 0.0)), 6)  # 0.8 - log(2) / 2
    0.453426
    """
    g = require_nondegenerate(data)
    n, N = g.n, g.n_support
    others = (n - N) * math.exp(-cylinder.H * g.delta) if n > N else 0.0
    return inradius(g).value - math.log(N + others) / cylinder.D1
