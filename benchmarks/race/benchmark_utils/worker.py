"""One peer on one set in its own process, killed when a run takes too long."""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import load
from .watch import Watch

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "PRGD_NUM_THREADS",
)
# off the clock: reading and converting the data, compiling, evaluating
MOST_SECONDS_OFF = 600.0


def set_threads(threads: int) -> None:
    """Set what the workers read when they load their libraries."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))


class Worker:
    """The parent's end. ``run`` returns what happened; a run past its limit costs the process."""

    def __init__(
        self, solver: Path, data: Path, fit_intercept: bool, gamma_star: float, targets: list[float]
    ):
        self._arguments = (solver, data, fit_intercept, gamma_star, targets)
        self._process: Any = None

    def run(self, parameters: dict[str, Any], limit: float) -> dict[str, Any]:
        if self._process is None:
            self._begin()
        self._pipe.send((parameters, limit))
        ready = self._receive(MOST_SECONDS_OFF)
        if ready != "ready":
            return ready if isinstance(ready, dict) else self._failed("set-up took too long")
        # a traced run stops itself at the limit; the second more is for that
        done = self._receive(limit + 1.0)
        if done is None:
            self.close()
            return {"status": "limit", "seconds": limit}
        if isinstance(done, dict):
            return done
        evaluated = self._receive(MOST_SECONDS_OFF)
        if not isinstance(evaluated, dict):
            return self._failed("evaluation took too long")
        is_late = "marks" not in evaluated and evaluated.get("seconds", 0.0) > limit
        return {"status": "limit", "seconds": limit} if is_late else evaluated

    def _failed(self, reason: str) -> dict[str, Any]:
        self.close()
        return {"status": "error", "reason": reason}

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()

    def _receive(self, seconds: float) -> Any:
        """Return the next message, None when none comes in time, a failure when the process dies."""
        try:
            return self._pipe.recv() if self._pipe.poll(seconds) else None
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return {"status": "error", "reason": f"the process ended with code {code}"}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The child's end


def serve(
    pipe: Any, solver: Path, data: Path, fit_intercept: bool, gamma_star: float, targets: list[float]
) -> None:
    """Answer each (parameters, limit) with "ready", "done" and the evaluation, or with what went wrong."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends this process
    # a parent that is gone wants no answer
    with contextlib.suppress(EOFError, ConnectionError):
        _serve(pipe, solver, data, fit_intercept, gamma_star, targets)


def _serve(
    pipe: Any, solver: Path, data: Path, fit_intercept: bool, gamma_star: float, targets: list[float]
) -> None:
    maker = load.module(solver).Solver
    objective = load.module(load.RACE / "objective.py").Objective(fit_intercept=fit_intercept)
    objective.set_data(*load.read(data), gamma_star=gamma_star)
    given = objective.get_objective()
    is_warm: set[str] = set()
    while True:
        parameters, limit = pipe.recv()
        try:
            skip, reason = maker(**parameters).skip(**given)
            if skip:
                pipe.send({"status": "skipped", "reason": reason})
                continue
            kind = repr({k: v for k, v in parameters.items() if k != maker.rung})
            if kind not in is_warm:
                warm_up(maker, parameters, given)
                is_warm.add(kind)
            peer = maker(**parameters)
            peer.set_objective(**given)
        except Exception as error:
            pipe.send(failure(error))
            continue
        gc.collect()
        pipe.send("ready")
        try:
            answer = timed(peer, objective, targets, limit, lambda: pipe.send("done"))
        except Exception as error:
            answer = failure(error)
        del peer
        pipe.send(answer)


def failure(error: Exception) -> dict[str, Any]:
    return {"status": "error", "reason": f"{type(error).__name__}: {error}"[:300]}


def timed(peer: Any, objective: Any, targets: list[float], limit: float, done: Any) -> dict[str, Any]:
    """Run once on the clock, evaluate off it."""
    watch = Watch(objective.gamma_star, targets, limit) if hasattr(peer, "trace") else None
    gc.disable()
    cpu, start = time.process_time(), time.perf_counter()
    try:
        peer.run(None) if watch is None else peer.trace(watch)
    finally:
        seconds, used = time.perf_counter() - start, time.process_time() - cpu
        gc.enable()
    done()
    answer: dict[str, Any] = {"status": "ok", "seconds": seconds, "cores": used / max(seconds, 1e-9)}
    result = peer.get_result()
    w = np.asarray(result.pop("w"), dtype=np.float64)
    found = objective.evaluate_result(w)
    answer |= {"gap": found["value"], "margin": found["margin"]}
    answer |= {key: float(value) for key, value in result.items()}
    if watch is not None:
        answer["status"] = watch.gave_up or "ok"
        # at each target the w of that moment, judged by the same score
        answer["marks"] = [(s, objective.evaluate_result(w)["value"]) for s, w in watch.marks]
    return answer


def warm_up(maker: Any, parameters: dict[str, Any], given: dict[str, Any]) -> None:
    """Fit a few rows of the same form, so that imports and compilation are off the clock."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    X[:, 0] = np.where(X[:, 0] > 0.0, 1.0, -1.0) + X[:, 0]
    y = np.sign(X[:, 0])
    if sp.issparse(given["X"]):
        X[:, 1:][rng.random((60, 11)) < 0.6] = 0.0
        X = sp.csr_array(X)
    peer = maker(**parameters)
    peer.set_objective(X=X, y=y, fit_intercept=given["fit_intercept"])
    # no solver may decide by a shape that the small rows do not share
    peer.trace(Watch(math.inf, [0.0], 0.3)) if hasattr(peer, "trace") else peer.run(None)
