"""Run by test_block_kernels.py with TRITON_INTERPRET=1, which must be set before Triton is imported.

Prints one line a case: its name and the largest error relative to the norm of a tensor.
"""

from __future__ import annotations

import numpy as np
import torch

from prgd.deep.optim import _triton_blocks
from prgd.deep.optim._triton_blocks import BlockKernels

GENERATOR = torch.Generator().manual_seed(0)
NO, YES = torch.zeros(()), torch.ones(())


def draw(shape, dtype=torch.float32):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64).to(dtype)


def largest_error(found, expected):
    """Return the largest error relative to its tensor's norm; NaN where one is."""
    errors = [
        float((a.double() - b).norm() / max(float(b.norm()), 1e-300))
        for a, b in zip(found, expected, strict=True)
    ]
    return float(np.max(errors))


def project_error(tensors, radii, hold=NO):
    before = [t.double() for t in tensors]
    BlockKernels(tensors).project_(radii, hold)
    pairs = zip(before, radii.double(), strict=True)
    return largest_error(tensors, [b if hold else b * min(1.0, float(R / b.norm())) for b, R in pairs])


def scale_error(tensors, factors):
    expected = [f * t.double() for t, f in zip(tensors, factors.double(), strict=True)]
    BlockKernels(tensors).scale_(factors)
    return largest_error(tensors, expected)


def moved(W, d, R, eta, hold):
    W, d = W.double(), d.double()
    if hold or not torch.isfinite(d).all() or not d.any():
        return W
    v = W + eta * R * d / d.norm()
    return R * v / v.norm()


def move_error(weights, steps, radii, rate, hold=NO, *, into_starts=False):
    """Return the error of a whole relative step: the base's step from 0, then the move."""
    rates = rate.expand(len(weights)).contiguous()
    cases = zip(weights, steps, radii.double(), rates.double(), strict=True)
    expected = [moved(*case, hold=bool(hold)) for case in cases]
    if into_starts:
        BlockKernels(steps, weights).move_on_spheres_(radii, rates, hold, into_starts=True)
        assert not any(step.any() for step in steps)
        return largest_error(weights, expected)
    starts = [torch.empty_like(w) for w in weights]
    kernels, before = BlockKernels(weights, starts), [w.clone() for w in weights]
    for start, w, d in zip(starts, weights, steps, strict=True):
        start.copy_(w)
        w.copy_(d)
    kernels.move_on_spheres_(radii, rates, hold)
    assert all(map(torch.equal, starts, before))
    return largest_error(weights, expected)


def lists(dtype=torch.float32, *, scale=1e-3):
    """Return weights and steps: odd sizes, one number, several chunks, an order of dimensions of its own."""
    shapes = [(7, 11), (1,), (3, 5, 3, 3), (4096,), (0, 3), (90, 101), (2, 4097)]
    weights = [draw(shape, dtype) for shape in shapes]
    weights[2] = weights[2].to(memory_format=torch.channels_last)
    return weights, [torch.empty_like(w).copy_(scale * draw(w.shape)) for w in weights]


def radii_of(weights):
    """Return radii of which every second one is smaller than the norm."""
    factors = [0.5 if i % 2 == 0 else 1.5 for i in range(len(weights))]
    norms = [float(w.double().norm()) for w in weights]
    return torch.tensor([f * max(norm, 1.0) for f, norm in zip(factors, norms, strict=True)])


def bad_steps():
    """Return steps that are 0, NaN, infinite in one entry, and as they should be."""
    weights, steps = [draw((3, 1500)) for _ in range(4)], [draw((3, 1500)) for _ in range(4)]
    steps[0].zero_()
    steps[1][2, 7] = torch.nan
    steps[2][0, 0] = -torch.inf
    return weights, steps


def overflow_error():
    """Return 0 if tensors stay whose norm is 0, NaN or beyond the range of float32."""
    tensors = [torch.zeros(5), torch.tensor([1.0, torch.nan]), torch.full((3,), 1e25), torch.full((3,), 2.0)]
    expected = [*(t.double() for t in tensors[:3]), torch.full((3,), 3.0**-0.5).double()]
    BlockKernels(tensors).project_(torch.ones(4), NO)
    assert tensors.pop(1).isnan().tolist() == [False, True]
    del expected[1]
    return largest_error(tensors, expected)


def unaligned(count):
    """Return views of one flat tensor that begin at any multiple of 4 bytes."""
    return list(draw(100 * count).split([100 + (-1) ** i for i in range(count)]))


def main():
    half = torch.tensor(0.5)
    cases = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        weights, steps = lists(dtype)
        radii = radii_of(weights)
        rates = torch.linspace(0.01, 1.0, len(radii))
        copies = [[torch.empty_like(t).copy_(t) for t in some] for some in (weights, steps)]
        cases[f"{name}: project"] = project_error([w.clone() for w in weights], radii)
        cases[f"{name}: scale"] = scale_error([w.clone() for w in weights], rates)
        cases[f"{name}: move"] = move_error(weights, steps, radii, rates)
        cases[f"{name}: move into starts"] = move_error(*copies, radii, rates, into_starts=True)
    weights, steps = lists()
    radii = radii_of(weights)
    cases["exact: held projection"] = project_error([w.clone() for w in weights], radii, YES)
    cases["exact: held move"] = move_error(weights, steps, radii, half, YES)
    cases["exact: held move into starts"] = move_error(weights, steps, radii, half, YES, into_starts=True)
    for scale in (1e-30, 1e15):
        weights, steps = lists(scale=scale)
        cases[f"float32: steps of {scale:g}"] = move_error(weights, steps, radii, half)
    with np.errstate(invalid="ignore"):
        for into_starts in (False, True):
            weights, steps = bad_steps()
            name = f"float32: bad steps, {into_starts}"
            cases[name] = move_error(weights, steps, radii[:4], half, into_starts=into_starts)
    with np.errstate(over="ignore"):
        cases["float32: norms that overflow"] = overflow_error()
    many = [draw((3, i % 5 + 1)) for i in range(100)]
    cases["float32: 100 tensors"] = project_error(many, radii_of(many))
    views = unaligned(6)
    cases["float32: unaligned"] = move_error(views, unaligned(6), radii_of(views), half)
    _triton_blocks.MAX_PARTS = 2
    wide, steps = [draw(20_000), draw(3)], [draw(20_000), draw(3)]
    steps[0][:8192] *= 1e-25  # The largest entry of a chunk comes late.
    cases["float32: several blocks a chunk"] = move_error(wide, steps, radii_of(wide), half)
    cases["float32: projection by several blocks"] = project_error(wide, radii_of(wide))
    for name, error in cases.items():
        print(f"{name}: {error:.3e}")


if __name__ == "__main__":
    main()
