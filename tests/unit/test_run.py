"""The loop: stopping, recording, resuming, interrupting, and the result on disk."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import prgd
from prgd import Status


@pytest.fixture
def problem():
    return prgd.Problem(*prgd.datasets.synthetic_one(0))


def test_history_columns_and_recording(problem):
    result = prgd.run(problem, prgd.NGD(), stop=25, record=10)
    assert list(result.history["t"]) == [0, 10, 20, 25]
    frame = result.history.to_dataframe()
    assert list(frame.columns) == ["t", "phase", "R_k", "log_loss", "margin", "upper_bound", "gap"]
    assert math.isnan(frame.margin[0])
    assert frame.log_loss[0] == 0.0
    assert np.isnan(frame.R_k).all()


def test_with_given_records_the_certificate_is_of_these_steps(problem):
    every, some = (prgd.run(problem, prgd.NGD(), stop=30, record=record) for record in (1, [10, 20]))
    assert list(some.history["t"]) == [10, 20, 30]
    assert (some.history["margin"] == every.history["margin"][10::10]).all()
    at = [problem.at(prgd.run(problem, prgd.NGD(), stop=t).w).upper for t in (10, 20, 30)]
    assert every.upper_bound <= some.upper_bound == pytest.approx(min(at), rel=1e-12)


def test_phases_and_radii_are_recorded(problem):
    algorithm = prgd.PRGD(prgd.schedules.Geometric(2.0), prgd.schedules.Every(3))
    result = prgd.run(problem, algorithm, [0.5, 0.0], stop=8)
    assert list(result.history["phase"]) == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert list(result.history["R_k"]) == [0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        (10, Status.MAX_STEPS),
        (np.int64(3), Status.MAX_STEPS),
        (prgd.MaxSteps(0), Status.MAX_STEPS),
        (prgd.any_of(prgd.Gap(0.5), 10_000), Status.CERTIFIED),
        (prgd.any_of(prgd.MarginError(math.sin(math.pi / 100), 1e-3), 10_000), Status.REACHED),
        (prgd.any_of(prgd.Stalled(50, 0.5), 100_000), Status.STALLED),
    ],
)
def test_stopping(problem, stop, status):
    assert prgd.run(problem, prgd.NGD(), stop=stop).status is status


def test_a_gap_that_stands_still_at_rounding_is_no_stall(problem):
    rule = prgd.any_of(prgd.Stalled(), 10_000)
    result = prgd.run(problem, prgd.PRGD("geometric:1.2", "every:10"), w0=np.ones(problem.d), stop=rule)
    assert (result.status, result.certificate.gap <= 1e-9) == (Status.CONVERGED, True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: prgd.MaxSteps(-1), "at least 0"),
        (lambda: prgd.MaxSteps(1.5), "integer"),
        (lambda: prgd.Gap(0.0), "above 0"),
        (lambda: prgd.MarginError(1.0, -1.0), "above 0"),
        (lambda: prgd.Stalled(0), "at least 1"),
    ],
)
def test_stopping_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("stop", [1e-6, 1e3, prgd.Gap, True, [prgd.Gap(), 10], None])
def test_a_stop_that_is_no_rule_is_named(problem, stop):
    shown = "Gap" if stop is prgd.Gap else repr(stop)
    words = re.escape(f"or a rule such as prgd.Gap(1e-6), of which prgd.any_of combines several; got {shown}")
    with pytest.raises(TypeError, match=words):
        prgd.run(problem, prgd.NGD(), stop=stop)


def test_a_step_from_zero_that_is_not_a_number_names_w0(problem):
    class Divides(prgd.NGD):
        def step(self, problem, s):
            with np.errstate(invalid="ignore"):
                w = s.w / np.linalg.norm(s.w)
            return replace(s, t=s.t + 1, at=problem.at(w))

    result = prgd.run(problem, Divides(), stop=5)
    assert (result.status, result.t) == (Status.DIVERGED, 0)
    assert "w0 may be 0" in str(result.status)


def test_bad_starts(problem):
    done = prgd.run(problem, prgd.NGD(), stop=2)
    large = prgd.Problem([[1e10, 1e10], [1e10, 2e10]], scale="none")
    cases = [
        (large, prgd.NGD(), {"w0": [1.0]}, "shape"),
        (large, prgd.NGD(), {"w0": [np.nan, 0.0]}, "finite"),
        (large, prgd.NGD(), {"w0": [1e308, 1e308]}, "overflow"),
        (problem, prgd.NGD(), {"record": 0}, "record must be an integer"),
        (problem, prgd.NGD(), {"w0": [1.0, 0.0], "resume": done}, "not both"),
        (problem, prgd.NGD(0.5), {"resume": done}, "another algorithm"),
        (prgd.Problem(np.eye(2)), prgd.NGD(), {"resume": done}, "another problem"),
        (problem, prgd.GD, {}, r"pass GD\(\), not GD\."),
        ([problem] * 2, [prgd.NGD()] * 3, {}, "same length; got 2 of problem, 3 of algorithm"),
        (problem, [prgd.NGD()], {"resume": done}, "resume is for one run"),
        (problem, prgd.NGD(), {"w0": done}, r"pass result\.w, or resume=result"),
        (([[1.0], [-1.0]], [1, -1]), prgd.GD(), {}, r"pass prgd\.Problem\(X, y\); got tuple\."),
    ]
    for given, algorithm, options, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            prgd.run(given, algorithm, stop=3, **options)


def test_divergence_is_said_and_the_last_finite_state_kept():
    # GD far on the wrong side: the gradient overflows
    problem = prgd.Problem([[1.0], [2.0]], scale="none")
    result = prgd.run(problem, prgd.GD(1e300), [-500.0], stop=50)
    assert result.status is Status.DIVERGED
    assert np.isfinite(result.w).all()
    assert "smaller step size" in str(result.status)


def test_interrupt_keeps_the_last_whole_step(problem):
    def press(state, now, certificate):
        if now.t == 12:
            raise KeyboardInterrupt

    result = prgd.run(problem, prgd.NGD(), stop=1000, observe=press)
    assert result.status is Status.INTERRUPTED
    assert result.t == 12
    whole = prgd.run(problem, prgd.NGD(), stop=30)
    assert prgd.run(problem, prgd.NGD(), resume=result, stop=30).w.tobytes() == whole.w.tobytes()


def test_interrupt_before_the_first_look_is_not_swallowed(problem, monkeypatch):
    def press(w):
        raise KeyboardInterrupt

    monkeypatch.setattr(problem, "at", press)
    with pytest.raises(KeyboardInterrupt):
        prgd.run(problem, prgd.NGD(), stop=5)


def test_states_cannot_be_written_to(problem):
    class Careless(prgd.NGD):
        def step(self, problem, s):
            s.w[0] += 1.0
            return s

    with pytest.raises(ValueError, match="read-only"):
        prgd.run(problem, Careless(), stop=2)


def test_save_and_load_keep_every_bit(problem, tmp_path):
    result = prgd.run(problem, prgd.PRGD(), [1.0, 0.2], stop=33)
    result.save(tmp_path / "result.npz")
    again = prgd.Result.load(tmp_path / "result.npz")
    assert again.w.tobytes() == result.w.tobytes()
    assert again.state["R_k"].hex() == result.state["R_k"].hex()
    assert (again.status, again.t, again.intercept) == (result.status, result.t, result.intercept)
    np.testing.assert_array_equal(again.history.rows, result.history.rows)
    assert [type(v) for v in again.history.rows[0]] == [type(v) for v in result.history.rows[0]]
    assert str(again.certificate) == str(result.certificate)
    assert [p.name for p in tmp_path.iterdir()] == ["result.npz"]


def test_csv_reads_back_exactly(problem, tmp_path):
    result = prgd.run(problem, prgd.NGD(), stop=9)
    result.history.to_csv(tmp_path / "history.csv")
    header, *lines = (tmp_path / "history.csv").read_text().splitlines()
    assert header == "t,phase,R_k,log_loss,margin,upper_bound,gap"
    found = [[float(value) for value in line.split(",")] for line in lines]
    np.testing.assert_array_equal(found, result.history.rows)


@pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b"", lambda b: b"PK" + b[10:]])
def test_a_damaged_result_file_is_said(problem, tmp_path, damage):
    path = tmp_path / "result.npz"
    prgd.run(problem, prgd.NGD(), stop=2).save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"result\.npz: not a whole prgd result"):
        prgd.Result.load(path)
    np.savez(path, meta=np.array('{"format": "x"}'))
    with pytest.raises(ValueError, match="not a whole prgd result"):
        prgd.Result.load(path)
    with pytest.raises(FileNotFoundError):
        prgd.Result.load(tmp_path / "none.npz")


def test_a_failed_save_leaves_the_old_file(problem, tmp_path, monkeypatch):
    result = prgd.run(problem, prgd.NGD(), stop=2)
    result.save(tmp_path / "r.npz")
    before = (tmp_path / "r.npz").read_bytes()

    def full(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="disk full"):
        result.save(tmp_path / "r.npz")
    assert (tmp_path / "r.npz").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_pandas_is_named(problem, monkeypatch):
    import sys

    result = prgd.run(problem, prgd.NGD(), stop=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install '.\[report\]'"):
        result.history.to_dataframe()


STATE = prgd.algorithms.State


@pytest.mark.parametrize(
    ("part", "made", "said"),
    [
        ("init", lambda self, problem, w: (1, w), "must return a state, .*; got tuple"),
        ("step", lambda self, problem, s: (1, s), "must return a state, .*; got tuple"),
        ("step", lambda self, problem, s: STATE(s.t + 1, s.at.w), "got State whose at is ndarray"),
        ("step", lambda self, problem, s: STATE(s.t, s.at), "a state of t [+] 1 = 1; got 0"),
        ("step", lambda self, problem, s: STATE(s.t + 1.0, s.at), "a state of t [+] 1 = 1; got 1.0"),
    ],
)
def test_a_state_that_is_none_is_named(part, made, said):
    class Mine(prgd.NGD):
        pass

    setattr(Mine, part, made)
    Mine.moves = None
    with pytest.raises(TypeError, match=f"step of Mine .*{said}"):
        prgd.run(prgd.Problem(*prgd.datasets.toy(0.3)), Mine(), stop=3)
