"""LIBSVM text: what is read, what is refused and where, and a cache that is whole or absent."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prgd.rows.readers import libsvm, libsvm_text
from prgd.rows.readers.libsvm import CachedCSR, cache_folder, cache_libsvm, parse_libsvm

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXT = "+1 1:0.5 3:-2\n# only a comment\n\n-1 qid:7 2:4e1 3:0 # tail 9:9\n2.5\n"


def write(folder: Path, text: str | bytes, name: str = "rows.svm") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def dense(rows: CachedCSR) -> list[list[float]]:
    return rows.tocsr().toarray().tolist()


def cache(path: Path, **options: object) -> CachedCSR:
    return cache_libsvm(path, path.parent / "cache", **options)


def only_cache(path: Path) -> Path:
    (folder,) = (path.parent / "cache").iterdir()
    return folder


both = pytest.mark.parametrize("read", [parse_libsvm, cache])


@both
@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("ending", COMPRESS)
def test_reads_comments_blank_lines_qid_and_zeros(tmp_path, read, block_bytes, ending):
    path = write(tmp_path, COMPRESS[ending](TEXT.encode()), f"rows.svm{ending}")
    rows = read(path, block_bytes=block_bytes)
    assert dense(rows) == [[0.5, 0, -2], [0, 40, 0], [0, 0, 0]]
    assert rows.y.tolist() == [1, -1, 2.5]
    assert rows.data.size == 3
    assert rows.shape == (3, 3)
    dtypes = [a.dtype for a in (rows.data, rows.indices, rows.indptr, rows.y)]
    assert dtypes == [np.float64, np.int32, np.int64, np.float64]


@both
@pytest.mark.parametrize(
    ("text", "zero_based", "expected"),
    [
        ("1 1:2\n-1 2:3\n", "auto", [[2, 0], [0, 3]]),
        ("1 1:2\n-1 2:3\n", False, [[2, 0], [0, 3]]),
        ("1 1:2\n-1 2:3\n", True, [[0, 2, 0], [0, 0, 3]]),
        ("1 1:2\n-1 0:3\n", "auto", [[0, 2], [3, 0]]),
        ("1 1:2\r\n-1 2:0\r\n", "auto", [[2, 0], [0, 0]]),
        ("1 2:5 qid:3", "auto", [[0, 5]]),
    ],
)
def test_index_base(tmp_path, read, text, zero_based, expected):
    rows = read(write(tmp_path, text), zero_based=zero_based, block_bytes=4)
    assert dense(rows) == expected


@both
def test_n_features_and_float32(tmp_path, read):
    rows = read(write(tmp_path, "1 1:0.1 2:1e-60\n"), n_features=5, dtype="float32")
    assert rows.shape == (1, 5)
    assert rows.data.dtype == np.float32
    assert rows.data.tolist() == [np.float32(0.1)]
    assert read(write(tmp_path, "1\n-1\n", "zero.svm"), n_features=2).data.size == 0


@both
def test_wide_indices_are_int64(tmp_path, read):
    rows = read(write(tmp_path, "1 1:2 5000000000:3\n"))
    assert rows.indices.dtype == np.int64
    assert rows.indices.tolist() == [0, 4_999_999_999]
    assert rows.n_features == 5_000_000_000


@both
@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("2:", "a value after the colon"),
        ("2:x", "a number after the colon"),
        ("2:1_0", "a number after the colon"),
        ("2:nan", "a finite float64 value"),
        ("2:inf", "a finite float64 value"),
        ("2:3:4", "a number after the colon"),
        ("x:3", "an integer before the colon"),
        ("1_0:3", "an integer before the colon"),
        ("word", "index:value"),
        ("-3:1", "an index of at least 0"),
        ("1:9", "an index above 1"),
        ("9223372036854775807:1", "an index below 2\\*\\*63"),
    ],
)
@pytest.mark.parametrize("block_bytes", [3, 1 << 20])
def test_bad_token_is_located(tmp_path, read, token, expected, block_bytes):
    path = write(tmp_path, f"# first_line\n\n1 1:2\n-1 1:1 {token} # last\n1 1:1\n")
    with pytest.raises(ValueError, match=rf"rows\.svm, line 4: expected {expected}") as error:
        read(path, block_bytes=block_bytes)
    assert f"got {token!r}" in str(error.value)
    assert not list(tmp_path.glob("cache/*"))


@both
@pytest.mark.parametrize(
    ("label", "expected"),
    [("good", "a number"), ("1,2", "a number"), ("nan", "a finite number"), ("1_0", "a number")],
)
def test_bad_label_is_located(tmp_path, read, label, expected):
    path = write(tmp_path, f"1 1:2\n{label} 1:2\n")
    with pytest.raises(ValueError, match=f"line 2: expected {expected}.* as label, got"):
        read(path)


@both
def test_zero_index_in_a_one_based_file(tmp_path, read):
    with pytest.raises(ValueError, match=r"line 2: expected an index of at least 1, got '0:3'"):
        read(write(tmp_path, "1 1:2\n-1 0:3\n"), zero_based=False)


@both
def test_value_too_large_for_float32(tmp_path, read):
    with pytest.raises(ValueError, match=r"line 1: expected a finite float32 .* '1:1e300'"):
        read(write(tmp_path, "1 1:1e300\n"), dtype=np.float32)


@both
@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n# here"])
def test_no_rows(tmp_path, read, text):
    with pytest.raises(ValueError, match=r"rows\.svm: expected at least one row"):
        read(write(tmp_path, text))


@both
def test_no_features(tmp_path, read):
    with pytest.raises(ValueError, match=r"labels only\. Pass n_features"):
        read(write(tmp_path, "1\n-1\n"))


@both
def test_too_few_features_asked(tmp_path, read):
    with pytest.raises(ValueError, match=r"n_features=2, got index 3 counted from 1.*n_features=3"):
        read(write(tmp_path, "1 3:1\n"), n_features=2)


@pytest.mark.no_cover  # The other tests of readers run the same lines.
@both
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_truncated_stream_names_the_last_good_line(tmp_path, read, ending):
    rng = np.random.default_rng(0)
    lines = [f"1 1:{value}\n" for value in rng.random(60_000)]
    packed = COMPRESS[ending]("".join(lines).encode())
    path = write(tmp_path, packed[: len(packed) * 9 // 10], f"rows.svm{ending}")
    with pytest.raises(ValueError, match=rf"rows\.svm\{ending}: .* breaks after line \d+") as error:
        read(path, block_bytes=1 << 15)
    last = int(str(error.value).split("after line ")[1].split()[0])
    assert 20_000 < last < len(lines)


@both
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_text_under_a_compressed_name(tmp_path, read, ending):
    with pytest.raises(ValueError, match="breaks after line 0"):
        read(write(tmp_path, "1 1:2\n" * 20, f"rows.svm{ending}"))


def test_corrupt_gzip_content(tmp_path):
    packed = bytearray(gzip.compress(TEXT.encode() * 200))
    packed[20:40] = bytes(20)
    with pytest.raises(ValueError, match="breaks after line"):
        parse_libsvm(write(tmp_path, bytes(packed), "rows.svm.gz"))


def test_failing_disk_is_not_called_a_broken_stream(tmp_path, monkeypatch):
    class Failing(io.BytesIO):
        def __next__(self):
            raise OSError("disk on fire")

    monkeypatch.setattr(libsvm_text, "open_stream", lambda path: Failing())
    with pytest.raises(OSError, match="disk on fire"):
        parse_libsvm(write(tmp_path, TEXT))


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int32"}, "dtype must be float64 or float32; got int32"),
        ({"zero_based": "maybe"}, "zero_based must be True, False or 'auto'; got 'maybe'"),
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"block_bytes": 0}, "block_bytes must be at least 1"),
    ],
)
def test_bad_options(tmp_path, read, options, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path, TEXT), **options)


@both
def test_missing_file(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=r"Expected a LIBSVM file at .*absent\.svm"):
        read(tmp_path / "absent.svm")


@settings(max_examples=60, deadline=None)
@given(data=st.data(), block_bytes=st.integers(1, 200), zero_based=st.booleans())
def test_round_trip(tmp_path_factory, data, block_bytes, zero_based):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    cell = st.one_of(st.just(0.0), finite)
    X = np.array([data.draw(st.lists(cell, min_size=d, max_size=d)) for _ in range(n)])
    y = np.array(data.draw(st.lists(finite, min_size=n, max_size=n)))
    text = ""
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        kept = [f"{j + (not zero_based)}:{row[j]!r}" for j in range(d) if row[j] != 0]
        comment = data.draw(st.sampled_from(["\n", " # note_1\n", "\r\n", "\n\n", "\n#\n"]))
        text += " ".join([repr(label), *kept]) + comment
    path = write(tmp_path_factory.mktemp("round"), text)
    options = {"n_features": d, "zero_based": zero_based, "block_bytes": block_bytes}
    for read in (parse_libsvm, cache, cache):
        rows = read(path, **options)
        assert np.array_equal(rows.tocsr().toarray(), X)
        assert np.array_equal(rows.y, y)


# The cache


def test_second_call_only_maps(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)
    first = cache(path)
    monkeypatch.setattr(libsvm, "parse_blocks", None)
    second = cache(path)
    for name in ("data", "indices", "indptr", "y"):
        array = getattr(second, name)
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
        assert np.array_equal(array, getattr(first, name))
    folder = only_cache(path)
    assert sorted(file.name for file in folder.iterdir()) == [
        "data.npy",
        "indices.npy",
        "indptr.npy",
        "meta.json",
        "y.npy",
    ]
    assert np.load(folder / "data.npy").tolist() == [0.5, -2, 40]


def test_key_covers_content_time_and_options(tmp_path):
    path = write(tmp_path, TEXT)
    cache(path)
    cache(path, dtype="float32")
    cache(path, n_features=9)
    cache(path, zero_based=True)
    assert len(list((tmp_path / "cache").iterdir())) == 4
    write(tmp_path, "1 1:7\n")
    assert dense(cache(path)) == [[7]]
    os.utime(path, ns=(0, 0))
    cache(path)
    assert len(list((tmp_path / "cache").iterdir())) == 6


def cut(folder):
    with (folder / "data.npy").open("r+b") as file:
        file.truncate(130)


def lengthen(folder):
    with (folder / "y.npy").open("ab") as file:
        file.write(b"12345678")


def mismatch(folder):
    np.save(folder / "indptr.npy", np.array([0, 2, 3, 9]))


def foreign_array(folder):
    (folder / "y.npy").write_bytes(b"x" * (folder / "y.npy").stat().st_size)


DAMAGE = {
    "data cut": cut,
    "labels lengthened": lengthen,
    "rows do not add up": mismatch,
    "not an npy file": foreign_array,
    "meta unreadable": lambda folder: (folder / "meta.json").write_text("{"),
    "meta not a dict": lambda folder: (folder / "meta.json").write_text("[]"),
    "meta empty": lambda folder: (folder / "meta.json").write_text("{}"),
    "meta missing": lambda folder: (folder / "meta.json").unlink(),
    "array missing": lambda folder: (folder / "indices.npy").unlink(),
    "folder empty": lambda folder: [file.unlink() for file in folder.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_cache_is_made_again(tmp_path, damage):
    path = write(tmp_path, TEXT)
    expected = dense(cache(path))
    damage(only_cache(path))
    assert dense(cache(path)) == expected
    folder = only_cache(path)
    assert json.loads((folder / "meta.json").read_text())["n_columns"] == 3


def test_leftovers_are_ignored_and_old_ones_removed(tmp_path):
    path = write(tmp_path, TEXT)
    cache(path)
    folder = only_cache(path)
    recent, old = (folder.with_name(f"{folder.name}.tmp-{name}") for name in ("recent", "old"))
    stray = folder.with_name(f"{folder.name}.tmp-file")
    for leftover in (recent, old):
        leftover.mkdir()
        (leftover / "data.npy").write_bytes(b"half")
    stray.touch()
    yesterday = time.time() - 2 * 86_400
    for file in (old / "data.npy", old):
        os.utime(file, (yesterday, yesterday))
    shutil.rmtree(folder)
    assert dense(cache(path)) == [[0.5, 0, -2], [0, 40, 0], [0, 0, 0]]
    assert sorted(folder.parent.iterdir()) == sorted([folder, recent, stray])


def test_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(libsvm_text, "_parse_block", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache(path)
    assert not list((tmp_path / "cache").iterdir())
    assert cache(path).shape == (3, 3)


def test_another_process_was_first(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)
    write_cache = libsvm._write_cache

    def race(*arguments):
        monkeypatch.setattr(libsvm, "_write_cache", write_cache)
        cache(path)
        write_cache(*arguments)

    monkeypatch.setattr(libsvm, "_write_cache", race)
    assert cache(path).shape == (3, 3)
    only_cache(path)


def test_rename_that_fails_is_reported(tmp_path, monkeypatch):
    def refuse(self, target):
        raise PermissionError("no")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError):
        cache(write(tmp_path, TEXT))
    assert not list((tmp_path / "cache").iterdir())


def test_file_that_changes_while_read(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)
    write_cache = libsvm._write_cache

    def grow(*arguments):
        write_cache(*arguments)
        write(tmp_path, TEXT * 2)

    monkeypatch.setattr(libsvm, "_write_cache", grow)
    with pytest.raises(ValueError, match="changed while it was read"):
        cache(path)
    assert not list((tmp_path / "cache").iterdir())


def test_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRGD_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder() == tmp_path / "own"
    cache_libsvm(write(tmp_path, TEXT))
    assert len(list((tmp_path / "own").iterdir())) == 1
    monkeypatch.delenv("PRGD_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "prgd"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "prgd"
