"""The page on separation: its times are those of the record, and its picture shows what it says."""

import pytest

import prgd

page = pytest.importorskip("write_separation")  # docs/write_separation.py
picture = pytest.importorskip("separation_cone")  # docs/separation_cone.py, which needs matplotlib


def test_times_are_those_of_the_record():
    assert page.BEGIN + page.times() + page.END in page.PAGE.read_text()


def test_the_picture_shows_the_verdicts_that_the_page_names():
    found = [prgd.separability(X, y, fit_intercept=False) for _, X, y in picture.designs()]
    assert [picture.words(one).split("\n") for one in found] == [
        ["x0: +inf", "x1: either, + at maximum margin"],
        ["x0: +inf", "x1: finite"],
        ["x0: finite", "x1: finite"],
    ]
    assert found[1].limiting_rows.tolist() == [6, 7, 8, 9]
    sizes = [len(picture.edges(X, y)) for _, X, y in picture.designs()]
    assert sizes == [2, 2, 0]


def test_the_guide_cites_this_version():
    guide = page.PAGE.read_text()
    citation = (page.PAGE.parents[1] / "CITATION.cff").read_text()
    assert f"version = {{{prgd.__version__}}}" in guide
    (title,) = [line for line in guide.splitlines() if "title   = {prgd" in line]
    assert f'title: "{title.partition("{")[2].rstrip("},")}"' in citation
