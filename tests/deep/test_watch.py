"""Criteria that note their losses: bare steps, gradient accumulation, skipped steps, copies, bad losses."""

import copy
import math
import pickle

import pytest
import torch
from small_network import examples, flat, network, trained
from torch.nn.functional import cross_entropy

from prgd import deep
from prgd.schedules import Every, Polynomial

INPUTS, TARGETS = examples(24)


def optimizer_of(model):
    return deep.PRGD(model.parameters(), R=Polynomial(0.5), T=Every(4), warm_up=2, lr=0.1)


def explicit(steps=11, parts=1):
    """Train with ``step(loss=...)``, on batches that are cut into parts."""
    cut = list(zip(INPUTS.chunk(parts), TARGETS.chunk(parts), strict=True))
    return trained(optimizer_of, steps * cut, parts)[0]


def noted(criterion, steps=11, parts=1, model=None, optimizer=None):
    """Train with bare steps and a criterion that the optimizer watches."""
    model = model or network()
    optimizer = optimizer or optimizer_of(model)
    watched = optimizer.watch(criterion)
    for _ in range(steps):
        optimizer.zero_grad()
        for inputs, targets in zip(INPUTS.chunk(parts), TARGETS.chunk(parts), strict=True):
            loss = watched(model(inputs), targets)
            loss /= parts  # in place: the note keeps the loss before
            loss.backward()
        with torch.no_grad():  # a validation pass
            watched(model(2 * INPUTS), TARGETS)
        watched(model(3 * INPUTS), TARGETS)  # a loss without a backward pass
        optimizer.step()
    return flat(model)


@pytest.mark.parametrize("criterion", [torch.nn.CrossEntropyLoss(), cross_entropy])
@pytest.mark.parametrize("parts", [1, 3])
def test_bare_steps_have_the_bits_of_steps_that_get_the_loss(criterion, parts):
    assert torch.equal(noted(criterion, parts=parts), explicit(parts=parts))


def test_shares_of_a_loss_are_added():
    model = network()
    optimizer = optimizer_of(model)
    watched = optimizer.watch(lambda x, y: cross_entropy(x, y) / 3, accumulate="sum")
    for _ in range(11):
        optimizer.zero_grad()
        for inputs, targets in zip(INPUTS.chunk(3), TARGETS.chunk(3), strict=True):
            watched(model(inputs), targets).backward()
        optimizer.step()
    assert torch.allclose(flat(model), explicit(parts=3), rtol=1e-6, atol=1e-7)


def test_a_watched_module_is_of_the_same_kind():
    criterion = torch.nn.CrossEntropyLoss(weight=torch.ones(3))
    optimizer = optimizer_of(network())
    watched = optimizer.watch(criterion)
    assert type(watched) is torch.nn.CrossEntropyLoss
    assert watched.state_dict().keys() == criterion.state_dict().keys()
    assert watched.weight is criterion.weight
    assert not criterion._forward_hooks
    assert optimizer.watch(cross_entropy).__name__ == "cross_entropy"


def test_the_loss_given_counts_more_than_notes_and_notes_more_than_the_closure():
    model = network()
    optimizer = deep.NGD(model.parameters(), lr=0.1)
    watched = optimizer.watch(cross_entropy)
    watched(model(INPUTS), TARGETS).backward()
    assert optimizer.step(loss=2.0) == 2.0
    with pytest.raises(ValueError, match=r"step\(loss=loss\).*step\(closure\).*watch.*loss_scaled=False"):
        optimizer.step()  # the note of the step before is forgotten

    def closure():
        loss = watched(model(INPUTS), TARGETS)
        optimizer.zero_grad()  # between the forward and the backward pass, as in Lightning
        (loss / 2).backward()
        return loss / 2

    expected = cross_entropy(model(INPUTS), TARGETS)
    assert torch.equal(optimizer.step(closure), expected)


def test_notes_of_a_step_that_the_scaler_skipped_are_forgotten():
    model = network()
    optimizer = optimizer_of(model)
    watched = optimizer.watch(cross_entropy)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for t in range(6):
        optimizer.zero_grad()
        loss = watched(model(INPUTS) * (math.inf if t == 3 else 1.0), TARGETS)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert (optimizer.t, optimizer.skipped) == (5, 0)
    assert torch.allclose(flat(model), explicit(steps=5), rtol=1e-6, atol=1e-7)


def test_two_optimizers_watch_one_criterion():
    models = [network(), network()]
    optimizers = [deep.NGD(model.parameters(), lr=0.1) for model in models]
    first, second = (optimizer.watch(torch.nn.CrossEntropyLoss()) for optimizer in optimizers)
    first(models[0](INPUTS), TARGETS).backward()
    optimizers[0].step()
    second(models[1](INPUTS), TARGETS)
    with pytest.raises(ValueError, match="got none"):
        optimizers[1].step()


@pytest.mark.parametrize("criterion", [torch.nn.CrossEntropyLoss(), cross_entropy])
def test_copies_note_for_the_copied_optimizer(criterion):
    model = network()
    optimizer = optimizer_of(model)
    whole = {"model": model, "optimizer": optimizer, "criterion": optimizer.watch(criterion)}
    alone = copy.deepcopy(whole["criterion"])
    by_pickle = pickle.loads(pickle.dumps(whole))  # noqa: S301
    for parts in (copy.deepcopy(whole), by_pickle):
        for _ in range(3):
            alone(model(INPUTS), TARGETS).backward()  # a copy alone notes for no optimizer
            parts["optimizer"].zero_grad()
            parts["criterion"](parts["model"](INPUTS), TARGETS).backward()
            parts["optimizer"].step()
        assert torch.equal(flat(parts["model"]), explicit(steps=3))
    optimizer.t = 3  # past the warm-up and the first rescaling
    optimizer.k = 1
    with pytest.raises(ValueError, match="got none"):
        optimizer.step()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("what", ["model", "criterion", "both"])
def test_compiled_models_and_criteria(what):
    torch._dynamo.reset()
    model, criterion = network(), torch.nn.CrossEntropyLoss()
    optimizer = optimizer_of(model)
    if what == "criterion":
        criterion = torch.compile(criterion, backend="aot_eager")
    watched = optimizer.watch(criterion)

    def losses(inputs, targets):
        return watched(model(inputs), targets)

    if what != "criterion":
        losses = torch.compile(losses, backend="aot_eager") if what == "both" else losses
        model = torch.compile(model, backend="aot_eager") if what == "model" else model
    for _ in range(7):
        optimizer.zero_grad()
        losses(INPUTS, TARGETS).backward()
        optimizer.step()
    assert torch.allclose(flat(model), explicit(7), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("criterion", "got"),
    [
        (torch.nn.CrossEntropyLoss(reduction="none"), r"shape \(24,\)"),
        (lambda x, y: (cross_entropy(x, y), x), "tuple"),
        (lambda x, y: {"loss": cross_entropy(x, y)}, "dict"),
        (lambda x, y: cross_entropy(x, y).item(), "float"),
    ],
)
def test_losses_that_are_not_one_number(criterion, got):
    model = network()
    watched = optimizer_of(model).watch(criterion)
    with pytest.raises(TypeError, match=f"a tensor of one number; got .*{got}"):
        watched(model(INPUTS), TARGETS)


def test_a_loss_in_the_place_of_a_criterion_or_closure():
    model = network()
    optimizer = optimizer_of(model)
    loss = cross_entropy(model(INPUTS), TARGETS)
    with pytest.raises(TypeError, match=r"watch needs a criterion.*got Tensor"):
        optimizer.watch(loss)
    with pytest.raises(ValueError, match="'mean' or 'sum'; got 'max'"):
        optimizer.watch(cross_entropy, accumulate="max")
    for wrong in (loss, 0.5):
        with pytest.raises(TypeError, match=r"first argument is a closure; call step\(loss=loss\)"):
            optimizer.step(wrong)
    assert optimizer.t == 0
