# rooms: calltrace/pass
"""
The compile-time tracer and Rust: Debian's rustc with the plugin of its LLVM, and its bitcode by calltrace-opt. What is
recorded is held to what the program says itself (tests/victims/calltrace/rust.rs).
"""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, WAIT
from test_calltrace import SOURCES, account, execute, functions_of, recorded, report, results

# Another rustc may come first in PATH: a newer one, with an LLVM for which there is no plugin.
RUSTC = "/usr/bin/rustc"
OPT = BUILD / "bin" / "calltrace-opt"


def llvm_of_rustc():
    if not Path(RUSTC).exists():
        return None
    return re.search(r"LLVM version: (\d+)", subprocess.run([RUSTC, "-vV"], capture_output=True, text=True, timeout=WAIT).stdout)[1]


LLVM = llvm_of_rustc()
PLUGIN = BUILD / f"libcalltrace-pass-{LLVM}.so"
LINK = [f"-L{BUILD}", "-lcalltrace"]

pytestmark = [pytest.mark.skipif(not LLVM, reason=f"there is no {RUSTC}"), pytest.mark.skipif(not PLUGIN.exists(), reason=f"there is no plugin for LLVM {LLVM}, which {RUSTC} has")]


def rustc(folder, *options, **env):
    ran = subprocess.run([RUSTC, str(SOURCES / "rust.rs"), *options], capture_output=True, text=True, timeout=WAIT, cwd=folder, env={**os.environ, **env})
    assert ran.returncode == 0, ran.stderr


def holds(folder, traced):
    rustc(folder, "-o", "plain")
    expected = subprocess.run([folder / "plain"], capture_output=True, text=True, timeout=WAIT)
    status, said = execute(traced, folder / "run.log")
    assert status == expected.returncode == 0 and results(said) == results(expected.stdout)
    names = functions_of(account(said))
    assert names == {"raise", "fact", "apply", "cleans", "bare"} and recorded(folder / "run.log", names) == account(said)
    totals = [json.loads(line) for line in report(folder / "run.log", "--calls", "--json").splitlines()]
    calls = {t["function"]: t["calls"] for t in totals if t["type"] == "function_total"}
    assert calls["<rust::Total as rust::Sum>::raise"] == 5 and calls["rust::fact"] == 12


@pytest.mark.parametrize("inlined", ["false", "true"])
@pytest.mark.parametrize("options", ["", "-g", "-O", "-O -g", "-O -C lto=fat", "-O -C codegen-units=1", "-O -C prefer-dynamic"])
def test_the_plugin_in_rustc_records_what_the_program_accounts_for(tmp_path, options, inlined):
    rustc(tmp_path, *options.split(), "-Z", f"llvm-plugins={PLUGIN}", *LINK, "-C", f"link-arg=-Wl,-rpath,{BUILD}", "-o", "traced", RUSTC_BOOTSTRAP="1", CALLTRACE_BEFORE_INLINING=inlined)
    holds(tmp_path, tmp_path / "traced")


@pytest.mark.skipif(not OPT.exists(), reason="built without LLVM")
@pytest.mark.parametrize("options", ["", "-O -g"])
def test_bitcode_of_rustc_goes_through_calltrace_opt(tmp_path, options):
    rustc(tmp_path, *options.split(), "-C", "prefer-dynamic", "-C", "codegen-units=1", "--emit=llvm-bc", "-o", "a.bc")
    folder = subprocess.run([RUSTC, "--print", "target-libdir"], capture_output=True, text=True, check=True).stdout.strip()
    std = next(Path(folder).glob("libstd-*.so"))
    subprocess.run([OPT, "a.bc", "-o", "b.bc"], check=True, cwd=tmp_path, timeout=WAIT)
    subprocess.run(["clang-19", "-w", "-x", "ir", "b.bc", "-x", "none", str(std), *LINK, f"-Wl,-rpath,{BUILD}:{folder}", "-o", "traced"], check=True, cwd=tmp_path, timeout=WAIT)
    holds(tmp_path, tmp_path / "traced")
