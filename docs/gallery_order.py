"""The groups and the order of the gallery: from a first separator to networks and clusters."""

from __future__ import annotations

from pathlib import Path

GROUPS = {
    "First steps": ("first_separator", "no_separator", "soft_margin", "many_classes"),
    "Statistics": ("separation_in_medicine", "probes"),
    "Norms and algorithms": (
        "every_norm",
        "implicit_bias_of_optimizers",
        "margin_race",
        "velocity_field",
        "progressive_schedules",
    ),
    "Deep networks": ("drop_in", "optax_training", "vgg_margins"),
    "Scale": ("out_of_core", "cluster"),
}
ORDER = tuple(name for group in GROUPS.values() for name in group)


class GalleryOrder:
    """Key by which sphinx-gallery sorts examples; a new one that is not listed comes last.

    Parameters
    ----------
    src_dir : str
        The folder of the examples, which sphinx-gallery passes and the order does not need.
    """

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the place of an example."""
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
