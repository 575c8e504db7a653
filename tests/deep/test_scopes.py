"""Norms per matrix and relative steps: Hyperball step by step, radii that a scheduler drives, bad input."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from prgd import deep

BASES = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=False),
    "fused SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.0),
    "fused AdamW": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.0, fused=True),
    "Muon": lambda p: torch.optim.Muon(p, lr=0.05, weight_decay=0.0),
}
HYPERBALL = {"R": "constant", "scope": "matrix", "relative_steps": True}


def network(dtype=torch.float32, *, bias=False):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 16, bias=bias), torch.nn.Tanh(), torch.nn.Linear(16, 3, bias=bias)]
    return torch.nn.Sequential(*layers).to(dtype)


def batch(dtype, number=0):
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(32, 6, generator=generator, dtype=torch.float64)
    return x.to(dtype), (x[:, 0] * x[:, 1]).sign().long() + 1


def backward(model, optimizer, number=0):
    optimizer.zero_grad()
    x, y = batch(next(model.parameters()).dtype, number)
    loss = cross_entropy(model(x), y)
    loss.backward()
    return loss.detach()


def hyperball(parameters, base, steps, gradients):
    """Take W <- R norm(W - eta R norm(u)), with u the update of the base from the gradients at W."""
    radii = [p.norm() for p in parameters]
    for number in range(steps):
        gradients(number)
        before = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            for p in parameters:
                p.zero_()
            base.step()
            for p, W, R in zip(parameters, before, radii, strict=True):
                u = -p  # times the rate, which the norm takes away
                v = W - base.param_groups[0]["lr"] * R * u / u.norm()
                p.copy_(R * v / v.norm())


@pytest.mark.parametrize("name", BASES)
def test_constant_radii_are_hyperball(name):
    # In float32 rounding alone grows beyond 1e-6 in a hundred steps of this length.
    ours, theirs = network(torch.float64), network(torch.float64)
    optimizer = deep.PRGD(BASES[name](ours.parameters()), **HYPERBALL)
    for number in range(100):
        backward(ours, optimizer, number)
        optimizer.step()
    base = BASES[name](theirs.parameters())
    hyperball(list(theirs.parameters()), base, 100, lambda number: backward(theirs, base, number))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (a - b).norm() <= 1e-6 * b.norm()
    assert optimizer.t == 100
    assert optimizer.skipped == 0


def test_vectors_are_stepped_by_the_base_alone():
    model, plain = network(bias=True), network(bias=True)
    optimizer = deep.PRGD(torch.optim.SGD(model.parameters(), lr=0.1), **HYPERBALL)
    base = torch.optim.SGD(plain.parameters(), lr=0.1)
    for m, o in ((model, optimizer), (plain, base)):
        backward(m, o)
        o.step()
    assert torch.equal(model[0].bias, plain[0].bias)
    assert math.isclose(float(model[0].weight.detach().norm()), optimizer.R_0[0], rel_tol=1e-6)


@pytest.mark.parametrize("scope", ["matrix", "group"])
def test_blocks_have_radii_of_their_own(scope):
    model = network()
    groups = [{"params": [model[0].weight]}, {"params": [model[2].weight], "radius": 3.0}]
    norms = [4.0 * float(model[0].weight.detach().norm()), 12.0 * float(model[2].weight.detach().norm())]
    optimizer = deep.PRGD(groups, R=2.0, T=3, warm_up=0, scope=scope, lr=0.5)
    for _ in range(7):  # rescalings at 0, 3 and 6
        optimizer.step(loss=backward(model, optimizer))
    assert [float(p.detach().norm()) for p in model.parameters()] == pytest.approx(norms)
    assert optimizer.R_k == pytest.approx([norms[0], norms[1] / 3.0])


def test_a_scheduler_drives_the_radius():
    model = network()
    optimizer = deep.PRGD(torch.optim.AdamW(model.parameters(), lr=0.01), **HYPERBALL)
    for number in range(4):
        optimizer.param_groups[0]["radius"] = 1.0 + number
        optimizer.step(loss=backward(model, optimizer))
        found = [float(p.detach().norm()) for p in model.parameters()]
        assert found == pytest.approx([R_0 * (1.0 + number) for R_0 in optimizer.R_0])


def test_a_relative_step_that_fails_leaves_the_parameters():
    model = network()
    optimizer = deep.PRGD(torch.optim.AdamW(model.parameters(), fused=True), **HYPERBALL)
    for _ in range(3):
        backward(model, optimizer)
        optimizer.step()
    before = [p.detach().clone() for p in model.parameters()]
    backward(model, optimizer)
    model[0].weight.grad[0, 0] = math.nan
    optimizer.step()
    assert all(map(torch.equal, before, model.parameters()))
    assert optimizer.skipped == 1
    backward(model, optimizer)
    optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(TypeError):
        optimizer.step()
    assert all(map(torch.equal, before, model.parameters()))


@pytest.mark.parametrize("options", [{"relative_steps": True}, {"loss_scaled": False}])
def test_a_schedule_over_a_run_of_steps_that_need_no_loss(options):
    model = network()
    optimizer = deep.PRGD.for_steps(model.parameters(), 128, growth=4.0, scope="matrix", **options)
    norms = [float(p.detach().norm()) for p in model.parameters()]
    for number in range(128):
        backward(model, optimizer, number)
        optimizer.step()
    # Two matrices double, but for the phase that would begin after the run.
    assert optimizer.R_k == pytest.approx([2.0 ** (63 / 64) * norm for norm in norms])
