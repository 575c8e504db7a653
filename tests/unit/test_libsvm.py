"""LIBSVM text: what is read, what is refused and where, and a cache that is whole or absent."""

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prgd.rows.readers import libsvm, libsvm_cache
from prgd.rows.readers.libsvm import CachedCSR, parse_libsvm
from prgd.rows.readers.libsvm_cache import cache_folder, cache_libsvm

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXT = "+1 1:0.5 3:-2\n# only a comment\n\n-1 qid:7 2:4e1 3:0 # tail 9:9\n2.5\n"


def write(folder: Path, text: str | bytes, name: str = "rows.svm") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def dense(rows: CachedCSR) -> list[list[float]]:
    return rows.tocsr().toarray().tolist()


def cache(path: Path) -> CachedCSR:
    return cache_libsvm(path, path.parent / "cache")


both = pytest.mark.parametrize("read", [parse_libsvm, cache])


@both
@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("ending", COMPRESS)
def test_reads_comments_blank_lines_qid_and_zeros(tmp_path, monkeypatch, read, block_bytes, ending):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path, COMPRESS[ending](TEXT.encode()), f"rows.svm{ending}")
    rows = read(path)
    assert dense(rows) == [[0.5, 0, -2], [0, 40, 0], [0, 0, 0]]
    assert rows.y.tolist() == [1, -1, 2.5]
    assert rows.data.size == 3
    assert rows.shape == (3, 3)
    dtypes = [a.dtype for a in (rows.data, rows.indices, rows.indptr, rows.y)]
    assert dtypes == [np.float64, np.int32, np.int64, np.float64]


@both
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 1:2\n-1 2:3\n", [[2, 0], [0, 3]]),
        ("1 1:2\n-1 0:3\n", [[0, 2], [3, 0]]),
        ("1 1:2\r\n-1 2:0\r\n", [[2, 0], [0, 0]]),
        ("1 2:0\n", [[0, 0]]),
        ("1 2:5 qid:3", [[0, 5]]),
    ],
)
def test_index_base(tmp_path, monkeypatch, read, text, expected):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 4)
    assert dense(read(write(tmp_path, text))) == expected


def test_indices_may_be_kept(tmp_path):
    rows = parse_libsvm(write(tmp_path, "1 1:2\n-1 2:3\n"), keep_indices=True)
    assert dense(rows) == [[0, 2, 0], [0, 0, 3]]


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
def test_bad_token_is_located(tmp_path, monkeypatch, read, token, expected, block_bytes):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path, f"# first_line\n\n1 1:2\n-1 1:1 {token} # last\n1 1:1\n")
    with pytest.raises(ValueError, match=rf"rows\.svm, line 4: expected {expected}") as error:
        read(path)
    assert f"got {token!r}" in str(error.value)
    assert not list(tmp_path.glob("cache/*"))


@both
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\ngood 1:2\n", ", line 2: expected a number.* as label, got"),
        ("1 1:2\n1,2 1:2\n", ", line 2: expected a number.* as label, got"),
        ("1 1:2\nnan 1:2\n", ", line 2: expected a finite number.* as label, got"),
        ("1 1:2\n1_0 1:2\n", ", line 2: expected a number.* as label, got"),
        ("", ": .*expected at least one row"),
        ("\n\n", ": .*expected at least one row"),
        ("# nothing\n# here", ": .*expected at least one row"),
        ("1\n-1\n", ": .*labels only"),
    ],
)
def test_bad_labels_and_no_rows_or_features(tmp_path, read, text, message):
    with pytest.raises(ValueError, match=rf"rows\.svm{message}"):
        read(write(tmp_path, text))


@pytest.mark.no_cover  # The other tests of readers run the same lines.
@both
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_truncated_stream_names_the_last_good_line(tmp_path, monkeypatch, read, ending):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 1 << 13)
    count = 60_000 if ending == ".bz2" else 9_000  # bzip2 packs blocks of 900 kB
    lines = [f"1 1:{value}\n" for value in np.random.default_rng(0).random(count)]
    packed = COMPRESS[ending]("".join(lines).encode())
    path = write(tmp_path, packed[: len(packed) * 9 // 10], f"rows.svm{ending}")
    with pytest.raises(ValueError, match=rf"rows\.svm\{ending}: .* breaks after line \d+") as error:
        read(path)
    last = int(str(error.value).split("after line ")[1].split()[0])
    assert len(lines) / 3 < last < len(lines)


@both
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_text_under_a_compressed_name(tmp_path, read, ending):
    with pytest.raises(ValueError, match="breaks after line 0"):
        read(write(tmp_path, "1 1:2\n" * 20, f"rows.svm{ending}"))


def test_failing_disk_is_not_called_a_broken_stream(tmp_path, monkeypatch):
    class Failing(io.BytesIO):
        def __next__(self):
            raise OSError("disk on fire")

    monkeypatch.setattr(libsvm, "open_stream", lambda path: Failing())
    with pytest.raises(OSError, match="disk on fire"):
        parse_libsvm(write(tmp_path, TEXT))


@both
def test_missing_file(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=r"Expected a LIBSVM file at .*absent\.svm"):
        read(tmp_path / "absent.svm")


@settings(max_examples=25, deadline=None)
@given(data=st.data(), block_bytes=st.integers(1, 200), zero_based=st.booleans())
def test_round_trip(tmp_path_factory, data, block_bytes, zero_based):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    cell = st.one_of(st.just(0.0), finite)
    X = np.array([data.draw(st.lists(cell, min_size=d, max_size=d)) for _ in range(n)])
    X[0, [0, -1]] = 1.0  # the first column tells where indices begin, the last one how many there are
    y = np.array(data.draw(st.lists(finite, min_size=n, max_size=n)))
    text = ""
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        kept = [f"{j + (not zero_based)}:{row[j]!r}" for j in range(d) if row[j] != 0]
        comment = data.draw(st.sampled_from(["\n", " # note_1\n", "\r\n", "\n\n", "\n#\n"]))
        text += " ".join([repr(label), *kept]) + comment
    path = write(tmp_path_factory.mktemp("round"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsvm, "BLOCK_BYTES", block_bytes)
        for read in (parse_libsvm, cache, cache):
            rows = read(path)
            assert np.array_equal(rows.tocsr().toarray(), X)
            assert np.array_equal(rows.y, y)


# The cache


def only_cache(path: Path) -> Path:
    (file,) = (path.parent / "cache").iterdir()
    return file


def test_second_call_only_maps(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)
    first = cache(path)
    monkeypatch.setattr(libsvm_cache, "parse_blocks", None)
    second = cache(path)
    for name in ("data", "indices", "indptr", "y"):
        array = getattr(second, name)
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
        assert np.array_equal(array, getattr(first, name))
    only_cache(path)


def test_key_covers_content_and_time(tmp_path):
    path = write(tmp_path, TEXT)
    cache(path)
    write(tmp_path, "1 1:7\n")
    assert dense(cache(path)) == [[7]]
    os.utime(path, ns=(0, 0))
    cache(path)
    assert len(list((tmp_path / "cache").iterdir())) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:4100],
        lambda content: content[:-8],
        lambda content: b"",
        lambda content: b"[]" + content[2:],
        lambda content: content.replace(b'"n_columns": 3', b'"n_columns": 4'),
        lambda content: content.replace(b'"<f8"', b'"<i8"', 1),
        lambda content: bytes([*content[:4097], content[4097] ^ 1, *content[4098:]]),
    ],
    ids=["cut", "short", "empty", "no header", "columns", "type", "flipped bit"],
)
def test_damaged_cache_is_made_again(tmp_path, damage):
    path = write(tmp_path, TEXT)
    expected = dense(cache(path))
    whole = only_cache(path).read_bytes()
    only_cache(path).write_bytes(damage(whole))
    assert dense(cache(path)) == expected
    assert only_cache(path).read_bytes() == whole


def test_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    path = write(tmp_path, TEXT)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(libsvm, "_parse_block", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache(path)
    assert not list((tmp_path / "cache").iterdir())
    assert cache(path).shape == (3, 3)


def test_file_that_changes_while_read(tmp_path, monkeypatch):
    path, parse = write(tmp_path, TEXT), libsvm_cache.parse_blocks

    def grow(*arguments):
        found = parse(*arguments)
        write(tmp_path, TEXT * 2)
        return found

    monkeypatch.setattr(libsvm_cache, "parse_blocks", grow)
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
