"""Published data sets of which R's detectseparation says which coefficients are infinite."""

from __future__ import annotations

import csv
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import prgd

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
needs_files = pytest.mark.skipif(
    "PRGD_DATA" not in os.environ, reason="PRGD_DATA names no folder of real data"
)


def endometrial():
    """Return NV, PI, EH, and HG."""
    rows = np.array([[float(value) for value in row.split()] for row in ENDOMETRIAL.split(";")])
    return rows[:, :3] / [1.0, 1.0, 100.0], rows[:, 3].astype(int)


def silvapulle():
    y = [1] * len(SILVAPULLE[1]) + [0] * len(SILVAPULLE[0])
    return np.array([SILVAPULLE[1] + SILVAPULLE[0]], float).T, np.array(y)


def lizards():
    """Return indicators of shady, wide, high, midday and late, and the counts."""
    cells = product((0, 1), (0, 1), (0, 1), (0, 1, 2))
    found = [
        ([light, diameter, height, time == 1, time == 2], [int(count) for count in pair.split()])
        for (light, diameter, height, time), pair in zip(cells, LIZARDS.split(";"), strict=True)
        if pair.strip() != "-"
    ]
    return np.array([x for x, _ in found], float), np.array([counts for _, counts in found])


def table(name):
    with (Path(os.environ["PRGD_DATA"]) / "separation" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@needs_files
def test_the_tables_are_those_of_the_files():
    rows = table("endometrial")
    X, y = endometrial()
    assert X.tolist() == [[float(row[name]) for name in ("NV", "PI", "EH")] for row in rows]
    assert y.tolist() == [int(row["HG"]) for row in rows]
    X, y = silvapulle()
    assert X.ravel().tolist() == [float(row["ghqs"]) for row in table("silvapulle1981")]
    assert y.tolist() == [float(row["y"]) for row in table("silvapulle1981")]
    X, y = lizards()
    rows = table("lizards")
    assert y.tolist() == [[float(row["grahami"]), float(row["opalinus"])] for row in rows]
    special = {"light": "shady", "diameter": ">2in", "height": ">=5ft"}
    coded = [[row[name] == level for name, level in special.items()] for row in rows]
    times = [[row["time"] == "midday", row["time"] == "late"] for row in rows]
    assert X.tolist() == np.hstack([coded, times]).tolist()


@pytest.mark.parametrize(("sign", "word"), [(1.0, "+inf"), (-1.0, "-inf")])
def test_endometrial(sign, word):
    pd = pytest.importorskip("pandas")
    X, y = endometrial()
    frame = pd.DataFrame(X * [sign, 1.0, 1.0], columns=["NV", "PI", "EH"])
    found = prgd.separability(frame, y)
    assert found.verdict == "quasi-separable"
    assert found.coefficients == {"(Intercept)": "finite", "NV": word, "PI": "finite", "EH": "finite"}
    assert found.limiting_rows.tolist() == np.flatnonzero(X[:, 0] == 0.0).tolist()
    assert found.check(frame, y)


def test_the_limiting_model_of_endometrial():
    # The estimates that R's glm prints for the coefficients that are finite.
    sm = pytest.importorskip("statsmodels.api")
    X, y = endometrial()
    rows = prgd.separability(X, y).limiting_rows
    fit = sm.GLM(y[rows], sm.add_constant(X[rows, 1:]), family=sm.families.Binomial()).fit()
    assert fit.params == pytest.approx([4.30452, -0.04218, -2.90261], abs=1e-5)


def test_silvapulle():
    X, y = silvapulle()
    found = prgd.separability(X, y)
    assert found.verdict == "quasi-separable"
    assert found.coefficients == {"(Intercept)": "-inf", "x0": "+inf"}
    assert X[found.limiting_rows].tolist() == [[2.0], [2.0]]
    assert found.check(X, y)


def test_lizards():
    X, y = lizards()
    found = prgd.separability(X, y)
    assert found.verdict == "not separable"
    assert set(found.coefficients.values()) == {"finite"}
    assert found.limiting_rows.size == len(X)
    assert found.check(X, y)
