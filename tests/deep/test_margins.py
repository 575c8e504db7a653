"""Normalized margins by hand, the measured degree, and the modules that break homogeneity."""

import numpy as np
import pytest
import torch
from torch import nn

from prgd.deep.homogeneity import NotHomogeneousWarning, check_homogeneous, homogeneity_degree
from prgd.deep.margins import normalize, normalized_margin


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


def test_a_network_that_is_not_homogeneous_is_said(data):
    with pytest.warns(NotHomogeneousWarning, match="Linear with a bias"):
        normalized_margin(network(bias=True), [data])


X = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("model", "loader", "message"),
    [
        (nn.Linear(3, 2), (X, torch.ones(2)), r"got Tensor\. A batch alone is \[\(X, y\)\]"),
        (nn.Linear(3, 2), [], "at least one batch"),
        (nn.Linear(3, 2), [(X, nn.functional.one_hot(torch.tensor([0, 1])))], r"class numbers.*argmax"),
        (nn.Linear(3, 2), [(X, torch.tensor([0.0, 0.5]))], r"class numbers from 0 to 1.*got 0.5"),
        (nn.Linear(3, 2), [(X, torch.tensor([1, 2]))], r"class numbers from 0 to 1.*got 2.*one logit per"),
        (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), [(X, torch.tensor([0, 1]))], "one logit per class"),
    ],
)
def test_loaders_without_batches_and_labels_that_are_no_class_numbers_are_named(model, loader, message):
    with pytest.raises((ValueError, TypeError), match=message):
        normalized_margin(model, loader, degree=1.0)


def test_class_numbers_may_be_floats():
    model, x = nn.Linear(3, 2, bias=False), torch.eye(3)
    margins = normalized_margin(model, [(x, torch.tensor([0, 1, 1]))]).margins
    floats = normalized_margin(model, [(x, torch.tensor([0.0, 1.0, 1.0]))]).margins
    np.testing.assert_array_equal(margins, floats)


# The degree


IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
VECTORS = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8, bias=False)
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)

    def forward(self, x):
        z = self.embed(x)
        return self.attention(z, z, z)[0]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return x + self.inner(x)


@pytest.mark.parametrize("bias", [False, True])
def test_degree_is_the_number_of_layers(bias):
    layers = [nn.Conv2d(3, 4, 3, bias=bias), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout()]
    model = nn.Sequential(*layers, nn.Linear(36, 5, bias=False), nn.LeakyReLU(), nn.Linear(5, 2, bias=False))
    found = homogeneity_degree(model, IMAGES)
    assert found.degree == 3
    assert found.error < 1e-12
    assert found.broken_by == ()


@pytest.mark.parametrize(
    ("layers", "broken_by"),
    [
        ([nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)], ("2 (Linear with a bias)",)),
        (
            [nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)],
            ("1 (Linear with a bias)", "3 (Linear with a bias)"),
        ),
        ([nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2, bias=False)], ("1 (LayerNorm)",)),
        ([nn.Linear(8, 8), nn.BatchNorm1d(5), nn.Linear(8, 2, bias=False)], ("1 (BatchNorm1d)",)),
        ([nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2, bias=False)], ("1 (GELU)",)),
        ([Attention()], ("0.attention (MultiheadAttention)",)),
        ([nn.Linear(8, 8), Residual()], ("1 (Residual)",)),
    ],
)
def test_the_modules_that_break_it_are_named(layers, broken_by):
    torch.manual_seed(0)
    model = nn.Sequential(*layers)
    found = homogeneity_degree(model, VECTORS)
    assert not found.is_homogeneous
    assert found.broken_by == broken_by


def test_the_model_stays_as_it_was():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(5), nn.ReLU(inplace=True), nn.Linear(8, 2))
    model[3].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    homogeneity_degree(model, VECTORS)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [module.training for module in model] == [True, True, True, False]
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_fresh_bias_of_zeros_is_seen():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.zeros_(model[2].bias)
    with pytest.warns(NotHomogeneousWarning, match=r"2 \(Linear with a bias\)") as caught:
        check_homogeneous(model, VECTORS)
    assert len(str(caught[0].message).split()) <= 40


def test_strict_is_an_error():
    with pytest.raises(ValueError, match=r"1 \(BatchNorm1d\)"):
        check_homogeneous(nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5)), VECTORS[:, 0], strict=True)
