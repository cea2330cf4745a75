"""kiln.torch.compile_pass: races, what is taken of them, and its place among Inductor's passes. Inductor
itself has no part in it: test_compile_pass_gpu.py runs it."""

import contextlib
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.fx.experimental.proxy_tensor")

from fx_graphs import BIAS, R, W, X, norm, randn, traced  # noqa: E402

import kiln.torch as kt  # noqa: E402
from kiln import _race  # noqa: E402
from kiln._races import Races, Result  # noqa: E402
from kiln.compile_pass import CompilePass  # noqa: E402


@pytest.fixture(name="eager")
def make_eager(monkeypatch):
    """Operators one by one in Inductor's place."""
    monkeypatch.setattr(_race, "compiled_by_inductor", lambda module, operands: module)


def options(**changed):
    return {"races": ":memory:", "tune_seconds": 0, "cudagraphs": False, **changed}


def outcome(monkeypatch, *results):
    """Races end with these results."""
    left = list(results)
    monkeypatch.setattr(_race, "race", lambda *_: left.pop(0))
    return left


WON, LOST = Result(9.0, 10.0, 1.0), Result(10.0, 10.0, 0.5)


def test_a_real_race(eager):
    fused = kt.compile_pass(**options())
    module = traced(norm, X, W, R, BIAS)
    fused(module.graph)
    module.recompile()
    torch.testing.assert_close(module(X, W, R, BIAS), norm(X, W, R, BIAS))
    assert all(entry.kiln_us > 0 and entry.inductor_us > 0 for entry in fused.report)
    assert fused.report[0].shape == (6, 4, 5) and "6x4x5" in str(fused.report[0])


def test_what_saves_most_of_what_was_won_is_taken(eager, monkeypatch):
    lost, another = "the race was not won", "another region of the product saves more"
    for results, reasons in (
        ((LOST, WON, LOST), [lost, "", lost]),
        ((WON, Result(8.0, 10.0, 1.0), WON), [another, "", another]),
        ((LOST, LOST, LOST), [lost, lost, lost]),
    ):
        outcome(monkeypatch, *results)
        fused = kt.compile_pass(**options())
        module = traced(norm, X, W, R, BIAS)
        fused(module.graph)
        assert [entry.reason for entry in fused.report] == reasons
        calls = [x for x in module.graph.nodes if x.target is torch.ops.kiln.matmul_epilogue.default]
        assert [x.args[2] for x in calls] == [entry.epilogue for entry in fused.report if entry.chosen]
    assert str(fused.report[0]).endswith("left alone, the race was not won")


def test_races_are_stored(eager, monkeypatch, tmp_path):
    file = tmp_path / "folder" / "races"
    for results in ([WON, WON], []):
        left = outcome(monkeypatch, *results)
        fused = kt.compile_pass(**options(races=file))
        for _ in range(2):  # the second graph is the first one's
            fused(traced(lambda x, w: (x @ w.t()).relu(), X, W).graph)
            fused(traced(lambda y, v: (y @ v.t()).relu(), X, W).graph)
        assert [entry.chosen for entry in fused.report] == [True] * 4 and len(left) == len(results) // 2
    outcome(monkeypatch, LOST)
    fused = kt.compile_pass(**options(races=file))
    fused(traced(lambda x, w: (x @ w.t()).relu(), randn(7, 5), W).graph)  # another shape
    assert not fused.report[0].chosen


def test_results_that_differ_are_not_taken(eager, monkeypatch):
    monkeypatch.setattr(_race, "compiled_by_inductor", lambda module, _: wrong if "kiln" in module.code
                        else module)  # fmt: skip

    def wrong(x, w):
        return [(x @ w).relu() + 0.1]

    fused = kt.compile_pass(**options())
    fused(traced(lambda x, w: (x @ w).relu(), X, W.t()).graph)
    assert not fused.report[0].chosen and "output 0 differs by" in fused.report[0].reason


def test_errors_leave_the_graph_alone(monkeypatch):
    def broken(module, operands):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(_race, "compiled_by_inductor", broken)
    fused = kt.compile_pass(**options())
    module = traced(lambda x, w: (x @ w.t()).relu(), X, W)
    before = str(module.graph)
    fused(module.graph)
    assert str(module.graph) == before
    assert fused.report[0].reason == "RuntimeError: no compiler"


def test_bare_products(eager, monkeypatch):
    module = traced(lambda x, w: x @ w.t(), X, W)
    fused = kt.compile_pass(**options())
    fused(module.graph)
    assert fused.report[0].reason == "nothing behind it"
    outcome(monkeypatch, WON)
    fused = kt.compile_pass(**options(bare=True))
    fused(module.graph)
    assert fused.report[0].chosen and fused.report[0].epilogue == "d=acc"


def test_followers_race_too(eager, monkeypatch):
    """What Inductor computes together with the region's operators is in both graphs."""
    seen = []
    monkeypatch.setattr(_race, "race", lambda before, after, *_: seen.append((before, after)) or LOST)

    def function(x, w, r):
        y = x @ w.t() + r
        return y, (y.cos() + 1).sum(-1), y.float().relu().sum((0, 1)) + y.sum(0).cos()

    fused = kt.compile_pass(**options())
    fused(traced(function, X, W, R).graph)
    before, after = seen[-1]
    assert "sum" in after.code and "kiln.matmul_epilogue" in after.code and "cos" not in after.code
    inputs = [randn(*x.meta["val"].shape) for x in before.graph.nodes if x.op == "placeholder"]
    for one, other in zip(before(*inputs), after(*inputs)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_producers_race_too(eager, monkeypatch):
    """An operand that Inductor would compute where it is read has to be written for kiln."""
    seen = []
    monkeypatch.setattr(_race, "race", lambda before, after, *_: seen.append((before, after)) or LOST)

    def function(x, w, r):
        kept = (r > 0.3).to(torch.float32) * torch.logical_not(r > 2).to(torch.float32)
        return (x @ w.t()).relu() * kept * 1.5, r + 1

    fused = kt.compile_pass(**options())
    fused(traced(function, X, W, R).graph)
    before, after = seen[-1]
    assert "logical_not" not in after.code and "torch.ops.aten.gt" in before.code
    inputs = [x.meta["val"] for x in before.graph.nodes if x.op == "placeholder"]
    made = _race.operands_of([torch.empty(x.shape, dtype=x.dtype) for x in inputs])
    for one, other in zip(before(*made), after(*made)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.fixture(name="config")
def make_config(monkeypatch):
    config = types.SimpleNamespace(post_grad_custom_pre_pass=None,
                                   triton=types.SimpleNamespace(cudagraphs=False))  # fmt: skip
    inductor = types.ModuleType("torch._inductor")
    inductor.config = config
    monkeypatch.setitem(sys.modules, "torch._inductor", inductor)
    return config


def test_it_is_installed_and_taken_out(config):
    fused = kt.compile_pass(**options())
    with fused as entered:
        assert entered is fused and config.post_grad_custom_pre_pass is fused
        with kt.compile_pass(**options()) as inner:
            assert config.post_grad_custom_pre_pass is inner and inner.uuid() is not None
        assert config.post_grad_custom_pre_pass is fused
    assert config.post_grad_custom_pre_pass is None
    with contextlib.suppress(KeyError), fused:
        raise KeyError
    assert config.post_grad_custom_pre_pass is None


def test_passes_before_it_are_called(config):
    called = []
    config.post_grad_custom_pre_pass = called.append
    with kt.compile_pass(**options()) as fused:
        graph = traced(lambda x: x + 1, X).graph
        fused(graph)
        assert called == [graph]
        assert fused.uuid() is None  # nobody knows what a function depends on
    assert config.post_grad_custom_pre_pass == called.append


def test_uuid(tmp_path):
    one = kt.compile_pass(**options(races=tmp_path / "races"))
    same = kt.compile_pass(**options(races=tmp_path / "races"))
    other = kt.compile_pass(**options(races=tmp_path / "other"))
    eager = kt.compile_pass(**options(races=tmp_path / "races", margin=0.05))
    assert one.uuid() == same.uuid() and len({x.uuid() for x in (one, other, eager)}) == 3
    assert isinstance(one, CompilePass)


def test_arguments_that_are_wrong():
    with pytest.raises(ValueError, match="margin = 1: must be"):
        kt.compile_pass(**options(margin=1))
    with pytest.raises(ValueError, match="tune_seconds = -1: must not be negative"):
        kt.compile_pass(**options(tune_seconds=-1))
    with pytest.raises(TypeError):
        kt.compile_pass(True)


def test_the_file_of_races(monkeypatch, tmp_path):
    from kiln._races import default_file

    monkeypatch.setenv("KILN_DB", str(tmp_path / "mine.db"))
    assert default_file() == tmp_path / "torch.races"
    monkeypatch.setenv("KILN_DB", ":memory:")
    assert default_file() == ":memory:"
    monkeypatch.delenv("KILN_DB")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_file() == tmp_path / "kiln" / "torch.races"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_file() == tmp_path / "home" / ".cache" / "kiln" / "torch.races"
    races = Races(tmp_path / "deep" / "races")
    races.put("key", WON, "a problem")
    assert Races(tmp_path / "deep" / "races").get("key") == WON
    assert not Result(1.0, 2.0, 1.0, "output 0 differs").is_won(0.01)
    assert not Result(1.0, 2.0, 0.5).is_won(0.01)


def test_a_file_that_holds_no_races_is_named(tmp_path):
    broken = tmp_path / "torch.races"
    broken.write_bytes(b"not a database" * 100)
    with pytest.raises(ValueError, match="torch.races'"):
        Races(broken)
    assert broken.read_bytes() == b"not a database" * 100
