"""PRGD without options is never worse than its base optimizer on a network like that of the README."""

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from prgd.deep import PRGD, normalized_margin  # noqa: E402

STEPS = 300
Make = Callable[["torch.optim.Optimizer"], "torch.optim.Optimizer"]


def train(make: Make, lr: float, *, batch: int = 0, adamw: bool = False) -> tuple[float, float, bool]:
    """Return the final training loss, the margin, and whether the warm-up ended."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(128, 10, generator=generator)
    y = (x @ torch.randn(10, 3, generator=generator)).argmax(dim=1)
    torch.manual_seed(0)
    layers = torch.nn.Linear(10, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 3, bias=False)
    model = torch.nn.Sequential(*layers)
    kind = torch.optim.AdamW if adamw else torch.optim.SGD
    options = {} if adamw else {"momentum": 0.9}
    base = kind(model.parameters(), lr=lr, **options)
    optimizer = make(base)
    for _ in range(STEPS):
        index = torch.randperm(128, generator=generator)[:batch] if batch else slice(None)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[index]), y[index])
        loss.backward()
        optimizer.step(**({"loss": loss} if isinstance(optimizer, PRGD) else {}))
    with torch.no_grad():
        final = torch.nn.functional.cross_entropy(model(x), y).item()
    ended = isinstance(optimizer, PRGD) and not optimizer.warming_up
    return final, normalized_margin(model, [(x, y)]).normalized_margin, ended


@pytest.mark.parametrize(
    ("lr", "options"),
    [
        *((lr, {"batch": batch}) for lr in (0.01, 0.1, 0.3, 1.0) for batch in (0, 32)),
        *((lr, {"adamw": True}) for lr in (1e-3, 1e-2)),
    ],
)
def test_defaults_are_not_worse_than_the_base(lr, options) -> None:
    alone, _, _ = train(lambda base: base, lr, **options)
    loss, _, _ = train(PRGD, lr, **options)
    assert math.isfinite(loss)
    assert loss <= 1.05 * alone


def test_separated_data_get_a_larger_margin() -> None:
    alone, margin, _ = train(lambda base: base, 0.3)
    loss, grown, ended = train(PRGD, 0.3)
    assert ended
    assert grown > margin
    assert loss < 0.5 * alone


def test_a_run_that_is_far_from_separated_is_the_run_of_the_base() -> None:
    alone, margin, _ = train(lambda base: base, 0.003)
    assert train(PRGD, 0.003) == (alone, margin, False)


def test_for_steps_is_not_worse_than_sgd() -> None:
    alone, _, _ = train(lambda base: base, 0.1)
    loss, _, ended = train(lambda base: PRGD.for_steps(base, STEPS), 0.1)
    assert ended
    assert loss <= 1.05 * alone


def test_losses_below_0_do_not_end_the_warm_up():
    w = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = PRGD([w], lr=0.01)
    for _ in range(40):
        w.grad = torch.ones(2, 2)
        optimizer.step(loss=-1.0)
    assert optimizer.warming_up


def test_a_run_that_ends_in_the_warm_up_says_so_once(caplog):
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = PRGD(torch.optim.SGD([w], lr=0.0))
    for _ in range(32):
        w.grad = torch.ones(3)
        optimizer.step(loss=0.5)
    optimizer.state_dict()
    optimizer.state_dict()
    assert (
        caplog.text.count("PRGD was still warming up at step 32: its steps were those of the base alone") == 1
    )
    with pytest.raises(TypeError, match="PRGD wraps an optimizer"):
        PRGD(lr=0.1)


def test_a_schedule_that_ends_in_the_warm_up_says_so_once(caplog):
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = PRGD([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 64)
    said = []
    for _ in range(96):
        w.grad = torch.ones(3)
        optimizer.step(loss=0.5)
        scheduler.step()
        said.append("PRGD was still warming up" in caplog.text)
    assert said.index(True) == 63
    assert caplog.text.count("PRGD was still warming up") == 1
