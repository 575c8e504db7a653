"""Training runs: what they log, exact resume, kills, several processes, the command line."""

import csv
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from prgd_paper.training import checkpoint, train_loop
from prgd_paper.training import command as training
from prgd_paper.training.checkpoint import DAMAGED, NEWEST, PREVIOUS, load_checkpoint, save_checkpoint
from prgd_paper.training.evaluation import evaluate
from prgd_paper.training.images import synthetic
from prgd_paper.training.settings import Settings, Where
from prgd_paper.training.steps import PAD, DeviceImages, batches, divided_by_batch_loss
from prgd_paper.training.train_loop import Run, train
from typer.testing import CliRunner

from prgd.cli.app import app
from prgd.deep.kkt import kkt_residual
from prgd.deep.margins import normalized_margin
from prgd.deep.optim.loss import log_cross_entropy

CPU = torch.device("cpu")
SMALL = synthetic(160, size=8)
SHORT = {"epochs": 3, "batch": 32, "lr": 0.05}  # 5 steps an epoch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _weights(run: Run) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


def _without_time(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.slow
def test_two_epochs_of_the_default_lower_the_loss_and_raise_the_margin():
    rows = train(Settings(), synthetic(), Where(device="cpu")).log.rows
    losses, margins = ([row[name] for row in rows] for name in ("train_loss", "normalized_margin"))
    assert losses == sorted(losses, reverse=True)
    assert margins == sorted(margins)
    assert rows[-1]["test_accuracy"] > 0.95
    assert rows[-1]["R_k"] > 0  # rescaling has begun
    assert [row["step"] for row in rows] == [0, 32, 64]


def test_the_kkt_residual_falls_along_training(tmp_path):
    settings = Settings(**(SHORT | {"epochs": 8}), model="mlp", algorithm="gd", kkt=True)
    rows = train(settings, SMALL, Where(device="cpu", out=tmp_path)).log.rows
    for name in ("kkt_epsilon", "kkt_delta"):
        found = [row[name] for row in rows]
        assert found[:4] == [math.inf] * 4  # The network does not separate the images yet.
        assert found[4:] == sorted(found[4:], reverse=True)
        assert found[-1] < 0.5 * found[4]
    assert (tmp_path / "log.csv").read_text().splitlines()[0].endswith("kkt_epsilon,kkt_delta,kkt_cosine")


def test_a_rescaling_is_a_step_of_its_own():
    run = train(Settings(**(SHORT | {"lr": 0.01}), warm_up=2), SMALL, Where(device="cpu"))
    assert run.rate.undone == 0
    assert run.optimizer.t == 15  # as many as batches
    assert run.optimizer.k > 0


def test_rows_are_the_truth():
    run = train(Settings(**SHORT, algorithm="gd", kkt=True), SMALL, Where(device="cpu"))
    row = run.log.rows[-1]
    inputs, target = run.train.batch(torch.arange(160))
    margins = normalized_margin(run.model, [(inputs, target)])
    residual = kkt_residual(run.model, [(inputs, target)])
    for name in ("epsilon", "delta", "cosine"):
        assert row[f"kkt_{name}"] == pytest.approx(getattr(residual, name), rel=1e-4)
    logits = run.model(inputs).detach()
    loss = torch.nn.functional.cross_entropy(logits, target).item()
    assert row["train_loss"] == pytest.approx(loss, rel=1e-5)
    assert row["normalized_margin"] == pytest.approx(margins.normalized_margin, rel=1e-5)
    assert row["train_accuracy"] == pytest.approx(margins.accuracy)
    assert row["norm"] == pytest.approx(margins.norm)
    mean, deviation = SMALL.channel_statistics
    expected = (SMALL.train / 255.0 - mean[:, None, None]) / deviation[:, None, None]
    np.testing.assert_allclose(inputs, expected, atol=1e-5)


class _StopError(Exception):
    pass


@pytest.mark.parametrize(
    "extra",
    [
        {"algorithm": "gd", "augment": True},
        {"algorithm": "ngd"},
        {"algorithm": "ngd", "loss_scaling": "batch", "weight_decay": 1e-3},
        {"algorithm": "prgd", "warm_up": 3, "augment": True},
        {"algorithm": "prgd", "warm_up": 6, "weight_decay": 1e-3},
    ],
    ids=lambda extra: "-".join(map(str, extra.values())),
)
def test_a_run_that_was_killed_goes_on_bit_by_bit(extra, tmp_path, monkeypatch):
    settings = Settings(**SHORT, **extra)
    whole = train(settings, SMALL, Where(device="cpu"))
    steps = 0
    step = train_loop.Stepper.step

    def counted(self, index):
        nonlocal steps
        steps += 1
        if steps > 8:
            raise _StopError
        step(self, index)

    where = Where(device="cpu", out=tmp_path, checkpoint_every=3)
    monkeypatch.setattr(train_loop.Stepper, "step", counted)
    with pytest.raises(_StopError):
        train(settings, SMALL, where)
    monkeypatch.undo()
    resumed = train(settings, SMALL, Where(device="cpu", out=tmp_path, resume=True))
    assert load_checkpoint(tmp_path, CPU)["epoch"] == 3
    assert torch.equal(_weights(resumed), _weights(whole))
    assert _without_time(resumed.log.rows) == _without_time(whole.log.rows)
    with (tmp_path / "log.csv").open() as file:
        assert [int(row["epoch"]) for row in csv.DictReader(file)] == [0, 1, 2, 3]


def test_more_epochs_can_follow_a_run_that_has_ended(tmp_path):
    train(Settings(**SHORT), SMALL, Where(device="cpu", out=tmp_path))
    longer = Settings(**(SHORT | {"epochs": 4}))
    resumed = train(longer, SMALL, Where(device="cpu", out=tmp_path, resume=True))
    assert resumed.epoch == 4


def test_an_epoch_that_raises_the_loss_is_undone():
    run = Run(Settings(**SHORT, algorithm="ngd", model="mlp"), SMALL, Where(device="cpu"))
    run.settings = Settings(**(SHORT | {"lr": 1e6}), algorithm="ngd", model="mlp")
    before = _weights(run).clone()
    run.go()
    assert [row["undone"] for row in run.log.rows] == [0, 1, 1, 1]
    assert torch.equal(_weights(run), before)
    assert len({row["train_loss"] for row in run.log.rows}) == 1


def test_steps_that_leave_the_floating_range_are_skipped_and_counted():
    settings = Settings(**(SHORT | {"lr": 1e30}), algorithm="gd")
    rows = train(settings, SMALL, Where(device="cpu")).log.rows
    assert rows[1]["skipped"] == 4  # all after the first
    assert rows[-1]["norm"] == rows[1]["norm"]


# checkpoints


def _with_a_flipped_bit(content: bytes) -> bytes:
    """Return a checkpoint with one bit flipped in the middle of its first tensor."""
    at = content.index(b"data/0") + 200
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _with_a_folder(content: bytes) -> bytes:
    """Return a checkpoint whose first tensor is marked as a folder, which torch reads as zeros."""
    at = content.rindex(b"archive/data/0") - 8
    return content[:at] + bytes([16]) + content[at + 1 :]


@pytest.mark.parametrize("damage", [_with_a_flipped_bit, _with_a_folder, lambda content: content[:-300]])
def test_the_previous_checkpoint_is_kept_and_found(damage, tmp_path):
    for number in (1, 2):
        save_checkpoint(tmp_path, {"number": number, "weights": torch.arange(100.0)})
    newest, whole = tmp_path / NEWEST, (tmp_path / NEWEST).read_bytes()
    assert load_checkpoint(tmp_path, CPU)["number"] == 2
    newest.write_bytes(damage(whole))
    with pytest.warns(
        checkpoint.DamagedCheckpointWarning, match=rf"{NEWEST}: not a whole.*goes on from .*{PREVIOUS}"
    ):
        assert load_checkpoint(tmp_path, CPU)["number"] == 1
    assert (tmp_path / DAMAGED).read_bytes() == damage(whole)
    assert load_checkpoint(tmp_path, CPU)["number"] == 1  # The damaged file is out of the way.
    assert sorted(path.name for path in tmp_path.iterdir()) == [DAMAGED, PREVIOUS]


def test_runs_that_save_to_one_folder_leave_whole_checkpoints(tmp_path):
    def save_and_load(number):
        for _ in range(60):
            save_checkpoint(tmp_path, {"number": number, "weights": torch.full((20_000,), number)})
            found = load_checkpoint(tmp_path, CPU)
            assert (found["weights"] == found["number"]).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save_and_load, range(4)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [PREVIOUS, NEWEST]


def test_a_checkpoint_of_another_model_or_of_other_images_is_refused(tmp_path):
    train(Settings(epochs=1, model="linear"), SMALL, Where(device="cpu", out=tmp_path))
    where = Where(device="cpu", out=tmp_path, resume=True)
    with pytest.raises(ValueError, match=r"of another run: model 'linear', not 'mlp'"):
        Run(Settings(epochs=1, model="mlp"), SMALL, where)
    with pytest.raises(ValueError, match="other images or labels"):
        Run(Settings(epochs=1, model="linear"), synthetic(160, size=8, seed=1), where)
    for name in ("model", "generators", "epoch", "rows"):  # a field is missing, or is something else
        state = load_checkpoint(tmp_path, CPU)
        save_checkpoint(tmp_path, state | {name: "x"})
        with pytest.raises(ValueError, match=r"not a whole checkpoint \(.*\)\. Leave out --resume"):
            Run(Settings(epochs=1, model="linear"), SMALL, where)
        save_checkpoint(tmp_path, state)


class _Harm:
    def __reduce__(self):
        return print, ("this must not run",)


def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path, capsys):
    harmful = {"format": "prgd-checkpoint-1", "harm": _Harm()}
    file = tmp_path / NEWEST
    for write, words in (
        (lambda: None, "No checkpoint in"),
        (lambda: file.write_bytes(b"no checkpoint"), "not a whole checkpoint"),
        (lambda: torch.save({"weights": torch.zeros(1)}, file), "expected a checkpoint of the format"),
        (lambda: torch.save(harmful, file), "not a whole checkpoint"),
    ):
        write()
        with pytest.raises(ValueError, match=words):
            load_checkpoint(tmp_path, CPU)
    assert capsys.readouterr().out == ""


# parts


def test_evaluation_does_not_underflow():
    data = DeviceImages(SMALL.train, SMALL.train_labels, (np.zeros(3), np.ones(3)), CPU, pads=False)

    class Sure(torch.nn.Module):
        def forward(self, x):
            places = (data.pictures.permute(0, 3, 1, 2)[None] == (x * 255).round()[:, None]).all((2, 3, 4))
            return 2000.0 * torch.nn.functional.one_hot(data.labels[places.int().argmax(1)], 10).float()

    found = evaluate(Sure(), data, amp="off")
    assert found.log_loss == pytest.approx(math.log(9) - 2000.0)
    assert (found.loss, found.accuracy, found.margin) == (0.0, 1.0, 2000.0)


def test_the_batch_objective_is_the_gradient_over_the_loss():
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    target = torch.tensor([0, 1, 2, 3, 0, 1])
    log_loss = log_cross_entropy(logits, target)
    (found,) = torch.autograd.grad(divided_by_batch_loss(log_loss), logits, retain_graph=True)
    (expected,) = torch.autograd.grad(log_loss, logits)
    torch.testing.assert_close(found, expected)


def test_augmented_images_are_crops_of_the_padded_ones():
    data = DeviceImages(SMALL.train[:1], SMALL.train_labels[:1], (np.zeros(3), np.ones(3)), CPU, pads=True)
    padded = np.pad(SMALL.train[0], ((0, 0), (PAD, PAD), (PAD, PAD)))
    crops = [padded[:, i : i + 8, j : j + 8] for i in range(2 * PAD + 1) for j in range(2 * PAD + 1)]
    known = {crop.tobytes() for crop in crops} | {crop[:, :, ::-1].tobytes() for crop in crops}
    generator = torch.Generator().manual_seed(0)
    pictures, labels = data.augmented(torch.zeros(200, dtype=torch.int64), generator)
    found = {p.tobytes() for p in (pictures * 255).round().to(torch.uint8).contiguous().numpy()}
    assert found <= known
    assert len(found) > 80
    assert set(labels.tolist()) == {int(SMALL.train_labels[0])}
    plain, _ = data.batch(torch.tensor([0]))
    assert torch.equal((plain[0] * 255).round().to(torch.uint8), torch.from_numpy(SMALL.train[0]))


def test_every_epoch_sees_every_image_in_another_order():
    one, two = (batches(50, 16, seed=1, epoch=epoch) for epoch in (0, 1))
    assert sorted(one.flatten()[:50].tolist()) == list(range(50))
    assert not torch.equal(one, two)
    assert torch.equal(one, batches(50, 16, seed=1, epoch=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "prdg"}, "Did you mean prgd"),
        ({"data": "cifar"}, "Did you mean cifar10"),
        ({"loss_scaling": "epochs"}, "Did you mean epoch"),
        ({"epochs": 0}, "epochs must be an integer of at least 1"),
        ({"weight_decay": math.nan}, "weight_decay must be a finite number"),
        ({"validation": 1.0}, "validation must be at least 0 and below 1"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        Settings(**arguments)


# the command line


@pytest.mark.slow
def test_two_processes_follow_one(tmp_path):
    options = ["--epochs", "1", "--algorithm", "prgd", "--warm-up", "8", "--device", "cpu", "--quiet"]
    options += ["--threads", "1", "--kkt", "--out", str(tmp_path / "two")]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command += ["-m", "prgd_paper.training.command", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    one = train(Settings(epochs=1, warm_up=8, kkt=True), synthetic(), Where(device="cpu"))
    two = load_checkpoint(tmp_path / "two", CPU)
    for name, value in one.model.state_dict().items():
        torch.testing.assert_close(two["model"][name], value, rtol=1e-4, atol=1e-5)
    assert two["rows"][-1]["train_loss"] == pytest.approx(one.log.rows[-1]["train_loss"], rel=1e-3)
    for name in ("kkt_epsilon", "kkt_delta", "kkt_cosine"):
        assert two["rows"][-1][name] == pytest.approx(one.log.rows[-1][name], rel=1e-2)


@pytest.mark.slow
def test_torch_and_numpy_are_enough(tmp_path):
    blocked = ["scipy", "numba", "sklearn", "pandas", "rich", "typer", "matplotlib", "PIL", "tensorboard"]
    code = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
for name in {blocked}:
    sys.modules[name] = None
from prgd_paper.training.command import main
from prgd_paper.training import fleet
sys.exit(main(["--epochs", "1", "--device", "cpu", "--out", {str(tmp_path)!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("epoch 0  step 0  loss 2.3")
    assert (tmp_path / "log.csv").is_file()


def test_the_command_trains_resumes_and_warns(tmp_path):
    common = ["train", "--device", "cpu", "--model", "mlp", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*common, "--epochs", "1", "--bias", "all", "--tensorboard"])
    assert done.exit_code == 0, done.output
    assert "not homogeneous" in done.stderr
    assert "3 (Linear with a bias), 5 (Linear with a bias)" in done.stderr
    assert "epoch 1  step 32" in done.stdout
    assert list((tmp_path / "tensorboard").iterdir())
    done = CliRunner().invoke(app, [*common, "--epochs", "2", "--bias", "all", "--resume", "--quiet"])
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 4
    before = (tmp_path / NEWEST).read_bytes()
    done = CliRunner().invoke(app, [*common, "--epochs", "1"])
    assert f"has the files of an earlier run ({NEWEST}, {PREVIOUS}, log.csv)" in done.stderr
    assert (done.exit_code, (tmp_path / NEWEST).read_bytes()) == (2, before)
    assert CliRunner().invoke(app, [*common, "--epochs", "1", "--force", "--quiet"]).exit_code == 0
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "sgd"], "Unknown algorithm 'sgd'. Did you mean gd or ngd or prgd?"),
        (["--bias", "all", "--strict"], "not homogeneous"),
        (["--data", "cifar10", "--folder", "nowhere"], "Fetch it with --fetch"),
        (["--resume"], "--resume needs --out"),
        (["--device", "gpu"], "Expected cpu, cuda or cuda:N"),
    ],
)
def test_both_command_lines_say_errors_in_one_line(options, message, capsys):
    done = CliRunner().invoke(app, ["train", *options])
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert training.main(options) == 2
    assert message in capsys.readouterr().err


def test_both_command_lines_have_the_same_options():
    import typer

    train_options = typer.main.get_command(app).commands["train"].params
    ours = {name for option in train_options for name in [*option.opts, *option.secondary_opts]}
    theirs = {name for action in training.parser()._actions for name in action.option_strings}
    assert ours - theirs == {"--debug", "--graphs", "--project"}
    assert theirs - ours <= {"-h", "--help"}
    for option in train_options:
        same = [
            action for action in training.parser()._actions if set(option.opts) & set(action.option_strings)
        ]
        for action in same:
            assert option.default in (action.default, None)


def test_a_field_younger_than_a_checkpoint_had_its_default():
    saved = Settings().as_dict()
    del saved["amp"], saved["augment"]
    assert Settings(epochs=9).differences(saved) == []
    assert Settings(augment=True, seed=1).differences(saved) == ["seed 0, not 1", "augment False, not True"]
