"""``torch.compile(optimizer.step, fullgraph=True)``: compiled once, the same bits."""

import copy
import math

import pytest
import torch
from small_network import BASES, examples, flat, network
from torch.nn.functional import cross_entropy

from prgd import deep
from prgd.schedules import Every, Polynomial

pytestmark = [
    pytest.mark.slow,
    # torch's own, while it compiles
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Profiler record function"),
]
INPUTS, TARGETS = examples(24)
PHASES = {"R": Polynomial(0.2), "T": Every(10), "warm_up": 3}
BASES = BASES | {"SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False)}
OPTIMIZERS = {
    "GD": deep.GD,
    "NGD": lambda base: deep.NGD(base, warm_up=3),
    "PRGD": lambda base: deep.PRGD(base, **PHASES),
    "relative steps": lambda base: deep.PRGD(base, **PHASES, scope="matrix", relative_steps=True),
}


def compiled(step):
    return torch.compile(step, backend="aot_eager", fullgraph=True)


def count(calls):
    calls.add_(1)


def compilations():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def train(model, optimizer, step, steps=60):
    for t in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(INPUTS), TARGETS)
        loss.backward()
        if t in (7, 20):
            model[0].weight.grad[0, 0] = math.nan
        step(loss=loss.detach())
    return flat(model)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        *(("PRGD", base) for base in ("fused SGD", "SGD", "foreach SGD", "fused AdamW", "AdamW")),
        ("GD", "fused SGD"),
        ("NGD", "SGD"),
        ("relative steps", "AdamW"),
    ],
)
def test_one_compilation_and_the_same_bits_over_six_rescalings(name, base):
    models = network(), network()
    eager, traced = (OPTIMIZERS[name](BASES[base](model.parameters())) for model in models)
    whole = train(models[0], eager, eager.step)
    assert torch.equal(train(models[1], traced, compiled(traced.step)), whole)
    assert eager.progress() == traced.progress()
    assert traced.skipped == 2
    assert getattr(traced, "k", 6) == 6
    assert compilations() == 1


def test_schedulers_hooks_and_watched_losses():
    models, ours, base = (network(), network()), torch.zeros(()), []
    for model, is_compiled in zip(models, (False, True), strict=True):
        optimizer = deep.PRGD(model.parameters(), **PHASES, lr=0.1)
        optimizer.register_step_post_hook(lambda *_: count(ours))
        optimizer.base.register_step_post_hook(lambda *_: base.append("called"))
        step = compiled(optimizer.step) if is_compiled else lambda o=optimizer: o.step()
        rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)  # wraps optimizer.step
        criterion = optimizer.watch(cross_entropy)
        for t in range(9):
            optimizer.zero_grad()
            criterion(model(INPUTS), TARGETS).backward()
            step()
            if t % 3 == 2:
                rates.step()
    assert torch.equal(flat(models[0]), flat(models[1]))
    assert (ours.item(), len(base)) == (18, 16)  # nine steps each, of which one rescales
    assert compilations() == 2  # the second time for a rate that changes


def test_a_copy_steps_its_own_parameters():
    model = network()
    optimizer = deep.PRGD(model.parameters(), **PHASES, lr=0.1)
    twin = copy.deepcopy({"model": model, "optimizer": optimizer})
    start = flat(model)
    moved = train(twin["model"], twin["optimizer"], compiled(twin["optimizer"].step), 6)
    assert torch.equal(flat(model), start)
    assert torch.equal(train(model, optimizer, optimizer.step, 6), moved)


def test_gradients_made_in_the_same_graph():
    models = network(), network()
    optimizers = [deep.NGD(model.parameters(), lr=0.1) for model in models]

    def decayed(model, optimizer, loss):
        for p in model.parameters():
            p.grad = p.grad * 0.5
            p.data.mul_(0.9)
        optimizer.step(loss=loss)
        return [p * 2 for p in model.parameters()]

    steps = decayed, compiled(decayed)
    for _ in range(4):
        for step, model, optimizer in zip(steps, models, optimizers, strict=True):
            model.zero_grad()
            loss = cross_entropy(model(INPUTS), TARGETS)
            loss.backward()
            with torch.no_grad():
                doubled = step(model, optimizer, loss.detach())
            assert torch.equal(doubled[0], 2 * model[0].weight)
    assert torch.equal(flat(models[0]), flat(models[1]))


def test_a_missing_loss_is_named():
    model = network()
    optimizer = deep.NGD(model.parameters(), lr=0.1)
    cross_entropy(model(INPUTS), TARGETS).backward()
    with pytest.raises(ValueError, match="got none"):
        compiled(optimizer.step)()
