"""A sample of `ridge_paths`: infinite coefficients grow as ridge vanishes, and finite ones converge."""

import pytest
from separation.ridge_paths import KINDS, compare, draw


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_coefficients_follow_the_verdict(kind):
    for index in range(kind, 3 * len(KINDS), len(KINDS)):  # `make oracle` tries more
        words, wrong = compare(draw(0, index))
        assert not wrong
        assert {"+inf", "-inf"} & set(words.values())
