"""A sample of `ridge_paths`: verdicts and fits agree with coefficients as a ridge penalty vanishes."""

import pytest

pytest.importorskip("torch")
from separation.ridge_paths import KINDS, compare, draw


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # in torch itself
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_coefficients_follow_the_verdict(kind):
    for index in (kind, kind + len(KINDS)):  # `make oracle` tries more
        assert not compare(draw(0, index))[1]
