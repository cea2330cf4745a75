#!/usr/bin/python3
"""Runs the test suites of NumPy, SciPy (linalg) and Octave, and products of R, without the hook and
with it, and compares what they say. In between the products that a suite calls are tuned for a moment
each, those that take most time first, so that calls are served, not only passed on.

Usage: tests/hooks/suites.py [--build build/ci] [--budget SECONDS] [--tuning SECONDS]
                             [numpy] [scipy] [octave] [r]"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Debian's R brings no tests: identities of linear algebra, each of which is one.
R = """
set.seed(1); passed <- 0
same <- function(x, y) { stopifnot(isTRUE(all.equal(x, y, tolerance = 1e-7))); passed <<- passed + 1 }
for (n in c(3, 20, 64, 150)) {
  a <- matrix(rnorm(n * n), n); b <- matrix(rnorm(n * 7), n); s <- crossprod(a) + diag(n)
  same(crossprod(a), t(a) %*% a); same(tcrossprod(a), a %*% t(a)); same(a %*% solve(a, b), b)
  q <- qr(a); same(qr.Q(q) %*% qr.R(q), a); same(crossprod(qr.Q(q)), diag(n))
  d <- svd(a); same(d$u %*% (d$d * t(d$v)), a)
  same(crossprod(chol(s)), s); same(solve(s) %*% s, diag(n))
  e <- eigen(s); same(e$vectors %*% (e$values * t(e$vectors)), s)
  same(det(a)^2, det(crossprod(a))); same(sum(diag(a %*% b %*% t(b))), sum(a * t(b %*% t(b))))
}
cat(passed, "passed\n")
"""
PYTEST = "sys.exit(not {}.test(extra_argv=['-p', 'no:cacheprovider', '-rfE', '--color=no']))"
COMMANDS = {
    "numpy": [sys.executable, "-c", "import sys, numpy; " + PYTEST.format("numpy")],
    "scipy": [sys.executable, "-c", "import sys, scipy.linalg; " + PYTEST.format("scipy.linalg")],
    "octave": ["octave", "--no-gui", "--eval", "__run_test_suite__"],
    "r": ["Rscript", "-e", R],
}


def outcome(suite, environment, folder):
    """How many tests passed, failed, …, and which did not pass: of the last line of pytest, of each
    file of Octave."""
    run = subprocess.run(COMMANDS[suite], env=environment, cwd=folder, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    if suite == "octave":
        files = re.findall(r"^ +(\S+) \.* *(?:pass|FAIL) +(\d+)/(\d+)", run.stdout, re.M)
        counts = {"passed": sum(int(passed) for _, passed, _ in files),
                  "tests": sum(int(tests) for _, _, tests in files)}
        failures = [name for name, passed, tests in files if passed != tests]
        found = files
    else:
        found = re.findall(r"(\d+) (passed|failed|errors?|xfailed|xpassed|skipped)", run.stdout)
        counts = {word: int(count) for count, word in found}
        failures = re.findall(r"^(?:FAILED|ERROR) \S+", run.stdout, re.M)
    if not found:
        sys.exit(f"{suite}: no summary:\n{run.stdout[-2000:]}")
    return counts, sorted(failures)


def tune(given, calls, environment):
    command = [f"{given.build}/bin/kiln", "tune", "--recorded", calls, "--each", "--budget",
               str(given.budget)]
    try:
        subprocess.run(command, env=environment, check=False, timeout=given.tuning,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        pass  # what was tuned by then is stored


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/ci")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--tuning", type=float, default=900, help="seconds, all shapes together")
    parser.add_argument("suites", nargs="*", default=list(COMMANDS))
    given = parser.parse_args()
    differs = 0
    for suite in given.suites:
        if shutil.which(COMMANDS[suite][0]) is None:
            sys.exit(f"{suite}: {COMMANDS[suite][0]} is not installed")
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder:
            plain = dict(os.environ, KILN_DB=f"{folder}/kiln.db", KILN_LOG="error")
            hooked = dict(plain, LD_PRELOAD=os.path.abspath(f"{given.build}/lib/libkiln_blas.so"))
            calls = f"{folder}/calls.kiln"
            without = outcome(suite, plain, folder)
            recorded = outcome(suite, dict(hooked, KILN_RECORD=calls), folder)
            tune(given, calls, plain)
            served = outcome(suite, hooked, folder)
        print(f"{suite}: without {without[0]}, passed on {recorded[0]}, served {served[0]}", flush=True)
        for name, other in (("passed on", recorded), ("served", served)):
            if other != without:
                differs += 1
                print(f"  {name}: {sorted(set(other[1]) ^ set(without[1]))[:20]}")
    return differs > 0


sys.exit(main())
