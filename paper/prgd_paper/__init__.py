"""What serves the paper: its figures, statements, methods and training, run again and judged."""

__version__ = "0.2.0"
