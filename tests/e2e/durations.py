"""
How long tests take, and what follows from it: the longest are begun first, so that no process works alone at the end,
and a claim that is tried with many parameters is tried in the gate with those that fit into SHARE seconds, the shortest
first, with one at least; the others are marked slow, as if by hand.

durations.txt has a test a line, SECONDS<tab>NAME, as `make e2e-durations` writes it (a part of make nightly). A plugin
of pytest, which conftest.py names, with these words in the environment of tools/run-e2e:
E2E_SHARE=all         marks none slow
E2E_LONGEST=SECONDS   leaves out the tests that take so long, or longer
E2E_TIMES=FILE        gets a line for each part of each test, in the form of durations.txt
"""
import collections
import os
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILE = HERE / "durations.txt"
LEAST = 0.2  # seconds: what takes less has no line
SHORT = 0.2  # and counts so
SHARE = 1.0  # seconds that one claim may take in the gate, if it is one of several parameters


def read():
    """{name: seconds}; a name as pytest has it, from this folder."""
    if not FILE.exists():
        return {}
    lines = (line.split("\t") for line in FILE.read_text().splitlines() if line and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in lines}


def write(times, file=FILE):
    """@times: lines as above, several of a test add up. A name with this checkout's place is no other checkout's."""
    total = collections.Counter()
    for line in times:
        seconds, name = line.rstrip("\n").split("\t")
        if str(HERE.parent) not in name:
            total[name] += float(seconds)
    rows = sorted(((round(s, 1), n) for n, s in total.items() if s >= LEAST), key=lambda row: (-row[0], row[1]))
    file.write_text("# Written by make e2e-durations: seconds, test.\n" + "".join(f"{s:.1f}\t{n}\n" for s, n in rows))


def unit_of(name, shares={}):
    """The part that one process takes as a whole: a test, or its file where tests share what a fixture has made."""
    file = name.partition("::")[0]
    if file not in shares:
        text = (HERE / file).read_text() if (HERE / file).exists() else ""
        shares[file] = bool(re.search(r'scope="(module|session|class)"', text))
    return file if shares[file] else name


def beyond_share(names, expected):
    """Those of @names, all of one claim, that do not fit."""
    left_s, beyond = SHARE, []
    for i, name in enumerate(sorted(names, key=lambda n: (expected.get(n, SHORT), n))):
        left_s -= expected.get(name, SHORT)
        if i and left_s < 0:
            beyond.append(name)
    return beyond


def mark_slow(items, expected):
    """By hand with these parameters (slow_when), or for want of time; neither counts for the other."""
    for item in items:
        if any(item.callspec.id in when.args for when in item.iter_markers("slow_when")):
            item.add_marker(pytest.mark.slow)
    if os.environ.get("E2E_SHARE") == "all":
        return
    claims = collections.defaultdict(dict)
    for item in items:
        if not item.get_closest_marker("slow"):
            claims[item.nodeid.partition("[")[0]][item.nodeid] = item
    for claim in claims.values():
        for name in beyond_share(claim, expected):
            claim[name].add_marker(pytest.mark.slow)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config, items):
    expected = read()
    mark_slow(items, expected)
    yield  # -m chooses
    longest = os.environ.get("E2E_LONGEST")
    if longest:
        left_out = [i for i in items if expected.get(i.nodeid, SHORT) >= float(longest)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if i not in left_out]
    takes = collections.Counter()
    for item in items:
        takes[unit_of(item.nodeid)] += expected.get(item.nodeid, SHORT)
    items.sort(key=lambda i: -takes[unit_of(i.nodeid)])


@pytest.hookimpl(optionalhook=True)  # of xdist, if it is there
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return unit_of(nodeid)

    return ByUnit(config, log)


def pytest_runtest_logreport(report):
    path = os.environ.get("E2E_TIMES")
    # A fixture of a file is no matter of the test that happens to be its first.
    shared = report.when == "setup" and unit_of(report.nodeid) != report.nodeid
    if path and not shared and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(path, "a") as f:
            print(f"{report.duration:.3f}\t{report.nodeid}", file=f)


if __name__ == "__main__":
    write(Path(os.environ["E2E_TIMES"]).read_text().splitlines())
