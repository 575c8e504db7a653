"""
PRGD in a training loop: three lines
====================================

This is a plain PyTorch training loop. The three lines marked ``(+)`` are all that PRGD adds to it. The
network has no biases, so it is *homogeneous*: longer weights give larger outputs and the same decisions. So
we compare the *normalized margin*: the smallest margin of a training point, divided by a power of the norm
of the weights. It says how clearly the worst point is classified, whatever the norm of the weights.
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy

from prgd.deep import NGD, PRGD, normalized_margin  # (+)

plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
GREY, ORANGE, BLUE = "#777777", "#D55E00", "#0072B2"  # safe for colour-blind readers


def make_data(seed=0):
    """Return 512 points of 3 classes that a small network separates."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(512, 10, generator=generator)
    teacher = torch.randn(10, 3, generator=generator)
    return x, (x @ teacher).argmax(dim=1)


def train(lr, *, use_prgd, wrapper=PRGD, steps=1000, watch=None):
    """Return the loss and the normalized margin at the end; the list ``watch`` gets both on the way."""
    x, y = make_data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 64, bias=False), torch.nn.ReLU(), torch.nn.Linear(64, 3, bias=False)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)
    if use_prgd:
        optimizer = wrapper(optimizer)  # (+) optimizer = PRGD(optimizer)
    for t in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        if use_prgd:
            optimizer.step(loss=loss)  # (+)
        else:
            optimizer.step()
        if watch is not None and t % 20 == 0:
            watch.append((t, loss.item(), normalized_margin(model, [(x, y)]).normalized_margin))
    return loss.item(), normalized_margin(model, [(x, y)]).normalized_margin


# %%
# Three optimizers
# ----------------
# SGD with momentum is the base optimizer. NGD (normalized gradient descent) divides the gradient by the
# loss, so that steps do not shrink as the loss falls. PRGD starts with the steps of the base. When the loss
# is small, it lengthens the steps, as NGD does, and rescales the weights from time to time, both only while
# the loss falls.

runs = [
    ("SGD, rate 0.3", 0.3, None, 1000, GREY, ":"),
    ("NGD, rate 0.3", 0.3, NGD, 100, ORANGE, "-"),
    ("NGD, rate 0.003", 0.003, NGD, 1000, ORANGE, "--"),
    ("PRGD, rate 0.3", 0.3, PRGD, 1000, BLUE, "-"),
]
ends = {}  # loss and margin at the end, by rate and wrapper
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.2, 6.4), sharex=True, layout="constrained")
for name, lr, wrapper, steps, colour, dashes in runs:
    seen = []
    ends[lr, wrapper] = train(lr, use_prgd=wrapper is not None, wrapper=wrapper, steps=steps, watch=seen)
    t, loss, margin = zip(*seen, strict=True)
    top.semilogy(t, loss, dashes, color=colour, linewidth=2)
    bottom.plot(t, margin, dashes, color=colour, linewidth=2)
    print(f"{name:15} after {steps:5,} steps: loss {loss[-1]:.1e}, normalized margin {margin[-1]:.4f}")
top.text(225, 5e-3, "SGD, rate 0.3", color=GREY, weight="bold")
top.text(330, 0.25, "NGD, rate 0.003", color=ORANGE, weight="bold")
top.text(110, 8, "NGD, rate 0.3, diverges", color=ORANGE, weight="bold")
top.text(330, 3e-6, "PRGD, rate 0.3", color=BLUE, weight="bold")
bottom.text(800, 0.0165, "SGD", color=GREY, weight="bold")
bottom.text(300, -0.017, "NGD, rate 0.003", color=ORANGE, weight="bold")
bottom.text(330, 0.0265, "PRGD", color=BLUE, weight="bold")
bottom.axhline(0, color="black", linewidth=0.8)
bottom.text(1000, 0.001, "above: all points are right", ha="right")
top.set(ylabel="training loss", title="At SGD's own rate the loss of PRGD keeps falling")
bottom.set(
    ylim=(-0.03, 0.031), xlabel="step", ylabel="normalized margin", title="... and its margin keeps growing"
)
plt.show()

# %%
# **What you see.** At SGD's rate NGD diverges at once, since its first steps are too long. At a hundredth of
# this rate NGD reaches the same margin as PRGD after 1,000 steps, but separates the data only after half of
# them. PRGD follows SGD until the loss is small, and only then speeds up.
#
# Other learning rates
# --------------------
# On this task PRGD needs no learning rate of its own: it improves on SGD at each of three rates of SGD.

for lr in (0.1, 1.0):
    ends[lr, None], ends[lr, PRGD] = train(lr, use_prgd=False), train(lr, use_prgd=True)
figure, axes = plt.subplots(figsize=(6.2, 2.8), layout="constrained")
for k, lr in enumerate((0.1, 0.3, 1.0)):
    (plain_loss, plain), (loss, margin) = ends[lr, None], ends[lr, PRGD]
    axes.annotate(
        "", (margin, k), (plain, k), arrowprops={"arrowstyle": "-|>", "linewidth": 2, "color": BLUE}
    )
    axes.plot(plain, k, "o", color=GREY, markersize=9)
    axes.plot(margin, k, "^", color=BLUE, markersize=9)
    axes.text(margin + 0.0004, k, f"loss {plain_loss / loss:,.0f} times smaller", va="center")
    print(f"rate {lr:g}: loss {plain_loss:.1e} -> {loss:.1e}, normalized margin {plain:.4f} -> {margin:.4f}")
plain, margin = ends[1.0, None][1], ends[1.0, PRGD][1]
axes.text(plain, 2.25, "SGD", color=GREY, weight="bold", ha="center")
axes.text(margin, 2.25, "PRGD", color=BLUE, weight="bold", ha="center")
axes.set(yticks=range(3), yticklabels=["rate 0.1", "rate 0.3", "rate 1"], ylim=(-0.5, 2.7))
axes.set(xlim=(0.0188, 0.034), xticks=[0.02, 0.024, 0.028, 0.032], xlabel="normalized margin")
axes.set_title("A larger margin and a smaller loss after 1,000 steps")
plt.show()

# %%
# **What to do.** If your network fits its training data and you care about margins, wrap your optimizer and
# pass the loss to ``step``. :class:`prgd.deep.PRGD` names the parameters that make a network not
# homogeneous, such as inner biases. The guide to :doc:`deep networks </deep>` says when it helps and
# when not. A larger margin on the training set does not promise better test accuracy: see the :ref:`margins
# of VGG-16 <sphx_glr_gallery_vgg_margins.py>`.
