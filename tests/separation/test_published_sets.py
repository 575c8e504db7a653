"""Published data sets of which R's detectseparation says which coefficients are infinite."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import prgd

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

# Heinze and Schemper (2002), histology of 79 endometrial cancers: NV (neovascularisation), PI (pulsatility
# index of the arteria uterina), EH (endometrium height) times 100, HG (grade).
ENDOMETRIAL = """
0 13 164 0; 0 16 226 0; 0 8 314 0; 0 34 268 0; 0 20 128 0; 0 5 231 0; 0 17 180 0; 0 10 168 0; 0 26 156 0;
0 17 231 0; 0 8 201 0; 0 7 189 0; 0 20 315 0; 0 10 123 0; 0 18 127 0; 0 16 176 0; 0 18 200 0; 0 8 264 1;
0 29 88 1; 0 12 127 1; 0 20 137 1; 1 38 97 1; 1 22 114 1; 1 7 88 1; 1 25 91 1; 1 15 58 1; 0 7 97 1;
0 28 150 0; 0 11 133 0; 0 19 237 0; 0 10 182 0; 0 10 313 0; 0 18 131 0; 0 14 192 0; 0 21 164 0; 0 11 201 0;
0 17 188 0; 0 25 193 0; 0 16 211 0; 0 19 129 0; 0 15 172 0; 0 33 75 0; 0 24 192 0; 0 48 184 1; 0 12 111 1;
0 19 161 1; 0 2 118 1; 1 22 144 1; 1 40 118 1; 1 5 93 1; 1 0 117 1; 0 21 119 1; 0 15 106 1; 0 29 202 0;
0 15 229 0; 0 12 233 0; 0 3 290 0; 0 20 170 0; 0 23 141 0; 0 12 225 0; 0 22 154 0; 0 42 197 0; 0 15 175 0;
0 13 216 0; 0 14 257 0; 0 19 137 0; 0 12 361 0; 0 13 204 0; 0 10 217 0; 0 12 169 1; 1 49 27 1; 0 6 184 1;
0 5 130 1; 0 17 96 1; 1 11 101 1; 1 21 98 1; 0 5 35 1; 1 19 102 1; 0 33 85 1
"""
# Silvapulle (1981): General Health Questionnaire scores of cases and of others.
SILVAPULLE = {1: [2, 4, 5, 5, 5, 7, 7, 10], 0: [0] * 18 + [1] * 8 + [2]}
# McCullagh and Nelder (1989): perches of two species of lizards, "grahami opalinus", by light (sunny, shady),
# diameter (<=2in, >2in), height (<5ft, >=5ft) and time (early, midday, late); one cell was not observed.
LIZARDS = """
20 2; 8 1; 4 4; 13 0; 8 0; 12 0; 8 3; 4 1; 5 3; 6 0; -; 1 1;
34 11; 69 20; 18 10; 31 5; 55 4; 13 3; 17 15; 60 32; 8 8; 12 1; 21 5; 4 4
"""


def endometrial():
    rows = [[float(value) for value in row.split()] for row in ENDOMETRIAL.split(";")]
    data = pd.DataFrame(rows, columns=["NV", "PI", "EH", "HG"])
    return data.assign(EH=data.EH / 100.0)


def silvapulle():
    rows = [(y, score) for y, scores in SILVAPULLE.items() for score in scores]
    return pd.DataFrame(rows, columns=["y", "ghqs"])


def lizards():
    levels = ("sunny", "shady"), ("<=2in", ">2in"), ("<5ft", ">=5ft"), ("early", "midday", "late")
    pairs = zip(product(*levels), LIZARDS.split(";"), strict=True)
    rows = [(*cell, *map(float, pair.split())) for cell, pair in pairs if pair.strip() != "-"]
    return pd.DataFrame(rows, columns=["light", "diameter", "height", "time", "grahami", "opalinus"])


@pytest.mark.skipif("PRGD_DATA" not in os.environ, reason="PRGD_DATA names no folder of real data")
@pytest.mark.parametrize(
    ("name", "data"),
    [("endometrial", endometrial()), ("silvapulle1981", silvapulle()), ("lizards", lizards())],
)
def test_the_tables_are_those_of_the_files(name, data):
    file = pd.read_csv(Path(os.environ["PRGD_DATA"]) / "separation" / f"{name}.csv")
    pd.testing.assert_frame_equal(data, file[list(data.columns)], check_dtype=False)


def test_endometrial():
    data = endometrial()
    rows = np.flatnonzero(data.NV == 0)
    for sign, word in ((1.0, "+inf"), (-1.0, "-inf")):
        turned = data.assign(NV=sign * data.NV)
        found = prgd.separability(turned[["NV", "PI", "EH"]], data.HG)
        assert found.verdict == "quasi-separable"
        assert found.coefficients == {"(Intercept)": "finite", "NV": word, "PI": "finite", "EH": "finite"}
        assert found.limiting_rows.tolist() == rows.tolist()
        assert found.check(turned[["NV", "PI", "EH"]], data.HG)
    found = prgd.separability.from_formula("HG ~ NV + PI + EH", data)
    assert list(found.coefficients.values()) == ["finite", "+inf", "finite", "finite"]
    assert found.check(data)
    assert found.check(data[["NV", "PI", "EH"]], data.HG)
    assert not found.check(data.assign(HG=1 - data.HG))
    assert prgd.separability.from_formula("HG ~ I(-NV) + PI", data).coefficients["I(-NV)"] == "-inf"
    # The estimates that R's glm prints for the coefficients that are finite.
    sm = pytest.importorskip("statsmodels.api")
    X = sm.add_constant(data[["PI", "EH"]].iloc[rows])
    fit = sm.GLM(data.HG.iloc[rows], X, family=sm.families.Binomial()).fit()
    assert fit.params.tolist() == pytest.approx([4.30452, -0.04218, -2.90261], abs=1e-5)


def test_silvapulle():
    data = silvapulle()
    by_formula = prgd.separability.from_formula("y ~ ghqs", data)
    for found in (prgd.separability(data[["ghqs"]], data.y), by_formula):
        assert found.verdict == "quasi-separable"
        assert found.coefficients == {"(Intercept)": "-inf", "ghqs": "+inf"}
        assert data.ghqs[found.limiting_rows].tolist() == [2, 2]
        assert found.check(data[["ghqs"]], data.y)


@pytest.mark.parametrize("response", ["cbind(grahami, opalinus)", "grahami + opalinus"])
def test_lizards(response):
    data = lizards()
    found = prgd.separability.from_formula(f"{response} ~ height + diameter + light + time", data)
    assert found.verdict == "not separable"
    assert set(found.coefficients.values()) == {"finite"}
    assert found.limiting_rows.size == len(data)
    assert found.check(data)
