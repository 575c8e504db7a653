"""The measured degree, and the modules that break homogeneity."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from prgd.deep.homogeneity import NotHomogeneousWarning, check_homogeneous, homogeneity_degree

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
    with pytest.warns(NotHomogeneousWarning, match=r"2 \(Linear with a bias\)"):
        check_homogeneous(model, VECTORS)


def test_strict_is_an_error():
    with pytest.raises(ValueError, match=r"1 \(BatchNorm1d\)"):
        check_homogeneous(nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5)), VECTORS[:, 0], strict=True)
