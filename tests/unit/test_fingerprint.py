"""Fingerprints: the same numbers have the same one on every engine, and runs resume on their own data."""

import numpy as np
import pytest
import scipy.sparse as sp

import prgd
from prgd.core.checks import digest
from prgd.rows import DenseRows, Fingerprint, SparseRows
from prgd.schedules import Every, LiftTo

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 6)) * (RNG.random((40, 6)) < 0.7)
X[3] = 0.0
Y = np.where(np.arange(40) % 3 == 0, 1, -1)
S = RNG.integers(0, 4, 40) / 2.0


def words(rows):
    return rows.ask(Fingerprint())


SAME = {
    "negative zeros": lambda: DenseRows(np.where(X == 0.0, -0.0, X), Y, S),
    "three threads": lambda: DenseRows(X, Y, S, n_jobs=3),
    "explicit zeros": lambda: SparseRows(
        sp.csr_array((X.ravel(), np.tile(np.arange(6), 40), np.arange(41) * 6)), Y, S
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_numbers_have_the_same_fingerprint(name):
    assert words(SAME[name]()) == words(DenseRows(X, Y, S))


def test_float32_counts_as_the_numbers_it_holds():
    small = X.astype(np.float32)
    assert words(DenseRows(small, Y)) == words(DenseRows(small.astype(np.float64), Y))
    assert words(DenseRows(small, Y)) != words(DenseRows(X, Y))


def test_every_small_change_is_seen():
    base, seen = words(DenseRows(X, Y)), set()
    for i, j in np.argwhere(X != 0.0):
        other = X.copy()
        other[i, j] = np.nextafter(other[i, j], np.inf)
        changed = words(DenseRows(other, Y))
        assert changed.labels == base.labels
        seen.add(changed.rows)
    assert base.rows not in seen
    assert len(seen) == np.count_nonzero(X)
    for other in (X[::-1], X[:, ::-1], -X, 2.0 * X, np.roll(X, 1, axis=0)):
        assert words(DenseRows(other, Y)).rows != base.rows


def test_labels_and_weights_are_hashed_apart():
    base = words(DenseRows(X, Y))
    assert words(DenseRows(X, -Y))._replace(labels=base.labels) == base
    assert words(DenseRows(X, -Y)).labels != base.labels
    assert words(DenseRows(X, Y, S))._replace(weights=0) == base
    assert words(DenseRows(X, Y, np.ones(40))) == base


# resume


def separable(seed=0, n=30, d=3):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    return A, np.where(A @ np.arange(1.0, d + 1) > 0, 1, -1)


def test_resume_refuses_other_data_of_the_same_shape(tmp_path):
    A, y = separable()
    begun = prgd.run(prgd.Problem(A, y), prgd.NGD(), stop=20)
    begun.save(tmp_path / "begun.npz")
    begun = prgd.Result.load(tmp_path / "begun.npz")
    weights = np.arange(1.0, 31.0)
    others = {
        "other rows and labels": prgd.Problem(*separable(seed=1)),
        "other rows": prgd.Problem(np.nextafter(A, 2.0 * A), y),
        "other labels": prgd.Problem(A, -y),
        "other sample weights": prgd.Problem(A, y, sample_weight=weights),
        "other rows than": prgd.Problem(A.astype(np.float32), y),
    }
    for said, problem in others.items():
        with pytest.raises(ValueError, match=said):
            prgd.run(problem, prgd.NGD(), stop=40, resume=begun)
    weighed = prgd.run(prgd.Problem(A, y, sample_weight=weights), prgd.NGD(), stop=20)
    with pytest.raises(ValueError, match="other sample weights"):
        prgd.run(prgd.Problem(A, y), prgd.NGD(), stop=40, resume=weighed)


def test_resume_refuses_another_w_star():
    A, y = separable(d=2)
    problem, (one, two) = prgd.Problem(A, y), (prgd.PRGD(LiftTo(1.0, w), Every(3)) for w in ([1, 2], [2, 1]))
    assert repr(one) == repr(two)
    begun = prgd.run(problem, one, [1.0, 1.0], stop=10)
    with pytest.raises(ValueError, match="other options of the algorithm"):
        prgd.run(problem, two, stop=20, resume=begun)
    assert prgd.run(problem, one, stop=20, resume=begun).t == 20


def test_long_arrays_are_hashed_whole():
    w = np.ones(2000)
    other = w.copy()
    other[1000] = 2.0
    assert repr(w) == repr(other)
    assert digest((w,)) != digest((other,))
    assert digest(object()) == digest(object())  # an address says nothing


def test_a_run_saves_as_it_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("prgd.core.files.SaveTimer.is_due", lambda timer: True)
    file, problem = tmp_path / "so-far.npz", prgd.Problem(*separable())
    seen = []

    def observe(state, record, certificate):
        if file.exists():
            seen.append(prgd.Result.load(file))

    result = prgd.run(problem, prgd.NGD(), stop=30, save=file, observe=observe)
    assert [saved.t for saved in seen] == list(range(30))
    last = seen[-1]
    assert last.status is prgd.Status.INTERRUPTED
    again = prgd.run(problem, prgd.NGD(), stop=30, resume=last)
    assert again.w.tobytes() == result.w.tobytes()
    assert again.passes == result.passes
