"""The machinery of ``prgd reproduce``: experiments, their settings, stored rows, processes, the report."""
