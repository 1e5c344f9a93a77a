# rooms: code/insn
"""Every kind of instruction with a memory operand, executed: docs/truth.md."""
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, WAIT, locked


def execute(*options):
    """What tests/truth prints, and its exit status."""
    with locked(BUILD / ".truth.lock"):  # several workers may want it at once
        subprocess.run(["make", "--no-print-directory", f"BUILD={os.environ.get('BUILD', 'build')}", "truth-program"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, timeout=5 * WAIT)
    run = subprocess.run([BUILD / "tests" / "truth" / "truth", *options], capture_output=True, text=True, timeout=5 * WAIT)
    if run.returncode == 77:
        pytest.skip(run.stdout.strip())
    return run


@pytest.fixture(scope="module")
def outcome():
    return execute()


def number(text, pattern):
    found = re.search(pattern, text)
    assert found, f"{pattern!r} in:\n{text}"
    return int(found.group(1))


def test_no_instruction_of_a_sample_is_told_wrongly(hardware):
    """The same 200 forms each time, evenly spread over all families. All of them take a minute and a half: make test-slow, make truth."""
    run = execute("--sample", "200")
    assert run.returncode == 0, run.stdout
    assert run.stdout.rstrip().endswith("truth: 0 wrong answers")
    executed = number(run.stdout, r"forms: (\d+) executed")
    lacking = number(run.stdout, r"(\d+) more need what this processor lacks")
    assert executed >= 50 and executed + lacking == 200


@pytest.mark.slow
def test_no_executed_instruction_is_told_wrongly(outcome, capsys):
    with capsys.disabled():
        print("\n" + outcome.stdout.rstrip())
    assert outcome.returncode == 0, outcome.stdout
    assert outcome.stdout.rstrip().endswith("truth: 0 wrong answers")


@pytest.mark.slow
def test_thousands_of_forms_were_executed(outcome):
    assert number(outcome.stdout, r"forms: (\d+) executed") >= 2000
    assert number(outcome.stdout, r"all that a recording tells +(\d+)") >= 20000


@pytest.mark.slow
def test_no_instruction_of_this_processor_is_left_out(outcome):
    assert number(outcome.stdout, r"by name: .* missing (\d+)") == 0


@pytest.mark.slow
def test_texts_of_instructions_assemble_to_the_instructions(capsys):
    """In both syntaxes, more often than capstone's or Zydis' alone; what is left is in docs/truth.md."""
    with locked(BUILD / ".truth.lock"):
        r = subprocess.run(["make", "--no-print-directory", f"BUILD={os.environ.get('BUILD', 'build')}", "truth-texts", "TEXTS_OF="], cwd=ROOT,
                           capture_output=True, text=True, timeout=5 * WAIT)
    with capsys.disabled():
        print("\n" + r.stdout.rstrip())
    assert r.returncode == 0, r.stdout + r.stderr
    for syntax in ("intel", "att"):
        shown = number(r.stdout, rf"{syntax}: right of \d+: shown (\d+)")
        assert shown >= 0.99 * number(r.stdout, rf"{syntax}: right of (\d+)")
