# rooms: stackwalk code/unwind
"""libstackwalk's walk of the own stack inside packaged programs, as libunwind and libgcc do: `make oracle` in short."""
import re
import subprocess

import pytest
from conftest import BUILD, ROOT, WAIT

ORACLE = ROOT / "tests" / "oracle" / "run-preload-oracle"
LEAST = 0.999


@pytest.mark.slow
@pytest.mark.parametrize("programs, points", [(["python3", "sqlite3"], 8000),
                                              (["perl", "openssl", "xz", "bash", "exceptions"], 20000)])
def test_stacks_are_those_of_libunwind_and_libgcc_in_real_programs(programs, points):
    """At calls of malloc() and its like, where a timer interrupts, and at each instruction from there on."""
    out = subprocess.run([ORACLE, BUILD, "0.6", *programs], capture_output=True, text=True, timeout=4 * WAIT)
    if out.returncode == 77:
        pytest.skip(out.stdout.strip())
    assert out.returncode == 0, out.stdout + out.stderr
    n, as_both, against = (int(re.search(rf"^all: .*?\b(\d+) {what}", out.stdout, re.M)[1])
                           for what in ("points", "as both", "AGAINST BOTH"))
    assert n >= points, out.stdout
    assert as_both >= LEAST * n, out.stdout
    assert against <= (1 - LEAST) * n, out.stdout
