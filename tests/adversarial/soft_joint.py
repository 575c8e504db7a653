"""Soft margins, and joint ones in several norms, of rows far from the origin and of mixed sizes."""

import math
import time
import warnings

import numpy as np
from adversarial import oracle
from adversarial.exact_bounds import exact_verdict, is_above, is_below

import prgd

TOLERANCE, SECONDS = 1e-6, 10.0
# The programs of other norms keep fewer digits, so their units are mixed less.
NORMS = ("l1", "linf", "spectral", "nuclear")
MILD = ("plain", "offset", "ties")
SIZES = {
    "plain": lambda rng, X: X,
    "offset": lambda rng, X: X + 10.0 ** rng.uniform(3, 12),
    "offsets": lambda rng, X: X + rng.choice([-1.0, 0.0, 1.0], X.shape[1]) * 10.0 ** rng.uniform(3, 12),
    "columns": lambda rng, X: X * 10.0 ** rng.uniform(-8, 8, X.shape[1]),
    "rows": lambda rng, X: X * 10.0 ** rng.uniform(-8, 8, (len(X), 1)),
    "entries": lambda rng, X: X * 10.0 ** rng.uniform(-8, 8, X.shape),
    "units": lambda rng, X: (X + 10.0 ** rng.uniform(0, 6)) * 10.0 ** rng.uniform(-6, 6, X.shape[1]),
    "ties": lambda rng, X: np.round(X) + 10.0 ** rng.integers(0, 9) * rng.integers(0, 2, X.shape[1]),
}


def draw(rng, index):
    """Return rows, codes and the options of a call: every second one is a soft margin."""
    name = list(SIZES)[index // 2 % len(SIZES)]
    K = 2 if index % 2 else int(rng.integers(2, 6))
    n, d = K * int(rng.integers(1, 4)) + int(rng.integers(0, 3)), int(rng.integers(1, 6))
    codes = np.append(np.arange(K), rng.integers(0, K, n - K))
    X = rng.choice([0.0, 1.0, 3.0]) * rng.standard_normal((K, d))[codes] + rng.standard_normal((n, d))
    X, options = SIZES[name](rng, X), {"fit_intercept": bool(rng.random() < 0.7), "tol": TOLERANCE}
    if index % 2:
        return name, X, codes, options | {"C": 4.0 ** int(rng.integers(-8, 12))}
    is_mild = name in MILD and options["fit_intercept"]
    norm = str(rng.choice(NORMS)) if is_mild and rng.random() < 0.5 else "l2"
    return name, X, codes, options | {"norm": norm, "multi_class": "joint"}


def failures_of(X, codes, options, result, seconds):
    """Yield the kind and the text of every statement that is false."""
    c, is_joint, has_intercept = result.certificate, "C" not in options, options["fit_intercept"]
    if seconds > 1.2 * SECONDS:
        yield "beyond the budget", f"{seconds:.2f} s"
    if not result.check(X, codes).is_valid:
        yield "check denies", str(c)
    if result.status.name == "CERTIFIED" and not result.gap <= TOLERANCE:
        yield "not certified as stated", str(c)
    if not is_joint:
        own = np.diag(np.where(codes == 1, 1.0, -1.0) / np.sqrt(2.0 * options["C"]))
        exact = oracle.solve(np.hstack([X, own]), codes, fit_intercept=has_intercept)
        if not (exact.is_at_most(c.lower) and exact.is_at_least(c.upper)):
            yield "false bound", f"{c}, gamma_C is {exact.gamma_star!r}"
        return
    facts = options["norm"], True, has_intercept
    W = c.w if c.exact_w is None else np.reshape(c.exact_w[: c.w.size], c.w.shape)
    if not is_below(c.lower, X, codes, W, *facts):
        yield "false bound", f"lower end of {c}"
    if 0.0 < c.upper < math.inf and not is_above(c.upper, X, codes, c.dual_weights, *facts):
        yield "false bound", f"upper end of {c}"
    if c.upper <= 0.0 and result.status.name != exact_verdict(X, codes, True, has_intercept):
        yield "wrong verdict", result.status.name


def try_soft_joint(rng, index):
    """Return the kind of a case, the status, and failures with their kinds."""
    name, X, codes, options = draw(rng, index)
    solve = prgd.max_margin if "norm" in options else prgd.soft_margin
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", prgd.ZeroRowWarning)
        start = time.process_time()  # what others take of the machine is no work of ours
        result = solve(X, codes, max_seconds=SECONDS, **options)
        seconds = time.process_time() - start
        found = list(failures_of(X, codes, options, result, seconds))
    described = f"\n  X = {X.tolist()}\n  y = {codes.tolist()}; options = {options}"
    failures = [(kind, text + described) for kind, text in found]
    return f"{'joint' if 'norm' in options else 'soft'}, {name}", result.status.name, failures


def try_limited(rng, index):
    """Return the kind of a larger case of few seconds, how it ended, and what is false about that."""
    n, d, K = int(rng.integers(50, 500)), int(rng.integers(2, 25)), int(rng.integers(2, 5))
    seconds, what = float(rng.choice([0.2, 1.0, 3.0])), ("hard", "joint", "soft", "coefficients")[index % 4]
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-8, 8, [(n, d), (n, 1), (1, d)][index // 4 % 3])
    y = np.argmax((X / np.linalg.norm(X, axis=1)[:, None]) @ rng.standard_normal((d, K)), axis=1)
    if what != "joint":
        y = (np.arange(n) % 2) if rng.random() < 0.3 else (X @ rng.standard_normal(d) > 0).astype(int)
    elif rng.random() < 0.3:
        y = rng.integers(0, K, n)
    y[:K] = np.arange(K) if what == "joint" else np.arange(K) % 2
    if what == "coefficients":  # two factors of many levels
        X = np.hstack([np.eye(4 * d)[rng.integers(0, 4 * d, n)] for _ in range(2)])
    own = {"joint": {"multi_class": "joint"}, "soft": {"C": 4.0 ** int(rng.integers(-8, 12))}}
    solve = {"soft": prgd.soft_margin, "coefficients": prgd.separability}.get(what, prgd.max_margin)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # the first call may have to compile and import
            start = time.process_time()
            result = solve(X, y, max_seconds=seconds, **own.get(what, {}))
            took = time.process_time() - start
            if took <= 1.2 * seconds + 0.1:
                break
        checked = result.check(X, y)
    is_valid = checked if what == "coefficients" else checked.is_valid
    failures = [] if is_valid else [("check denies", repr(result))]
    if took > 1.2 * seconds + 0.1:
        failures.append(("beyond the budget", f"{took:.2f} s of {seconds} s, {what}, {X.shape}, {result!r}"))
    ended = str(result.verdict) if what == "coefficients" else result.status.name
    return f"{what}, {seconds:g} s", ended, failures
