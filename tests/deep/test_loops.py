"""Lightning, Accelerate and a bare loop take the same steps, bit by bit."""

from pathlib import Path

import pytest
import torch
from small_network import examples, flat, network, trained
from torch.utils.data import DataLoader, TensorDataset

from prgd import deep
from prgd.schedules import Every, Polynomial

pytestmark = [
    pytest.mark.slow,
    # Lightning's own, with this version of torch and without workers that load data
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
]
INPUTS, TARGETS = examples(48)
EPOCHS, BATCH = 2, 8  # six batches an epoch


def optimizer_of(model):
    return deep.PRGD(model.parameters(), R=Polynomial(0.5), T=Every(4), warm_up=1, lr=0.1)


def loader():
    return DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=BATCH)


def bare_loop(parts=1):
    return trained(optimizer_of, EPOCHS * list(loader()), parts)


# Lightning


@pytest.fixture(scope="module")
def lightning():
    return pytest.importorskip("lightning.pytorch")


def lightning_module(lightning, *, watched, manual=False, parts=1):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.criterion = network(), torch.nn.CrossEntropyLoss()
            self.automatic_optimization = not manual

        def configure_optimizers(self):
            optimizer = optimizer_of(self.model)
            if watched:
                self.criterion = optimizer.watch(self.criterion)
            return optimizer

        def training_step(self, batch, index):
            loss = self.criterion(self.model(batch[0]), batch[1])
            if manual:
                self.manual_backward(loss / parts)
                if (index + 1) % parts == 0:
                    optimizer = self.optimizers()
                    optimizer.step()
                    optimizer.zero_grad()
            return loss

        def validation_step(self, batch, index):
            self.log("loss", self.criterion(self.model(batch[0]), batch[1]))

    return Module()


def fit(lightning, module, folder, epochs=EPOCHS, resume=None, **options):
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **options,
    )
    trainer.fit(module, loader(), loader(), ckpt_path=resume)
    return trainer


def outcome(trainer, module):
    optimizer = trainer.optimizers[0]
    return flat(module.model), optimizer.progress()


def same(first, second):
    return torch.equal(first[0], second[0]) and first[1] == second[1]


@pytest.mark.parametrize(
    ("watched", "manual", "parts"),
    [(False, False, 1), (True, False, 1), (True, True, 1), (True, False, 3), (True, True, 3)],
)
def test_lightning_has_the_bits_of_a_bare_loop(lightning, tmp_path, watched, manual, parts):
    module = lightning_module(lightning, watched=watched, manual=manual, parts=parts)
    options = {} if manual else {"accumulate_grad_batches": parts}
    trainer = fit(lightning, module, tmp_path, **options)
    assert same(outcome(trainer, module), bare_loop(parts))


def test_lightning_resumes_bit_by_bit(lightning, tmp_path):
    first, second, whole = (lightning_module(lightning, watched=True) for _ in range(3))
    fit(lightning, first, tmp_path, 1).save_checkpoint(tmp_path / "last.ckpt")
    resumed = fit(lightning, second, tmp_path, 2, resume=tmp_path / "last.ckpt")
    trainer = fit(lightning, whole, tmp_path, 2)
    assert same(outcome(resumed, second), outcome(trainer, whole))


def test_lightning_needs_a_watched_criterion_to_accumulate(lightning, tmp_path):
    module = lightning_module(lightning, watched=False)
    with pytest.raises(ValueError, match=r"those of 3 batches.*Watch the criterion"):
        fit(lightning, module, tmp_path, accumulate_grad_batches=3)


# Accelerate


@pytest.mark.parametrize("parts", [1, 3])
def test_accelerate_has_the_bits_of_a_bare_loop(parts):
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=parts)
    model = network()
    optimizer = optimizer_of(model)
    criterion = optimizer.watch(torch.nn.CrossEntropyLoss())
    model, prepared, batches = accelerator.prepare(model, optimizer, loader())
    for _ in range(EPOCHS):
        for inputs, targets in batches:
            with accelerator.accumulate(model):
                loss = criterion(model(inputs), targets)
                accelerator.backward(loss)
                prepared.step()
                prepared.zero_grad()
    assert same((flat(model), optimizer.progress()), bare_loop(parts))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, while it compiles
def test_the_loops_of_the_page_run(lightning, tmp_path):
    pytest.importorskip("accelerate").state.AcceleratorState._reset_state(reset_partial_state=True)
    page = (Path(__file__).parents[2] / "docs" / "deep.md").read_text(encoding="utf-8")
    section = page.split("## In your own loop\n")[1].split("\n## ")[0]
    names = {}
    torch.manual_seed(0)
    for block in section.split("```python\n")[1:]:
        exec(compile(block.split("```")[0], "docs/deep.md", "exec"), names)  # noqa: S102
    module = names["Classifier"](network())
    x, y = next(iter(loader()))
    module.configure_optimizers()
    module.training_step((x, y), 0).backward()
    assert names["optimizer"].optimizer.t == 4  # eight batches, two a step
