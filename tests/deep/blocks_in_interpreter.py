"""Run by test_block_kernels.py with TRITON_INTERPRET=1, which must be set before Triton is imported.

Prints one line a case: its name and the largest error relative to the norm of a tensor.
"""

import numpy as np
import torch

from prgd.deep.optim.blocks import Blocks

GENERATOR = torch.Generator().manual_seed(0)
NO, YES = torch.zeros(()), torch.ones(())


def draw(shape, dtype=torch.float32):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64).to(dtype)


def blocks_of(weights):
    """Return blocks of one tensor each, with the kernel that a CUDA device would have."""
    blocks = Blocks(
        [[w] for w in weights], torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    )
    blocks._has_kernels = True
    return blocks


def error(found, expected):
    """Return the largest error relative to its tensor's norm; NaN where one is."""
    pairs = zip(found, expected, strict=True)
    return float(np.max([float((a.double() - b).norm() / max(float(b.norm()), 1e-300)) for a, b in pairs]))


def scale_error(weights, factors):
    expected = [f * w.double() for w, f in zip(weights, factors.double(), strict=True)]
    blocks_of(weights).scale_(factors)
    return error(weights, expected)


def project_error(weights, radii, hold=NO):
    before = [w.double() for w in weights]
    blocks_of(weights).project_(radii, hold)
    pairs = zip(before, radii.double(), strict=True)
    return error(weights, [b if hold else b * min(1.0, float(R / b.norm())) for b, R in pairs])


def moved(W, d, R, eta, hold):
    W, d = W.double(), d.double()
    if hold or not torch.isfinite(d).all() or not d.any():
        return W
    v = W + eta * R * d / d.norm()
    return R * v / v.norm()


def move_error(weights, steps, radii, rates, hold=NO):
    """Return the error of a whole relative step: the base's step from 0, then the move."""
    cases = zip(weights, steps, radii.double(), rates.double(), strict=True)
    expected = [moved(*case, hold=bool(hold)) for case in cases]
    blocks = blocks_of(weights)
    with blocks.collecting_updates():
        for w, d in zip(weights, steps, strict=True):
            w.add_(d)
    blocks.move_on_spheres_(radii, rates, hold)
    return error(weights, expected)


def lists(dtype=torch.float32, *, scale=1e-3):
    """Return weights and steps: one number, several chunks, an order of dimensions of its own, odd sizes."""
    shapes = [(3, 5, 3, 3), (1,), (2, 4097)] + ([(7, 11), (4096,)] if dtype == torch.float32 else [])
    weights = [draw(shape, dtype) for shape in shapes]
    weights[0] = weights[0].to(memory_format=torch.channels_last)
    return weights, [torch.empty_like(w).copy_(scale * draw(w.shape)) for w in weights]


def radii_of(weights):
    """Return radii of which every second one is smaller than the norm."""
    return torch.tensor([(0.5, 1.5)[i % 2] * max(float(w.norm()), 1.0) for i, w in enumerate(weights)])


def unaligned(count):
    """Return views of one flat tensor that begin at any multiple of 4 bytes."""
    return list(draw(100 * count).split([100 + (-1) ** i for i in range(count)]))


def main():
    cases = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        weights, steps = lists(dtype)
        radii = radii_of(weights).to(torch.float64 if dtype == torch.float64 else torch.float32)
        rates = torch.linspace(0.01, 1.0, len(radii), dtype=radii.dtype)
        cases[f"{name}: scale"] = scale_error([w.clone() for w in weights], rates)
        cases[f"{name}: project"] = project_error([w.clone() for w in weights], radii)
        cases[f"{name}: move"] = move_error(weights, steps, radii, rates)
    weights, steps = lists()
    radii, rates = radii_of(weights), torch.full((len(weights),), 0.5)
    cases["exact: held projection"] = project_error([w.clone() for w in weights], radii, YES)
    cases["exact: held move"] = move_error(weights, steps, radii, rates, YES)
    weights, steps = [draw((3, 1500)) for _ in range(4)], [draw((3, 1500)) for _ in range(4)]
    steps[0].zero_()
    steps[1][2, 7], steps[2][0, 0] = torch.nan, -torch.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        cases["float32: steps that are 0 or not finite"] = move_error(weights, steps, radii[:4], rates[:4])
    large = [torch.zeros(5), torch.full((3,), 1e25), torch.full((3,), 2.0)]
    with np.errstate(over="ignore"):
        blocks_of(large).project_(torch.ones(3), NO)
    expected = [torch.zeros(5), torch.full((3,), 1e25), torch.full((3,), 3.0**-0.5)]
    cases["float32: norms of 0 and beyond the range"] = error(large, [t.double() for t in expected])
    views = unaligned(4)
    cases["float32: unaligned"] = move_error(views, unaligned(4), radii_of(views), rates[:4])
    for name, found in cases.items():
        print(f"{name}: {found:.3e}")


if __name__ == "__main__":
    main()
