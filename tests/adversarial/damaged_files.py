"""Damaged files: a good file of a random kind is damaged at random and read in every way that applies.

`trial` is one such experiment. A reader may give the numbers that lie in the damaged file, which a reference
apart from `prgd` reads too, or refuse the file with a sentence. Nothing else is allowed: no other exception,
no row that the file does not hold, no number from memory that was never written.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

import prgd
from prgd.core.checks import digest
from prgd.datasets.base import ModelFeatures, load
from prgd.estimators.model import Model
from prgd.rows import MarginsAt, Measure, open_rows
from prgd.rows.readers.libsvm_cache import cache_libsvm

CANARY = 1.2345678e77  # freed memory is filled with it before a file is read
D = 4  # columns of every good file
NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
Rows = tuple[Any, Any]  # X, dense or as the tuple of CSR arrays, and y


class Refused(Exception):  # noqa: N818 - the outcome of a trial, not an error of this file
    """A reader said with a sentence that the file is not as it should be."""


class Failed(Exception):  # noqa: N818
    """A reader did what none may do."""


@dataclass(frozen=True)
class Good:
    """A file as it should be, a second one of its kind, and the ways to read the kind."""

    kind: str
    ending: str
    whole: bytes
    other: bytes
    readers: list[Callable[..., None]]
    original: Any = None
    is_rewritten: bool = False  # whether single arrays of the archive are changed, not bytes of the file


def trial(rng: np.random.Generator, folder: Path, only: str = "") -> str:
    """Damage one file and read it.

    Parameters
    ----------
    rng : numpy.random.Generator
    folder : Path
        An empty folder that trials share; good files are kept there.
    only : str
        The beginning of the kinds of files that are damaged.

    Returns
    -------
    str
        ``"kind: ok"``, ``"kind: refused"`` or ``"kind: FAILED: ..."``.
    """
    kinds = [good for good in _kinds(folder) if good.kind.startswith(only)]
    good = kinds[int(rng.integers(len(kinds)))]
    how, damaged = damage(rng, good)
    path = folder / f"damaged{good.ending}"
    path.write_bytes(damaged)
    outcome = "ok"
    for read in good.readers:
        try:
            with np.errstate(all="ignore"):
                read(path, good)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # The documented kinds, with a sentence; Failed is none of them.
            is_sentence = len(str(error)) >= 20 and str(error).rstrip().endswith((".", "'"))
            if not (isinstance(error, Refused) or (isinstance(error, (ValueError, OSError)) and is_sentence)):
                message = f"{type(error).__name__}: {str(error)[:200]}"
                return f"{good.kind}: FAILED: {how}, {read.__name__.strip('_')}: {message}"
            outcome = "refused"
    return f"{good.kind}: {outcome}"


# Kinds of damage: functions of a random source and of the bytes.


def _range(rng: np.random.Generator, b: bytes) -> slice:
    start = int(rng.integers(len(b)))
    return slice(start, min(len(b), start + int(2 ** rng.uniform(0, np.log2(len(b) + 1)))))


def _flip(rng: np.random.Generator, b: bytes) -> bytes:
    found = bytearray(b)
    for at in rng.integers(len(b), size=int(rng.integers(1, 9))).tolist():
        found[at] ^= 1 << int(rng.integers(8))
    return bytes(found)


def _replace(rng: np.random.Generator, b: bytes, change: Callable[[bytes], bytes]) -> bytes:
    part = _range(rng, b)
    return b[: part.start] + change(b[part]) + b[part.stop :]


def _insert(rng: np.random.Generator, b: bytes) -> bytes:
    at = int(rng.integers(len(b) + 1))
    return b[:at] + rng.bytes(int(rng.integers(1, 40))) + b[at:]


def _swap(rng: np.random.Generator, b: bytes) -> bytes:
    i, j, k = sorted(rng.integers(len(b) + 1, size=3).tolist())
    return b[:i] + b[j:k] + b[i:j] + b[k:]


def _header(rng: np.random.Generator, b: bytes) -> bytes:
    """Change a byte near the start, the end or a signature, where formats keep their counts."""
    starts = [m.start() for m in re.finditer(rb"PK|NUMPY|shape|BZh|\xfd7zXZ|YZ|\x1f\x8b", b)]
    near = int(rng.choice([0, len(b) - 64, *starts])) + int(rng.integers(64))
    at = min(max(near, 0), len(b) - 1)
    other = rng.choice(np.frombuffer(b"0123456789 ,()<>f8i4\x00\xff\x01'", np.uint8))
    return b[:at] + other.tobytes() + b[at + 1 :]


DAMAGES: dict[str, Callable[[np.random.Generator, bytes], bytes]] = {
    "flip": _flip,
    "truncate": lambda rng, b: b[: int(rng.integers(len(b)))],
    "insert": _insert,
    "delete": partial(_replace, change=lambda part: b""),
    "duplicate": partial(_replace, change=lambda part: part + part),
    "swap": _swap,
    "zeros": partial(_replace, change=lambda part: bytes(len(part))),
    "header": _header,
}


def damage(rng: np.random.Generator, good: Good) -> tuple[str, bytes]:
    """Return the name of a kind of damage and the damaged bytes; a second file, or its start, may follow."""
    if good.is_rewritten:
        return _rewrite(rng, good.whole)
    name = str(rng.choice([*DAMAGES, "concatenate"]))
    if name == "concatenate":
        size = len(good.other)
        return name, good.whole + good.other[: size if rng.integers(2) else int(rng.integers(size))]
    return name, DAMAGES[name](rng, good.whole)


REWRITES: list[Callable[[np.random.Generator, Any], Any]] = [
    lambda rng, a: -a,
    lambda rng, a: a[::-1],
    lambda rng, a: rng.permutation(a),
    lambda rng, a: np.where(rng.random(a.shape) < 0.5, a, rng.choice([np.nan, np.inf, 1e308, 0])),
    lambda rng, a: (a * (1.0 + 10.0 ** rng.uniform(-14, 0))).astype(a.dtype),
    lambda rng, a: a.astype(rng.choice(["f4", "f8", "c16", "i8", "?", "U9", "S9"])),
    lambda rng, a: [a[None], a[..., None], a[:0], a[:-1], a.ravel()[0]][rng.integers(5)],
    lambda rng, a: np.concatenate([a, a]),
]
WORDS = ("x", "l1", "nuclear", "joint", *prgd.Status.__members__)
ENTRIES: tuple[Any, ...] = (None, True, -1, 0, 7, 2.5, 1e400, [], ["1/0"], {}, *WORDS)


def _rewrite(rng: np.random.Generator, whole: bytes) -> tuple[str, bytes]:
    """Change one array, or one entry of the meta data, of a saved archive, and mostly its digest too."""
    with np.load(io.BytesIO(whole)) as archive:
        arrays = dict(archive)
    name, change = str(rng.choice([*arrays])), int(rng.integers(len(REWRITES)))
    if name.endswith("meta"):
        meta, new = json.loads(str(arrays[name])), ENTRIES[int(rng.integers(len(ENTRIES)))]
        meta[key := str(rng.choice([*meta]))] = new
        name, arrays[name] = f"{name}, {key}, {new!r}", np.array(json.dumps(meta))
    else:
        with suppress(Exception), np.errstate(all="ignore"):  # not every array can be changed in every way
            arrays[name] = np.asarray(REWRITES[change](rng, arrays[name]))
    if rng.random() < 0.8:
        arrays["digest"] = np.array(digest(sorted((k, a) for k, a in arrays.items() if k != "digest")))
    return f"rewritten {name} {change}", _written(np.savez, **arrays)


# The good files.


def _rows(seed: int, n: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)).round(4)
    X[rng.random(X.shape) < 0.3] = 0.0
    X[0, -1] = 1.5  # the last column is in use
    X[~X.any(axis=1), 0] = 0.5  # no row is zero
    return X, np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


@cache
def _kinds(folder: Path) -> list[Good]:
    """Return the good files; they are made once for each folder."""
    a, b = _rows(1, 90), _rows(2, 50)
    texts = {".csv": [_csv_text(*rows) for rows in (a, b)], ".svm": [_libsvm_text(*rows) for rows in (a, b)]}
    found = [
        Good("npz CSR", ".npz", *(_npz_csr(*rows) for rows in (a, b)), [_load_npz], a),
        Good("result", ".npz", *(_result(folder, *rows) for rows in (a, b)), [_load_result]),
    ]
    for name, (_, make) in SAVED.items():
        make().save(folder / "saved.npz")
        whole = (folder / "saved.npz").read_bytes()
        found.append(Good(f"rewritten {name}", ".npz", whole, whole, [_load_saved], name, is_rewritten=True))
    for name, order, dtype in (("npy", "C", float), ("npy float32 Fortran", "F", np.float32)):
        arrays = [_written(np.save, np.asarray(X, dtype, order=order)) for X, _ in (a, b)]
        found.append(Good(name, ".npy", *arrays, [_load_npy, _open_npy]))
    for name, save in (("npz", np.savez), ("npz compressed", np.savez_compressed)):
        found.append(Good(name, ".npz", *(_written(save, X=X, y=y) for X, y in (a, b)), [_load_npz], a))
    for name, options in (("", {}), (" plain", {"compression": "none", "use_dictionary": False})):
        parts = [_parquet(X, y, options) for X, y in (a, b)]
        found.append(Good(f"parquet{name}", ".parquet", *parts, [_load_parquet, _open_parquet]))
    for ending, (first, second) in texts.items():
        read = [_load_csv] if ending == ".csv" else [_load_libsvm]
        found.append(Good(ending[1:], ending, first, second, read + [_open_libsvm] * (ending == ".svm")))
        half = first.index(b"\n", len(first) // 2) + 1
        for suffix, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
            packed = f"{ending}.{suffix}"
            found.append(Good(packed[1:], packed, pack(first), pack(second), read))
            streams = pack(first[:half]) + pack(first[half:])
            found.append(Good(f"{packed[1:]} in two streams", packed, streams, pack(second), read))
    return [*found, _cache_file(folder, texts[".svm"][0])]


def _cache_file(folder: Path, content: bytes) -> Good:
    """Return the cache of a LIBSVM file."""
    cache_dir, text = folder / "cache", folder / "cached.svm"
    text.write_bytes(content)
    cache_libsvm(text, cache_dir)
    made = next(cache_dir.glob("libsvm-*"))
    whole, original = made.read_bytes(), (made, _cached(text, cache_dir))
    return Good("LIBSVM cache", ".bin", whole, whole, [_open_cache], original)


def _written(write: Callable[..., Any], *args: Any, **options: Any) -> bytes:
    """Return the bytes that a function writes to the file that is its first argument."""
    out = io.BytesIO()
    write(out, *args, **options)
    return out.getvalue()


def _npz_csr(X: Any, y: Any) -> bytes:
    S = csr_array(X)
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr}
    return _written(np.savez, **parts, shape=X.shape, y=y)


def _result(folder: Path, X: Any, y: Any) -> bytes:
    path = folder / "result.npz"
    prgd.run(prgd.Problem(X, y), prgd.NGD(), stop=20).save(path)
    return path.read_bytes()


X0 = _rows(3, 30)[0]
Y0 = np.where(X0 @ [1.0, -2.0, 0.5, 1.0] > 0.1, 1, -1)
SAVED: dict[str, tuple[type, Callable[[], Any]]] = {
    "hard margin": (prgd.Result, lambda: prgd.max_margin(X0, Y0)),
    "exact margin": (prgd.Result, lambda: prgd.max_margin(X0, Y0, fit_intercept=False, tol=1e-16)),
    "overlap": (prgd.Result, lambda: prgd.max_margin(X0, -Y0[::-1])),
    "soft margin": (prgd.Result, lambda: prgd.soft_margin(X0, Y0, C=0.5)),
    "run": (prgd.Result, lambda: prgd.run(prgd.Problem(X0, Y0), prgd.PRGD(), np.ones(D), stop=20)),
    "model": (Model, lambda: Model(np.array([-1, 1]), (prgd.max_margin(X0, Y0),))),
    "batch": (prgd.BatchResult, lambda: prgd.max_margin_batch(X0, np.column_stack([Y0, -Y0]))),
}


def _parquet(X: Any, y: Any, options: dict[str, Any]) -> bytes:
    table = pa.table({**{f"x{j}": X[:, j] for j in range(D - 1)}, "i": np.arange(len(y)), "y": y})
    return _written(lambda out: pq.write_table(table, out, row_group_size=40, **options))


def _csv_text(X: Any, y: Any) -> bytes:
    lines = [",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist()]
    return ("a,b,c,d,y\n" + "\n".join(lines) + "\n").encode()


def _libsvm_text(X: Any, y: Any) -> bytes:
    lines = [
        f"{label:g} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v)
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


# The readers, each against a reference that is written apart from prgd.


def _poison() -> None:
    """Fill memory that the next arrays will get, so that an array that is not written shows."""
    for size in (D, 40 * D, 50 * D, 90 * D, 4096):
        del [np.full(size, CANARY) for _ in range(4)][:]


def _check(found: Any, expected: Any, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype.kind == "f" and (found == CANARY).any():
        raise Failed(f"{what}: memory that was never written")
    if found.shape != expected.shape:
        raise Failed(f"{what}: shape {found.shape} where the file has {expected.shape}")
    if not np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"):
        raise Failed(f"{what}: numbers that are not in the file")


def _reference(read: Callable[[], Any]) -> Any:
    """Return what the reference reads, or the error that it raises."""
    try:
        return read()
    except Exception as error:
        return error


def _same(rows: Rows, expected: Any) -> None:
    if isinstance(expected, Exception):
        raise Failed(f"the file was read, though it is broken: {type(expected).__name__}: {expected}")
    for part, found, wanted in zip(("X", "y"), rows, expected, strict=True):
        if isinstance(wanted, tuple):
            for name, one, two in zip(("data", "indices", "indptr"), found, wanted, strict=True):
                _check(one, two, f"{part}.{name}")
        elif wanted is not None:
            _check(found, wanted, part)


def _check_pass(path: Path, expected: Any, **options: Any) -> None:
    """Compare what `open_rows` takes and sums, twice, with the rows that are expected."""
    rows = open_rows(path, **options)
    everything = np.arange(rows.n)
    _poison()
    taken = rows.take(everything)
    first = taken if isinstance(taken, np.ndarray) else taken.toarray()
    _check(first, expected, "take")
    if isinstance(taken, np.ndarray):
        _check(rows.take(everything[::7]), first[::7], "take of some")
    rows.ask(Measure())
    w = np.linspace(-1.0, 2.0, rows.d)
    _poison()
    margins = rows.ask(MarginsAt(w))
    products = first * rows.labels.signs[:, None] * w
    bound = 1e-12 * np.abs(products).sum(axis=1)
    if not (np.abs(margins - products.sum(axis=1)) <= bound).all() and np.isfinite(bound).all():
        raise Failed("a pass sums other numbers than those of the rows")


def _numpy_array(path: Path) -> Any:
    X = np.load(path, allow_pickle=False)
    if X.tobytes(order="A") != path.read_bytes()[-X.nbytes :] or X.ndim != 2:
        raise ValueError("the file does not end with its array")
    return X.astype(np.float64) if X.dtype.kind in "biu" else X


def _load_npy(path: Path, good: Good) -> None:
    _poison()
    X, _ = load(path, model=ModelFeatures(D))
    expected = _reference(lambda: _numpy_array(path))
    _same((X, None), expected if isinstance(expected, Exception) else (expected, None))


def _open_npy(path: Path, good: Good) -> None:
    expected = _reference(lambda: _numpy_array(path))
    if isinstance(expected, Exception):
        open_rows(path)
        raise Failed(f"the file was opened, though it is broken: {expected}")
    _check_pass(path, expected.astype(np.float64))


def _load_npz(path: Path, good: Good) -> None:
    # Checksums cover every array, so the only numbers that may come are the original ones.
    _poison()
    X, y = load(path)
    _same((X if isinstance(X, np.ndarray) else X.toarray(), y), good.original)


def _load_result(path: Path, good: Good) -> None:
    found, wanted = prgd.Result.load(path), _loaded_result(good.whole)
    for name in ("w", "t", "n", "classes", "algorithm", "problem", "passes", "margin", "upper_bound"):
        if not np.array_equal(getattr(found, name), getattr(wanted, name)):
            raise Failed(f"{name} differs from what was saved")
    if not np.array_equal(found.history.rows, wanted.history.rows, equal_nan=True):
        raise Failed("history differs from what was saved")


@cache
def _loaded_result(whole: bytes) -> prgd.Result:
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        Path(file.name).write_bytes(whole)
        return prgd.Result.load(file.name)


def _load_saved(path: Path, good: Good) -> None:
    """Load what was rewritten; what ``check`` confirms of it must be true of the rows."""
    found: Any = SAVED[good.original][0].load(path)
    results, labels = getattr(found, "results", [found]), [-Y0[::-1] if good.original == "overlap" else Y0]
    if good.original == "batch":
        Y = np.column_stack([Y0, -Y0])
        found.check(X0, Y)
        labels = [Y[:, column] for column in found.column]
    for result, y in zip(results, labels, strict=True):
        str(result), repr(result), result.dual_coef, result.cosine, result.history.rows
        if result.check(X0, y).is_valid:
            _confirm(result, y)
            if good.original == "model" and (found.predict(X0) != y).any():
                raise Failed("a model that errs is confirmed")


def _confirm(result: prgd.Result, y: Any) -> None:
    """Compare all that a confirmed result says of the rows with what plain NumPy says."""
    w, p, order = result.coef, result.dual_weights, {"l1": 1, "l2": 2}[result.norm]
    margins, length = y * (X0 @ w + result.intercept), np.linalg.norm(w, order)
    lower, last = margins.min() / length, result.w / np.linalg.norm(result.w, order)
    upper = np.linalg.norm((p * y[result.support]) @ X0[result.support], {1: np.inf, 2: 2}[order])
    if np.isfinite(result.C):
        slack = np.maximum(1.0 - margins, 0.0)
        lower = 1.0 / np.sqrt(w @ w + 2.0 * result.C * slack @ slack)
        upper = np.hypot(upper, np.linalg.norm(p) / (2.0 * result.C) ** 0.5)
    for what, is_true in {
        "the lower bound": lower >= result.margin - 1e-9,
        "the upper bound": not p.size or (upper <= result.upper_bound + 1e-9 and abs(p.sum() - 1.0) < 1e-9),
        "separation": not result.is_separable or margins.min() > 0.0,
        "overlap": result.is_separable is not False or lower < 0.0,
        "the classes": result.classes is None or result.classes.tolist() == [-1, 1],
        "the intercept": result.fit_intercept or not result.intercept,
        "w": last @ w > 0.0 and ("t" in result.history.columns or np.allclose(last, w / length)),
    }.items():
        if not is_true:
            raise Failed(f"{what} is false, and confirmed")


def _parquet_rows(path: Path) -> Rows:
    file = pq.ParquetFile(path)
    table = file.read()
    table.validate(full=True)
    if table.num_rows != file.metadata.num_rows:
        raise ValueError("rows are missing")
    # Columns are taken by position: damage may give two of them one name.
    places = [j for j, name in enumerate(table.column_names) if name != "y"]
    X = np.column_stack([table.column(j).to_numpy().astype(np.float64) for j in places])
    return X, table.column("y").to_numpy()


def _load_parquet(path: Path, good: Good) -> None:
    _poison()
    X, y = load(path, label="y")
    expected = _reference(lambda: _parquet_rows(path))
    if not isinstance(expected, Exception) and y.dtype.kind != "f":
        expected = expected[0], None  # damage has changed the type of the labels
    _same((X, y), expected)


def _open_parquet(path: Path, good: Good) -> None:
    expected = _reference(lambda: _parquet_rows(path))
    if isinstance(expected, Exception):
        rows = open_rows(path)
        _poison()
        rows.ask(Measure())
        rows.take(np.arange(rows.n))
        raise Failed(f"the file was read, though it is broken: {expected}")
    _check_pass(path, expected[0])


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a file; every stream must end, and nothing may follow the last one."""
    raw, ending = path.read_bytes(), path.suffix
    if ending not in (".gz", ".bz2", ".xz"):
        return raw
    if ending == ".gz":
        return gzip.decompress(raw)
    found = b""
    while True:
        stream = bz2.BZ2Decompressor() if ending == ".bz2" else lzma.LZMADecompressor(lzma.FORMAT_XZ)
        found += stream.decompress(raw)
        if not stream.eof:
            raise EOFError("a stream does not end")
        raw = stream.unused_data
        rest = raw.lstrip(b"\0") if ending == ".xz" else raw
        if (len(raw) - len(rest)) % 4:
            raise OSError("odd padding")
        raw = rest
        if not raw:
            return found


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    value = float(text)
    if text.strip().lstrip("+-").isdigit() and len(text) < 400 and int(text) != value:
        raise ValueError(f"{text!r} has no float64")
    return value


def _libsvm_rows(path: Path) -> Rows:
    y, data, indices, indptr = [], [], [], [0]
    seen = []
    for line in _unpacked(path).split(b"\n"):
        tokens = line.partition(b"#")[0].decode("latin-1").split()
        pairs = [token.split(":") for token in tokens[1:] if not token.startswith("qid:")]
        if not tokens:
            continue
        y.append(_number(tokens[0]))
        for index, value in pairs:
            if not re.fullmatch(r"[+-]?\d+", index, re.ASCII):
                raise ValueError(f"{index!r} is no index")
            seen.append(int(index))
            if _number(value):
                indices.append(int(index))
                data.append(float(value))
        indptr.append(len(data))
    first = 0 if 0 in seen else 1
    return (np.array(data), np.array(indices, np.int64) - first, np.array(indptr)), np.array(y)


def _load_libsvm(path: Path, good: Good) -> None:
    _poison()
    X, y = load(path)
    _same(((X.data, X.indices, X.indptr), y), _reference(lambda: _libsvm_rows(path)))


def _open_libsvm(path: Path, good: Good) -> None:
    if zlib.crc32(path.read_bytes()) % 8:  # a cache is written for each file, which is slow
        return
    cache_dir = path.parent / "other-cache"
    try:
        rows = open_rows(path, cache_dir=cache_dir)
        expected = _reference(lambda: _libsvm_rows(path))
        if isinstance(expected, Exception):
            raise Failed(f"the file was opened, though it is broken: {expected}")
        (data, indices, indptr), y = expected
        if rows.d < 10_000:
            X = csr_array((data, indices, indptr), shape=(y.size, rows.d)).toarray()
            _check_pass(path, X, cache_dir=cache_dir)
    finally:
        shutil.rmtree(cache_dir, ignore_errors=True)


def _csv_rows(path: Path) -> Rows:
    records = csv.reader(io.StringIO(_unpacked(path).decode("utf-8-sig"), newline=""), skipinitialspace=True)
    names, *cells = [row for row in records if len(row) > 1 or (row and row[0].strip())]
    names = [name.strip().lower() for name in names]
    (at,) = [j for j, name in enumerate(names) if name in ("y", "label", "target", "class")]
    X = np.array([[_number(cell) for j, cell in enumerate(row) if j != at] for row in cells])
    labels = [row[at].strip() for row in cells]
    try:
        return X, np.array([_number(label) for label in labels])
    except ValueError:
        return X, np.array(labels)


def _load_csv(path: Path, good: Good) -> None:
    _poison()
    X, y = load(path)
    text = _reference(lambda: _unpacked(path))
    if isinstance(text, bytes) and not text.startswith(b"a,b,c,d,y\n"):
        raise Refused  # a damaged header may be a row, or have other labels
    _same((X, y), _reference(lambda: _csv_rows(path)))


def _cached(text: Path, cache_dir: Path) -> Rows:
    rows = cache_libsvm(text, cache_dir)
    return tuple(np.array(a) for a in (rows.data, rows.indices, rows.indptr)), np.array(rows.y)


def _open_cache(path: Path, good: Good) -> None:
    """Put the damaged file into the cache, which must be found damaged, and be made again."""
    made, expected = good.original
    made.write_bytes(path.read_bytes())
    _poison()
    _same(_cached(path.parent / "cached.svm", path.parent / "cache"), expected)
