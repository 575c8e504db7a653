"""
What each layer of a network knows
==================================

A linear probe asks whether a concept can be read off the activations of a network by a hyperplane. The usual
probe is a logistic regression, whose accuracy depends on its regularisation. The largest margin depends on
the data alone. :func:`prgd.max_margin_batch` finds it for many concepts and layers at once. Where there is
no positive margin, it proves that no hyperplane separates the concept.

We train a small network to read handwritten digits, and probe each layer for the ten digits, for four
concepts that the network was never told of, and for a coin flip as control.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import prgd

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE = "#0072B2", "#D55E00"  # safe for colour-blind readers

X, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
rows = rng.permutation(len(X))[:800]
X, digit = X[rows] / 16, digit[rows]
network = MLPClassifier((64,) * 5, alpha=0.1, max_iter=400, random_state=0).fit(X, digit)


def activations(weights, biases):
    """Return the pixels and the activations of each hidden layer, with rows of mean squared norm 1."""
    layers = [X]
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        layers.append(np.maximum(layers[-1] @ W + b, 0))
    return [layer / np.sqrt((layer**2).sum(axis=1).mean()) for layer in layers]


# %%
# Fit all probes
# --------------
# A label set is a column of ``Y``. There are 15 label sets, 6 layers (the pixels count as one) and two
# networks, a trained one and one with random weights: 180 problems. Layers are scaled to a common size, so
# that their margins can be compared.

concepts = {f"digit {k}": digit == k for k in range(10)}
concepts["even"] = digit % 2 == 0
concepts["5 or more"] = digit >= 5
concepts["has a loop"] = np.isin(digit, [0, 6, 8, 9])
concepts["prime"] = np.isin(digit, [2, 3, 5, 7])
concepts["coin flip"] = rng.random(len(digit)) < 0.5
Y = np.column_stack(list(concepts.values()))

trained = activations(network.coefs_, network.intercepts_)
random_weights = [rng.normal(size=W.shape) * np.sqrt(2 / len(W)) for W in network.coefs_]
untrained = activations(random_weights, [np.zeros_like(b) for b in network.intercepts_])
batches = {"trained": prgd.max_margin_batch(trained, Y, tol=1e-3)}
batches["random weights"] = prgd.max_margin_batch(untrained, Y, tol=1e-3)
for name, batch in batches.items():
    print(f"{name}: {batch}")

# %%
# All margins in one picture
# --------------------------
# A number is a margin in thousandths. A cross is a proof that no hyperplane separates the concept.

figure, panels = plt.subplots(1, 2, figsize=(6.6, 5.6), sharey=True, layout="constrained")
for axes, (name, batch) in zip(panels, batches.items(), strict=True):
    margin = np.where(batch.status == prgd.Status.CERTIFIED, batch.margin, np.nan).reshape(6, -1).T
    axes.pcolormesh(np.log10(margin), cmap="viridis", vmin=-4, vmax=-1, edgecolors="white", linewidth=1)
    for (j, i), value in np.ndenumerate(margin):
        text = "×" if np.isnan(value) else f"{1000 * value:.0f}" if value > 0.002 else f"{1000 * value:.1f}"
        colour = "0.5" if np.isnan(value) else "white" if value < 0.01 else "black"
        axes.text(i + 0.5, j + 0.5, text, ha="center", va="center", color=colour, fontsize=10)
    axes.set(
        xticks=np.arange(6) + 0.5,
        xticklabels=["pixels", 1, 2, 3, 4, 5],
        xlabel="layer",
        title=f"{name.capitalize()}",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
panels[0].set(yticks=np.arange(len(concepts)) + 0.5, yticklabels=concepts)
panels[0].invert_yaxis()
plt.show()

# %%
# **What you see.** In the pixels most digits can be separated from the rest, but neither the 8 nor any of
# the four concepts. The trained network makes more and more concepts separable: in the last layer every
# digit and every concept is separable, and for most digits the margin is larger than in the layer before.
# With random weights the opposite happens: fewer concepts are separable in each deeper layer. No layer
# separates the coin flip: 64 activations are too few to fit 800 random labels.
#
# Which images decide
# -------------------
# A margin is decided by few images, the support vectors, which have a positive dual weight. Here are the
# images with the largest weights in the probe for the 8 in the last layer: 8s and other digits that are hard
# to tell apart.

probe = batches["trained"].of_block(5)[8]
support, weights = probe.support, probe.dual_weights
bounds = f"{probe.margin:.6f} <= largest margin <= {probe.upper_bound:.6f}"
print(f"{bounds}, proven by {len(support)} of {len(X)} images")

figure, panels = plt.subplots(2, 5, figsize=(6.4, 3.2), layout="constrained")
for row, is_eight in zip(panels, (True, False), strict=True):
    of_class = concepts["digit 8"][support] == is_eight
    heaviest = support[of_class][np.argsort(-weights[of_class])[:5]]
    for axes, image in zip(row, heaviest, strict=False):
        axes.imshow(X[image].reshape(8, 8), cmap="gray_r")
        axes.set_title(f"a {digit[image]}", color=BLUE if is_eight else ORANGE, fontsize=11)
        axes.set_axis_off()
figure.suptitle("The images that decide the margin of the 8", fontsize=12)
plt.show()

# %%
# **What to do.** Take the activations of your model, one matrix for each layer, and a column of labels for
# each concept; 0 in a column means that the label is not known. ``batch.cosine`` says how close the
# direction of each probe provably is to the exact one, so that directions of two runs can be compared. The
# page on :doc:`probes </probes>` says more.

batch = batches["trained"]
cosine = batch.cosine[batch.status == prgd.Status.CERTIFIED].min()
print(f"smallest proven cosine of a probe to the exact direction: {cosine:.4f}")
