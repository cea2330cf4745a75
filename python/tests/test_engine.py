"""Engines: their lifetime, tuning, recording, threads and interruption."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import kiln

A = np.random.default_rng(1).uniform(-1, 1, (24, 40)).astype(np.float32)
B = np.random.default_rng(2).uniform(-1, 1, (40, 16)).astype(np.float32)
LINE = "fp32 N N 24 16 40"


def test_problem():
    assert kiln.problem(A, B) == LINE
    assert kiln.problem(A, np.ones((16, 40), np.float32).T) == "fp32 N T 24 16 40"
    assert kiln.problem(A, B, out=np.empty((16, 24), np.float32).T) == LINE + " order=rrcc"
    assert kiln.problem(A[:, :20], B[:20]) == "fp32 N N 24 16 20 lda=40"
    assert (
        kiln.problem(A.astype("i1"), B.astype("i1"), out_dtype="float32", bias=np.ones(16, "f4"))
        == "int8 N N 24 16 40 out=fp32 epilogue=bias_col"
    )
    with pytest.raises(kiln.BadInput):
        kiln.problem(A, B[:3])
    with pytest.raises(kiln.Unsupported):
        kiln.problem(A, B.astype(float))


def test_lifetime():
    with kiln.Engine(":memory:", threads=1) as engine:
        np.testing.assert_allclose(engine.matmul(A, B), A @ B, rtol=1e-5, atol=1e-5)
        packed = engine.pack_b(B)
        assert engine.device == "cpu" and not engine.closed
    assert engine.closed
    for call in (lambda: engine.matmul(A, B), lambda: engine.tune(LINE)):
        with pytest.raises(kiln.BadInput, match="engine is closed"):
            call()
    engine.close()
    # A packed B outlives its engine.
    np.testing.assert_allclose(kiln.matmul(A, packed), A @ B, rtol=1e-5, atol=1e-5)


def test_closed_while_another_thread_calls():
    engine = kiln.Engine(":memory:", threads=1)
    errors = []

    def work():
        try:
            while True:
                engine.matmul(A, B)
        except kiln.BadInput as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)  # clock: only so that others come between
    engine.close()
    for thread in threads:
        thread.join()
    assert errors == ["engine is closed"] * 3


def test_options():
    with pytest.raises(kiln.BadInput, match="policy = maybe: must be one of use_best_known"):
        kiln.Engine(policy="maybe")
    with pytest.raises(kiln.BadInput, match="determinism = "):
        kiln.Engine(determinism="")
    with pytest.raises(kiln.BadInput, match="threads"):
        kiln.Engine(":memory:", threads=100000)
    with pytest.raises(kiln.Error, match="device"):
        kiln.Engine(":memory:", device="tpu")
    with kiln.Engine(":memory:", policy="error", shipped=[]) as engine:
        with pytest.raises(kiln.NotTuned, match="was never tuned"):
            engine.matmul(A, B)


def test_database_that_is_none(tmp_path):
    file = tmp_path / "x.db"
    file.write_text("something else")
    with pytest.raises(kiln.DatabaseError, match="x.db"):
        kiln.Engine(file)


def test_untuned_problems_are_reported_once():
    seen = []
    with kiln.Engine(":memory:", threads=1, on_untuned=seen.append) as engine:
        for _ in range(3):
            engine.matmul(A, B)
        assert len(seen) == 1 and LINE in seen[0]


def test_on_untuned_may_tune_and_may_throw():
    def tune(sentence):
        assert LINE in sentence
        engine.tune(LINE, candidates=2, threads=1)
        raise RuntimeError("of the callback")

    hooked = []
    previous, sys.unraisablehook = sys.unraisablehook, hooked.append
    try:
        with kiln.Engine(":memory:", threads=1, on_untuned=tune) as engine:
            np.testing.assert_allclose(engine.matmul(A, B), A @ B, rtol=1e-5, atol=1e-5)
            assert "exact" in engine.explain(LINE, threads=1)
    finally:
        sys.unraisablehook = previous
    assert str(hooked[0].exc_value) == "of the callback"


def test_tune_and_explain(tmp_path):
    stages = set()
    with kiln.Engine(tmp_path / "kiln.db", threads=1) as engine:
        report = engine.tune(
            A, B, activation="relu", candidates=8, seed=2, policy="auto",
            progress=lambda stage, done, total, seconds: stages.add(stage),
        )
        assert report.problem == LINE + " epilogue=relu"
        assert report.measured > 0 and report.stored and not report.already_tuned
        assert report.low_ns <= report.median_ns <= report.high_ns
        assert report.config in repr(report)
        assert (report.policy, report.joules, report.sm_mhz) == ("cold-v1", 0, 0)
        text = engine.explain(A, B, activation="relu")
        assert report.config in text and "exact" in text
        np.testing.assert_array_equal(
            engine.matmul(A, B, activation="relu") > 0, A @ B > 1e-7
        )
    assert "space" in stages and "done" in stages
    with kiln.Engine(tmp_path / "kiln.db", threads=1) as engine:
        assert engine.tune(report.problem, candidates=8).already_tuned
        assert not engine.tune(report.problem, candidates=2, force=True).already_tuned


def test_tune_of_a_range():
    with kiln.Engine(":memory:", threads=1) as engine:
        report = engine.tune("fp32 N N 1..4 8 8", candidates=4)
        assert report.problem == "fp32 N N 1..4 8 8"
        assert report.kernels >= 1 and report.parts[-1].last == 4
        assert "range" in engine.explain("fp32 N N 3 8 8")


def test_tune_refuses():
    with pytest.raises(kiln.BadInput, match="m"):
        kiln.tune("fp32 N N x 8 8")
    with pytest.raises(TypeError, match="takes no b"):
        kiln.tune(LINE, B)
    with pytest.raises(kiln.Unsupported):
        kiln.tune("fp8 N N 8 8 8", candidates=2)
    with pytest.raises(kiln.Unsupported, match="policy = sustained: kernels on cpu"):
        kiln.tune(LINE, candidates=2, policy="sustained")
    with pytest.raises(kiln.BadInput, match="policy = warm: must be one of cool, sustained, auto"):
        kiln.tune(LINE, candidates=2, policy="warm")


def test_what_progress_throws_ends_the_search():
    def stop(*_):
        raise KeyError("enough")

    with kiln.Engine(":memory:", threads=1) as engine:
        with pytest.raises(KeyError, match="enough"):
            engine.tune("fp32 N N 96 96 96", budget=60, progress=stop)


def test_interrupt_stops_tuning_and_keeps_what_was_measured():
    def interrupt(stage, done, total, seconds):
        if stage == "screen" and done:
            os.kill(os.getpid(), signal.SIGINT)

    with kiln.Engine(":memory:", threads=1) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.tune("fp32 N N 96 96 96", budget=86400, progress=interrupt)
        assert "exact" in engine.explain("fp32 N N 96 96 96")


def test_other_threads_run_meanwhile():
    a = np.ones((1200, 1200))
    engine = kiln.Engine(":memory:", threads=1)
    engine.matmul(a[:8], a)  # a kernel is there
    done, counted = threading.Event(), [0]

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.0005)  # clock: only so that others come between

    other = threading.Thread(target=count)
    other.start()
    before = counted[0]
    engine.matmul(a, a)
    during = counted[0] - before
    done.set()
    other.join()
    engine.close()
    assert during >= 3


def test_many_threads_use_one_engine():
    expected = A @ B
    wrong = []

    def work():
        for rows in range(1, 25):
            result = kiln.matmul(A[:rows], B, threads=1)
            if not np.allclose(result, expected[:rows], rtol=1e-5, atol=1e-5):
                wrong.append(rows)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def in_new_process(code, **environment):
    run = subprocess.run(
        [sys.executable, "-c", "import numpy as np, os, kiln\na = np.eye(8, dtype=np.float32)\n" + code],
        # clock: far beyond what any machine needs
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=1800,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_recording(tmp_path):
    file = tmp_path / "calls.kiln"
    with kiln.Engine(":memory:", record=file) as engine:
        engine.matmul(A, B)
    assert file.stat().st_size > 0
    second = tmp_path / "default.kiln"
    in_new_process("kiln.matmul(a, a)", KILN_RECORD=str(second))
    assert second.stat().st_size > 0


def test_forked_child_computes():
    out = in_new_process(
        "kiln.matmul(a, a)\n"
        "child = os.fork()\n"
        "same = bool((kiln.matmul(a, a) == a).all())\n"
        "if child == 0: os._exit(0 if same else 1)\n"
        "print(same, os.waitpid(child, 0)[1])\n"
    )
    assert out == "True 0\n"


def test_no_compiler_is_loaded_where_kernels_are_shipped():
    out = in_new_process(
        "kiln.matmul(a, a)\nprint('LLVM' in open('/proc/self/maps').read())",
        KILN_WORKER="/nowhere",  # or the compiler would be loaded into another process
    )
    assert out == "False\n" or os.uname().machine != "x86_64"


def test_source():
    with kiln.Engine(":memory:", threads=1) as engine:
        config = engine.tune(LINE, candidates=2).config
        assert config in engine.source(A, B) and "extern" in engine.source(LINE)
    with pytest.raises(kiln.BadInput):
        kiln.source("fp32 N N 8 8")


def test_recorded_for_a_while(tmp_path):
    file = tmp_path / "calls.kcalls"
    with kiln.record(file):
        for _ in range(3):
            kiln.matmul(A, B)
    size = file.stat().st_size
    assert size > 0
    kiln.matmul(A, A.T)
    assert file.stat().st_size == size
    with pytest.raises(kiln.Error):
        with kiln.record(tmp_path / "no" / "such" / "folder"):
            kiln.matmul(A, B)
    kiln.matmul(A, B)


def test_messages(tmp_path):
    heard = []
    kiln.set_log(lambda level, message: heard.append((level, message)))
    try:
        kiln.set_log_level("off")
        with kiln.Engine(":memory:", threads=1) as engine:
            engine.matmul(A[:, :7], B[:7])
            assert heard == []
            kiln.set_log_level("warn")
            engine.matmul(A[:, :9], B[:9])
    finally:
        kiln.set_log(None)
        kiln.set_log_level("warn")
    assert [level for level, _ in heard] == ["warn"] and "24 16 9" in heard[0][1]
    with pytest.raises(kiln.BadInput, match="level = loud"):
        kiln.set_log_level("loud")
