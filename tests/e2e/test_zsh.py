"""zsh's completion, in a zsh on a terminal of its own."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, WATCHCTL

SCRIPT = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "fpath=(%(completion)s \$fpath); path=(%(bin)s \$path); autoload -U compinit; compinit -u -D"
sleep 1
zpty -n -w shell $'%(keys)s'
for i in {1..30}; do
	sleep 0.1
	while zpty -r -t shell chunk; do print -rn -- "$chunk"; done
done
"""


def complete(keys):
    """What the terminal shows after @keys."""
    script = SCRIPT % {"completion": ROOT / "completion", "bin": os.path.dirname(WATCHCTL), "keys": keys}
    out = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, timeout=60).stdout
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x08\r]", "", out)


@pytest.fixture(autouse=True)
def zsh():
    if not shutil.which("zsh"):
        pytest.skip("there is no zsh")


def test_commands_and_options_are_completed():
    assert re.search(r"watchctl diff\s+--save-masks", complete(r"watchctl dif\t--save\t"))


def test_values_of_options_are_offered():
    shown = complete(r"watchctl step --mover \t\t")
    assert "lldb" in shown and "ptrace" in shown


def test_variables_of_the_program_behind_the_dashes_are_completed(build):
    program = build("hammer")
    names = subprocess.run([WATCHCTL, "__complete", "--variables", "", program], capture_output=True, text=True,
                           timeout=60).stdout.split()
    name = max(names, key=len)
    assert sum(n.startswith(name[:-1]) for n in names) == 1
    left = r"\e[D" * len(" -- " + program)
    shown = complete(f"watchctl -v {name[:-1]} -- {program}{left}" + r"\t\Caprint -r -- \C-e\n")
    assert f"\nwatchctl -v {name} -- {program}\n" in shown
