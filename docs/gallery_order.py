"""The order of the gallery: from a first separator to networks and clusters."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "first_separator",
    "no_separator",
    "separation_in_medicine",
    "soft_margin",
    "every_norm",
    "many_classes",
    "probes",
    "margin_race",
    "velocity_field",
    "progressive_schedules",
    "implicit_bias_of_optimizers",
    "drop_in",
    "optax_training",
    "vgg_margins",
    "out_of_core",
    "cluster",
)


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
