"""Names beside the ends of lines, in place of a legend, placed so that none covers another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from prgd_paper.report.elements import Label, Line

# A letter's width and a line's height as fractions of a panel of the usual size.
LETTER, HEIGHT = 0.03, 0.05
GAP, BEYOND = 0.02, 1.04  # distances of names from the end of a line, and of the column from the left edge


def direct_labels(
    lines: Sequence[Line],
    texts: Mapping[str, str],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
) -> tuple[Label, ...]:
    """Return a label for each line of a panel with logarithmic axes.

    Lines that end at the right edge have their names in a column beyond it, in the order of their ends and
    moved apart; names of lines that end sooner stand beside their ends.

    Parameters
    ----------
    lines : sequence of Line
    texts : mapping of str to str
        The text for the name of a line, if it is another.
    x_range, y_range : pairs of float
        The ends of the axes.
    """
    (x0, x1), (y0, y1) = (tuple(map(math.log10, pair)) for pair in (x_range, y_range))
    ends = [
        ((math.log10(line.x[-1]) - x0) / (x1 - x0), (math.log10(line.y[-1]) - y0) / (y1 - y0))
        for line in lines
    ]
    places: dict[int, tuple[float, float]] = {}
    right = sorted((k for k, (u, _) in enumerate(ends) if u > 0.96), key=lambda k: ends[k][1])
    for k, v in zip(right, _spread([ends[k][1] for k in right]), strict=True):
        places[k] = (BEYOND, v)
    width = [LETTER * len(texts.get(line.name, line.name)) for line in lines]
    for k in sorted((k for k in range(len(lines)) if k not in places), key=lambda k: -ends[k][0]):
        places[k] = _free(ends[k], width[k], [(*places[j], width[j]) for j in places])

    def point(u: float, v: float) -> tuple[float, float]:
        return 10.0 ** (x0 + u * (x1 - x0)), 10.0 ** (y0 + v * (y1 - y0))

    return tuple(
        Label(*point(*places[k]), texts.get(line.name, line.name), line.style.colour, point(*ends[k]))
        for k, line in enumerate(lines)
    )


def _spread(values: Sequence[float]) -> list[float]:
    """Return ascending positions, a line's height apart and near the ascending values (pooled neighbours)."""
    blocks: list[list[float]] = []  # the sum of the wished positions of a block's first label, and its size
    for value in values:
        blocks.append([value, 1.0])
        while len(blocks) > 1 and _top(blocks[-2]) > blocks[-1][0] / blocks[-1][1]:
            wish, size = blocks.pop()
            blocks[-1] = [blocks[-1][0] + wish - size * HEIGHT * blocks[-1][1], blocks[-1][1] + size]
    placed = [wish / size + j * HEIGHT for wish, size in blocks for j in range(int(size))]
    over = max(placed[-1] - 1.0, 0.0) if placed else 0.0
    return [position - over for position in placed]


def _top(block: list[float]) -> float:
    return block[0] / block[1] + HEIGHT * block[1]


def _free(
    end: tuple[float, float], width: float, taken: Sequence[tuple[float, float, float]]
) -> tuple[float, float]:
    """Return the place nearest to the end of a line where its name covers no other."""
    u = min(end[0] + GAP, 1.0)
    for distance in np.arange(0.0, 1.0, HEIGHT / 4.0):
        for v in (end[1] + distance, end[1] - distance):
            is_apart = all(
                abs(v - other_v) >= HEIGHT or u + width <= other_u or other_u + other_width <= u
                for other_u, other_v, other_width in taken
            )
            if is_apart and 0.5 * HEIGHT <= v <= 1.0:
                return u, float(v)
    return u, end[1]
