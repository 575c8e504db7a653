"""The theorems of docs/any_norm.md: their constants from data, their bounds along runs, and what freezes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from prgd_paper.methods.inside_prgd import inside
from scipy.optimize import linprog
from softmin import weights

from prgd.norms import Norm, as_norm

NORMS = ["l1", "l2", "linf", "1.5", "3"]


@dataclass(frozen=True)
class Planar:
    """Rows in the plane that satisfy assumption R by construction, and the constants of Theorem 2.

    ``w_star`` has norm 1, u has ``<u, w_star> = ||u||_* = gamma_star``, and the two active rows lie on the
    line ``<z, w_star> = gamma_star`` on both sides of u; one row is inactive.
    """

    norm: Norm
    Z: np.ndarray  # the first two rows are active
    w_star: np.ndarray
    u: np.ndarray
    gamma_star: float

    @classmethod
    def of(cls, name: str, seed: int) -> Planar:
        norm, rng = as_norm(name), np.random.default_rng(seed)
        u = rng.uniform(0.3, 1.0, 2)
        if name == "linf":
            u[1] = 0.0
        if name == "l1":
            u[1] = u[0]
        w = norm.steepest(u) if name != "linf" else np.array([1.0, rng.uniform(-0.5, 0.5)])
        if name == "l1":
            w = np.array([0.4, 0.6])
        gamma_star, along = float(u @ w), np.array([-w[1], w[0]])
        active = [u + t * along for t in (rng.uniform(0.5, 1.0), -rng.uniform(0.5, 1.0))]
        far = 1.5 * u + rng.uniform(-0.3, 0.3) * along
        return cls(norm, np.array([*active, far]), w, u, gamma_star)

    def __post_init__(self) -> None:
        assert self.norm(self.w_star) == pytest.approx(1.0)
        assert self.norm.dual(self.u) == pytest.approx(self.gamma_star)

    @property
    def v(self) -> np.ndarray:
        """The unit vector of the line V, the kernel of u."""
        v = np.array([-self.u[1], self.u[0]])
        return v / self.norm(v)

    @property
    def B(self) -> float:
        return max(self.norm.dual(z) for z in self.Z)

    @property
    def delta(self) -> float:
        """delta': by how much the dual norm exceeds gamma_star on the segment, rho / 2 away from u."""
        # w_star is no corner in these sets, so that u is the only dual optimum
        slope = (self.Z[0] - self.u) / float((self.Z[0] - self.u) @ self.v)
        ends = (self.u + 0.5 * self.rho * sign * slope for sign in (1.0, -1.0))
        return min(self.norm.dual(end) for end in ends) - self.gamma_star

    @property
    def rho(self) -> float:
        sides = self.Z[:2] @ self.v
        return float(min(sides.max(), -sides.min()))

    @property
    def D(self) -> float:
        return 2.0 * math.log(len(self.Z)) / self.rho

    @property
    def mu(self) -> float:
        return self.delta / (2.0 * self.B)

    def margins(self, h: float, x: float) -> np.ndarray:
        """Margins at ``h w_star + x v``, less ``h gamma_star``: exact for active rows, however large h is."""
        off = self.Z @ self.w_star - self.gamma_star
        off[:2] = 0.0
        return h * off + x * (self.Z @ self.v)

    def parts(self, w: np.ndarray) -> tuple[float, float]:
        h = float(self.u @ w) / self.gamma_star
        return h, float((w - h * self.w_star) @ self.v / (self.v @ self.v))

    def step(self, h: float, x: float, eta: float) -> tuple[float, float]:
        u = weights(self.margins(h, x)) @ self.Z
        a = eta * self.norm.dual(u) / self.B**2
        along, across = self.parts(self.norm.steepest(u))
        return h + a * along, x + a * across

    def length(self, h: float, x: float) -> float:
        return self.norm(h * self.w_star + x * self.v)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("seed", range(5))
def test_velocity_of_theorem_2(name, seed):
    s = Planar.of(name, seed)
    gap = float(s.Z[2] @ s.w_star) - s.gamma_star
    fewest = min(s.delta / (8.0 * s.B), s.rho / (8.0 * s.B))
    for x in np.concatenate([np.geomspace(s.D, 20.0 * s.D, 12), -np.geomspace(s.D, 20.0 * s.D, 12)]):
        height = (2.0 * s.B * abs(x) + math.log(len(s.Z) / fewest)) / gap
        for h in (height, 10.0 * height):
            u = weights(s.margins(h, x)) @ s.Z
            _, across = s.parts(s.norm.steepest(u))
            assert s.mu <= -np.sign(x) * across <= 2.0


LONG = pytest.param(30.0, True, 1200, marks=pytest.mark.slow)  # far below rounding in l1 and l-infinity


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    ("eta", "project", "phases"), [(1.0, True, 150), (30.0, True, 150), (30.0, False, 150), LONG]
)
def test_bound_of_theorem_2(name, eta, project, phases):
    s, m = Planar.of(name, 0), 4
    X, kappa = s.D + 2.0 * eta / s.B, eta * s.gamma_star * s.mu / s.B**2
    growth = 1.0 + 0.9 * m * kappa / X
    gap = float(s.Z[2] @ s.w_star) - s.gamma_star
    height = (4.0 * s.B * X + math.log(8.0 * len(s.Z) * s.B / min(s.delta, s.rho))) / gap
    R_0 = 100.0 * (height + 2.0 * X + (m + 1) * eta / s.B) * max(1.0, 1.0 / (growth - 1.0))
    bar = growth / (1.0 - m * eta / (s.B * R_0))
    assert X * (bar - 1.0) <= m * kappa  # the condition of the theorem
    h, x = R_0, X
    for k in range(phases):
        R_k = R_0 * growth**k
        scale = R_k / s.length(h, x)
        h, x = scale * h, scale * x
        for _ in range(m):
            h, x = s.step(h, x, eta)
            if project and (length := s.length(h, x)) > R_k:
                h, x = h * R_k / length, x * R_k / length
            assert abs(x) <= bar * X
            assert h > 0.0
        length = s.length(h, x)
        error = (s.gamma_star * (length - h) - s.margins(h, x).min()) / length  # gamma_star - gamma(w)
        assert error <= 4.0 * s.B * bar * X / R_0 * growth**-k + 1e-15  # what rounding leaves of length - h
        assert abs(x) / h <= 2.0 * bar * X / R_0 * growth**-k  # x and h keep their digits
    assert phases == 150 or name not in ("l1", "linf") or abs(x) / h < 1e-23


@pytest.mark.parametrize("name", ["l1", "linf"])
def test_radial_steps_freeze_on_a_corner_and_steps_inside_do_not(name):
    norm = as_norm(name)
    z = np.array([1.0, 0.4]) if name == "l1" else np.array([0.7, 0.3])
    w_star, gamma_star = norm.steepest(z), norm.dual(z)
    Z = np.array([z, 2.0 * z + 0.1])
    B, m, growth, R_0 = max(norm.dual(row) for row in Z), 4, 1.2, 1000.0
    start = R_0 * (w_star - 0.01 * np.array([0.0, 1.0]))

    def theta(w: np.ndarray) -> float:
        h = float(z @ w) / gamma_star
        return norm(w - h * w_star) / h

    ends = {}
    for kind in ("radial", "inside"):
        w = start
        for k in range(150):
            R_k = R_0 * growth**k
            w = w * (R_k / norm(w))
            for _ in range(m):
                u = weights(Z @ w) @ Z
                a = norm.dual(u) / B**2
                radial = norm.project(w + a * norm.steepest(u), R_k)
                w = radial if kind == "radial" else inside(norm, w, u, 20.0 * a, R_k)
        ends[kind] = theta(w)
    least = theta(start) * math.exp(-4.0 * m / (B * R_0) * growth / (growth - 1.0))
    assert ends["radial"] >= least > 0.005
    assert ends["inside"] <= 1e-15


@pytest.mark.parametrize("name", ["l1", "linf"])
def test_steps_inside_are_the_best_points_of_both_balls(name):
    norm, rng = as_norm(name), np.random.default_rng(3)
    faces = np.vstack([np.eye(3), -np.eye(3)])
    if name == "l1":
        faces = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    for _ in range(40):
        w, u = rng.standard_normal(3), rng.standard_normal(3)
        R, a = norm(w) * rng.uniform(1.0, 1.2), rng.uniform(0.05, 2.0)
        w[rng.integers(3)] *= rng.integers(2)
        found = inside(norm, w, u, a, R)
        assert norm(found) <= R * (1.0 + 1e-12)
        assert norm(found - w) <= a * (1.0 + 1e-12)
        A, b = np.vstack([faces, faces]), np.append(np.full(len(faces), R), a + faces @ w)
        best = linprog(-u, A, b, bounds=[(None, None)] * 3)
        assert float(u @ found) == pytest.approx(-best.fun, rel=1e-9)
