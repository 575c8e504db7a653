"""The figure of a History: both bounds and the gap, on new axes or on given ones."""

import sys

import numpy as np
import pytest

import prgd
from prgd.plots import draw_history, gap_figure
from prgd.running.history import History

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed (extra: report)")


@pytest.fixture
def history():
    yield prgd.run(prgd.Problem(*prgd.datasets.toy(0.3)), prgd.NGD(), stop=60).history
    plt.close("all")


@pytest.mark.parametrize("algorithm", [prgd.PRGD(), prgd.NGD()], ids=["prgd", "ngd"])
def test_both_bounds_and_the_gap_are_shown(algorithm):
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    w0 = prgd.run(problem, prgd.GD(), stop=50).w if isinstance(algorithm, prgd.PRGD) else None
    history = prgd.run(problem, algorithm, w0, stop=60).history
    figure = gap_figure(history, "title " * 100)
    figure.draw_without_rendering()
    for left, right in (figure.axes, draw_history(history)):
        upper, lower = (line.get_ydata() for line in left.get_lines()[:2])
        assert (np.diff(upper) <= 0).all()
        assert (np.diff(lower) >= 0).all()
        assert lower[-1] <= 0.3 + 1e-12
        assert upper[-1] >= 0.3 - 1e-12
        gap = right.get_lines()[0].get_ydata()
        assert gap[-1] == history.rows[-1].gap
        assert not (gap >= 1.0).any()
        assert left.get_ylabel() == "margin, in the units of the data"
        assert left.get_xlabel() == right.get_xlabel() == "step t"
        assert left.get_xscale() == ("linear" if isinstance(algorithm, prgd.PRGD) else "log")
        assert (right.get_yscale(), right.get_xlim()) == ("log", left.get_xlim())
    assert left.figure.number in plt.get_fignums()  # pyplot shows it
    plt.close("all")


@pytest.mark.parametrize("steps", [0, 1, 100])
def test_without_a_separator_the_upper_bound_is_shown(steps):
    X, y = prgd.datasets.synthetic_one(0)
    history = prgd.run(prgd.Problem(X, np.where(np.arange(100) < 20, -y, y)), prgd.NGD(), stop=steps).history
    _, right = gap_figure(history, "no separator").axes
    assert "no w separates the data" in right.get_title()
    assert np.isfinite(right.get_lines()[0].get_ydata()).all()


def test_given_axes_are_used_and_returned(history):
    _, axes = plt.subplots(1, 2)
    assert draw_history(history, axes)[0] is axes[0]
    assert axes[1].lines


def test_one_pair_of_axes_or_no_row_is_not_enough(history):
    with pytest.raises(ValueError, match="at least one row"):
        gap_figure(History(), "empty")
    with pytest.raises(ValueError, match=r"expects two axes.*plt\.subplots\(1, 2\).*got 1"):
        draw_history(history, plt.subplots()[1])


def test_a_solve_is_drawn_against_passes():
    X, y = prgd.datasets.digits(0, 1)
    bounds, _ = draw_history(prgd.max_margin(X, y).history)
    assert bounds.get_xlabel() == "passes over the data"
    plt.close("all")


def test_without_matplotlib_the_message_says_how_to_install_it(history, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install '\.\[report\]'"):
        draw_history(history)
