#!/usr/bin/python3
"""Runs the test suites of NumPy and SciPy (linalg) without the hook and with it, and compares what
they say. In between the products that a suite calls are tuned for a moment each, those that take most time
first, so that calls are served, not only passed on.

Usage: tests/hooks/suites.py [--build build/ci] [--budget SECONDS] [--tuning SECONDS] [SUITE …]   (numpy, scipy)"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SUITES = {
    "numpy": "import numpy as np; sys.exit(not np.test(extra_argv=['-p', 'no:cacheprovider', '-q']))",
    "scipy": "import scipy.linalg as l; "
             "sys.exit(not l.test(extra_argv=['-p', 'no:cacheprovider', '-q']))",
}


def outcome(suite, environment):
    """How many tests passed, failed, were skipped, as pytest's last line has them."""
    run = subprocess.run([sys.executable, "-c", "import sys; " + SUITES[suite]], env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = re.findall(r"(\d+) (passed|failed|errors?|xfailed|xpassed|skipped)", run.stdout)
    if not found:
        sys.exit(f"{suite}: no summary:\n{run.stdout[-2000:]}")
    failures = re.findall(r"^(?:FAILED|ERROR) \S+", run.stdout, re.M)
    return {word: int(count) for count, word in found}, sorted(failures)


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
    parser.add_argument("suites", nargs="*", default=list(SUITES))
    given = parser.parse_args()
    differs = 0
    for suite in given.suites:
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder:
            plain = dict(os.environ, KILN_DB=f"{folder}/kiln.db", KILN_LOG="error")
            hooked = dict(plain, LD_PRELOAD=os.path.abspath(f"{given.build}/lib/libkiln_blas.so"))
            calls = f"{folder}/calls.kiln"
            without = outcome(suite, plain)
            recorded = outcome(suite, dict(hooked, KILN_RECORD=calls))
            tune(given, calls, plain)
            served = outcome(suite, hooked)
        print(f"{suite}: without {without[0]}, passed on {recorded[0]}, served {served[0]}", flush=True)
        for name, other in (("passed on", recorded), ("served", served)):
            if other != without:
                differs += 1
                print(f"  {name}: {sorted(set(other[1]) ^ set(without[1]))[:20]}")
    return differs > 0


sys.exit(main())
