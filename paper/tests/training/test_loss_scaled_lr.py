"""The loss-scaled learning rate: growth, undo, faults, resume."""

import io
import math

import pytest
import torch
from prgd_paper.training.loss_scaled_lr import LossScaledLR
from torch.nn.functional import cross_entropy

from prgd import deep
from prgd.schedules import Every, Polynomial

INPUTS = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
TARGETS = (INPUTS[:, 0] > 0).long()


class Network(torch.nn.Sequential):
    def __init__(self):
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 6, bias=False), torch.nn.ReLU(), torch.nn.Linear(6, 2, bias=False)
        super().__init__(*layers)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return super().forward(x)

    def log_loss(self):
        return deep.log_cross_entropy(torch.nn.Sequential.forward(self, INPUTS), TARGETS)


def build(prgd_optimizer=True, momentum=0.9, **options):
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=momentum)
    if prgd_optimizer:
        optimizer = deep.PRGD(optimizer, R=Polynomial(0.1), T=Every(5), warm_up=3, loss_scaled=False)
    return model, optimizer, LossScaledLR(optimizer, model, log_loss=model.log_loss().item(), **options)


def epoch(model, optimizer, rate):
    for part in (slice(0, 16), slice(16, 32)):
        optimizer.zero_grad()
        if rate.in_log_frame:
            rate.relative(deep.log_cross_entropy(model(INPUTS[part]), TARGETS[part])).backward()
        else:
            cross_entropy(model(INPUTS[part]), TARGETS[part]).backward()
        optimizer.step()


def everything(model, optimizer):
    state = {f"{i} {k}": v for i, s in enumerate(optimizer.state.values()) for k, v in s.items()}
    return {k: v.detach().clone() for k, v in {**dict(model.state_dict()), **state}.items()}


def test_rule_of_lyu_and_li():
    model, optimizer, rate = build(prgd_optimizer=False, alpha=0.05)
    alpha, log_loss = 0.05, rate.log_loss
    outcomes = set()
    for _ in range(60):
        epoch(model, optimizer, rate)
        now = model.log_loss().item()
        lowered = now < log_loss
        assert rate.step(log_loss=now) == lowered
        outcomes.add(lowered)
        log_loss = now if lowered else log_loss
        alpha *= 2 ** (1 / 5) if lowered else 2 ** (-1 / 10)
        assert rate.alpha == pytest.approx(alpha)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(alpha / math.exp(log_loss))
        assert model.log_loss().item() == log_loss  # what stands is the best that was seen
    assert outcomes == {True, False}
    assert log_loss < math.log(1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e9])
@pytest.mark.parametrize("epochs", [0, 3])
def test_undo_restores_everything(value, epochs):
    model, optimizer, rate = build()
    for _ in range(epochs):
        epoch(model, optimizer, rate)
        assert rate.step(log_loss=model.log_loss())
    before, progress = everything(model, optimizer), optimizer.progress()
    epoch(model, optimizer, rate)
    model[0].weight.data.fill_(math.nan)
    assert not rate.step(log_loss=value)
    after = everything(model, optimizer)
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert all(not after[key].any() for key in after.keys() - before.keys())
    assert optimizer.progress() == progress
    assert rate.undone == 1


def test_loss_of_zero_is_undone_and_the_rate_stays_finite():
    model, _, rate = build()
    assert not rate.step(loss=0.0)
    assert rate.step(log_loss=-1e5)
    assert rate.optimizer.param_groups[0]["lr"] == pytest.approx(1e30)
    for _ in range(2000):
        rate.step(log_loss=math.nan)
    assert rate.alpha == 1e-30
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_log_frame_divides_in_the_loss():
    # momentum of gradients and of gradients over L differ once L changes
    plain, framed = (build(False, momentum=0.0, in_log_frame=frame) for frame in (False, True))
    for _ in range(8):
        for model, optimizer, rate in (plain, framed):
            epoch(model, optimizer, rate)
            rate.step(log_loss=model.log_loss())
    assert framed[1].param_groups[0]["lr"] == pytest.approx(framed[2].alpha)
    for p, q in zip(plain[0].parameters(), framed[0].parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-5)


def test_rate_of_a_tensor_is_set_in_place():
    model = Network()
    lr = torch.tensor(1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rate = LossScaledLR(optimizer, model, log_loss=0.0, alpha=0.5)
    rate.step(loss=0.25)
    assert optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == pytest.approx(0.5 * 2**0.2 / 0.25)


def test_resume_in_mid_epoch_undoes_to_the_same_point():
    model, optimizer, rate = build()
    epoch(model, optimizer, rate)
    rate.step(log_loss=model.log_loss())
    stands = everything(model, optimizer)
    epoch(model, optimizer, rate)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict(), rate.state_dict()], file)

    again, second, rate_again = build()
    states = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    for part, state in zip((again, second, rate_again), states, strict=True):
        part.load_state_dict(state)
    assert not rate_again.step(log_loss=math.nan)
    assert all(torch.equal(value, stands[key]) for key, value in everything(again, second).items())
    assert not rate.step(log_loss=math.nan)
    assert rate_again.alpha == rate.alpha
    assert second.progress() == optimizer.progress()


def test_bad_input():
    model, optimizer, rate = build()
    with pytest.raises(ValueError, match="either loss or log_loss"):
        rate.step()
    with pytest.raises(ValueError, match="finite before the first epoch"):
        LossScaledLR(optimizer, model, log_loss=math.nan)
    with pytest.raises(ValueError, match="outside of the model"):
        LossScaledLR(optimizer, torch.nn.Linear(2, 2), log_loss=0.0)
    with pytest.raises(ValueError, match="below 1"):
        LossScaledLR(optimizer, model, log_loss=0.0, shrink=1.5)
    state = rate.state_dict()
    state["copies"].pop("0.weight")
    with pytest.raises(ValueError, match="another model"):
        rate.load_state_dict(state)
