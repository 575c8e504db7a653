"""Bad input of the deep optimizers: a sentence or a counted skip, and never parameters that are lost."""

import copy
import math

import pytest
import torch
from torch import nn

from prgd import deep
from prgd.schedules import LiftTo

NAN = math.nan
ALGORITHM_1 = {"R": 1.1, "T": 4, "warm_up": 0, "lr": 0.01}


def weight(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def steps(optimizer, losses, parameters=None):
    """Take steps along gradients of ones; return the parameters in one vector."""
    members = [p for group in optimizer.param_groups for p in group["params"]]
    for loss in losses:
        optimizer.zero_grad()
        for p in members if parameters is None else parameters:
            p.grad = torch.ones_like(p)
        optimizer.step(loss=loss)
    return torch.cat([p.detach().flatten() for p in members])


# losses


@pytest.mark.parametrize("fault", [NAN, math.inf, -math.inf, 1e308])
def test_a_cautious_step_after_a_bad_loss_is_finite(fault):
    optimizer = deep.PRGD([weight(3)], lr=0.01, warm_up=2, cautious=True)
    assert steps(optimizer, [0.5, 0.5, 0.5, 0.4, fault, 0.3, 0.3]).isfinite().all()
    assert optimizer.skipped == 1


@pytest.mark.parametrize("at", [3, 5, 18, 20])  # in the warm-up, and after losses that spoil the mean
def test_a_state_that_is_taken_does_not_change_the_run(at):
    losses = [0.5, 0.4, NAN, 0.3, NAN, *(0.2 * 0.9**t for t in range(12)), NAN, 0.1, *[0.05] * 20]

    def run(save):
        optimizer = deep.PRGD([w := weight(3)], lr=0.01, warm_up=4, cautious=True, T=3, R=1.1)
        steps(optimizer, losses[:at])
        if save:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = deep.PRGD([w], lr=0.01, warm_up=4, cautious=True, T=3, R=1.1)
            optimizer.load_state_dict(state)
        return steps(optimizer, losses[at:])

    assert torch.equal(run(save=False), run(save=True))


def test_negative_losses_of_a_warm_up_are_not_divided_by():
    optimizer = deep.NGD([weight(3)], warm_up=3)
    before = steps(optimizer, [-1.0] * 3)
    assert torch.equal(steps(optimizer, [-1.0] * 2), before)
    assert optimizer.skipped == 2


@pytest.mark.parametrize("loss", [torch.ones(2), "0.5", [0.5], 1j, (torch.ones(()), 3), torch.ones(0)])
def test_a_loss_that_is_no_number_is_named(loss):
    optimizer = deep.PRGD([weight(3)], **ALGORITHM_1)
    before = steps(optimizer, [0.5, 0.5])
    with pytest.raises(TypeError, match=r"loss must be one number.*mean"):
        steps(optimizer, [loss])
    assert optimizer.t == 2
    assert torch.equal(optimizer.param_groups[0]["params"][0], before)


# parameters and gradients


def test_empty_parameters_and_groups_are_passed_over():
    groups = [{"params": []}, {"params": [weight(0, 3)]}, {"params": [weight(2, 3), weight()]}]
    for scope in ("global", "group", "matrix"):
        optimizer = deep.PRGD(copy.deepcopy(groups), scope=scope, **ALGORITHM_1)
        assert steps(optimizer, [0.5] * 6).isfinite().all()
        assert optimizer.k == 2


@pytest.mark.parametrize("base", ["sgd", "adamw"])
@pytest.mark.parametrize("hooked", [False, True])  # A base with hooks is stepped by its own function.
def test_a_first_gradient_may_come_late(base, hooked):
    found = []
    for fused in (False, True):
        members = [weight(3), weight(2, 2, seed=1)]
        made = (
            torch.optim.SGD(members, lr=0.1, momentum=0.9, weight_decay=0.1, fused=fused)
            if base == "sgd"
            else torch.optim.AdamW(members, fused=fused)
        )
        if hooked:
            made.register_step_post_hook(lambda *args: None)
        optimizer = deep.PRGD(made, R=1.1, T=4, warm_up=0)
        steps(optimizer, [0.5, 0.5, 0.5], members[:1])
        steps(optimizer, [NAN])  # A skipped first gradient leaves no momentum behind.
        found.append(steps(optimizer, [0.5, 0.4, 0.3]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)


def test_sparse_gradients_are_divided_and_checked():
    found = []
    for sparse in (False, True):
        table = nn.Embedding.from_pretrained(torch.arange(6.0).view(3, 2) + 1, freeze=False, sparse=sparse)
        optimizer = deep.PRGD(table.parameters(), R=1.1, T=4, warm_up=0, lr=0.1, momentum=0.0, fused=False)
        for scale in (1.0, 1.0, NAN, 1.0):
            optimizer.zero_grad()
            loss = table(torch.tensor([0, 2, 2])).square().mean()
            (scale * loss).backward()
            optimizer.step(loss=loss)
        found.append(table.weight.detach())
        assert optimizer.skipped == 1
    torch.testing.assert_close(*found)


def test_sparse_gradients_of_a_fused_base_are_named():
    table = nn.Embedding(3, 2, sparse=True)
    optimizer = deep.PRGD(table.parameters(), warm_up=1)
    (loss := table(torch.tensor([1])).square().mean()).backward()
    with pytest.raises(TypeError, match=r"sparse.*fused=False"):
        optimizer.step(loss=loss)


class NoRate(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=0.01)


def test_a_base_without_a_rate():
    optimizer = deep.PRGD(NoRate([weight(3)]), warm_up=0)
    with pytest.warns(deep.TrainingWarning, match="Lower the rate of the base"):
        steps(optimizer, [NAN] * 80)
    optimizer = deep.PRGD(NoRate([weight(3)]), relative_steps=True)
    with pytest.raises(TypeError, match=r"'lr' of the parameter groups, a number; got None"):
        steps(optimizer, [None])


# options, schedules and radii

BASE = torch.optim.AdamW([weight(3)])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: deep.PRGD(torch.ones(3, requires_grad=True)), TypeError, r"\[tensor\]"),
        (lambda: deep.PRGD(7), TypeError, "Expected parameters, .*got int"),
        (lambda: deep.PRGD([weight(2), nn.Parameter(torch.ones(2, device="meta"))]), TypeError, "1.*meta"),
        (lambda: deep.PRGD([weight(3, dtype=torch.complex64)]), TypeError, "complex64"),
        (lambda: deep.PRGD(torch.optim.LBFGS([weight(3)])), TypeError, r"LBFGS.*closure"),
        (lambda: deep.PRGD(deep.NGD(BASE)), TypeError, "itself a NGD"),
        (lambda: deep.NGD(BASE, momentum=0.5), TypeError, r"momentum would be ignored.*AdamW"),
        (lambda: deep.PRGD(BASE, lr=1.0), TypeError, "lr would be ignored"),
        (lambda: deep.PRGD([weight(3)], epochs=3), TypeError, "epochs: no option here, nor"),
        (lambda: deep.PRGD([weight(3)], r=1.2), TypeError, r"r: no option of PRGD. Did you mean R\?"),
        (lambda: deep.PRGD([weight(3)], warmup=0), TypeError, r"warmup: .*Did you mean warm_up\?"),
        (lambda: deep.PRGD(BASE, warmup=0), TypeError, r"warmup: .*Did you mean warm_up\?"),
        (lambda: deep.PRGD([weight(3)], Scope="group"), TypeError, r"Scope: .*Did you mean scope\?"),
        (lambda: deep.PRGD([weight(3)], R=[1.0, 2.0]), TypeError, r"radius must be .*; got \[1.0, 2.0\]"),
        (lambda: deep.PRGD([weight(3)], R=torch.tensor(1.2)), TypeError, "radius must be"),
        (lambda: deep.PRGD([weight(3)], R=LiftTo(1.0, [1.0, 0.0])), ValueError, "reads the iterate"),
        (lambda: deep.PRGD([weight(3)], T=5.0), TypeError, "times must be an integer, text.*; got 5.0"),
        (lambda: deep.PRGD([weight(3)], T=[0, 5]), TypeError, "times must be"),
        (lambda: deep.PRGD([weight(3)], T=lambda k: k, warm_up=0), ValueError, "Phases of one step only"),
        (lambda: deep.PRGD([weight(3)], T=lambda k: 5 + k), ValueError, r"T\(0\) must be 0"),
        (lambda: deep.PRGD([weight(3)], on_rescale="drop"), ValueError, "Known: keep, reset, scale"),
        (lambda: deep.PRGD([weight(3)], warm_up=-1), ValueError, "warm_up"),
        (lambda: deep.PRGD.for_steps([weight(2)], 100, R=1.2), TypeError, "for_steps chooses R and T"),
        (lambda: deep.PRGD([weight(3)], scope="matrix"), ValueError, "nothing to rescale: no group has"),
        (
            lambda: deep.PRGD([{"params": weight(3), "homogeneous": False}]),
            ValueError,
            "nothing to rescale: every parameter",
        ),
    ],
)
def test_an_optimizer_that_cannot_be_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("parameter", "options", "message"),
    [
        (weight(3), {"R": lambda k, R_0: 1e30}, "Cap it"),
        (weight(3, dtype=torch.float16), {"R": lambda k, R_0: 1e4}, "Cap it"),
        (weight(3), {"R": lambda k, R_0: NAN}, "gave the radius nan"),
        (weight(3), {"T": lambda k: 0}, "does not advance"),
        (weight(3), {"T": lambda k: 2.5 * k}, r"T\(1\) must be an integer; got 2.5"),
        (nn.Parameter(torch.zeros(3)), {}, "at the first rescaling the norm .* is 0"),
        (nn.Parameter(torch.full((3,), NAN)), {}, "at the first rescaling the norm .* is nan"),
        (nn.Parameter(torch.zeros(3, 2)), {"scope": "matrix"}, r"each matrix, .*of shape \(3, 2\), is 0"),
        *(({"params": weight(3), "radius": r}, {}, "'radius' of a parameter") for r in (0.0, -1.0, NAN, "2")),
        (weight(3), {"relative_steps": True, "warm_up": "auto"}, r"warm-up 'auto'.*step\(loss=loss\)"),
        (weight(3), {"warm_up": 5}, r"divides the gradient by the loss.*\(loss=loss\).*loss_scaled=False"),
    ],
)
def test_a_first_step_that_cannot_be_taken(parameter, options, message):
    optimizer = deep.PRGD([parameter], **(ALGORITHM_1 | options))
    for _ in range(2):  # The clock does not pass a step that failed.
        with pytest.raises(ValueError, match=message):
            optimizer.step()
    assert (optimizer.t, optimizer.k) == (0, 0)


@pytest.mark.parametrize("scope", ["global", "group", "matrix"])
@pytest.mark.parametrize("radius", [0.0, NAN, "2", None, torch.ones(2)])
def test_a_radius_of_a_group_that_is_added_is_checked(scope, radius):
    optimizer = deep.PRGD([weight(2, 2)], scope=scope, **ALGORITHM_1)
    steps(optimizer, [0.5])
    with pytest.raises((TypeError, ValueError), match="'radius' of a parameter group"):
        optimizer.add_param_group({"params": [weight(2, 3)], "radius": radius})
    assert steps(optimizer, [0.5] * 6).numel() == 4  # The group was not added.


def test_a_radius_may_be_a_tensor_that_changes_in_place():
    radius = torch.ones(())
    optimizer = deep.PRGD([{"params": [weight(3)], "radius": radius}], **(ALGORITHM_1 | {"T": 50}))
    for value in (0.5, 0.25):
        steps(optimizer, [0.5] * 2)
        radius.fill_(value)
        assert float(steps(optimizer, [0.5]).norm()) == pytest.approx(value * optimizer.R_0)


def test_a_group_that_is_not_rescaled_has_no_say_in_the_radius():
    groups = [{"params": [weight(3)], "radius": 2.0}, {"params": [weight(2)], "homogeneous": False}]
    optimizer = deep.PRGD(groups, **ALGORITHM_1)
    optimizer.step()
    assert float(optimizer.norm()) == pytest.approx(2.0 * optimizer.R_0)


@pytest.mark.parametrize("relative_steps", [False, True])
@pytest.mark.parametrize("scope", ["group", "matrix"])
def test_a_block_that_is_added_late_does_not_jump(scope, relative_steps):
    optimizer = deep.PRGD([weight(2, 2)], scope=scope, relative_steps=relative_steps, **ALGORITHM_1)
    steps(optimizer, [0.5] * 42)
    optimizer.add_param_group({"params": [late := weight(2, 3)]})
    before = float(late.detach().norm())
    steps(optimizer, [0.5] * 4)
    assert before < float(late.detach().norm()) <= 1.1001 * before
    with pytest.raises(ValueError, match=r"norm of number 2.* is 0"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, 2))]})
    assert steps(optimizer, [0.5] * 6).numel() == 10


@pytest.mark.parametrize("scope", ["global", "group"])
def test_parameters_that_are_frozen_or_thawed_make_no_jump(scope):
    members = [weight(2, 2), weight(3, 3, seed=1)]
    members[1].requires_grad_(False)
    optimizer = deep.PRGD(members, scope=scope, **ALGORITHM_1)
    for flags in ((True, False), (True, True), (False, True)):
        for p, flag in zip(members, flags, strict=True):
            p.requires_grad_(flag)
        before = [p.detach().clone() for p in members]
        steps(optimizer, [0.5] * 4, [p for p in members if p.requires_grad])
        for p, start in zip(members, before, strict=True):
            assert float(p.detach().norm()) == pytest.approx(float(start.norm()), rel=0.15)
            assert p.requires_grad or torch.equal(p, start)


COMPILED = pytest.param("global", True, marks=pytest.mark.slow)


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize(("scope", "compiles"), [("global", 0), ("group", 0), ("matrix", 0), COMPILED])
@pytest.mark.parametrize("options", [{}, {"relative_steps": True}, {"cautious": True, "project": True}])
def test_a_layer_that_is_frozen_in_mid_phase_stays_as_it_is(monkeypatch, scope, compiles, options, is_held):
    """Also if it holds a gradient of earlier, and momentum; a step that is recorded before is refused."""
    members = [weight(3, 3, seed=1), weight(2, 2)]
    optimizer = deep.PRGD(members, scope=scope, **(ALGORITHM_1 | {"T": 50, "lr": 0.1}), **options)
    if compiles:
        optimizer.step = torch.compile(optimizer.step, backend="aot_eager")
    steps(optimizer, [0.5] * 3)
    with monkeypatch.context() as patch:
        patch.setattr(deep.PRGD, "_capturing", lambda self: True)
        steps(optimizer, [0.5])
    members[0].requires_grad_(False)
    before = [p.detach().clone() for p in members]
    steps(optimizer, [0.5] * 30, members[0 if is_held else 1 :])
    assert torch.equal(members[0], before[0])
    assert not torch.equal(members[1], before[1])
    with pytest.raises(RuntimeError, match="other parameters than the recorded step"):
        optimizer.prepare()


def test_a_relative_step_that_ends_at_0_is_not_taken():
    w = nn.Parameter(torch.tensor([[2.0, 0.0]]))
    optimizer = deep.PRGD([w], R="constant", scope="matrix", relative_steps=True, lr=1.0, momentum=0.0)
    w.grad = torch.tensor([[1.0, 0.0]])  # W - R norm(u) = 0
    optimizer.step()
    assert w.tolist() == [[2.0, 0.0]]


def test_a_schedule_over_a_run_is_for_relative_steps_too():
    made = deep.PRGD.for_steps([weight(2, 2)], 640, growth=4.0, relative_steps=True)
    assert made.R.c**64 == pytest.approx(4.0)
    assert (made.warm_up, made.relative_steps) == (0, True)


# networks that cannot be measured


class Odd(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.linear, self.kind = nn.Linear(3, 2), kind

    def forward(self, x):
        if self.kind == "float32" and x.dtype != torch.float32:
            raise ValueError("float32 only")
        logits = self.linear(x)
        return {"dict": {"logits": logits}, "object": nn.Identity()}.get(self.kind, logits)


@pytest.mark.parametrize("kind", ["dict", "object", "float32"])
def test_a_network_that_cannot_be_measured_is_trained(kind):
    model = Odd(kind)
    optimizer = deep.PRGD(model, **ALGORITHM_1)
    model(torch.ones(1, 3))
    optimizer.step()
    assert optimizer.k == 1


# words


@pytest.mark.parametrize(
    ("rate", "losses", "message"),
    [
        (0.0005, [0.1] * 64 + [1.0] * 200, r"lr, which is 0.0005 and began at 0.02, .*drop_last=True"),
        (0.02, [NAN] * 64, r"Lower lr, which is 0.02, or"),
    ],
)
def test_a_warning_names_the_rate_and_what_else_to_lower(rate, losses, message):
    base = torch.optim.SGD([weight(3)], lr=0.02)
    torch.optim.lr_scheduler.LambdaLR(base, lambda epoch: 1.0)
    base.param_groups[0]["lr"] = rate
    with pytest.warns(deep.TrainingWarning, match=message):
        steps(deep.PRGD(base, warm_up=0), losses)


@pytest.mark.parametrize(("warm_up", "is_named"), [("auto", False), (1000, False), (0, True)])
def test_growth_of_the_radii_is_to_blame_only_after_the_warm_up(warm_up, is_named):
    optimizer = deep.PRGD([weight(3)], lr=0.01, warm_up=warm_up)
    with pytest.warns(deep.TrainingWarning, match="Lower lr") as caught:
        steps(optimizer, [NAN] * 64)
    assert ("growth of R" in str(caught[0].message)) == is_named


def test_the_repr_tells_why_nothing_has_grown():
    optimizer = deep.PRGD([weight(3)], lr=0.01)
    assert "warm_up='auto', warming_up=True, t=0" in repr(optimizer)
    steps(optimizer, [0.25] * 16)
    assert "warm_up='auto', warming_up=True, running_loss=0.25, t=16" in repr(optimizer)
    steps(optimizer, [0.0] * 160)
    assert f"warm_up={optimizer.warm_up}, warming_up=False, running_loss=" in repr(optimizer)


def test_vectors_are_named_with_what_measures_them():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = deep.PRGD(torch.optim.Adam(model.parameters()), warm_up=0)
    with pytest.warns(deep.NotHomogeneousWarning, match=r"homogeneity_degree\(model, x\).broken_by names"):
        steps(optimizer, [0.5])
