"""Model files: classes, hyperplanes and coefficients that do not go together are refused."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

import prgd
from prgd import Result
from prgd.core.files import read_saved, write_saved
from prgd.estimators.model import Model

X = np.array([[0.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 4.5]])


def several():
    results = tuple(prgd.soft_margin(X, np.arange(4) == k, C=1.0) for k in range(4))
    return Model(np.array(list("abcd")), results)


def changed(path, **arrays):
    write_saved(path, read_saved(path)[1] | arrays)


def test_a_model_of_several_classes_is_loaded_whole(tmp_path):
    several().save(tmp_path / "m.npz")
    model = Model.load(tmp_path / "m.npz")
    assert model.classes.tolist() == list("abcd")
    np.testing.assert_array_equal(model.decision_function(X), several().decision_function(X))
    with pytest.raises(ValueError, match=r"m.npz: expected a result, got a model. .*Model.load"):
        Result.load(tmp_path / "m.npz")


@pytest.mark.parametrize(("count", "classes"), [(4, "abc"), (2, "abc"), (2, "ab"), (4, "abca"), (3, "abcd")])
def test_classes_that_do_not_fit_the_hyperplanes(tmp_path, count, classes):
    several().save(tmp_path / "m.npz")
    meta = json.dumps({"format": "prgd-model-2", "results": count})
    changed(tmp_path / "m.npz", meta=np.array(meta), classes=np.array(list(classes)))
    with pytest.raises(ValueError, match=rf"not a whole model file .*{count} hyperplanes for the classes"):
        Model.load(tmp_path / "m.npz")


def test_vectors_of_other_sizes(tmp_path):
    several().save(tmp_path / "m.npz")
    changed(tmp_path / "m.npz", **{"1/w": np.ones(7), "1/w_lower": np.ones(7)})
    with pytest.raises(ValueError, match=r"different numbers of features, \[2, 7\]"):
        Model.load(tmp_path / "m.npz")


Y = np.array(["a", "a", "b", "b"])
RESULTS = {
    "hard": lambda: prgd.max_margin(X, Y),
    "soft": lambda: prgd.soft_margin(X, Y, C=1.0),
    "joint": lambda: prgd.max_margin(X, Y, multi_class="joint"),
    "run": lambda: prgd.run(prgd.Problem(X, Y, fit_intercept=True), prgd.NGD(), stop=9),
}


@pytest.mark.parametrize(
    "change", [np.negative, lambda a: a + np.nan, lambda a: a + np.inf, lambda a: a[::-1], np.sum]
)
@pytest.mark.parametrize("kind", RESULTS)
def test_a_rewritten_field_is_refused_and_with_a_digest_not_confirmed(tmp_path, kind, change):
    path = tmp_path / "r.npz"
    RESULTS[kind]().save(path)
    _, arrays = read_saved(path)
    assert Result.load(path).check(X, Y).is_valid
    for name in ("w", "w_lower", "bounds", "classes"):
        new = arrays[name][::-1] if name == "classes" else change(arrays[name])
        np.savez(path, **arrays | {name: new, "digest": np.load(path)["digest"]})
        with pytest.raises(ValueError, match=r"r.npz: not a whole prgd result file \(its digest is"):
            Result.load(path)
        write_saved(path, arrays | {name: new})
        with contextlib.suppress(ValueError):
            assert not Result.load(path).check(X, Y).is_valid, name
        write_saved(path, arrays)


def test_two_classes_keep_their_names(tmp_path):
    y = ["no", "no", "yes", "yes"]
    result = prgd.max_margin(X, y)
    Model(result.classes, (result,)).save(tmp_path / "m.npz")
    assert Model.load(tmp_path / "m.npz").predict(X).tolist() == y
    assert Result.load(tmp_path / "m.npz").check(X, y).is_valid
    signs = Model(np.array([-1, 1]), (replace(result, classes=None),))
    signs.save(tmp_path / "z.npz")
    assert Result.load(tmp_path / "z.npz").classes is None


@pytest.mark.parametrize("load", [Model.load, Result.load])
def test_a_folder_and_a_file_of_another_version_are_refused(tmp_path, load):
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    write_saved(tmp_path / "old.npz", {"meta": np.array(json.dumps({"format": "prgd-result-1"}))})
    with pytest.raises(ValueError, match="format 'prgd-result-1', which this version of prgd does not know"):
        load(tmp_path / "old.npz")
