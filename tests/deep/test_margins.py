"""Normalized margins against a computation by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

from prgd.deep.homogeneity import NotHomogeneousWarning
from prgd.deep.margins import Margins, normalize, normalized_margin


def network(bias=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3, bias=bias)).double()


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 3, (50,), generator=generator)


def test_margins_match_a_loop_over_the_examples(data):
    (x, y), model = data, network()
    found = normalized_margin(model, zip(x.split(16), y.split(16), strict=True))
    logits = model(x).detach().numpy()
    expected = [f[k] - max(v for j, v in enumerate(f) if j != k) for f, k in zip(logits, y, strict=True)]
    np.testing.assert_allclose(found.margins, expected, rtol=1e-12)
    norm = np.sqrt(sum(float((p.detach() ** 2).sum()) for p in model.parameters()))
    assert found.degree == 2
    assert found.norm == pytest.approx(norm, rel=1e-12)
    assert found.normalized_margin == pytest.approx(min(expected) / norm**2, rel=1e-12)
    assert found.accuracy == pytest.approx(np.mean(np.array(expected) > 0))
    assert model.training
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 7.0
    scaled = normalized_margin(model, [data])  # The normalized margin does not depend on the scale.
    assert scaled.normalized_margin == pytest.approx(found.normalized_margin, rel=1e-12)


def test_a_power_that_overflows_is_no_harm():
    assert normalize(np.array([1e300, -1e300]), 1e30, 16.0) == pytest.approx([1e-180, -1e-180])
    assert np.isnan(normalize(np.array([1.0]), 0.0, 2.0)).all()


def test_distribution():
    margins = Margins(np.linspace(1.0, 5.0, 101), norm=2.0, degree=1.0)
    assert margins.quantiles([0.0, 0.5, 1.0]) == {0.0: 0.5, 0.5: 1.5, 1.0: 2.5}
    counts, edges = margins.histogram(4)
    assert counts.sum() == 101
    assert edges[0] == 0.5
    import matplotlib as mpl

    mpl.use("Agg")
    axes = margins.plot()
    assert axes.get_xlabel() == "margin / norm^1"


def test_a_network_that_is_not_homogeneous_is_said(data):
    with pytest.warns(NotHomogeneousWarning, match="Linear with a bias"):
        normalized_margin(network(bias=True), [data])


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        ((torch.ones(2, 4), torch.ones(2)), TypeError, r"got Tensor\. A batch alone is \[\(X, y\)\]"),
        ([], ValueError, "at least one batch"),
    ],
)
def test_loaders_without_batches(loader, error, message):
    with pytest.raises(error, match=message):
        normalized_margin(network(), loader)


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (nn.Linear(3, 2), nn.functional.one_hot(torch.tensor([0, 1])), r"class numbers.*argmax"),
        (nn.Linear(3, 2), torch.tensor([0.0, 0.5]), r"class numbers from 0 to 1.*got 0.5"),
        (nn.Linear(3, 2), torch.tensor([1, 2]), r"class numbers from 0 to 1.*got 2.*one logit per"),
        (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), torch.tensor([0, 1]), "one logit per class"),
    ],
)
def test_labels_that_are_no_class_numbers_are_named(model, labels, message):
    with pytest.raises(ValueError, match=message):
        normalized_margin(model, [(torch.ones(2, 3), labels)], degree=1.0)


def test_class_numbers_may_be_floats():
    model, x = nn.Linear(3, 2, bias=False), torch.eye(3)
    margins = normalized_margin(model, [(x, torch.tensor([0, 1, 1]))]).margins
    floats = normalized_margin(model, [(x, torch.tensor([0.0, 1.0, 1.0]))]).margins
    np.testing.assert_array_equal(margins, floats)


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib: pip install '.\[report\]'"):
        Margins(np.array([1.0]), 1.0, 1.0).plot()
