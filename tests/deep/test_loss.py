"""Losses in the log frame, against float64 where it suffices and mpmath where it does not."""

import mpmath
import pytest
import torch

from prgd import deep

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}


def logits(scale, dtype=torch.float64, rows=6, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, classes, generator=generator, dtype=torch.float64) * scale
    target = torch.randint(0, classes, (rows,), generator=generator)
    return z.to(dtype).requires_grad_(), target


def separated(margin, dtype=torch.float64):
    """Logits whose right class leads by at least ``margin``."""
    z, target = logits(1.0, torch.float64)
    lead = torch.nn.functional.one_hot(target, 4) * (margin + 5.0)
    return (z.detach() + lead).to(dtype).requires_grad_(), target


def exact(z, target):
    """Return log L and grad L / L with exponents that never underflow."""
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(v) for v in row] for row in z.detach().double().tolist()]
        losses, slopes = [], []
        for row, right in zip(rows, target.tolist(), strict=True):
            ratios = [mpmath.exp(v - row[right]) for v in row]
            ratios[right] = 0
            others = sum(ratios)
            losses.append(mpmath.log1p(others))
            ratios[right] = -others
            slopes.append([ratio / (1 + others) for ratio in ratios])
        whole = sum(losses)
        gradient = [[float(s / whole) for s in row] for row in slopes]
        return float(mpmath.log(whole / len(losses))), torch.tensor(gradient, dtype=torch.float64)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("margin", [0.0, 10.0, 16.0, 36.0, 100.0, 700.0, 5000.0])
def test_cross_entropy_of_large_margins(dtype, margin):
    z, target = separated(margin, dtype)
    loss = deep.log_cross_entropy(z, target)
    loss.backward()
    log_loss, gradient = exact(z, target)
    assert loss.item() == pytest.approx(log_loss, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
    # a logit of size m is known to m eps, and so are the weights e^-m
    tolerance = TOLERANCE[dtype] * max(1.0, margin)
    assert torch.allclose(z.grad.double(), gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1000.0])
def test_cross_entropy_of_wrong_answers(dtype, scale):
    z, target = logits(scale, dtype)
    deep.log_cross_entropy(z, target).backward()
    log_loss, gradient = exact(z, target)
    assert deep.log_cross_entropy(z, target).item() == pytest.approx(log_loss, rel=TOLERANCE[dtype], abs=1e-6)
    assert torch.allclose(z.grad.double(), gradient, rtol=1e-4, atol=2 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_logits_are_computed_in_float32(dtype):
    z, target = logits(8.0, dtype)
    loss = deep.log_cross_entropy(z, target)
    loss.backward()
    assert loss.dtype == torch.float32
    assert z.grad.dtype == dtype
    assert loss.item() == pytest.approx(deep.log_cross_entropy(z.double(), target).item(), rel=1e-6)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("centre", [-5000.0, -50.0, 0.0, 50.0, 900.0])
def test_binary_losses(dtype, centre):
    generator = torch.Generator().manual_seed(3)
    m = (centre + torch.randn(7, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
    with mpmath.workdps(3000):
        margins = [mpmath.mpf(v) for v in m.detach().double().tolist()]
        values = {
            deep.log_exponential_loss: mpmath.log(sum(mpmath.exp(-v) for v in margins) / 7),
            deep.log_logistic_loss: mpmath.log(sum(mpmath.log1p(mpmath.exp(-v)) for v in margins) / 7),
        }
    for loss, value in values.items():
        assert loss(m).item() == pytest.approx(float(value), rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
        (gradient,) = torch.autograd.grad(loss(m), m)
        assert torch.isfinite(gradient).all()
    assert gradient.sum().item() == pytest.approx(-1.0 if centre > 20 else gradient.sum().item(), rel=1e-5)


@pytest.mark.parametrize("loss", [deep.log_exponential_loss, deep.log_logistic_loss])
def test_binary_gradients(loss):
    m = torch.linspace(-3.0, 40.0, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, m)


@pytest.mark.parametrize(
    ("shape", "target", "error"),
    [
        ((3, 1), torch.zeros(3, dtype=torch.long), ValueError),
        ((3,), torch.zeros(3, dtype=torch.long), ValueError),
        ((3, 2), torch.zeros(4, dtype=torch.long), ValueError),
        ((3, 2), torch.zeros(3), TypeError),
    ],
)
def test_bad_shapes(shape, target, error):
    with pytest.raises(error):
        deep.log_cross_entropy(torch.zeros(shape), target)
