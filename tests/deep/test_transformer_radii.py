"""The study of radii in a transformer: which runs it makes, what it concludes, and all of it in miniature."""

import importlib
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
transformer = importlib.import_module("transformer")
radii = importlib.import_module("transformer_radii")
sys.path.pop(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twenty files of code, and one of another package."""
    made = tmp_path_factory.mktemp("text")
    for i in range(20):
        (made / f"module_{i:02}.py").write_text(f"def f_{i}(x):\n    return x + {i}\n" * 3)
    (made / "site-packages").mkdir()
    (made / "site-packages" / "other.py").write_text("no part of the text")
    return made


def test_text_is_split_by_files(folder):
    text = transformer.text_bytes(folder)
    assert text.files == 20
    assert [i for i in range(20) if b"f_%d(" % i in bytes(text.validation)] == [9, 19]
    assert [i for i in range(20) if b"f_%d(" % i not in bytes(text.train)] == [9, 19]
    assert b"no part" not in bytes(text.train)
    assert text.sha256 == transformer.text_bytes(folder).sha256


def test_batches_are_windows_of_the_text_and_follow_from_the_seed(folder):
    text = torch.from_numpy(transformer.text_bytes(folder).train)
    first, again, other = (transformer.starts(len(text), 2, 3, 8, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    batch = transformer.windows(text, first[0], 8)
    assert batch.shape == (3, 9)
    assert all(bytes(window.tolist()) in bytes(text.tolist()) for window in batch)


def test_predictions_do_not_see_later_bytes():
    model = transformer.build_transformer(layers=1, width=8, heads=2, context=6)
    index = torch.arange(6)[None]
    changed = index.clone()
    changed[0, 4] = 99
    torch.testing.assert_close(model(index)[:, :4], model(changed)[:, :4])
    assert not torch.equal(model(index)[:, 4], model(changed)[:, 4])


def test_default_network_has_ten_million_parameters():
    model = transformer.build_transformer()
    assert sum(p.numel() for p in model.parameters()) == 10_818_432
    assert [len(group) for group in transformer.parameter_groups(model).values()] == [36, 2, 13]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({1.0: 3.0, 2.0: 2.0, 4.0: 1.0}, 8.0),
        ({1.0: 1.0, 2.0: 2.0, 4.0: math.nan}, 0.5),
        ({1.0: 3.0, 2.0: 1.0, 4.0: 2.0}, 2.83),
        ({1.0: 3.0, 2.0: 1.0, 2.83: 1.5, 4.0: 2.0}, None),
        ({1.0: 4.0, 2.0: 3.0, 4.0: 2.0, 8.0: 1.0}, 16.0),
    ],
)
def test_next_rate_brackets_the_best(losses, expected):
    assert radii.next_rate(losses, rates=4, max_rates=8) == expected


def test_interval_is_students():
    mean, half = radii.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.303 / math.sqrt(3.0), rel=1e-6)


def test_radius_of_the_second_half():
    method = radii.METHODS["late-2.2"]
    assert [method.radius(x) for x in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([1.0, 1.0, 1.6, 2.2])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "half"])
def test_replays_take_the_steps_of_eager_runs(folder, monkeypatch, mode):
    replaying = []

    def record(work, stream):
        """Return what stands for a graph: the device's part of a step, without the host's."""

        def replay():
            replaying.append(mode == "graph")
            work()
            replaying.pop()

        return replay

    monkeypatch.setattr(radii, "record", record)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(radii.deep.PRGD, "_capturing", lambda self: any(replaying))
    scale = replace(radii.TINY, steps=12)
    for name in ("late-2.2", "global"):
        rows = []
        for each in ("eager", mode):
            training = radii.Training(scale, torch.device("cpu"), mode=each, compiled=False, folder=folder)
            rows.append(training.run(radii.METHODS[name], 0.01, 0))
        assert rows[1]["mode"] == mode
        assert rows[1]["curve"] == rows[0]["curve"]


@pytest.mark.slow
def test_study_in_miniature(folder, tmp_path, capsys):
    torch.set_num_threads(1)
    methods = ["adamw", "hyperball", "geometric-1.4", "late-2.2", "global"]
    arguments = ["--out", str(tmp_path), "--methods", ",".join(methods), "--text", str(folder)]
    run = ["run", "--tiny", "--together", "0", "--device", "cpu", *arguments]
    assert radii.main(run) == 0
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    assert radii.main(run) == 0  # All runs are done, so none is run again.
    assert done == {file.name: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    assert radii.main(["check", "--device", "cpu", "--steps", "6", "--text", str(folder)]) == 0
    record = tmp_path / "record.json"
    assert radii.main(["table", "--record", str(record), *arguments]) == 0
    assert radii.main(["plot", "--record", str(record), "--image", str(tmp_path / "image.png")]) == 0
    content = json.loads(record.read_text())
    entries = {entry["method"]: entry for entry in content["methods"]}
    assert list(entries) == methods
    assert all(math.isfinite(entry["validation"]) for entry in entries.values())
    fixed = entries["hyperball"]["norm"]
    assert entries["geometric-1.4"]["norm"] == pytest.approx(1.4 * fixed, rel=1e-5)
    assert entries["late-2.2"]["norm"] == pytest.approx(2.2 * fixed, rel=1e-5)
    assert "fixed radii (Hyperball)" in capsys.readouterr().out
