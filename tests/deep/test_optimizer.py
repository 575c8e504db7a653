"""GD, NGD and PRGD as PyTorch optimizers: the core's iterates, and the company they keep in PyTorch."""

import collections
import io
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from shared import python
from small_network import BASES, examples, flat, network
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

import prgd
from prgd import deep
from prgd.deep.optim.tensors import grouped, norm
from prgd.deep.optim.wrapper import Wrapper
from prgd.schedules import APPENDIX_RADII, Constant, Every, ExplicitTimes, Geometric, Polynomial, PowerTimes

INPUTS, TARGETS = examples(24)
RADII = {"R": Polynomial(0.5), "T": Every(4)}
SCHEDULE = RADII | {"warm_up": 0}
NO_PROJECTION = {"project": False}
GEOMETRIC = {"R": Geometric(), "T": Every(), "warm_up": 0}


def train(model, optimizer, steps, step=None):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(INPUTS), TARGETS)
        loss.backward()
        (step or optimizer.step)(loss=loss)
    return flat(model)


def gradients(model, scale=1.0):
    cross_entropy(model(INPUTS), TARGETS).backward()
    for p in model.parameters():
        p.grad.mul_(scale)


# against the core

EXACT = {
    "GD": (prgd.GD(), deep.GD, {}, "exponential"),
    "NGD": (prgd.NGD(), deep.NGD, {}, "exponential"),
    "NGD, logistic": (prgd.NGD(), deep.NGD, {}, "logistic"),
    "PRGD, logistic": (prgd.PRGD(**RADII), deep.PRGD, SCHEDULE, "logistic"),
    "PRGD": (prgd.PRGD(**RADII), deep.PRGD, SCHEDULE, "exponential"),
    "no projection": (prgd.PRGD(**RADII, project=False), deep.PRGD, SCHEDULE | NO_PROJECTION, "exponential"),
    "geometric radii": (prgd.PRGD(), deep.PRGD, GEOMETRIC, "exponential"),
}


@pytest.fixture(scope="module")
def start():
    X, y = prgd.datasets.synthetic_one(seed=0)
    return X, y, prgd.run(prgd.Problem(X, y, scale="none"), prgd.GD(), stop=100).w


@pytest.mark.no_cover  # The other tests of the optimizer run the same lines.
@pytest.mark.parametrize(
    ("name", "in_log_frame"),
    [(name, frame) for name in EXACT for frame in (False, True) if name != "geometric radii" or frame],
)
def test_a_linear_model_follows_the_core(start, name, in_log_frame):
    algorithm, optimizer_type, options, loss_name = EXACT[name]
    X, y, w0 = start
    problem = prgd.Problem(X, y, loss=loss_name, scale="none")
    state = algorithm.init(problem, w0)
    w = torch.nn.Parameter(torch.tensor(w0))
    scaled = optimizer_type is not deep.GD
    options = options | ({"loss_scaled": not in_log_frame} if scaled else {})
    optimizer = optimizer_type([w], lr=1.0, momentum=0.0, **options)
    log_loss = deep.log_exponential_loss if loss_name == "exponential" else deep.log_logistic_loss
    Z = torch.tensor(X * y[:, None])
    for _ in range(300 if name == "geometric radii" else 100):
        optimizer.zero_grad()
        loss = log_loss(Z @ w)
        loss = loss if scaled and in_log_frame else loss.exp()
        loss.backward()
        optimizer.step(loss=loss)
        state = algorithm.step(problem, state)
        assert np.linalg.norm(w.detach().numpy() - state.w) <= 1e-12 * np.linalg.norm(state.w)
    assert optimizer.skipped == 0
    if name == "geometric radii":
        assert loss < math.log(1e-300)  # The loss itself underflows.


# Algorithm 1, step by step


def test_warm_up_is_plain_and_then_one_step_only_rescales():
    model, plain = network(), network()
    optimizer = deep.PRGD(model.parameters(), R=APPENDIX_RADII, T=PowerTimes(), warm_up=7, lr=0.1)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9, fused=True)
    for _ in range(7):
        assert optimizer.warming_up
        sgd.zero_grad()
        gradients(plain)
        sgd.step()
    before = train(model, optimizer, 7)
    assert torch.equal(before, flat(plain))
    assert optimizer.rescale_due
    assert not optimizer.warming_up
    after = train(model, optimizer, 1)
    assert math.isclose(optimizer.R_0, before.double().norm().item(), rel_tol=1e-7)
    assert optimizer.norm().item() == pytest.approx(optimizer.R_0 * 2**0.2, rel=1e-6)
    assert torch.allclose(after / after.norm(), before / before.norm(), rtol=1e-6, atol=0)


def test_step_is_that_of_the_gradient_over_the_loss_with_momentum():
    model, plain = network(), network()
    optimizer = deep.NGD(model.parameters(), lr=0.1)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        sgd.zero_grad()
        gradients(plain, 1.0 / cross_entropy(plain(INPUTS), TARGETS).item())
        sgd.step()
    assert torch.allclose(train(model, optimizer, 5), flat(plain), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("policy", ["reset", "scale", "keep"])
@pytest.mark.parametrize(
    ("base_type", "key"), [(torch.optim.SGD, "momentum_buffer"), (torch.optim.AdamW, "exp_avg")]
)
def test_momentum_at_a_rescaling(policy, base_type, key):
    model = network()
    base = base_type(model.parameters(), lr=1e-3, **({"momentum": 0.9} if key == "momentum_buffer" else {}))
    radii, times = prgd.schedules.ExplicitRadii((2.0, 4.0)), ExplicitTimes((0, 3))
    optimizer = deep.PRGD(base, R=radii, T=times, warm_up=0, on_rescale=policy)
    train(model, optimizer, 3)
    before = [base.state[p][key].clone() for p in model.parameters()]
    factor = {"reset": 0.0, "scale": 4.0 / optimizer.norm().item(), "keep": 1.0}[policy]
    train(model, optimizer, 1)
    for p, momentum in zip(model.parameters(), before, strict=True):
        assert torch.allclose(base.state[p][key], momentum * factor)


def test_excluded_groups_are_stepped_by_the_base_alone():
    head, body, alone = (torch.nn.Parameter(torch.full((3,), 2.0)) for _ in range(3))
    groups = [{"params": [body]}, {"params": [head], "homogeneous": False}]
    optimizer = deep.PRGD(groups, R=Geometric(3.0), T=Every(2), warm_up=0, lr=0.1, loss_scaled=False)
    sgd = torch.optim.SGD([alone], lr=0.1, momentum=0.9)
    for t in range(6):
        for p in (head, body, alone):
            p.grad = torch.ones(3)
        assert optimizer.rescale_due == (t % 2 == 0)
        before = head.detach().clone()
        optimizer.step()
        if t % 2 == 0:
            assert torch.equal(head, before)
        else:
            sgd.step()
        assert optimizer.norm() == pytest.approx(body.double().norm().item(), rel=1e-7)
    assert torch.allclose(head, alone)
    optimizer.param_groups[1]["homogeneous"] = True
    optimizer.step()
    both = torch.cat([head, body]).double().norm().item()
    assert both == pytest.approx(optimizer.R_k, rel=1e-6)


# company in PyTorch


def test_groups_and_state_are_those_of_the_base():
    model = network()
    base = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer = deep.PRGD(base, **SCHEDULE)
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert optimizer.param_groups is base.param_groups
    extra = torch.nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [extra], "homogeneous": False})
    assert base.param_groups[1]["params"] == [extra]
    assert base.param_groups[1]["lr"] == 1e-2
    train(model, optimizer, 6)
    assert set(base.state[model[0].weight]) == {"step", "exp_avg", "exp_avg_sq"}
    assert torch.equal(extra, torch.ones(2))


def test_closure_gives_the_loss():
    model, other = network(), network()
    optimizer = deep.NGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = cross_entropy(model(INPUTS), TARGETS)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert torch.equal(train(other, deep.NGD(other.parameters(), lr=0.1), 5), flat(model))


class Calls(TorchDispatchMode):
    """Counts calls of torch's operators; on a GPU each is a launch or a few."""

    def __init__(self):
        super().__init__()
        self.count = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count[function] += function.namespace == "aten"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW])
def test_no_value_is_read_on_the_host(base):
    model = network()
    optimizer = deep.PRGD(base(model.parameters(), lr=1e-3, fused=True), **SCHEDULE)
    train(model, optimizer, 2)  # the first rescaling reads R_0, the first base step waits
    losses = [torch.tensor(1.0)] * 20
    gradients(model)
    with Calls() as calls:
        for loss in losses:
            optimizer.step(loss=loss)
    assert optimizer.k == 6
    assert calls.count[torch.ops.aten._local_scalar_dense.default] == 0


@pytest.mark.parametrize("tensors", [2, 40])
def test_calls_do_not_grow_with_the_number_of_tensors(tensors):
    w = [torch.nn.Parameter(torch.ones(3)) for _ in range(tensors)]
    optimizer = deep.PRGD(w, **SCHEDULE)
    for p in w:
        p.grad = torch.ones(3)
    for _ in range(2):
        optimizer.step(loss=1.0)
    with Calls() as calls:
        optimizer.step(loss=torch.tensor(1.0))
    assert calls.count.total() <= 19


def test_parameters_of_several_dtypes_and_without_gradients():
    def parameters():
        dtypes = torch.float32, torch.float64, torch.float32
        return [torch.nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes]

    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "fused": True}
    sgd, ours = (torch.optim.SGD(parameters(), **options) for _ in range(2))
    optimizer = deep.GD(ours)
    for t in range(4):
        for base, step in ((sgd, sgd.step), (ours, optimizer.step)):
            for p in base.param_groups[0]["params"][:2]:  # the last one never has a gradient
                p.grad = torch.arange(3, dtype=p.dtype) + t
            step()
    assert all(map(torch.equal, ours.param_groups[0]["params"], sgd.param_groups[0]["params"]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_default_base_steps_16_bit_parameters(dtype):
    w = torch.nn.Parameter(torch.zeros(100, dtype=dtype))
    optimizer = deep.GD([w], lr=0.5, momentum=0.0)
    for _ in range(3):
        w.grad = torch.ones(100, dtype=dtype)
        optimizer.step()
    assert torch.equal(w, torch.full((100,), -1.5, dtype=dtype))


def test_hooks_of_the_base_are_called():
    model, calls = network(), []
    optimizer = deep.PRGD(model.parameters(), **SCHEDULE)
    optimizer.base.register_step_post_hook(lambda *_: calls.append("base"))
    optimizer.register_step_pre_hook(lambda *_: calls.append("ours"))
    train(model, optimizer, 3)  # the first one rescales
    assert calls == ["ours", "ours", "base", "ours", "base"]


def test_replayed_updates_equal_eager_steps(monkeypatch):
    """A CUDA graph holds the device's part of ``step``; ``prepare`` is the host's part."""
    eager, replayed = network(), network()
    optimizers = [deep.PRGD(m.parameters(), **RADII, warm_up=6, lr=0.1) for m in (eager, replayed)]
    train(eager, optimizers[0], 25)
    train(replayed, optimizers[1], 2)  # a capture follows steps outside of it
    monkeypatch.setattr(Wrapper, "_capturing", lambda self: True)
    for _ in range(23):
        if not optimizers[1].prepare():
            train(replayed, optimizers[1], 1)
    assert torch.equal(flat(eager), flat(replayed))
    assert optimizers[0].progress() == optimizers[1].progress()


def test_capture_needs_a_base_that_skips_on_the_device(monkeypatch):
    model = network()
    optimizer = deep.NGD(torch.optim.RMSprop(model.parameters()))
    monkeypatch.setattr(Wrapper, "_capturing", lambda self: True)
    with pytest.raises(RuntimeError, match="skips on the device"):
        train(model, optimizer, 1)


# bad input and faults
FAULTS = {
    "NaN gradient": (math.nan, 1.0),
    "infinite gradient": (math.inf, 1.0),
    "NaN loss": (1.0, math.nan),
    "infinite loss": (1.0, math.inf),
    "loss of 0": (1.0, 0.0),
    "negative loss": (1.0, -1.0),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("good_steps", [1, 6])
def test_non_finite_step_is_skipped_and_counted(base, fault, good_steps):
    model, clean = network(), network()
    optimizers = [deep.PRGD(BASES[base](m.parameters()), **SCHEDULE) for m in (model, clean)]
    for m, optimizer in zip((model, clean), optimizers, strict=True):
        train(m, optimizer, good_steps)
    scale, loss = FAULTS[fault]
    optimizers[0].zero_grad()
    gradients(model)
    model[2].weight.grad[0, 0] *= scale
    optimizers[0].step(loss=loss)
    assert torch.equal(flat(model), flat(clean))
    assert optimizers[0].skipped == 1
    for mine, theirs in zip(optimizers[0].state.values(), optimizers[1].state.values(), strict=True):
        assert all(torch.equal(mine[key], theirs[key]) for key in theirs)
    # a skipped step still takes its place in time
    optimizers[1].prepare()
    assert torch.equal(train(model, optimizers[0], 3), train(clean, optimizers[1], 3))


def test_plain_steps_need_a_finite_loss_and_no_more():
    model = network()
    optimizer = deep.NGD(model.parameters(), warm_up=4)
    before = flat(model)
    gradients(model)
    for loss in (math.nan, math.inf, -math.inf):
        optimizer.step(loss=loss)
    assert torch.equal(flat(model), before)
    assert optimizer.skipped == 3
    optimizer.zero_grad()
    gradients(model)
    optimizer.step(loss=0.0)
    assert not torch.equal(flat(model), before)


def test_step_beyond_the_floating_range_does_not_erase_the_parameters():
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = deep.PRGD([w], R=Constant(), T=Every(4), warm_up=0, lr=1.0, momentum=0.0, loss_scaled=False)
    for gradient in (0.0, 1e30):
        w.grad = torch.full((2,), gradient)
        optimizer.step()
    assert torch.equal(w, torch.full((2,), -1e30))


# numbers


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rescaling_in_low_precision(dtype):
    torch.manual_seed(0)
    w = [torch.nn.Parameter(torch.randn(shape).mul_(100).to(dtype)) for shape in ((300, 300), (7,), ())]
    optimizer = deep.PRGD(w, R=prgd.schedules.ExplicitRadii((40.0,)), T=Every(), warm_up=0, loss_scaled=False)
    exact = math.sqrt(sum(p.double().square().sum().item() for p in w))
    optimizer.step()
    assert math.isclose(optimizer.R_0, exact, rel_tol=1e-6)
    assert optimizer.norm().item() == pytest.approx(40.0, rel=2e-4)


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (4096,), (5000, 8192, 1)])
def test_norm_of_empty_small_and_large_tensors(sizes):
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(size, generator=generator) for size in sizes]
    exact = torch.cat(tensors).double().norm().item()
    assert norm(grouped(tensors)).item() == pytest.approx(exact, rel=1e-7)


# state


@pytest.mark.parametrize(
    ("base", "options"),
    [
        *((base, {}) for base in BASES),
        ("fused AdamW", {"scope": "matrix"}),
        ("fused SGD", {"scope": "group"}),
        ("fused AdamW", {"scope": "matrix", "relative_steps": True}),
    ],
)
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_resume_in_mid_phase_is_bit_identical(base, options, steps):
    model, options = network(), RADII | {"warm_up": 2} | options
    optimizer = deep.PRGD(BASES[base](model.parameters()), **options)
    train(model, optimizer, steps)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    whole = train(model, optimizer, 11)

    again = network(seed=5)
    second = deep.PRGD(BASES[base](again.parameters()), **options)
    saved = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    again.load_state_dict(saved["model"])
    second.load_state_dict(saved["optimizer"])
    assert second.param_groups is second.base.param_groups
    assert torch.equal(train(again, second, 11), whole)
    assert second.progress() == optimizer.progress()


def test_state_of_another_model_or_schedule_is_refused():
    model = network()
    optimizer = deep.PRGD(model.parameters(), **SCHEDULE)
    train(model, optimizer, 6)
    state = optimizer.state_dict()
    wider = torch.nn.Sequential(torch.nn.Linear(5, 9, bias=False), torch.nn.Linear(9, 3, bias=False))
    with pytest.raises(ValueError, match="another model"):
        deep.PRGD(wider.parameters(), **SCHEDULE).load_state_dict(state)
    with pytest.raises(ValueError, match="another model"):
        deep.PRGD([next(model.parameters())], **SCHEDULE).load_state_dict(state)
    with pytest.raises(ValueError, match="does not fit"):
        deep.PRGD(model.parameters(), R=Constant(), T=Every(50), warm_up=0).load_state_dict(state)
    with pytest.raises(ValueError, match="no entry 'prgd'"):
        deep.PRGD(model.parameters(), **SCHEDULE).load_state_dict(optimizer.base.state_dict())


@pytest.mark.slow
def test_example_reaches_a_larger_margin():
    ends = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "drop_in.py"))["ends"]
    (_, plain), (_, progressive) = ends[0.3, None], ends[0.3, deep.PRGD]
    assert progressive > 1.2 * plain > 0.0


@pytest.mark.slow
def test_works_with_torch_and_numpy_alone():
    code = """
import importlib.abc, sys

class Without(importlib.abc.MetaPathFinder):
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path, target=None):
        absent = name.split(".")[0] in sys.argv[1:]
        return None if absent else self.finder.find_spec(name, path, target)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
import torch
from prgd import deep
from prgd.schedules import APPENDIX_RADII, PowerTimes

model = torch.nn.Linear(2, 2, bias=False)
optimizer = deep.PRGD(model.parameters(), R=APPENDIX_RADII, T=PowerTimes(), warm_up=0)
for _ in range(3):
    loss = deep.log_cross_entropy(model(torch.eye(2)), torch.tensor([0, 1])).exp()
    loss.backward()
    optimizer.step(loss=loss)
print(optimizer.k)
"""
    blocked = ["scipy", "numba", "sklearn", "pandas", "matplotlib", "rich", "typer", "pyarrow"]
    assert python("-W", "error", "-c", code, *blocked).stdout.strip() == "1"
