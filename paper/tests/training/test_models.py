"""Networks by name: shapes, biases, initial weights, seeds."""

import math

import pytest
import torch
from prgd_paper.training.models import MODELS, Dropout, build_model
from torch import nn

from prgd.deep import homogeneity_degree


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_logits_and_repeats_with_its_seed(name):
    before = torch.get_rng_state()
    one, two, other = (build_model(name, classes=7, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert one(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    pairs = list(zip(one.parameters(), two.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


def test_vgg16_is_the_papers():
    model = build_model("vgg16", dropout=0.5, seed=0)
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    assert (len(convolutions), len(linear)) == (13, 3)
    assert [layer.bias is not None for layer in [*convolutions, *linear]] == [True] + [False] * 15
    assert sum(isinstance(layer, Dropout) for layer in model) == 2
    assert not any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in model)
    deep = convolutions[-1].weight  # Kaiming, fan out: variance 2 / (9 * 512)
    assert deep.std().item() == pytest.approx(math.sqrt(2 / (9 * 512)), rel=0.01)
    bound = 1 / math.sqrt(512)
    assert 0.99 * bound < linear[0].weight.abs().max().item() <= bound
    lyu_li = build_model("vgg16-lyu-li")
    assert sum(isinstance(layer, nn.Linear) for layer in lyu_li) == 1


@pytest.mark.parametrize(("bias", "count"), [("first", 1), ("none", 0), ("all", 3)])
def test_biases(bias, count):
    model = build_model("mlp", bias=bias)
    assert sum(layer.bias is not None for layer in model if isinstance(layer, nn.Linear)) == count


def test_dropout_draws_from_its_own_generator_and_keeps_the_mean():
    layer = Dropout(0.25)
    layer.generator = torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    x = torch.ones(100_000)
    found = layer(x)
    assert torch.equal(before, torch.get_rng_state())
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)
    assert sorted(found.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert layer.eval()(x) is x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "vgg-16"}, "Did you mean vgg16"),
        ({"name": "cnn", "dropout": 0.5}, "Only vgg16 has dropout"),
        ({"name": "vgg16", "dropout": 1.0}, "below 1"),
        ({"name": "vgg16", "shape": (3, 16, 16)}, "at least 32 x 32"),
        ({"name": "mlp", "bias": "frist"}, "Did you mean first"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_model(**arguments)


@pytest.mark.parametrize(
    ("name", "bias", "degree"),
    [("linear", "none", 1), ("cnn", "first", 3), ("vgg16", "first", 16), ("vgg16-lyu-li", "none", 14)],
)
def test_degree_is_the_number_of_layers(name, bias, degree):
    found = homogeneity_degree(build_model(name, bias=bias, seed=0), torch.ones(1, 3, 32, 32))
    assert (found.degree, found.broken_by) == (degree, ())
