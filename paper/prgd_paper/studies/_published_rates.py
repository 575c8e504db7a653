"""The published rate of each method of the race: of which quantity, as a function of t, and by whom."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from prgd.core.types import Array


class Rate(NamedTuple):
    """What a publication proves about a method: ``quantity`` is O(t^-power log(t)^logs), or falls like e^-ct.

    Attributes
    ----------
    text : str
        The rate as a reader writes it.
    quantity : {"margin error", "risk", "dual error", "steps to a separator"}
        What the rate is about.
    source : str
    power, logs : float
        The exponents of t and of log t.
    is_exponential : bool
        Whether the rate is e^-ct instead.
    constant : float
        If finite, an explicit bound on the relative margin error, valid at every t:
        ``constant / (gamma^2 sqrt t)``, where gamma is the largest margin of rows of norm at most 1.
    not_ours : str
        Empty, or why the runs here are not those of the theorem: they decide nothing then.
    """

    text: str
    quantity: str
    source: str
    power: float = 0.0
    logs: float = 0.0
    is_exponential: bool = False
    constant: float = math.inf
    not_ours: str = ""

    @property
    def is_asymptotic(self) -> bool:
        """Whether constants are left open, so that no finite run refutes the rate."""
        return self.quantity != SEPARATOR and math.isinf(self.constant)

    @property
    def share(self) -> float:
        """The share of runs that must agree: half, as in Table 1, or all where a bound is for every step."""
        return 0.5 if self.is_asymptotic else 1.0

    def log(self, t: Any) -> Array:
        """Return the logarithm of the rate at times above 1."""
        log_t = np.log(np.asarray(t, dtype=np.float64))
        return np.asarray(self.logs * np.log(log_t) - self.power * log_t)


MARGIN, RISK, DUAL, SEPARATOR = "margin error", "risk", "dual error", "steps to a separator"
NACSON = Rate("O(log t / sqrt t)", MARGIN, "Nacson et al. (2019)", power=0.5, logs=1.0)

# By the name of the method; a method without a line has no published rate that we know.
RATES = {
    "GD": Rate("O(1 / log t)", MARGIN, "Soudry et al. (2018)", logs=-1.0),
    "large-step GD": Rate("O~(1 / (eta t))", RISK, "Wu et al. (2024)", power=1.0),
    "NGD": Rate("O(1 / t)", MARGIN, "Ji and Telgarsky (2021)", power=1.0),
    "loss-scaled GD": NACSON,
    "adaptive GD": Rate("about 1 / gamma_star^2 steps", SEPARATOR, "Zhang et al. (2025)"),
    "dual acceleration": Rate("O~(1 / t^2)", MARGIN, "Ji, Srebro and Telgarsky (2021)", power=2.0, logs=1.0),
    "game dynamics": Rate("O(1 / t^2)", MARGIN, "Wang et al. (2022)", power=2.0),
    "PRGD(exp)": Rate(
        "e^-Omega(t)",
        MARGIN,
        "Wang, Min and Wu (2024), Theorem 6.1",
        is_exponential=True,
        not_ours="The theorem is for radii that know w_star, on sets whose support vectors span the data; "
        "these runs have the radii of Section 7. The claim table-1-prgd runs the theorem's algorithm.",
    ),
    "normalized perceptron": Rate("O(1 / sqrt t)", MARGIN, "Ramdas and Pena (2016)", power=0.5, constant=2.0),
    "away-step Frank-Wolfe": Rate("e^-Omega(t)", DUAL, "Kumar and Yildirim (2011)", is_exponential=True),
    "MDM": Rate("e^-Omega(t)", DUAL, "Lacoste-Julien and Jaggi (2015), pairwise steps", is_exponential=True),
    "sign descent, falling steps": NACSON,
    "coordinate descent, falling steps": NACSON,
    "l3 descent, falling steps": NACSON,
    "spectral descent, falling steps": Rate(
        "O(log t / sqrt t)", MARGIN, "Fan, Schmidt and Thrampoulidis (2025)", power=0.5, logs=1.0
    ),
    "Adam": Rate("O(t^-1/4)", MARGIN, "Zhang, Zou and Cao (2024)", power=0.25),
}
NO_RATE = "none that we know"
# What is known about methods without a rate.
KNOWN = {
    "PRGD(poly)": "none for these radii",
    "restarted NGD": "none: ours",
    "gated PRGD": "none: ours",
    "progressive-rescaling Newton": "none: ours",
    "sign descent": "none for constant steps",
    "coordinate descent": "none for constant steps",
    "l3 descent": "none for constant steps",
    "spectral descent": "none for constant steps",
    "PRGD, sign descent": "none: ours",
    "PRGD, coordinate descent": "none: ours",
    "inside PRGD, sign descent": "none: ours, docs/any_norm.md, Theorem 3",
    "inside PRGD, coordinate descent": "none: ours, docs/any_norm.md, Theorem 3",
    "PRGD, l3 descent": "none: ours",
    "PRGD, spectral descent": "none: ours",
    "mirror descent": "the direction converges, Sun et al. (2022)",
    "loss-scaled mirror descent": "none for division by the loss",
}
