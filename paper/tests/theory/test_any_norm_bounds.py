"""The theorems of docs/any_norm.md: constants of the rows, bounds at every step, what freezes."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from prgd_paper.methods.inside_prgd import inside
from scipy.optimize import linprog
from softmin import log_sum, weights

from prgd.norms import Norm, as_norm

SLACK = 1e-9  # of rounding, where margins are about 1e5


def facets(norm: Norm, d: int) -> np.ndarray:
    """Return the normals of the facets of the unit ball of l1 or l-infinity."""
    if norm.name == "linf":
        return np.vstack([np.eye(d), -np.eye(d)])
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d)))


def least(c: list[float], A: np.ndarray, b: np.ndarray, equal: np.ndarray, to: list[float]) -> float:
    """Return the minimum of a linear program over free variables; infinity if none is feasible."""
    found = linprog(c, A, b, equal, to, [(None, None)] * len(c))
    return float(found.fun) if found.status == 0 else math.inf


@dataclass(frozen=True)
class Rows:
    """Rows with assumption R: the first ``active`` are active, ``ends`` are the extreme points of U."""

    norm: Norm
    Z: np.ndarray
    active: int
    w_star: np.ndarray
    ends: np.ndarray
    u0: np.ndarray
    gamma_star: float

    @property
    def B(self) -> float:
        return max(self.norm.dual(z) for z in self.Z)

    @property
    def v(self) -> np.ndarray:
        """In the plane: the unit vector of the kernel of u0."""
        v = np.array([-self.u0[1], self.u0[0]])
        return v / self.norm(v)

    @property
    def beyond(self) -> float:
        """In the plane, where U is one point: the dual norm less gamma_star, rho / 2 away from U."""
        slope = (self.Z[0] - self.u0) / float((self.Z[0] - self.u0) @ self.v)
        ends = (self.u0 + 0.5 * self.rho * sign * slope for sign in (1.0, -1.0))
        return min(self.norm.dual(end) for end in ends) - self.gamma_star

    @property
    def apart(self) -> float:
        """By how much the margins of inactive rows exceed gamma_star at w_star."""
        return float((self.Z @ self.w_star)[self.active :].min()) - self.gamma_star

    def margins(self, h: float, x: float) -> np.ndarray:
        """Margins at ``h w_star + x v``, less ``h gamma_star``: exact for active rows, however large h is."""
        off = self.Z @ self.w_star - self.gamma_star
        off[: self.active] = 0.0
        return h * off + x * (self.Z @ self.v)

    def parts(self, w: np.ndarray) -> tuple[float, float]:
        h = float(self.u0 @ w) / self.gamma_star
        return h, float((w - h * self.w_star) @ self.v / (self.v @ self.v))

    @property
    def rho(self) -> float:
        """In the plane xi has two directions; in l1 and l-infinity each facet of the ball is a program."""
        d, rows = len(self.w_star), self.Z[: self.active]
        if d == 2:
            return min(float((-rows @ xi).max() + (self.ends @ xi).min()) for xi in (self.v, -self.v))
        faces = facets(self.norm, d)
        A = np.vstack([np.c_[-rows, -np.ones(len(rows))], np.c_[faces, np.zeros(len(faces))]])
        b = np.r_[np.zeros(len(rows)), np.ones(len(faces))]
        cost = [0.0] * d + [1.0]
        equal = (np.array([np.r_[self.u0, 0.0], np.r_[face, 0.0]]) for face in faces)
        return min(least(cost, A, b, rows_equal, [0.0, 1.0]) for rows_equal in equal)

    @property
    def D(self) -> float:
        return 2.0 * math.log(len(self.Z)) / self.rho

    @property
    def far(self) -> float:
        """Bound from below how much the dual norm exceeds gamma_star at rho / 2 from U.

        On the half space ``<u, w_star> >= gamma_star``, which contains all means of rows, if U is one point;
        on the line of the active rows if it is a segment.
        """
        r, d, dual = 0.5 * self.rho, len(self.w_star), self.norm.dual
        if len(self.ends) == 2:
            e = (self.ends[0] - self.ends[1]) * r / dual(self.ends[0] - self.ends[1])
            return min(dual(self.ends[0] + e), dual(self.ends[1] - e)) - self.gamma_star
        if self.norm.name in ("l1", "linf"):
            faces = facets(as_norm("linf" if self.norm.name == "l1" else "l1"), d)
            A = np.vstack([np.c_[faces, -np.ones(len(faces))], np.r_[-self.w_star, 0.0][None]])
            b = np.r_[-faces @ self.u0, 0.0]
            cost = [0.0] * d + [1.0]
            found = (least(cost, A, b, np.r_[face, 0.0][None], [r]) for face in faces)
            return min(found) - self.gamma_star
        angles = np.linspace(0.0, 2.0 * math.pi, 4001)
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        circle *= r / np.array([dual(y) for y in circle])[:, None]
        width = max(dual(y) for y in np.diff(circle, axis=0))
        above = circle[circle @ self.w_star >= -width]
        return min(dual(self.u0 + y) for y in above) - self.gamma_star - width


def smooth(name: str, d: int, seed: int) -> Rows:
    """Return d active rows around the only dual optimum, and two inactive ones."""
    norm, rng = as_norm(name), np.random.default_rng([seed, d])
    w = rng.uniform(0.3, 1.0, d)
    w /= norm(w)
    u0 = {"linf": (w == w.max()).astype(float), "l1": np.ones(d)}.get(name)
    if u0 is None:
        u0 = w ** (float(name.removeprefix("l")) - 1.0)
        u0 /= norm.dual(u0)
    Y = rng.standard_normal((d - 1, d))
    Y -= np.outer(Y @ w, w) / float(w @ w)
    Y = np.linalg.qr(Y.T)[0].T * 1.5
    active = u0 + np.vstack([Y, -rng.uniform(0.6, 1.0, d - 1) @ Y])
    inactive = [1.5 * u0 + 0.2 * Y[0], 1.8 * u0 - 0.3 * Y[-1]]
    return Rows(norm, np.vstack([active, inactive]), d, w, u0[None], u0, 1.0)


def on_a_corner(name: str) -> Rows:
    """Return rows in the plane with assumption R, whose w_star is a corner: U is an edge of the dual ball."""
    ends, w = np.eye(2), np.ones(2)
    if name == "l1":
        ends, w = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([1.0, 0.0])
    across = ends[0] - ends[1]
    Z = np.array([ends[0] + 0.8 * across, ends[1] - 0.6 * across])
    return Rows(as_norm(name), Z, 2, w, ends, 0.7 * ends[0] + 0.3 * ends[1], 1.0)


NORMS = ("l1", "linf", "l2", "1.5", "3")
PLANE = [smooth(name, 2, 0) for name in NORMS] + [on_a_corner("l1"), on_a_corner("linf")]
SPACE = [smooth(name, 3, seed) for name in ("l1", "linf") for seed in range(2)]


def radial(rows: Rows, w, R_0: float, g: float, m: int, eta: float, phases: int, project: bool = True):
    """Yield the phase, whether it ends here, and w after each step of progressive rescaling."""
    norm, Z = rows.norm, rows.Z
    for k in range(phases):
        w = norm.rescale(w, R_0 * g**k)
        yield k, False, w
        for j in range(m):
            u = weights(Z @ w) @ Z
            w = w + eta * norm.dual(u) / rows.B**2 * norm.steepest(u)
            w = norm.project(w, R_0 * g**k) if project else w
            yield k, j == m - 1, w


def start(rows: Rows, R_0: float, is_allowed) -> np.ndarray:
    """Return a point of norm R_0 as far from the ray of w_star as is allowed, on the side of the last row."""
    v = rows.Z[rows.active - 1] - rows.gamma_star * rows.w_star / float(rows.w_star @ rows.w_star)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_low = is_allowed(rows.norm.rescale(rows.w_star + middle * v, R_0))
        low, high = (middle, high) if is_low else (low, middle)
    return rows.norm.rescale(rows.w_star + low * v, R_0)


def error_at(norm: Norm, Z: np.ndarray, w: np.ndarray, gamma_star: float) -> float:
    return gamma_star - float((Z @ w).min()) / norm(w)


@pytest.mark.parametrize("rows", PLANE + SPACE)
@pytest.mark.parametrize("m", [1, 30])
def test_bound_of_theorem_1(rows, m):
    rho, B, D, gamma_star = rows.rho, rows.B, rows.D, rows.gamma_star
    delta, n = rows.far / gamma_star, len(rows.Z)
    assert delta > 0.0
    eta, phi_0 = delta / (1.0 + delta), math.log(n) + B * D + 0.5
    X = 1.5 * phi_0  # so that steps outside the tube are tested too
    kappa = eta * gamma_star**2 * delta / (2.0 * B**2)
    G = 1.0 + m * kappa / X
    R_0 = max(2.0 * (G * X / rho + (m + 1) * eta / B), 1.5 * G * eta * X / (B * kappa))
    g = G * (1.0 - m * eta / (B * R_0))
    assert g > 1.0

    def phi(w: np.ndarray) -> float:
        return log_sum(rows.Z @ w) + float(rows.u0 @ w)

    w_0 = start(rows, R_0, lambda w: phi(w) <= X)
    last = math.inf
    for k, is_end, w in radial(rows, w_0, R_0, g, m, eta, 240 // m):
        value, h = phi(w), float(rows.u0 @ w) / gamma_star
        xi = w - h * rows.w_star
        assert rho * rows.norm(xi) - SLACK <= value <= G * X + SLACK
        assert h > eta / B
        assert error_at(rows.norm, rows.Z, w, gamma_star) <= 4.0 * B * G * X / (rho * R_0) * g**-k + 1e-14
        assert not is_end or value <= X + SLACK
        u = weights(rows.Z @ w) @ rows.Z
        if rows.norm(xi) >= D:  # Lemma 1
            assert rows.norm.dual(u) >= (1.0 + delta) * gamma_star - SLACK
            assert all(float((v - u) @ xi) >= 0.5 * rho * rows.norm(xi) - SLACK for v in rows.ends)
        is_step = last < math.inf
        assert not is_step or value <= max(last - kappa, phi_0) + SLACK
        last = math.inf if is_end else value


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("seed", range(5))
def test_velocity_of_theorem_2(name, seed):
    s = smooth(name, 2, seed)
    mu, fewest = s.beyond / (2.0 * s.B), min(s.beyond, s.rho) / (8.0 * s.B)
    for x in np.concatenate([np.geomspace(s.D, 20.0 * s.D, 12), -np.geomspace(s.D, 20.0 * s.D, 12)]):
        height = (2.0 * s.B * abs(x) + math.log(len(s.Z) / fewest)) / s.apart
        for h in (height, 10.0 * height):
            _, across = s.parts(s.norm.steepest(weights(s.margins(h, x)) @ s.Z))
            assert mu <= -np.sign(x) * across <= 2.0


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


@pytest.mark.parametrize("rows", PLANE)
@pytest.mark.parametrize(("eta", "m", "project"), [(0.3, 2, True), (30.0, 40, True), (30.0, 4, False)])
def test_bound_of_theorem_2(rows, eta, m, project):
    if len(rows.Z) == 2:  # an inactive row, for H
        rows = Rows(**(rows.__dict__ | {"Z": np.vstack([rows.Z, 1.7 * rows.u0])}))
    rho, B, D, n = rows.rho, rows.B, rows.D, len(rows.Z)
    X = D + 2.0 * eta / B
    kappa = eta * rows.gamma_star * rows.far / (2.0 * B**3)
    G = 1.0 + m * kappa / X
    H = (math.log(8.0 * n * B / min(rows.far, rho)) + 2.0 * B * G * X) / rows.apart
    R_0 = max(2.0 * (H + G * X + (m + 1) * eta / B), 1.5 * G * eta * X / (B * kappa))
    g = G * (1.0 - m * eta / (B * R_0))
    assert g > 1.0

    def split(w: np.ndarray) -> tuple[float, float]:
        h = float(rows.u0 @ w) / rows.gamma_star
        return h, rows.norm(w - h * rows.w_star)

    w_0 = start(rows, R_0, lambda w: split(w)[1] <= X)
    for k, is_end, w in radial(rows, w_0, R_0, g, m, eta, 240 // m, project):
        h, x = split(w)
        assert x <= (X if is_end else G * X) + SLACK
        assert h >= H
        assert error_at(rows.norm, rows.Z, w, rows.gamma_star) <= 4.0 * B * G * X / R_0 * g**-k + 1e-14


@pytest.mark.parametrize(
    ("name", "d", "seed"), [("l1", 3, 1), ("l1", 4, 2), ("linf", 2, 0), ("linf", 2, 2), ("linf", 3, 3)]
)
def test_bound_of_theorem_3_on_random_rows(name, d, seed):
    norm, rng = as_norm(name), np.random.default_rng([seed, d, 5])
    Z, center = 0.6 * rng.standard_normal((5, d)), rng.standard_normal(d)
    Z += 1.3 * center / np.linalg.norm(center)
    faces, n, B = facets(norm, d), len(Z), max(norm.dual(z) for z in Z)
    flat = np.zeros((len(faces), 1))
    A = np.vstack([np.c_[faces, flat], np.c_[-Z, np.ones(n)]])
    b = np.r_[np.ones(len(faces)), np.zeros(n)]
    best = linprog([0.0] * d + [-1.0], A, b, bounds=[(None, None)] * (d + 1))
    w_star, gamma_star = best.x[:-1], -best.fun
    r = 0.02  # each facet of a small ball around w_star is a program
    A, b = np.vstack([A, np.c_[faces, flat]]), np.r_[b, r + faces @ w_star]
    ends = [(np.r_[face, 0.0][None], [r + float(face @ w_star)]) for face in faces]
    rho = min(gamma_star + least([0.0] * d + [-1.0], A, b, *end) for end in ends) / r
    assert 0.02 < rho <= gamma_star + SLACK  # assumption S at w = 0
    eta, phi_0 = rho / (2.0 * B), math.log(n) + 2.0 * B * math.log(n) / rho + 0.125
    X = 1.5 * phi_0
    kappa = eta * gamma_star * rho / (4.0 * B**2)
    G, R_0 = 2.0, 4.0 * X / rho
    g = G * (1.0 - X / (rho * R_0))
    m = math.ceil((G - 1.0) * X / kappa)
    w, y = R_0 * w_star, rng.standard_normal(d)
    while log_sum(Z @ w) + gamma_star * R_0 < 0.9 * X:
        w = norm.rescale(w + 0.02 * X / (B * norm(y)) * y, R_0)
    for k in range(2):
        R, steps = R_0 * g**k, 0
        assert R / norm(w) <= G * (1.0 + SLACK)
        w = norm.rescale(w, R)
        value = log_sum(Z @ w) + gamma_star * R
        while value > X or steps == 0:  # the phase may end at X: the next one needs no more
            assert rho * norm(w - R * w_star) - SLACK <= value <= G * X + SLACK
            bound = B * G * X / (rho * R)
            assert bound >= gamma_star or error_at(norm, Z, w, gamma_star) <= bound + 1e-14
            u = weights(Z @ w) @ Z
            w = inside(norm, w, u, eta * norm.dual(u) / B**2, R)
            last, value, steps = value, log_sum(Z @ w) + gamma_star * R, steps + 1
            assert value <= max(last - kappa, phi_0) + SLACK * kappa
        assert steps <= m


@pytest.mark.parametrize("name", ["l1", "linf"])
def test_steps_inside_are_the_best_points_of_both_balls(name):
    norm, rng = as_norm(name), np.random.default_rng(3)
    faces = facets(norm, 3)
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
