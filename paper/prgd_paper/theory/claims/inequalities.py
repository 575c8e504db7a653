"""Lemmas D.1 to D.3: useful inequalities."""

from __future__ import annotations

import math

import numpy as np

from prgd_paper.claims import Finding, claim


@claim(
    "lemma-d.1",
    where="Lemma D.1, Appendix D",
    quote=r"(i) For any $x\geq0$, $\sqrt{1+x}\leq1+\frac{x}{2}$; (ii) For any $0\leq x\leq 1/3$, "
    r"$\sqrt{1+x}\geq1+\frac{x}{3}$.",
)
def square_root() -> Finding:
    """sqrt(1 + x) <= 1 + x/2 for x >= 0, and sqrt(1 + x) >= 1 + x/3 for 0 <= x <= 1/3.

    Evaluate both inequalities on a grid, and find where the second one ends.
    """
    # sqrt(1 + x) - 1 = x / (sqrt(1 + x) + 1), which does not cancel; both sides are divided by x.
    share = 1.0 / (np.sqrt(1.0 + (x := np.geomspace(1e-12, 1e12, 4001))) + 1.0)
    slack = min(float((0.5 - share).min()), float((share - 1.0 / 3.0)[x <= 1.0 / 3.0].min()))
    last = float(x[share >= 1.0 / 3.0].max())
    return Finding(
        (slack, ">=", 0.0),
        "Both hold on a grid of 4,001 x from 1e-12 to 1e12. The second holds up to x = 3 (on the grid, "
        f"{last:.3f}), not only to 1/3. The paper uses neither.",
        figures={"second holds up to": last},
        setting="4,001 x from 1e-12 to 1e12, evenly spaced in log x.",
        would_change="An x in its range at which one of them fails.",
        what="smallest slack of both inequalities, divided by x",
    )


@claim(
    "lemma-d.2",
    where="Lemma D.2, Appendix D",
    quote=r"For a fixed $\gamma\in(0,1)$, consider the function "
    r"$h(x)=x+2(1-\gamma^2)\left(\frac{2}{1+e^x}-1\right),x\in\bbR$. Then $h'(x)>0$ holds for any "
    r"$x\in\bbR$.",
)
def increasing_map() -> Finding:
    """h(x) = x + 2 (1 - gamma^2) (2 / (1 + e^x) - 1) has h'(x) > 0 for every x and gamma in (0, 1).

    Evaluate the derivative on a grid.
    """
    x = np.linspace(-40.0, 40.0, 8001)
    lowest = math.inf
    for gamma in (0.001, 0.1, 0.3, 0.5, 0.9, 0.999):
        slope = 1.0 - (1.0 - gamma**2) / np.cosh(0.5 * x) ** 2  # 4 e^x / (1 + e^x)^2 = 1 / cosh^2(x/2)
        lowest = min(lowest, float(slope.min()) / gamma**2)
    return Finding(
        (lowest, ">=", 1.0 - 1e-9),
        f"The smallest h' over gamma^2 is {lowest:.9f}, at x = 0, for six gamma from 0.001 to 0.999: h' >= "
        "gamma^2, as the proof says.",
        setting="8,001 x from -40 to 40, and six gamma.",
        would_change="An x and a gamma in (0, 1) with h'(x) <= 0.",
        what="smallest h' over gamma^2",
    )


@claim(
    "lemma-d.3",
    where="Lemma D.3, Appendix D (Bubeck 2015)",
    quote=r"for any $\bw,\bw_1,\bw_2\in\cS$, it holds that: ... "
    r"f(\bw)-f^\star\geq\frac{\mu}{2}\norm{\bw-\bw^\star};",
)
def strong_convexity() -> Finding:
    """A mu-strongly convex, L-smooth f satisfies four inequalities, the third of them f(w) - f* >= (mu/2) ||w
    - w*||.

    Evaluate the four inequalities on random quadratics.
    """
    rng = np.random.default_rng(0)
    printed, squared, others = math.inf, math.inf, math.inf
    for _ in range(200):
        d = int(rng.integers(1, 6))
        root = rng.standard_normal((d, d))
        H = root @ root.T + 0.1 * np.eye(d)
        mu, L = (float(value) for value in np.linalg.eigvalsh(H)[[0, -1]])
        # f(w) = <w, H w> / 2 has minimiser 0 and f* = 0.
        for _ in range(20):
            a, b = rng.standard_normal((2, d)) * rng.choice([0.1, 1.0, 10.0])
            value, distance = 0.5 * float(a @ H @ a), float(np.linalg.norm(a))
            printed = min(printed, value / (0.5 * mu * distance))
            squared = min(squared, value / (0.5 * mu * distance**2))
            bend = 0.5 * float((a - b) @ H @ (a - b)) / float((a - b) @ (a - b))
            slope = float((H @ a) @ (H @ a)) / (2.0 * mu * value)
            others = min(others, 2.0 * bend / mu, L / (2.0 * bend), slope)
    return Finding(
        (printed, ">=", 1.0),
        f"On 200 random quadratics f - f* falls to {printed:.2g} of the printed third bound: the distance "
        "must be squared (f(x) = x^2 / 2, mu = 1, x = 1/2: 1/8 < 1/4). With the square it holds (least ratio "
        f"{squared:.6f}), and so do the other three ({others:.6f}). Step III of the proof for NGD uses the "
        "printed one, and stands with mu eps_0^2 / 2 in place of mu eps_0 / 4: the theorem is untouched.",
        figures={"with the square": squared, "other three": others},
        setting="200 quadratics <w, H w> / 2 in 1 to 5 dimensions, H = A A^T + I / 10 with A Gaussian (seed "
        "0), 20 pairs of Gaussian points of size 0.1, 1 or 10 each.",
        given_in="Lemma D.3 (L, mu, the set S). Every f agrees: its minimiser is inside S and f(w) - f* <= "
        "(L/2) ||w - w*||^2, so that the line fails wherever 0 < ||w - w*|| < mu / L.",
        would_change="A function as in the lemma with f(w) - f* >= (mu/2) ||w - w*|| near w*; there is none.",
        what="smallest ratio of the two sides of the third inequality as printed",
    )
