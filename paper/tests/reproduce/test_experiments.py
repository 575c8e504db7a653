"""Every experiment: what it computes, draws and judges, at tiny settings."""

import hashlib
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from prgd_paper.claims import Judgement, registered
from prgd_paper.figures import _synthetic as synthetic
from prgd_paper.figures import figure_5a, figure_5b, table_2
from prgd_paper.figures.figure_4 import crossings
from prgd_paper.report import static
from prgd_paper.report.elements import Arrows, Line
from prgd_paper.report.vector import drawing
from prgd_paper.reproduce.curves import leads_until, mean_interval
from prgd_paper.reproduce.experiment import choose
from prgd_paper.reproduce.store import frame, to_csv
from reproduce.tiny import rows_of, tiny

from prgd import datasets

NAMES = list(tiny())


@pytest.mark.slow
@pytest.mark.cover
@pytest.mark.parametrize("name", NAMES)
def test_claims_tables_and_reading_come_from_rows(name):
    e, rows = tiny()[name], rows_of(name)
    claims = e.claims(rows, e.settings)
    assert claims
    for claim in claims:
        assert isinstance(claim.verdict, Judgement)
        assert "nan" not in claim.sentence
        assert claim.sentence.endswith(".")
    for table in e.tables(rows, e.settings):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert set(table.numbers) <= set(table.columns)
    assert 1 <= e.reading(rows, e.settings).count(". ") + 1 <= 5


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_drawn_for_the_page_in_few_bytes(name):
    e, rows = tiny()[name], rows_of(name)
    for figure in e.draw(rows, e.settings):
        assert len(figure.alt) > 50
        for panel in figure.panels:
            svg = drawing(panel)
            drawn = ElementTree.fromstring(svg)  # noqa: S314 - our own drawing
            groups = {group.get("data-group") for group in drawn.iter("g")}
            assert groups >= {mark.name for mark in panel.marks if hasattr(mark, "name")}
            assert "nan" not in svg
            # A line takes at most 3 kB, a panel's frame 4 kB, and a field of arrows 45 bytes an arrow.
            arrows = sum(len(mark.x) for mark in panel.marks if isinstance(mark, Arrows))
            assert len(svg) < 4_000 + 3_000 * len(panel.marks) + 45 * arrows


QUICK = ("figure-1", "figure-2", "figure-5a")  # every kind of mark


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_every_figure_is_drawn_for_print(name):
    e = tiny()[name]
    for figure in e.draw(rows_of(name), e.settings):
        drawn = static.draw(figure)
        assert len(drawn.axes) >= len(figure.panels)


@pytest.mark.parametrize("name", ["figure-1", "schedule-sweep"])
def test_computing_again_gives_the_same_rows(name):
    e = tiny()[name]
    task = e.tasks(e.settings)[0]
    assert e.compute(e.settings, task) == e.compute(e.settings, task)


@pytest.mark.slow
def test_figures_are_the_same_bytes_when_drawn_again(tmp_path):
    e = tiny()["figure-4"]
    (figure, *_) = e.draw(rows_of("figure-4"), e.settings)
    sums = []
    for part in ("one", "two"):
        static.save(figure, tmp_path / part)
        files = sorted(path for path in (tmp_path / part).iterdir())
        sums.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert sums[0] == sums[1]
    (tmp_path / "two" / "figure-4.svg").write_text("damaged")
    assert not static.is_current(figure, tmp_path / "two")


def test_projection_that_does_not_help_everywhere_is_not_decided():
    e, rows = tiny()["without-projection"], rows_of("without-projection")
    (claim,) = e.claims(rows, e.settings)
    assert claim.verdict is Judgement.NOT_DECIDED
    assert 0.0 < claim.finding.figures["smallest ratio"] < 1.0 < claim.finding.figures["largest ratio"]
    assert claim.finding.figures["longest w over R_k"] > 1.0
    is_without = rows.method.str.endswith("not projected")
    worse = rows.assign(error=rows.error * (1.0 + 99.0 * is_without))
    assert e.claims(worse, e.settings)[0].verdict is Judgement.HOLDS
    assert (rows.length[~is_without] <= 1.0 + 1e-12).all()


def test_losses_that_differ_by_more_than_a_decade_are_another_picture():
    e, rows = tiny()["logistic-loss"], rows_of("logistic-loss")
    (claim,) = e.claims(rows, e.settings)
    assert claim.verdict is Judgement.HOLDS
    assert claim.finding.decided_by[0] > 1.0  # the logistic runs are other runs
    is_changed = (rows.loss == "logistic") & (rows.method == "NGD")
    other = rows.assign(margin=rows.margin - 5.0 * is_changed)
    assert e.claims(other, e.settings)[0].verdict is Judgement.FAILS


@pytest.mark.no_cover  # test_every_panel_is_drawn_for_the_page_in_few_bytes runs the same lines.
@pytest.mark.parametrize("name", ["figure-4", "figure-6", "table-2"])
def test_the_experiments_of_section_7_1_take_the_logistic_loss(name):
    e = tiny()[name]
    task = e.tasks(e.settings)[0]
    one, two = (e.compute(replace(e.settings, loss=loss), task) for loss in ("exponential", "logistic"))
    assert len(one) == len(two)
    assert one != two


def test_figure_1_draws_the_paths_of_the_paper():
    rows = rows_of("figure-1")
    path = rows[(rows.kind == "path") & (rows.method == "PRGD")]
    assert len(path) == 9  # w(1) and 8 steps
    np.testing.assert_allclose(path.y[path.t % 2 == 1], 1.0)  # rescaled to the line w_2 = 1
    claims = {c.name: c for c in tiny()["figure-1"].claims(rows, tiny()["figure-1"].settings)}
    assert str(claims["section-4-attractor"].verdict) == "holds"


def test_figure_2_velocity_is_the_projection():
    rows = rows_of("figure-2").set_index("kind")
    descent, part, w = (
        rows.loc[k, ["x", "y", "z"]].to_numpy(float) for k in ("-grad L / L", "centripetal part", "w")
    )
    inward = -np.array([w[0], w[1], 0.0]) / math.hypot(w[0], w[1])
    np.testing.assert_allclose(part, (descent @ inward) * inward, atol=1e-12)
    assert rows.loc["centripetal part", "value"] == pytest.approx(descent @ inward)


def test_figure_4_has_the_exact_margin_and_rank():
    rows = rows_of("figure-4")
    fact = crossings(rows)["digit-01", "300"]
    assert fact["gamma_star"] == pytest.approx(0.13232097884, rel=1e-9)
    assert fact["support rank"] == 12
    assert fact["data rank"] == 51
    curve = rows[(rows.kind == "curve") & (rows["set"] == "digit-01")]
    assert (curve.margin < fact["gamma_star"]).all()
    assert (curve.upper > fact["gamma_star"] * (1 - 1e-12)).all()


def test_cancer_is_separable_or_not_by_its_preprocessing():
    rows = rows_of("figure-5a")
    found = rows[rows.kind == "separability"]
    assert (found.value == 1.0).all()  # every proof is confirmed
    verdicts = found.pivot(index="scaling", columns="name", values="chosen")
    assert (verdicts["with intercept"] == "separable").all()
    without = verdicts["without intercept"].to_dict()
    separable = ("raw", "divided by their deviations", "scaled to norm 1 row by row")
    others = ("standardised", "min-max scaled", "centred")
    assert without == dict.fromkeys(separable, "separable") | dict.fromkeys(others, "not separable")
    claim = figure_5a.cancer_is_not_separable(rows, tiny()["figure-5a"].settings)
    assert claim.verdict is Judgement.NOT_DECIDED
    assert (
        "Without intercept, as in the paper's model, the 569 rows are not separable when standardised, "
        "min-max scaled or centred, and separable when raw, divided by their deviations or scaled to norm 1 "
        "row by row; with an intercept all six are separable (exact verdicts)." in claim.sentence
    )


def test_the_tuned_rates_of_vgg_lie_at_an_edge_of_their_grid():
    """The verdict says so; runs of other rates would make its words wrong."""
    (tuning,) = figure_5b._tuning(figure_5b.Settings())
    for method in figure_5b.METHODS[:3]:
        rates = [float(row[1]) for row in tuning.rows if row[0] == method]
        chosen = {float(row[1]) for row in tuning.rows if row[0] == method and row[-1] == "chosen"}
        assert chosen <= {min(rates), max(rates)}


def test_every_method_has_as_many_settings_on_cancer():
    settings = figure_5a.Settings()
    counts = {method: len(figure_5a._candidates(settings, method)) for method in figure_5a.METHODS}
    assert set(counts.values()) == {48}
    names = [name for name, *_ in figure_5a._candidates(settings, "PRGD(poly)")]
    assert len(set(names)) == 48


def test_table_2_counts_what_was_not_reached_as_infinite():
    rows = rows_of("table-2").copy()
    rows["steps"] = np.where(rows.seed == 0, -1, 40)
    found = table_2.counts(rows, "I", "PRGD(exp)")
    assert (found.median, found.high, found.missed) == (40.0, math.inf, 1)
    assert found.warm_up == 200


def test_synthetic_rows_hold_the_points_and_the_excluded_case():
    rows = rows_of("figure-6")
    points = rows[(rows.kind == "point") & (rows["set"] == "I") & (rows.seed == 0)]
    np.testing.assert_array_equal(points[["x", "y"]].to_numpy(), datasets.synthetic_one(0).X)
    assert rows[rows.kind == "mean"].margin.max() < 1e-12
    alone = rows[rows["set"] == "I"]  # what figure-3 has
    claims = registered(["figure-6"]).values()
    settings = synthetic.Settings(small_scale=100, steps=400)
    assert [c(alone, settings).verdict is not Judgement.NOT_RUN for c in claims] == [True] * 3


@pytest.mark.parametrize(
    ("ours", "other", "until"),
    [([1.0, 1.0], [2.0, 2.0], 1), ([2.0, 2.0], [1.0, 1.0], -1), ([1.0, 3.0, 1.0], [2.0, 2.0, 2.0], 2)],
)
def test_leads_until(ours, other, until):
    assert leads_until(np.array(ours), np.array(other)) == until


def test_interval_of_one_difference_is_everything():
    assert mean_interval([0.5]) == (0.5, -math.inf, math.inf)


# Figure 5b


HEAD = f"{','.join(figure_5b.REQUIRED)}\n"
# GD and PRGD end at epoch 2, NGD at epoch 4; all separate at their last epoch, at the same norm.
STORED = HEAD + "".join(
    f'{setting},"{method}",{seed},0.01,,{epoch},{0.5 + 0.01 * k + 0.001 * seed + 0.1 * (epoch > 0)},'
    f"{1.0 if epoch == last else 0.9},{-4.0 - epoch},{(1 + 0.1 * k) ** 16 * (1 if epoch == last else -1)},9\n"
    for setting in ("tuned", "as printed")
    for k, (method, last) in enumerate({"GD": 2, "NGD": 4, "PRGD": 2, "PRGD, no projection": 2}.items())
    for seed in range(3)
    for epoch in range(last + 1)
)


def _five_b(monkeypatch, content: str):
    monkeypatch.setattr(figure_5b, "_content", lambda name: content.encode())
    settings = figure_5b.Settings("stored.csv")
    return frame(to_csv(figure_5b.compute(settings, "stored"))), settings


def test_figure_5b_without_rows_is_not_yet_run(monkeypatch):
    rows, settings = _five_b(monkeypatch, "")
    assert figure_5b.draw(rows, settings) == []
    assert figure_5b.tables(rows, settings) == []
    claim = figure_5b.prgd_generalizes_better(rows, settings)
    assert claim.verdict is Judgement.NOT_RUN
    assert "Not yet run" in figure_5b.reading(rows, settings)


def test_figure_5b_draws_stored_rows(monkeypatch):
    rows, settings = _five_b(monkeypatch, STORED)
    accuracy, training = figure_5b.draw(rows, settings)
    assert [panel.title[:10] for panel in accuracy.panels] == ["As printed", "Tuned (no "]
    assert len(training.panels) == 4
    held = next(mark for mark in accuracy.panels[1].marks if isinstance(mark, Line) and mark.name == "GD")
    np.testing.assert_allclose(held.y, [0.501, *[0.601] * 4])  # the run of two epochs keeps its last value
    ends = [mark.x.max() for mark in training.panels[1].marks if mark.name == "PRGD"]
    assert ends == [2.0] * 4  # three runs, drawn up to their own end, and the markers of their ends
    assert "+1.00 points" in figure_5b.reading(rows, settings)
    assert "less PRGD, no projection -1.00 points" in figure_5b.reading(rows, settings)


def test_figure_5b_has_the_end_of_each_run_in_tables(monkeypatch):
    rows, settings = _five_b(monkeypatch, STORED)
    printed, tuned = figure_5b.tables(rows, settings)
    assert len(printed.rows) == len(tuned.rows) == 4
    gd, ngd, *_ = (dict(zip(tuned.columns, row, strict=True)) for row in tuned.rows)
    assert (gd["separated"], gd["first at epoch"], gd["last epoch"]) == ("3 of 3", "2", "2")
    assert (ngd["last epoch"], ngd["margin, root"]) == ("4", "1.10000 [1.10000, 1.10000]")
    assert gd["test accuracy"] == "60.10 % [59.85, 60.35]"


def test_margins_of_networks_are_compared_where_both_runs_separate(monkeypatch):
    rows, settings = _five_b(monkeypatch, STORED)
    claim = figure_5b.prgd_ends_with_a_larger_margin(rows, settings)
    assert claim.is_ours
    assert (str(claim.verdict), "1.200 of GD's" in claim.sentence) == ("holds", True)
    rows.loc[(rows.method == "NGD") & (rows.seed > 0), "train_accuracy"] = 0.9
    claim = figure_5b.prgd_ends_with_a_larger_margin(rows, settings)
    assert str(claim.verdict) == "not decided"
    assert "NGD's in 1 pair, too few" in claim.sentence


def test_figure_5b_with_a_method_or_a_column_missing_is_not_judged(monkeypatch):
    rows, settings = _five_b(monkeypatch, HEAD + "tuned,GD,0,0.01,,0,0.5,0.5,-1,-1,9\n")
    for claim in (figure_5b.prgd_generalizes_better, figure_5b.prgd_ends_with_a_larger_margin):
        assert claim(rows, settings).verdict is Judgement.NOT_RUN
    with pytest.raises(ValueError, match=r"lacks lr, schedule, epoch, test_accuracy"):
        _five_b(monkeypatch, "setting,method,seed\nplain,GD,0\n")


def test_choose_takes_names_in_any_spelling():
    assert [e.name for e in choose(["Table 2", "figure_3"])] == ["figure-3", "table-2"]
