# rooms: flow/graph monitor/flow
"""`watchctl flow record --stacks`: where threads wait for long. The program's own functions say what their stacks must be."""
import json
import os
import re
import subprocess

import pytest
from conftest import WAIT, WATCHCTL
from test_flow_record import flow, graph, path
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for BPF programs of the whole system")

PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sink;

static __attribute__((noinline)) void hold(void) { char c; sink += read(0, &c, 1); }
static __attribute__((noinline)) void keep(void) { hold(); sink++; }
static __attribute__((noinline)) void want(void) { pthread_mutex_lock(&lock); sink++; pthread_mutex_unlock(&lock); }
static __attribute__((noinline)) void *waiter(void *a) { want(); sink++; return a; }
static __attribute__((noinline)) void in_child(void) { char c; sink += read(0, &c, 1); }
static __attribute__((noinline)) void reap(pid_t pid) { waitpid(pid, NULL, 0); sink++; }

int main(void)
{
	pthread_t t;
	pid_t pid;

	pthread_mutex_lock(&lock);
	pthread_create(&t, NULL, waiter, NULL);
	keep();
	pthread_mutex_unlock(&lock);
	pthread_join(t, NULL);
	pid = fork();
	if (!pid) {
		in_child();
		_exit(0);
	}
	reap(pid);
	printf("%d %d\n", getpid(), pid);
	return 0;
}
"""


@pytest.fixture(scope="module", name="recorded")
def _recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stacks")
    (folder / "waits.c").write_text(PROGRAM, encoding="ascii")
    subprocess.run(["cc", "-g", "-O1", "-pthread", "-o", folder / "waits", folder / "waits.c"], check=True, timeout=WAIT)
    log = folder / "log"
    recorder = subprocess.Popen([WATCHCTL, "flow", "record", "--stacks", "-o", log, "--", folder / "waits"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Each wait ends when it has been seen.
    for function in ("hold", "want", "in_child", "reap"):
        wait_until(lambda function=function: f'"function":"{function}"' in report(log))
        if function in ("want", "reap"):
            recorder.stdin.write("x")
            recorder.stdin.flush()
    out, err = recorder.communicate(timeout=WAIT)
    assert recorder.returncode == 0, err
    return log, *map(int, out.split())


def report(log):
    """Of the log as it is by now."""
    return subprocess.run([WATCHCTL, "report", "--tag", "wait", "--json", log], capture_output=True, text=True, timeout=WAIT, check=False).stdout


def functions(edge):
    return [f.get("function") for f in edge["stack"]]


def stacks(objects):
    """Of waits, in units and between them, by thread."""
    return [(x["to"]["tid"], functions(x)) for x in objects if x["type"] == "edge" and x["kind"] in ("wait_for", "weak") and "stack" in x]


def within(stack, *names):
    """They stand in it next to each other, innermost first."""
    return any(tuple(stack[i:i + len(names)]) == names for i in range(len(stack)))


def test_a_long_wait_has_the_stack_of_the_program(recorded):
    log, pid, child = recorded
    found = stacks(graph(log, "--process", "waits"))
    assert any(tid == pid and within(s, "hold", "keep", "main") for tid, s in found), found
    assert any(tid not in (pid, child) and within(s, "want", "waiter", "start_thread") for tid, s in found), found
    assert any(tid == child and within(s, "in_child", "main") for tid, s in found), found


def test_the_path_shows_where_the_time_went(recorded):
    log, pid, _ = recorded
    r = flow("path", log, "--to", f"waits/{pid}")
    assert r.returncode == 0 and re.search(r"#\d+ +reap\S* +waits\.c:\d+", r.stdout), r.stdout
    waits = [w for link in path(log, f"waits/{pid}") for w in link["waits"] if "stack" in w]
    assert any(within(functions(w), "reap", "main") for w in waits)
    assert all("stack_end" in w for w in waits)
    # Addresses of modules in the log are its own, and are not told as the program's.
    assert not [f for w in waits for f in w["stack"] if "module" in f and "ip" in f]


def test_report_counts_the_stacks(recorded):
    log, *_ = recorded
    counts = [x for x in map(json.loads, report(log).splitlines()) if x["type"] == "stack_count"]
    found = [[f.get("function") for f in x["stack"]] for x in counts]
    for function in ("hold", "want", "in_child", "reap"):
        assert any(function in s for s in found), found


def test_without_the_option_no_stack_is_taken_and_wrong_lengths_are_refused(tmp_path):
    r = flow("record", "-o", tmp_path / "log", "--", "sleep", "0.4")
    assert r.returncode == 0, r.stderr
    assert stacks(graph(tmp_path / "log")) == []
    r = flow("record", "-o", tmp_path / "short", "--stacks-from", "1ms", "-t", "0.1")
    assert r.returncode == 2 and "10ms" in r.stderr
    r = flow("record", "-o", tmp_path / "group", "--stacks", "--cgroup", "/sys/fs/cgroup", "-t", "0.1")
    assert r.returncode == 2 and "--cgroup" in r.stderr
