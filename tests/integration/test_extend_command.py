"""A command is one file: from ``cli/`` it appears on the command line, without other edits."""

from __future__ import annotations

import pytest
from extension import Copy

COUNT = '''
"""The command ``prgd count-rows``."""

from __future__ import annotations

from prgd.cli import common
from prgd.cli.data import open_data


def count_rows_command(data: common.Data, debug: common.Debug = False) -> None:
    """Count the rows of DATA."""
    with common.one_line_errors(debug):
        name, rows, *_ = open_data(data, common.RowsOptions())
        common.print_table([(name, str(rows.n))])
'''


@pytest.mark.slow
def test_a_new_command(tmp_path):
    copy = Copy(tmp_path)
    copy.add("cli/count_rows.py", COUNT)
    assert copy.prgd("count-rows", "digits:0,1") == ("digit-01: 360\n", "")
    assert "Count the rows of DATA." in copy.prgd("--help")[0]
    assert copy.prgd("count-rows", "digit:0,1", code=2)[1].startswith(
        "Error: Unknown file or data set 'digit'."
    )
