"""KKT residuals: closed forms on linear models, batches, huge margins, and training of a small network."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import prgd
from prgd.deep import KKTResidual, NotHomogeneousWarning, kkt_residual
from prgd.deep.margins import normalized_margin
from prgd.deep.optim.loss import log_cross_entropy


def linear(weights):
    """Return a linear model without bias that has the given rows of weights."""
    weights = torch.as_tensor(np.atleast_2d(weights), dtype=torch.float64)
    model = nn.Linear(weights.shape[1], len(weights), bias=False, dtype=torch.float64)
    model.weight = nn.Parameter(weights.clone())
    return model


@pytest.fixture
def binary():
    """Separable data of two classes with labels -1 and 1, and a separator that is not the best one."""
    random = np.random.default_rng(0)
    w = np.array([1.0, -0.5, 0.3])
    X = random.normal(size=(40, 3))
    y = np.sign(X @ w)
    return X + 0.2 * y[:, None] * w, y, 4.0 * w


@pytest.fixture
def many():
    """Separable data of four classes, and the logits' matrix that separates them."""
    random = np.random.default_rng(1)
    W = 3.0 * random.normal(size=(4, 5))
    X = random.normal(size=(60, 5))
    return X, (X @ W.T).argmax(axis=1), W


def tensors(*arrays):
    return tuple(torch.as_tensor(array) for array in arrays)


def closed_form(w, rows, weights):
    """Return epsilon, delta, cosine and the sum of multipliers of a linear model, written out.

    ``rows @ w >= 1`` are the constraints, so their gradients are the rows.
    """
    margins = rows @ w
    point = w / margins.min()
    pull = rows.T @ weights
    multipliers = weights * np.linalg.norm(point) / np.linalg.norm(pull)
    epsilon = np.linalg.norm(point - rows.T @ multipliers)
    delta = np.max(multipliers * (rows @ point - 1.0))
    return epsilon, delta, w @ pull / np.linalg.norm(w) / np.linalg.norm(pull), multipliers.sum()


def found_by(result: KKTResidual):
    return result.epsilon, result.delta, result.cosine, result.multiplier_sum


def test_one_logit_matches_the_closed_form(binary):
    X, y, w = binary
    Z = y[:, None] * X
    found = kkt_residual(linear(w), [tensors(X, y)])
    expected = closed_form(w, Z, 1.0 / (1.0 + np.exp(Z @ w)))
    assert found_by(found) == pytest.approx(expected, rel=1e-12)
    assert found.margin == pytest.approx((Z @ w).min(), rel=1e-12)
    assert found.degree == 1.0
    assert found.relative_epsilon == pytest.approx(math.sqrt(2.0 - 2.0 * found.cosine), rel=1e-9)


def test_two_logits_and_labels_0_and_1(binary):
    X, y, w = binary
    one = kkt_residual(linear(w), [tensors(X, y)])
    assert kkt_residual(linear(w), [tensors(X, y > 0)]) == one
    # With logits (-f, f) / 2 margins are the same, and the parameters are shorter by sqrt(2).
    two = kkt_residual(linear([-w / 2, w / 2]), [tensors(X, (y > 0).astype(int))])
    assert two.cosine == pytest.approx(one.cosine, rel=1e-12)
    assert two.epsilon == pytest.approx(one.epsilon / math.sqrt(2.0), rel=1e-12)
    assert two.delta == pytest.approx(one.delta / 2.0, rel=1e-12)


def test_many_classes_match_the_closed_form(many):
    X, y, W = many
    logits = X @ W.T
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    pairs = [(n, j) for n in range(len(X)) for j in range(4) if j != y[n]]
    rows = np.array([np.outer(np.eye(4)[y[n]] - np.eye(4)[j], X[n]).ravel() for n, j in pairs])
    expected = closed_form(W.ravel(), rows, np.array([chances[n, j] for n, j in pairs]))
    found = kkt_residual(linear(W), [tensors(X, y)])
    assert found_by(found) == pytest.approx(expected, rel=1e-10)
    margins = normalized_margin(linear(W), [tensors(X, y)])
    assert found.margin / found.norm == pytest.approx(margins.normalized_margin, rel=1e-12)


@pytest.mark.slow  # It loads the solver.
def test_the_exact_dual_of_the_maximum_margin_has_residual_0(binary):
    X, y, w = binary
    best = prgd.max_margin(X, y, tol=1e-12, fit_intercept=False)
    weights = np.zeros(len(X))
    weights[best.support] = best.dual_weights
    found = kkt_residual(linear(best.coef), [tensors(X, y)], dual_weights=weights)
    assert found.epsilon <= 1e-6
    assert found.delta <= 1e-6
    assert found.multiplier_sum == pytest.approx(found.feasible_norm**2, rel=1e-6)
    assert found.margin / found.norm == pytest.approx(best.certificate.lower, rel=1e-9)
    worse = kkt_residual(linear(w), [tensors(X, y)], dual_weights=weights)
    assert worse.epsilon > 0.1


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_of_any_size_give_the_same(many, size):
    X, y, W = many
    x, y = tensors(X, y)
    whole = kkt_residual(linear(W), [(x, y)])
    parts = kkt_residual(linear(W), zip(x.split(size), y.split(size), strict=True))
    assert found_by(parts) == pytest.approx(found_by(whole), rel=1e-11)
    assert parts.support_size == pytest.approx(whole.support_size, rel=1e-11)
    assert parts.margin == pytest.approx(whole.margin, rel=1e-12)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_margins_of_thousands_do_not_underflow(binary, order):
    X, y, w = binary
    Z = y[:, None] * X
    w = w * 1e4 / (Z @ w).min()  # The smallest margin is 10,000: every weight underflows.
    first = np.argsort(Z @ w)[order]
    loader = zip(*(tensor.split(3) for tensor in tensors(X[first], y[first])), strict=True)
    found = kkt_residual(linear(w), loader)
    margins = Z @ w
    expected = closed_form(w, Z, np.exp(margins.min() - margins))
    assert found_by(found) == pytest.approx(expected, rel=1e-9)
    assert found.support_size == pytest.approx(1.0)
    assert found.delta == pytest.approx(0.0, abs=1e-12)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3, bias=False)).double()


@pytest.fixture
def easy():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(30) % 3
    centres = torch.randn(3, 4, generator=generator)
    x = centres[y] + 0.1 * torch.randn(30, 4, generator=generator)
    return x.double(), y


def test_a_network_matches_the_definition_at_the_feasible_point(easy):
    """All of the definition written out for a network of degree 2, with one gradient for each constraint."""
    x, y = easy
    model = network()
    for _ in range(100):
        rates = torch.autograd.grad(log_cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for parameter, rate in zip(model.parameters(), rates, strict=True):
                parameter -= 0.02 * rate
    found = kkt_residual(model, [easy])
    weights = torch.softmax(model(x), dim=1).detach()
    pairs = [(n, j) for n in range(30) for j in range(3) if j != y[n]]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter /= math.sqrt(found.margin)
    logits = model(x)
    margins = [logits[n, y[n]] - logits[n, j] for n, j in pairs]
    slopes = [torch.autograd.grad(s, list(model.parameters()), retain_graph=True) for s in margins]
    rows = np.array([torch.cat([part.flatten() for part in slope]).numpy() for slope in slopes])
    point = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy()
    pull = np.array([weights[n, j] for n, j in pairs])
    multipliers = pull * np.linalg.norm(point) / np.linalg.norm(rows.T @ pull)
    assert found.epsilon == pytest.approx(np.linalg.norm(point - rows.T @ multipliers), rel=1e-10)
    slack = np.array([float(s.detach()) for s in margins]) - 1.0
    assert slack.min() == pytest.approx(0.0, abs=1e-12)
    assert found.delta == pytest.approx((multipliers * slack).max(), rel=1e-9)
    assert found.multiplier_sum == pytest.approx(multipliers.sum(), rel=1e-10)
    assert found.support_size == pytest.approx(pull.sum() ** 2 / (pull**2).sum(), rel=1e-10)
    assert found.feasible_norm == pytest.approx(np.linalg.norm(point), rel=1e-10)


def test_the_model_is_left_as_it_was(easy):
    model = nn.Sequential(network(), nn.Dropout(0.5))
    model[0][2].weight.requires_grad_(False)
    model[0][0].weight.grad = torch.ones_like(model[0][0].weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model[0].eval()
    with torch.no_grad():
        found = kkt_residual(model, [easy])
    assert found.norm == pytest.approx(normalized_margin(model, [easy]).norm, rel=1e-12)  # frozen ones too
    assert model.training
    assert not model[0].training
    assert bool((model[0][0].weight.grad == 1.0).all())
    assert model[0][0].bias.grad is None
    assert model[0][2].weight.grad is None
    assert not model[0][2].weight.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_float32_and_bfloat16(easy):
    x, y = easy
    model = network()
    expected = kkt_residual(model, [easy]).cosine
    assert kkt_residual(model.float(), [(x.float(), y)]).cosine == pytest.approx(expected, rel=1e-5)
    low = kkt_residual(model.bfloat16(), [(x.bfloat16(), y)])
    assert low.cosine == pytest.approx(expected, abs=0.02)


def test_some_of_the_parameters(easy):
    model = network()
    found = kkt_residual(model, [easy], degree=1.0, parameters=[model[2].weight])
    assert found.norm == pytest.approx(float(model[2].weight.detach().norm()), rel=1e-12)
    with pytest.raises(ValueError, match="0 of 1 are"):
        kkt_residual(model, [easy], parameters=[torch.ones(2)])


def test_data_that_are_not_separated_have_no_feasible_point(binary):
    X, y, w = binary
    found = kkt_residual(linear(-w), [tensors(X, y)])
    assert not found.is_separated
    assert found.epsilon == found.delta == found.feasible_norm == math.inf
    assert found.relative_epsilon == math.inf
    assert math.isnan(found.multiplier_sum)
    assert -1.0 <= found.cosine < 0.0
    assert found.margin < 0.0
    zeros = kkt_residual(linear(0.0 * w), [tensors(X, y)], degree=1.0)
    assert zeros.margin == zeros.norm == zeros.cosine == 0.0
    assert zeros.epsilon == math.inf


def test_a_network_that_is_not_homogeneous_is_said(easy):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    with pytest.warns(NotHomogeneousWarning, match="Linear with a bias"):
        kkt_residual(model, [easy])
    assert math.isnan(kkt_residual(network(), [easy], degree=0.0).epsilon)


class Named(nn.Linear):
    def forward(self, x):
        return {"logits": super().forward(x)}


ONE, TWO = torch.ones(1, 2), torch.ones(2, 2)


@pytest.mark.parametrize(
    ("model", "batches", "error", "message"),
    [
        (nn.Linear(2, 2), [], ValueError, "the loader was empty"),
        (nn.Linear(2, 2), [(torch.ones(0, 2), torch.ones(0))], ValueError, "the loader was empty"),
        (nn.Identity(), [(ONE, torch.tensor([0]))], ValueError, "a model with parameters"),
        (nn.Linear(2, 2), [(math.nan * ONE, torch.tensor([0]))], ValueError, "NaN or infinite"),
        (nn.Linear(2, 3), [(ONE, torch.tensor([-1]))], ValueError, "from 0 to 2"),
        (nn.Linear(2, 2), [(TWO[None], torch.tensor([1]))], ValueError, "logits of shape"),
        (lambda x: x, [], TypeError, r"network \(nn.Module\); got function"),
        (nn.Linear(2, 2), [(TWO, TWO, TWO)], TypeError, "of tensors; got Tensor and Tensor and Tensor"),
        (nn.Linear(2, 2), [([1.0], [0])], TypeError, r"pairs \(inputs, labels\).*; got list and list"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(model, batches, error, message):
    with pytest.raises(error, match=message):
        kkt_residual(model, batches, degree=1.0)


def test_networks_that_cannot_be_measured():
    with pytest.raises(TypeError, match="returns a tensor; got dict"):
        kkt_residual(Named(2, 2), [(TWO, torch.zeros(2))])
    with torch.inference_mode(), pytest.raises(RuntimeError, match="inference_mode"):
        kkt_residual(nn.Linear(2, 2), [(TWO, torch.zeros(2))])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "row per example"),
        (np.ones((60, 2)), "column per class"),
        (np.ones(70), "column per class"),
        (np.ones((70, 4)), "row per example, 60; got 70"),
        (-np.ones((60, 4)), "at least 0"),
        (np.zeros((60, 4)), "not all 0"),
    ],
)
def test_dual_weights_are_checked(many, weights, message):
    X, y, W = many
    with pytest.raises(ValueError, match=message):
        kkt_residual(linear(W), [tensors(X, y)], dual_weights=weights)
