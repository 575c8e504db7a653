"""The explorer in a real browser: its numbers are the library's, and hands, keys and fingers move it."""

import importlib
import itertools
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import prgd_paper.theory
import pytest
from contrast import CONTRAST

import prgd

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explorer" / "explorer.html"
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))
SETS = {entry["set"]: entry for entry in GOLDEN["sets"]}
METHODS = ("gd", "ngd", "prgd", "gated", "dual", "sign", "coordinate")
CANVASES = ("data", "weights", "angles", "margins", "interval")
TOLERANCE = 1e-9

# Wait until the frame is drawn and every shown run has come to t.
SETTLED = """() => !requested && !dirty.view
  && [...state.shown].every(name => runs.get(name).stopped || runs.get(name).length > state.t)"""

# How many colours a canvas shows.
COLOURS_IN = """id => {
  const c = document.getElementById(id), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
  return seen.size;
}"""

# Where a point is on the screen, from its number.
PLACE = """i => {
  const box = document.getElementById("data").getBoundingClientRect(), v = data_view(), p = state.points[i];
  return [box.left + v.x + p.x1 * v.scale, box.top + v.y - p.x2 * v.scale]; }"""


@pytest.fixture
def explorer(open_page):
    """Return a function that opens the explorer at an address, and waits until it is drawn."""

    def open_(fragment: str = "", width: int = 1280, scheme: str = "light"):
        page = open_page(PAGE, width, scheme, fragment and f"#{fragment}")
        page.wait_for_function(SETTLED)
        return page

    return open_


def settle(page):
    page.wait_for_timeout(50)
    page.wait_for_function(SETTLED)


def coordinates(page, i):
    return page.evaluate("i => [state.points[i].x1, state.points[i].x2]", i)


@pytest.fixture(scope="module")
def computed(browser):
    """Return all that the page computes for the golden file, by one visit."""
    page = browser.new_page()
    page.goto(PAGE.as_uri())
    found = page.evaluate(
        """variants => Object.fromEntries(Object.keys(PRESETS).map(set => {
          const problem = make_problem(PRESETS[set].points.map(([x1, x2, y]) => ({ x1, x2, y })));
          const proof = no_separator(problem);
          const result = { is_separable: proof === null, answer: {}, runs: {} };
          if (!proof) {
            for (const by of [L2, L1, Linf]) result.answer[by.name] = reference(problem, by).gamma_star;
            const best = reference(problem, L2), g = geometry(problem, best.w_star, best.gamma_star);
            Object.assign(result.answer, { D: g.cylinder.D, mu: g.cylinder.mu, n_support: g.n_support });
          }
          for (const [variant, options] of Object.entries(variants)) {
            result.runs[variant] = {};
            for (const name of Object.keys(METHODS)) {
              const run = new Run(400);
              run.begin(problem, name, options);
              while (run.length <= 400 && run.advance());
              const rows = ["w1", "w2", "gamma", "lower", "upper"].map(field => [...run[field]]);
              result.runs[variant][name] = rows.map(row => row.map(x => (Number.isFinite(x) ? x : null)));
            }
          }
          return [set, result];
        }))""",
        GOLDEN["variants"],
    )
    page.close()
    return found


def test_the_page_is_small_and_asks_for_nothing():
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"\b(src|href)\s*=|https?://|@import|url\(", text)


def test_the_point_sets_of_the_page_are_those_of_the_library():
    writer = importlib.import_module("write_explorer")
    block = PAGE.read_text(encoding="utf-8").split(writer.BEGIN)[1].split(writer.END)[0]
    lines = re.findall(r"^  (\w+): (\{.*\}),$", block, flags=re.MULTILINE)
    found = {name: json.loads(text) for name, text in lines}
    assert found == json.loads(json.dumps(writer.presets()))


@pytest.mark.parametrize("name", SETS)
def test_the_golden_file_is_what_the_library_computes_today(name):
    writer = importlib.import_module("write_explorer")
    assert GOLDEN["variants"] == writer.VARIANTS
    points, options = np.array(writer.presets()[name]["points"]), writer.OPTIONS
    for method, (algorithm, norm) in writer.methods(options).items():
        problem = prgd.Problem(points[:, :2], points[:, 2], norm=norm)
        rows = np.array(writer.trajectory(problem, algorithm, options), dtype=float)
        kept = np.array(SETS[name]["runs"]["start"][method], dtype=float)
        # Another processor may round differently: w agrees to nine digits of its length, as does
        # gamma(w), which is at most 1.
        length = np.hypot(*kept[:, 1:3].T)[:, None]
        np.testing.assert_array_equal(rows[:, 0], kept[:, 0])
        assert (np.abs(rows[:, 1:3] - kept[:, 1:3]) <= TOLERANCE * length).all()
        np.testing.assert_allclose(rows[:, 3], kept[:, 3], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SETS)
def test_trajectories_are_the_librarys(computed, name, method):
    for variant, runs in SETS[name]["runs"].items():
        rows = np.array(runs[method], dtype=float)
        times = rows[:, 0].astype(int)
        assert len(times) >= 10
        mine = np.array(computed[name]["runs"][variant][method], dtype=float)[:, times].T
        theirs = rows[:, 1:]
        # A component of w is compared with the length of w.
        length = np.maximum(np.linalg.norm(theirs[:, :2], axis=1, keepdims=True), 1e-300)
        np.testing.assert_allclose(mine[:, :2] / length, theirs[:, :2] / length, rtol=0, atol=TOLERANCE)
        for k in (2, 4):  # gamma(w) and the upper bound
            np.testing.assert_allclose(mine[:, k], theirs[:, k], rtol=TOLERANCE, atol=1e-13)
        # The lower bound may be the margin of u / ||u||. Without a separator u goes to 0, and its direction
        # loses as many digits as u has zeros.
        allowed = TOLERANCE * np.abs(theirs[:, 3]) + 1e-13 / theirs[:, 4]
        missing = np.isnan(theirs[:, 3])
        np.testing.assert_array_equal(np.isnan(mine[:, 3]), missing)
        assert (np.abs(mine[:, 3] - theirs[:, 3]) <= allowed)[~missing].all()


@pytest.mark.parametrize("name", SETS)
def test_the_answer_and_the_cylinder_are_the_librarys(computed, name):
    mine, theirs = computed[name], SETS[name]
    assert mine["is_separable"] is theirs["is_separable"]
    assert mine["answer"].keys() == theirs["answer"].keys()
    for key, value in theirs["answer"].items():
        assert mine["answer"][key] == pytest.approx(value, rel=TOLERANCE)


def test_velocity_and_attractor_are_the_librarys(explorer):
    page = explorer("set=toy")
    zone = prgd_paper.theory.velocity.toy_attractor(0.3)
    zero = page.evaluate("() => zero_velocity(frame_geometry, 7.0)")
    assert abs(zero) == pytest.approx(zone.line, rel=TOLERANCE)
    assert (0.5 * abs(zero), 1.5 * abs(zero)) == pytest.approx((zone.lower, zone.upper), rel=TOLERANCE)
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    for h, D in ((5.0, 2.0), (3.0, -0.2), (8.0, 0.1)):
        expected = prgd_paper.theory.velocity.centripetal_velocity(problem, np.array([h, D]), [1.0, 0.0])
        found = page.evaluate("([h, D]) => centripetal_velocity(frame_geometry, h, D)", [h, D])
        assert found == pytest.approx(expected, rel=TOLERANCE)


def test_a_mouse_drags_a_point(explorer):
    page = explorer("set=toy")
    before = page.evaluate("[...runs.get('ngd').w1.slice(0, 50)]")
    x, y = page.evaluate(PLACE, 0)
    scale = page.evaluate("data_view().scale")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 20, steps=5)
    page.mouse.up()
    settle(page)
    moved = coordinates(page, 0)
    assert moved == pytest.approx([0.3 + 30 / scale, np.sqrt(0.91) - 20 / scale], abs=1 / 128)
    assert all((256 * v).is_integer() for v in moved)
    assert page.evaluate("[...runs.get('ngd').w1.slice(0, 50)]") != before
    # What is shown is what the library computes on the moved points.
    points = np.array(page.evaluate("state.points.map(p => [p.x1, p.x2, p.y])"))
    problem = prgd.Problem(points[:, :2], points[:, 2])
    w = prgd.run(problem, prgd.NGD(), stop=50).w
    found = page.evaluate("[runs.get('ngd').w1[50], runs.get('ngd').w2[50]]")
    assert found == pytest.approx(w.tolist(), rel=TOLERANCE)


def test_a_finger_drags_a_point_and_scrolls_beside_it(explorer):
    page = explorer("set=toy", width=390)
    page.locator("#data").scroll_into_view_if_needed()
    client = page.context.new_cdp_session(page)

    def swipe(x, y, dx, dy):
        client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for k in range(1, 9):
            point = {"x": x + dx * k / 8, "y": y + dy * k / 8}
            client.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
            page.wait_for_timeout(20)
        client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(100)

    x, y = page.evaluate(PLACE, 0)
    scroll = page.evaluate("scrollY")
    swipe(x, y, 20, 60)
    settle(page)
    scale = page.evaluate("data_view().scale")
    assert coordinates(page, 0) == pytest.approx([0.3 + 20 / scale, np.sqrt(0.91) - 60 / scale], abs=1 / 64)
    assert page.evaluate("scrollY") == scroll
    points = page.evaluate("state.points.map(p => [p.x1, p.x2])")
    box = page.locator("#data").bounding_box()
    swipe(box["x"] + 70, box["y"] + 120, 0, -80)  # no point is there
    assert page.evaluate("scrollY") > scroll
    assert page.evaluate("state.points.map(p => [p.x1, p.x2])") == points


def test_the_keyboard_alone_moves_points(explorer):
    page = explorer("set=toy")
    page.locator("#data").focus()
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert "Point 2 of 3" in page.locator("#said").inner_text()
    before = coordinates(page, 1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    settle(page)
    assert np.subtract(coordinates(page, 1), before) == pytest.approx([2 / 256, 16 / 256], abs=1 / 256)
    page.keyboard.press("c")
    assert page.evaluate("state.points[1].y") == -1
    page.keyboard.press("a")
    settle(page)
    assert page.evaluate("state.points.length") == 4
    page.keyboard.press("Delete")
    settle(page)
    assert page.evaluate("state.points.length") == 3
    page.keyboard.press("b")
    assert page.evaluate("state.selected") >= 0
    page.locator("#restore").press("Enter")
    settle(page)
    assert page.evaluate("edits()") == ""


def test_keys_play_step_and_reset(explorer):
    page = explorer("set=toy&t=10")
    page.keyboard.press("s")
    settle(page)
    assert page.evaluate("state.t") == 11
    page.keyboard.press(" ")
    page.wait_for_function("state.t > 20")
    assert page.locator("#play").get_attribute("aria-pressed") == "true"
    page.keyboard.press(" ")
    stopped = page.evaluate("state.t")
    page.wait_for_timeout(150)
    assert page.evaluate("state.t") == stopped
    page.keyboard.press("r")
    settle(page)
    assert page.evaluate("state.t") == 0
    # At the last step it begins anew.
    page.evaluate("go_to(MAX_T)")
    page.keyboard.press(" ")
    page.wait_for_function("state.playing && state.t > 0 && state.t < MAX_T")


def test_sliders_say_their_values(explorer):
    page = explorer("set=one&warm=1000&growth=1.5&t=77")
    said = "name => document.getElementById(name).getAttribute('aria-valuetext')"
    assert [page.evaluate(said, name) for name in ("warm", "growth", "time")] == ["1000", "1.5", "step 77"]
    page.locator("#eta").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(said, "eta") == page.evaluate("String(state.eta)") != "1"


def test_every_control_can_be_reached_by_the_tab_key(explorer):
    page = explorer()
    controls = "button, select, input, canvas[tabindex]"
    ids = "wanted => [...document.querySelectorAll(`main :is(${wanted})`)].map(e => e.id)"
    wanted = set(page.evaluate(ids, controls))
    reached = set()
    for _ in range(len(wanted) + 10):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert wanted <= reached
    unnamed = """[...document.querySelectorAll("main :is(input, select)")]
      .filter(e => !e.labels.length || !e.labels[0].innerText.trim()).map(e => e.id)"""
    assert page.evaluate(unnamed) == []


def test_an_address_holds_all_that_was_chosen(explorer):
    page = explorer()
    page.select_option("#set", "freezes")
    page.locator("#data").focus()
    for key in ("n", "Shift+ArrowLeft", "ArrowDown", "n", "c", "n", "Delete", "a"):
        page.keyboard.press(key)
    page.check("#show-sign")
    page.uncheck("#show-ngd")
    page.uncheck("#layer-field")
    page.select_option("#schedule", "poly")
    for name in ("growth", "period", "eta", "warm", "gate", "zoom"):
        page.locator(f"#{name}").focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
    page.evaluate("go_to(77)")
    settle(page)
    page.wait_for_function("location.hash.includes('t=77')")
    chosen = """[state.set, state.points, [...state.shown].sort(), [...state.layers].sort(), state.schedule,
      ...Object.keys(SLIDERS).map(name => state[name]), state.t]"""
    table = "[...document.querySelectorAll('#numbers td')].map(e => e.textContent)"
    page.wait_for_timeout(250)
    other = explorer(page.evaluate("location.hash.slice(1)"))
    other.wait_for_timeout(250)
    assert other.evaluate(chosen) == page.evaluate(chosen)
    assert other.evaluate(table) == page.evaluate(table)
    assert page.evaluate("[state.growth, state.period, state.schedule]") != [1.2, 5, "exp"]


@pytest.mark.parametrize(
    "fragment",
    [
        "set=nothing&t=x&growth=-5&period=2.6&eta=NaN&show=gd,zz&edit=0:9,9,1;1:a,b;;-3:1,1,1;400",
        "%%%",
        "=&=&",
        "set=__proto__&schedule=toString",
    ],
)
def test_a_wrong_address_gives_defaults(explorer, fragment):
    page = explorer(fragment)
    assert page.evaluate("state.set") == "toy"
    assert page.evaluate("state.points.length") == 3
    assert 1.01 <= page.evaluate("state.growth") <= 4
    assert page.evaluate("Number.isInteger(state.t) && Number.isInteger(state.period)")


def test_the_proof_is_exact_and_goes_away_with_the_overlap(explorer):
    page = explorer("set=overlap")
    rows, p, total = page.evaluate("[proof.rows, proof.p.map(String), String(proof.total)]")
    points = page.evaluate("state.points.map(p => [p.x1, p.x2, p.y])")
    weights = [Fraction(int(k), int(total)) for k in p]
    assert min(weights) > 0
    assert sum(weights) == 1
    for j in (0, 1):
        balance = sum(
            w * int(points[i][2]) * Fraction(points[i][j]) for w, i in zip(weights, rows, strict=True)
        )
        assert balance == 0
    text = page.locator("#proof-text").inner_text()
    assert all(f"{k}/{total}" in text for k in p)
    X = np.array(points)
    assert not prgd.separability(X[:, :2], X[:, 2], fit_intercept=False).is_separable
    # The class of point 4 changes, and so does that of point 7: the others have a separator.
    page.locator("#data").focus()
    for _ in range(4):
        page.keyboard.press("n")
    page.keyboard.press("c")
    settle(page)
    page.evaluate("() => { select(7); flip(); }")
    settle(page)
    assert not page.locator("#proof").is_visible()
    assert page.evaluate("references.get(L2).gamma_star") > 0


def test_the_proof_agrees_with_the_library_on_random_points(explorer):
    page = explorer()
    rng, y = np.random.default_rng(0), np.where(np.arange(8) % 2, 1, -1)
    seen = set()
    for n in (2, 3, 4, 5, 8):
        for _ in range(8):
            Z = rng.integers(-3, 4, size=(n, 2))  # small integers: many rows are opposite, equal or 0
            found = page.evaluate(
                """Z => { const proof = no_separator(make_problem(Z.map(([x1, x2]) => ({ x1, x2, y: 1 }))));
                return proof && [proof.rows, proof.p.map(Number)]; }""",
                Z.tolist(),
            )
            exact = prgd.separability(Z * y[:n, None], y[:n], fit_intercept=False).is_separable
            assert (found is None) == exact
            if found is not None:
                rows, p = found
                assert min(p) > 0
                assert (np.array(p) @ Z[rows]).tolist() == [0, 0]
            seen.add(exact)
    assert seen == {True, False}


LABELS = """drawn_labels.map(l => {
  const { context, width } = surfaces[l.where];
  return { ...l, wide: context.measureText(l.string).width, room: width };
})"""


WIDTHS = [(name, width) for name in SETS for width in (1280, 390)]
WIDTHS += [(name, width) for name in ("toy", "overlap") for width in (1000, 768)]


@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_every_preset_is_drawn_with_no_label_or_number_cut_off(explorer, name, width):
    page = explorer(f"set={name}&show={','.join(METHODS)}&t=500", width=width)
    page.wait_for_timeout(250)
    assert page.locator("#set").input_value() == name
    assert page.evaluate("state.points.length") == page.evaluate("name => PRESETS[name].points.length", name)
    assert page.locator("#proof").is_visible() == (not SETS[name]["is_separable"])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for canvas in CANVASES:  # more than the ground and a frame
        assert page.evaluate(COLOURS_IN, canvas) > 20
    cells = "[...document.querySelectorAll('td')]"
    assert page.evaluate(f"{cells}.filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)") == []
    assert page.locator("#numbers tr").nth(2).locator("td").nth(4).inner_text() not in ("", "–")
    labels = page.evaluate(LABELS)
    assert len(labels) >= 20
    for label in labels:
        label["left"] = label["x"] - (label["wide"] if label["align"] == "right" else 0)
        label["right"] = label["left"] + label["wide"]
        assert 0 <= label["left"] <= label["right"] <= label["room"]
    for a, b in itertools.combinations(labels, 2):
        if a["where"] == b["where"] and a["left"] < b["right"] and b["left"] < a["right"]:
            assert abs(a["y"] - b["y"]) >= 12, (a, b)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_on_both_grounds(explorer, scheme):
    page = explorer("set=overlap", scheme=scheme)
    texts, lines = page.evaluate(CONTRAST, "body *")
    assert texts >= 4.5
    assert lines >= 4.5
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_shapes_and_dashes_tell_methods_apart_and_the_page_says_what_it_shows(explorer):
    page = explorer()
    looks = page.evaluate("Object.values(LOOKS).map(l => [l.shape, String(l.dash)])")
    assert len({shape for shape, _ in looks}) == len({dash for _, dash in looks}) == len(METHODS)
    assert "through the origin" in page.locator("header").inner_text()
    assert "best bounds on γ* proven so far" in page.locator("section:has(#numbers)").inner_text()
    for panel in page.locator(".panel").all():
        if panel.get_attribute("id") != "proof":
            assert len(panel.locator(".what").first.inner_text()) > 40
    page.locator("summary").click()
    assert 15 <= len(page.locator("#algorithm").inner_text().splitlines()) <= 25
