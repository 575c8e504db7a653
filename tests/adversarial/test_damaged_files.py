"""Damaged files are refused with a sentence, or give the numbers that lie in them."""

import bz2
import io
import lzma
import zipfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adversarial.damaged_files import CANARY, trial

import prgd
from prgd.datasets import load
from prgd.datasets.base import ModelFeatures
from prgd.rows.readers.libsvm_cache import cache_libsvm

X = np.arange(1.0, 41.0).reshape(20, 2)
y = np.where(np.arange(20) % 2, 1.0, -1.0)
TEXT = "".join(f"{label:g} 1:{a:g} 2:{b:g}\n" for label, (a, b) in zip(y, X, strict=True)).encode()
PACKERS = {"bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_thousand_damaged_files(tmp_path, seed):
    counts: Counter[str] = Counter()
    for rng in np.random.default_rng(seed).spawn(500):
        outcome = trial(rng, tmp_path)
        assert "FAILED" not in outcome
        counts[outcome.partition(": ")[2]] += 1
    assert min(counts["ok"], counts["refused"]) > 50  # some damage is harmless, most is not


def test_rewritten_arrays_of_saved_files_are_refused_or_not_confirmed(tmp_path):
    counts = Counter(trial(rng, tmp_path, "rewritten") for rng in np.random.default_rng(1).spawn(200))
    assert not [outcome for outcome in counts if "FAILED" in outcome]


def flip(path, at, bits):
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= bits
    path.write_bytes(damaged)


def test_rows_that_a_parquet_file_does_not_give_are_an_error(tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 10}
    pq.write_table(table, tmp_path / "x.parquet", **options)
    flip(tmp_path / "x.parquet", 5, 64)  # the first page is of no kind that a reader knows, and is skipped
    del [np.full(40, CANARY) for _ in range(4)][:]
    rows = prgd.open_rows(tmp_path / "x.parquet")
    for read in (lambda: print(rows.take(np.arange(20))), lambda: prgd.Problem(rows)):
        with pytest.raises(ValueError, match=r"x\.parquet: announces 20 rows, and does not give rows 0 to 9"):
            read()  # may give an array that was never written
    with pytest.raises(ValueError, match=r"x\.parquet: expected a whole Parquet file"):
        load(tmp_path / "x.parquet")


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("form", ["svm", "csv"])
def test_a_second_stream_that_is_damaged_is_an_error(tmp_path, ending, form):
    pack, half = PACKERS[ending], TEXT.index(b"\n", len(TEXT) // 2) + 1
    text = TEXT if form == "svm" else b"1,2,3\n" * (len(TEXT) // 6)
    first = pack(text[:half])
    path = tmp_path / f"x.{form}.{ending}"
    path.write_bytes(first + pack(text[half:]))
    whole = load(path).y.size
    flip(path, len(first) + 1, 1)
    with pytest.raises(ValueError, match=rf"x\.{form}\.{ending}: expected (a )?whole"):
        print(load(path).y.size, whole)  # half of the rows


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("rest", [b"garbage", b"\0", b"BZ", b"\xfd7z"])
def test_bytes_after_the_last_stream_are_an_error(tmp_path, ending, rest):
    path = tmp_path / f"x.svm.{ending}"
    path.write_bytes(PACKERS[ending](TEXT) + rest)
    with pytest.raises(ValueError, match=rf"expected a whole \.{ending} stream"):
        load(path)


def test_padding_of_xz_streams_is_allowed_and_what_follows_is_read(tmp_path):
    path = tmp_path / "x.svm.xz"
    path.write_bytes(lzma.compress(TEXT) + bytes(8) + lzma.compress(TEXT) + bytes(4))
    assert load(path).y.size == 40  # as the program xz reads the file


def member(array, edit=lambda b: b):
    out = io.BytesIO()
    np.save(out, array)
    return edit(out.getvalue())


def zip_of(X, y, method=None, edit=lambda b: b):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("X.npy", member(X, edit))
        archive.writestr("y.npy", member(y, edit))
    found = bytearray(out.getvalue())
    for signature, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        where = found.find(signature)
        while method is not None and where >= 0:
            found[where + at] = method
            where = found.find(signature, where + 4)
    return bytes(found)


BROKEN_ARCHIVES = {
    "unknown compression": zip_of(X, y, method=77),
    "header": zip_of(X, y, edit=lambda b: b[:10] + b"(" * 118 + b[128:]),
    "too few rows announced": zip_of(X, y, edit=lambda b: b.replace(b"(20,", b"(10,")),
    "too many rows announced": zip_of(X, y, edit=lambda b: b.replace(b"(20,", b"(9999999999999,")),
    "two archives": zip_of(X, y) + zip_of(X[:10], y[:10]),
}


@pytest.mark.parametrize("what", BROKEN_ARCHIVES)
def test_broken_archives_are_refused_with_a_sentence(tmp_path, what):
    (tmp_path / "x.npz").write_bytes(BROKEN_ARCHIVES[what])
    with pytest.raises(ValueError, match=r"x\.npz: expected an NPZ archive of whole arrays.*fetch it again"):
        load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"x\.npz: not a whole prgd result file"):
        prgd.Result.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "edit",
    [
        lambda b: b[:10] + b"(" * 118 + b[128:],
        lambda b: b.replace(b"(20,", b"(10,"),
        lambda b: b.replace(b"(20,", b"(99999999999,"),
        lambda b: b + b"more",
        lambda b: b[:-8],
        lambda b: zip_of(X, y),
    ],
    ids=["header", "fewer rows", "more rows", "longer", "shorter", "archive"],
)
def test_broken_arrays_are_refused_with_a_sentence(tmp_path, edit):
    (tmp_path / "x.npy").write_bytes(member(X, edit))
    for read in (prgd.open_rows, lambda path: load(path, model=ModelFeatures(2))):
        with pytest.raises(ValueError, match=r"x\.npy: cannot be read as a \.npy array .* numpy\.save\."):
            read(tmp_path / "x.npy")


def test_a_cache_with_a_flipped_bit_is_made_again(tmp_path):
    (tmp_path / "x.svm").write_bytes(TEXT)
    cache_libsvm(tmp_path / "x.svm", tmp_path / "cache")
    (data,) = (tmp_path / "cache").iterdir()
    flip(data, -3, 1)
    np.testing.assert_array_equal(cache_libsvm(tmp_path / "x.svm", tmp_path / "cache").tocsr().toarray(), X)


def test_an_array_that_the_directory_of_an_archive_has_lost_is_an_error(tmp_path):
    prgd.run(prgd.Problem(X, y), prgd.NGD(), stop=3).save(tmp_path / "x.npz")
    content = bytearray((tmp_path / "x.npz").read_bytes())
    assert prgd.Result.load(tmp_path / "x.npz").classes is not None
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(b"classes.npy"))
    before, after = content.rindex(b"PK\x01\x02", 0, entry), content.find(b"PK\x01\x02", entry + 4)
    after = after if after > 0 else content.rindex(b"PK\x05\x06")
    content[before + 32 : before + 34] = (after - entry).to_bytes(2, "little")  # a comment has the entry
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.npz: not a whole prgd result file \(bytes .* belong to no arr"):
        prgd.Result.load(tmp_path / "x.npz")
