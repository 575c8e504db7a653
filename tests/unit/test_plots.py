"""The figure of a History: both bounds and the gap, on new axes or on given ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import prgd
from prgd.plots import draw_history

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed (extra: report)")


@pytest.fixture
def history():
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    yield prgd.run(problem, prgd.NGD(), stop=60).history
    plt.close("all")


def test_new_axes_show_both_bounds_and_the_gap(history):
    bounds, gap = draw_history(history)
    upper, lower = (np.asarray(line.get_ydata()) for line in bounds.lines[:2])
    assert lower[-1] <= 0.3 <= upper[-1] + 1e-12
    assert bounds.get_xlabel() == gap.get_xlabel() == "step t"
    assert gap.get_yscale() == "log"
    assert gap.get_xlim() == bounds.get_xlim()
    assert bounds.figure.number in plt.get_fignums()  # pyplot shows it


def test_given_axes_are_used_and_returned(history):
    _, axes = plt.subplots(1, 2)
    assert draw_history(history, axes)[0] is axes[0]
    assert axes[1].lines


def test_one_pair_of_axes_is_not_enough(history):
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
