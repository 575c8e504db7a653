"""What several unit tests of algorithms start from."""

import grid
import pytest


@pytest.fixture(params=[False, True], ids=["origin", "intercept"])
def intercept(request):
    return request.param


@pytest.fixture
def data():
    return grid.PROBLEMS["gaussian"]()
