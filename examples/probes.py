"""Linear probes by layer: margins and certified cosines of 30 label sets over 12 generated layers.

Usage: python examples/probes.py docs/images/probes.png

A layer is a block of activations: noise whose columns have standard deviations that fall as a power, and for
each of 30 concepts a direction that is added or subtracted. Its strength grows with the layer.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import prgd

LAYERS, ROWS, COLUMNS, CONCEPTS = 12, 400, 160, 30
COLOURS = {"separable": "#009E73", "margin": "#0072B2", "cosine": "#D55E00", "certified": "#000000"}


def activations(rng, Y, strength):
    """Return a layer and the planted directions, one for each concept."""
    noise = rng.standard_normal((len(Y), COLUMNS)) * np.arange(1, COLUMNS + 1.0) ** -0.3
    V = rng.standard_normal((COLUMNS, Y.shape[1]))
    V /= np.linalg.norm(V, axis=0)
    return noise + strength * Y @ V.T, V


def draw(batch, cosine, path):
    """Draw the share of label sets that separate, their margins, and the cosines, against the layer."""
    layers, rows = np.arange(LAYERS), (LAYERS, CONCEPTS)
    found = batch.is_status(prgd.Status.CERTIFIED).reshape(rows)
    margin, certified = batch.margin.reshape(rows), batch.cosine.reshape(rows)
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    axes = figure.subplots(1, 3)
    axes[0].bar(layers, found.mean(axis=1), color=COLOURS["separable"])
    axes[0].set(ylim=(0, 1.02), ylabel="share of label sets", title="separable, proven either way")
    for layer in layers:
        some = found[layer]
        axes[1].plot(np.full(some.sum(), layer), margin[layer][some], ".", color=COLOURS["margin"], alpha=0.4)
        axes[2].plot(np.full(some.sum(), layer), cosine[layer][some], ".", color=COLOURS["cosine"], alpha=0.4)
    separable = layers[found.any(axis=1)]
    for k, values, name in ((1, margin, "margin"), (2, cosine, "cosine")):
        median = [np.median(values[layer][found[layer]]) for layer in separable]
        axes[k].plot(separable, median, color=COLOURS[name], label="with the planted direction")
    least = [certified[layer][found[layer]].min() for layer in separable]
    label = "with the exact probe,\nproven, at least"
    axes[2].plot(separable, least, color=COLOURS["certified"], linewidth=1.2, label=label)
    axes[1].set(ylabel="margin", title="margin of each probe", ylim=(0, None))
    axes[2].set(ylabel="cosine", title="direction of each probe", ylim=(0, 1.05))
    axes[2].legend(loc="lower right", frameon=False, fontsize=8)
    for one in axes:
        one.set(xlabel="layer", xlim=(-0.7, LAYERS - 0.3), xticks=range(0, LAYERS, 2))
        one.grid(alpha=0.25)
    figure.savefig(path, dpi=150)


def main(path):
    """Generate the layers, fit all probes, and print and draw what they show."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((ROWS, CONCEPTS)) < 0.5, 1, -1)
    layers = [activations(rng, Y, strength) for strength in np.linspace(0.0, 0.5, LAYERS)]
    X, V = [layer for layer, _ in layers], [directions for _, directions in layers]
    Y = Y * (rng.random(Y.shape) > 0.1)  # a tenth of the labels is not known
    batch = prgd.max_margin_batch(X, Y, tol=1e-4)
    w = batch.coef.reshape(LAYERS, CONCEPTS, COLUMNS)
    cosine = np.einsum("lkd,ldk->lk", w, np.array(V)) / np.linalg.norm(w, axis=2)
    print(batch)
    for layer in range(LAYERS):
        one = batch.of_block(layer)
        found = one.is_status(prgd.Status.CERTIFIED)
        line = f"layer {layer:2d}: {found.sum():2d} of {CONCEPTS} separable"
        if found.any():
            line += (
                f"  margin {np.median(one.margin[found]):.3f}  cosine {np.median(cosine[layer][found]):.3f}"
            )
        print(line)
    draw(batch, cosine, path)


if __name__ == "__main__":
    main(sys.argv[1])
