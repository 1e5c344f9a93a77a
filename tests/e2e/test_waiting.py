# rooms: tests/e2e/waiting.py
"""The waits of the tests, and what they say when they give up: looked at in a run of pytest of its own."""
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, WAIT

FAILING = '''
import waiting
from conftest import Watch, wait_until

def test_a_wait(victim, hardware):
    v = victim("puppet")
    Watch("-p", v.pid, "-v", "flag", "--verbose")
    waiting.WAIT = 0.5
    wait_until(lambda: v.pid == 0, or_say=lambda: "it has another number")
'''


@pytest.fixture
def run_of(tmp_path):
    """run_of(text of tests, WAIT_FACTOR) -> what pytest says of them."""
    def run(text, factor):
        (tmp_path / "test_it.py").write_text(text)
        env = dict(os.environ, BUILD=str(BUILD), WAIT_FACTOR=str(factor), PYTHONPATH=str(ROOT / "tests" / "e2e"))
        env.pop("PYTEST_XDIST_WORKER", None)
        env.pop("E2E_FAILED", None)
        return subprocess.run([sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-q", str(tmp_path / "test_it.py")],
                              cwd=tmp_path, capture_output=True, text=True, env=env, timeout=WAIT).stdout
    return run


def test_a_wait_that_ends_says_what_it_waited_for_and_what_there_was(run_of, hardware):
    said = run_of(FAILING, 1)
    assert "still not so after 0.5 s: wait_until(lambda: v.pid == 0" in said and "it has another number" in said
    there = said[said.index("What there was"):]
    assert "load: " in there and "puppet" in there and "watchctl" in there
    assert "State: S (sleeping)" in there and "SigBlk: " in there and "syscall: 0 0x0" in there  # the victim reads
    assert "exit status None" in there and '"armed"' in there.replace("'", '"') and "its stderr: watchctl: " in there


def test_a_wait_gives_back_what_its_condition_said_and_looks_once_at_least(run_of):
    said = run_of("from conftest import wait_until\n\ndef test_it():\n    assert wait_until(lambda: [7]) == [7]\n", 0)
    assert "1 passed" in said


def test_what_passed_says_nothing_of_what_there_was(run_of):
    said = run_of('def test_it(victim):\n    victim("puppet")\n', 1)
    assert "1 passed" in said and "What there was" not in said


@pytest.mark.parametrize("file,text,finding", [
    ("e2e/test_x.py", "import time\ndef test_x():\n    time.sleep(1)\n", "tests/e2e/test_x.py:3: test_x sleeps"),
    ("unit/base/test_x.c", "static void it_works(void **state)\n{\n\tusleep(3);\n}\n", "tests/unit/base/test_x.c:3: it_works sleeps"),
])
def test_who_sleeps_without_a_reason_is_found(tmp_path, file, text, finding):
    path = tmp_path / "tests" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    reasons = tmp_path / "tests" / "sleeps.txt"

    def check(line):
        reasons.write_text(line)
        r = subprocess.run([ROOT / "tools" / "check-sleeps", tmp_path], capture_output=True, text=True, timeout=WAIT)
        return r.returncode, r.stdout + r.stderr

    function = finding.split()[1]
    assert check("") == (1, check("")[1]) and finding in check("")[1]
    assert check(f"tests/{file}:{function}\tfor good\n") == (0, "sleeps: 1, each with a reason\n")
    code, said = check(f"tests/{file}:{function}\tfor good\ntests/{file}:nobody\tfor good\n")
    assert code == 1 and "nobody does not sleep any more" in said
    code, said = check(f"tests/{file}:{function}\n")
    assert code == 1 and "has no reason" in said
