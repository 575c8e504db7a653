"""Tiles of two matrix products as LLVM instructions, for the joint kernels. Imported on first use.

A pass over K classes multiplies every entry of X 2 K times, so that arithmetic and not memory takes the time.
Sums must stay in registers, in which Numba's loops do not keep them: each function here emits one loop over
vectors of `LANES` numbers with a register for each sum. BLAS took 1.6 times as long on these shapes (10
classes, blocks of 256 rows of 50 columns), and its threads would have to be kept from starting.

A block of rows lies transposed in a buffer ``XT``: ``XT[j * stride + r]`` is column j of row r. Lanes are
rows, so that any number of classes fits. Buffers are flat float64 arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

intrinsic: Any = extending.intrinsic  # type checkers would count the typing context as an argument of calls

_HAS_512_BITS = bool(llvm.get_host_cpu_features().get("avx512f", False))
LANES = 8 if _HAS_512_BITS else 4
PAIR = 2 * LANES  # rows of a tile of products
ROW_SUMS = 4 * LANES  # sums of a row: four registers, since one waits four cycles for the last sum
COLUMNS = 4 if _HAS_512_BITS else 2  # columns of a tile of sums; there are 32 registers of 512 bits, else 16

_DOUBLE, _INT = ir.DoubleType(), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_CONTRACT = ("contract",)  # a product and a sum become one instruction


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index], inbounds=True)


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=8)


def _mask(lanes: Iterable[int]) -> Any:
    places = [_INT(lane) for lane in lanes]
    return ir.Constant(ir.VectorType(_INT, len(places)), places)


def _splat(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, _INT(0))
    return builder.shuffle_vector(first, undefined, _mask([0] * LANES))


def _sums(builder: Any, count: int) -> list[Any]:
    """Return ``count`` vectors of zeros; LLVM keeps them in registers."""
    sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(count)]
    zero = ir.Constant(_VECTOR, [_DOUBLE(0.0)] * LANES)
    for one in sums:
        builder.store(zero, one)
    return sums


def _add_product(builder: Any, total: Any, a: Any, b: Any) -> None:
    product = builder.fmul(a, b, flags=_CONTRACT)
    builder.store(builder.fadd(builder.load(total), product, flags=_CONTRACT), total)


def _lane_sum(builder: Any, vector: Any) -> Any:
    """Add the lanes of a vector in pairs."""
    width = LANES
    while width > 1:
        width //= 2
        halves = range(width), range(width, 2 * width)
        vector = builder.fadd(*(builder.shuffle_vector(vector, vector, _mask(half)) for half in halves))
    return builder.extract_element(vector, _INT(0))


@intrinsic
def power_of_two(typing: Any, exponent: Any) -> Any:
    """Return 2^n for an integer n from -1022 to 1023."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = args[0].type
        bits = builder.shl(builder.add(args[0], wide(1023)), wide(52))
        return builder.bitcast(bits, _DOUBLE)

    return types.float64(types.int64), code


@intrinsic
def transpose(typing: Any, X: Any, rows: Any, r: Any, j: Any, XT: Any, stride: Any) -> Any:
    """Copy columns ``j..j + LANES`` of the rows ``rows[r..r + LANES]`` of X to their places in XT.

    The entries of a row of X lie side by side; they are float32 or float64.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        X, rows, r, j, XT, stride = args
        X_type, rows_type, XT_type = signature.args[0], signature.args[1], signature.args[4]
        table = context.make_array(X_type)(context, builder, X)
        row_bytes = builder.extract_value(table.strides, 0)
        half = LANES // 2
        stored = ir.VectorType(table.data.type.pointee, half)
        places = []
        for lane in range(LANES):
            place = _address(context, builder, rows_type, rows, builder.add(r, r.type(lane)))
            row = cgutils.pointer_add(builder, table.data, builder.mul(builder.load(place), row_bytes))
            places.append(builder.gep(row, [j]))

        def entries(lane: int, first: int) -> Any:
            start = builder.gep(places[lane], [j.type(first)])
            vector = builder.load(
                builder.bitcast(start, stored.as_pointer()), align=X_type.dtype.bitwidth // 8
            )
            wide = ir.VectorType(_DOUBLE, half)
            return vector if stored == wide else builder.fpext(vector, wide)

        # Halves of two rows are joined as they are loaded, which takes no instruction of its own. Then
        # quarters of two vectors change places, and at last single entries.
        both = _mask(range(LANES))
        vectors = [
            builder.shuffle_vector(entries(lane, first), entries(lane + half, first), both)
            for first in (0, half)
            for lane in range(half)
        ]
        while half > 1:
            half //= 2
            for i in range(LANES):
                if not i & half:
                    a, b = vectors[i], vectors[i + half]
                    low = _mask(n if not n & half else LANES + n - half for n in range(LANES))
                    high = _mask(n + half if not n & half else LANES + n for n in range(LANES))
                    vectors[i], vectors[i + half] = (
                        builder.shuffle_vector(a, b, mask) for mask in (low, high)
                    )
        for column, vector in enumerate(vectors):
            index = builder.add(r, builder.mul(stride, builder.add(j, j.type(column))))
            to = _address(context, builder, XT_type, XT, index)
            builder.store(vector, builder.bitcast(to, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(X, rows, whole, whole, XT, whole), code


def _prefetch(builder: Any, address: Any) -> None:
    """Ask for a line of memory in the second-level cache; an address outside of any array does no harm."""
    kind = ir.FunctionType(ir.VoidType(), [address.type, _INT, _INT, _INT])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(ask, [address, _INT(0), _INT(2), _INT(1)])


def product_tile(classes: int) -> Any:
    """Return a function that writes ``S[k * stride + r] = <w_k, x_r>`` for PAIR rows and some classes.

    Beside every column it asks for ``step`` bytes more of what X holds from row ``ahead`` on.
    """

    @intrinsic
    def tile(
        typing: Any,
        XT: Any,
        r: Any,
        stride: Any,
        W: Any,
        width: Any,
        k: Any,
        d: Any,
        S: Any,
        X: Any,
        ahead: Any,
        step: Any,
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            XT, r, stride, W, width, k, d, S, X, ahead, step = args
            table = context.make_array(signature.args[8])(context, builder, X)
            row_bytes = builder.extract_value(table.strides, 0)
            bytes_ahead = builder.bitcast(table.data, ir.IntType(8).as_pointer())
            bytes_ahead = builder.gep(bytes_ahead, [builder.mul(ahead, row_bytes)])
            sums = _sums(builder, 2 * classes)
            weights = [
                _address(
                    context, builder, signature.args[3], W, builder.mul(builder.add(k, k.type(i)), width)
                )
                for i in range(classes)
            ]
            with cgutils.for_range(builder, d) as loop:
                _prefetch(builder, builder.gep(bytes_ahead, [builder.mul(loop.index, step)]))
                at = builder.add(builder.mul(loop.index, stride), r)
                low = _load(builder, _address(context, builder, signature.args[0], XT, at))
                at = builder.add(at, at.type(LANES))
                high = _load(builder, _address(context, builder, signature.args[0], XT, at))
                for i, weight in enumerate(weights):
                    w = _splat(builder, builder.load(builder.gep(weight, [loop.index])))
                    _add_product(builder, sums[2 * i], low, w)
                    _add_product(builder, sums[2 * i + 1], high, w)
            for i, total in enumerate(sums):
                index = builder.mul(builder.add(k, k.type(i // 2)), stride)
                index = builder.add(builder.add(index, r), r.type(i % 2 * LANES))
                to = _address(context, builder, signature.args[7], S, index)
                builder.store(builder.load(total), builder.bitcast(to, _VECTOR.as_pointer()), align=8)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(XT, whole, whole, W, whole, whole, whole, S, X, whole, whole), code

    return tile


def sum_tile(classes: int, columns: int) -> Any:
    """Return a function that adds ``sum_r C[k * stride + r] x_rj`` to ``V[k * d + j]``.

    The sum is over ``first <= r < last``, a multiple of LANES rows, for classes from k and columns from j on.
    """

    @intrinsic
    def tile(
        typing: Any, XT: Any, j: Any, C: Any, k: Any, stride: Any, first: Any, last: Any, V: Any, d: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            XT, j, C, k, stride, first, last, V, d = args

            def starts(place: int, array: Any, line: Any, count: int) -> list[Any]:
                lines = [builder.mul(builder.add(line, line.type(i)), stride) for i in range(count)]
                return [_address(context, builder, signature.args[place], array, at) for at in lines]

            entries, factors = starts(0, XT, j, columns), starts(2, C, k, classes)
            sums = _sums(builder, classes * columns)
            with cgutils.for_range_slice(builder, first, last, first.type(LANES)) as (r, _):
                x = [_load(builder, builder.gep(entry, [r])) for entry in entries]
                for i, factor in enumerate(factors):
                    c = _load(builder, builder.gep(factor, [r]))
                    for column in range(columns):
                        _add_product(builder, sums[i * columns + column], c, x[column])
            for i, total in enumerate(sums):
                index = builder.mul(builder.add(k, k.type(i // columns)), d)
                index = builder.add(builder.add(index, j), j.type(i % columns))
                to = _address(context, builder, signature.args[7], V, index)
                found = _lane_sum(builder, builder.load(total))
                builder.store(builder.fadd(builder.load(to), found), to)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(XT, whole, C, whole, whole, whole, whole, V, whole), code

    return tile


def _sparse_entry(context: Any, builder: Any, kinds: Any, args: Any, q: Any, width: Any) -> tuple[Any, Any]:
    """Return entry q of CSR rows as float64, and where the numbers of its column start in a matrix."""
    data, indices, matrix = args
    value = builder.load(_address(context, builder, kinds[0], data, q))
    if value.type != _DOUBLE:
        value = builder.fpext(value, _DOUBLE)
    column = builder.load(_address(context, builder, kinds[1], indices, q))
    if column.type != width.type:
        column = builder.zext(column, width.type)
    return value, _address(context, builder, kinds[2], matrix, builder.mul(column, width))


@intrinsic
def add_row_products(
    typing: Any, X: Any, i: Any, vectors: Any, first: Any, last: Any, sums: Any, at: Any, ahead: Any
) -> Any:
    """Add ``x_ij w_j`` over columns ``first..last`` of a row to sums, for each vector w of a tuple.

    Each vector has `ROW_SUMS` numbers, from ``sums[at]`` on: column j adds to number ``j % ROW_SUMS``. The
    entries of a row lie side by side; ``first`` and ``last`` are multiples of ROW_SUMS. Beside every entry
    the one ``ahead`` places after it is asked for.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        X, i, vectors, first, last, sums, at, ahead = args
        X_type, vectors_type, sums_type = signature.args[0], signature.args[2], signature.args[5]
        table = context.make_array(X_type)(context, builder, X)
        row = cgutils.pointer_add(
            builder, table.data, builder.mul(i, builder.extract_value(table.strides, 0))
        )
        stored = ir.VectorType(table.data.type.pointee, LANES)
        arrays = list(zip(vectors_type, cgutils.unpack_tuple(builder, vectors), strict=True))
        parts = [range(0, ROW_SUMS, LANES)] * len(arrays)
        places = [
            builder.bitcast(
                _address(context, builder, sums_type, sums, builder.add(at, at.type(k * ROW_SUMS + part))),
                _VECTOR.as_pointer(),
            )
            for k, each in enumerate(parts)
            for part in each
        ]
        totals = _sums(builder, len(places))
        for place, total in zip(places, totals, strict=True):
            builder.store(builder.load(place, align=8), total)
        with cgutils.for_range_slice(builder, first, last, first.type(ROW_SUMS)) as (j, _):
            for n, part in enumerate(range(0, ROW_SUMS, LANES)):
                column = builder.add(j, j.type(part))
                later = builder.gep(row, [builder.add(column, ahead)])
                _prefetch(builder, builder.bitcast(later, ir.IntType(8).as_pointer()))
                x = builder.load(
                    builder.bitcast(builder.gep(row, [column]), stored.as_pointer()),
                    align=X_type.dtype.bitwidth // 8,
                )
                x = x if stored == _VECTOR else builder.fpext(x, _VECTOR)
                for k, (kind, array) in enumerate(arrays):
                    w = _load(builder, _address(context, builder, kind, array, column))
                    _add_product(builder, totals[k * ROW_SUMS // LANES + n], x, w)
        for place, total in zip(places, totals, strict=True):
            builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(X, whole, vectors, whole, whole, sums, whole, whole), code


@intrinsic
def sparse_products(
    typing: Any, data: Any, indices: Any, first: Any, last: Any, WT: Any, width: Any, k: Any, out: Any
) -> Any:
    """Write ``sum_q data_q WT[column_q * width + k]`` over the entries ``first..last``, for LANES classes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, indices, first, last, WT, width, k, out = args
        kinds = signature.args[0], signature.args[1], signature.args[4]
        (total,) = _sums(builder, 1)
        with cgutils.for_range_slice(builder, first, last, first.type(1)) as (q, _):
            value, start = _sparse_entry(context, builder, kinds, (data, indices, WT), q, width)
            w = _load(builder, builder.gep(start, [k]))
            _add_product(builder, total, w, _splat(builder, value))
        to = _address(context, builder, signature.args[7], out, k)
        builder.store(builder.load(total), builder.bitcast(to, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(data, indices, whole, whole, WT, whole, whole, out), code


@intrinsic
def sparse_sums(
    typing: Any, data: Any, indices: Any, first: Any, last: Any, factors: Any, k: Any, V: Any, width: Any
) -> Any:
    """Add ``data_q factors[k..]`` to ``V[column_q * width + k..]`` for the entries ``first..last``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, indices, first, last, factors, k, V, width = args
        kinds = signature.args[0], signature.args[1], signature.args[6]
        c = _load(builder, _address(context, builder, signature.args[4], factors, k))
        with cgutils.for_range_slice(builder, first, last, first.type(1)) as (q, _):
            value, start = _sparse_entry(context, builder, kinds, (data, indices, V), q, width)
            place = builder.bitcast(builder.gep(start, [k]), _VECTOR.as_pointer())
            product = builder.fmul(c, _splat(builder, value), flags=_CONTRACT)
            builder.store(
                builder.fadd(builder.load(place, align=8), product, flags=_CONTRACT), place, align=8
            )
        return context.get_dummy_value()

    whole = types.intp
    return types.void(data, indices, whole, whole, factors, whole, V, whole), code
