# rooms: patch/plan patch/apply
"""watchctl patch where only punned jumps fit: in loops of the victim's that count by themselves how often they ran, and in real programs."""

import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL  # noqa: E402
from test_patch_live import PROBES, armed, code_of, goes_on, mappings, of_type, patch, patched_for_a_moment, report, running  # noqa: E402

LOOPS = {
    "pun_of_4": "lea rax, [rax+3]",
    "pun_of_3": "lea eax, [rax+rdx]",
    "pun_of_2": "add eax, edx",
    "pun_of_1": "stosb",
    "pun_of_two": "inc eax",
}
SITES = [word for pattern in LOOPS.values() for word in ("--at", pattern)] + ["--function", "pun_of_*"]


@pytest.fixture
def probes(tmp_path):
    path = tmp_path / "probes.c"
    path.write_text(PROBES)
    return str(path)


def said_by(n):
    return "".join(f"{name} {3 * n * n}\n" for name in [*LOOPS, "pun_of_ret"])


def totals_of(log):
    return [(t["function"], t["count"]) for t in of_type(report(log, "--sites"), "probe_total")]


def tactics_of(log):
    return {(s["function"], s["offset"]): s["tactic"] for s in of_type(report(log), "patch_site")}


# What is counted


@pytest.mark.parametrize("probe", ["nothing", "value", "stack"])
def test_each_sort_of_pun_is_reached_as_often_as_the_program_says(build, probes, tmp_path, probe):
    log = tmp_path / "log"
    done = patch(*SITES, "--call", probe, probes, "-o", log, "--", build("punned"), 40)
    assert done.stdout == said_by(40)
    assert set(tactics_of(log).values()) == {"pun"}
    assert sorted(totals_of(log)) == sorted([(name, 1600) for name in LOOPS] + [("pun_of_two", 1600)])


def test_a_probe_sees_the_registers_of_its_instruction_and_a_whole_stack(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", LOOPS["pun_of_3"] + " => stack", "--at", LOOPS["pun_of_4"] + " => after result", "--function", "pun_of_*", "--stack", "16K", probes, "-o", log, "--", build("punned"), 3)
    events = of_type(report(log), "probe")
    stacks = [e for e in events if e["function"] == "pun_of_3"]
    assert len(stacks) == 9 and all([f["function"] for f in s["stack"]][-1] == "_start" for s in stacks)
    assert [e["text"] for e in events if e["function"] == "pun_of_4"] == ["rax 3", "rax 6", "rax 9"] * 3


def test_the_exit_of_a_function_that_a_jump_leads_to(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch("--at", "exit pun_of_ret", "--call", "value", probes, "-o", log, "--", build("punned"), 30)
    assert done.stdout == said_by(30)
    assert totals_of(log) == [("pun_of_ret", 30)]
    assert list(tactics_of(log).values()) == ["pun"]


def test_a_program_that_is_not_moved_has_the_puns_that_lead_above_it(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch(*SITES, "--call", "value", probes, "-o", log, "--", build("punned_nopie"), 40)
    assert done.stdout == said_by(40)
    reached = {site: t for site, t in tactics_of(log).items()}
    assert "pun" in reached.values() and set(reached.values()) <= {"pun", "refused"}
    assert all(count == 1600 for name, count in totals_of(log) if reached.get((name, 11)) == "pun" and name != "pun_of_two")


def test_a_library_that_comes_later_has_puns_too(build, probes, tmp_path):
    shutil.copy(build("libpunned.so"), tmp_path)
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", *SITES, "--call", "value", probes, "-o", str(log), "--", build("punned"), "30", "load"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == said_by(30)
    counts = {t["function"]: t["count"] for t in of_type(report(log, "--sites"), "probe_total") if t.get("module", "").endswith("libpunned.so")}
    assert counts == dict.fromkeys(LOOPS, 900)


def test_a_forked_child_counts_rightly_and_records_nothing(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch(*SITES, "--call", "value", probes, "-o", log, "--", build("punned"), 30, "fork")
    lines = said_by(30).splitlines()
    assert done.stdout.splitlines() == lines + ["child " + line for line in lines]
    assert {count for _, count in totals_of(log)} == {900}


# What is written


def anonymous_code(pid):
    with open(f"/proc/{pid}/maps") as maps:
        lines = [line.split() for line in maps]
    return [tuple(int(a, 16) for a in words[0].split("-")) for words in lines if words[1] == "r-xp" and len(words) == 5]


def bytes_at(pid, addr, n):
    with open(f"/proc/{pid}/mem", "rb") as mem:
        mem.seek(addr)
        return mem.read(n)


def test_only_its_own_bytes_are_overwritten_and_the_jump_leads_into_our_memory(build, probes):
    """What stands at each site is, with the bytes behind it, one jump to anonymous code."""
    with running(build("punned"), 1, "forever") as p:
        p.stdout.readline()
        before = code_of(p.pid)
        with armed("patch", "-p", p.pid, *SITES, "--call", "nothing", probes, "-q") as w:
            assert "6 sites" in patch("list", "-p", p.pid).stdout
            after, ours = code_of(p.pid), anonymous_code(p.pid)
            w.send_signal(signal.SIGINT)
            assert w.wait(timeout=WAIT) == 0
        changed = [start + i for start, code in after.items() for i in range(len(code)) if code[i] != before[start][i]]
        sites = [a for a in changed if a - 1 not in changed]
        assert len(sites) == 5
        for start, code in after.items():
            for at in (a - start for a in sites if start <= a < start + len(code)):
                while code[at] == 0x2E:
                    at += 1
                assert code[at] == 0xE9
                target = start + at + 5 + struct.unpack("<i", code[at + 1:at + 5])[0]
                assert any(low <= target < high for low, high in ours)
        assert code_of(p.pid) == before


@pytest.mark.slow
def test_code_and_mappings_are_as_before_when_it_is_over(build, probes):
    with running(build("punned"), 1, "forever") as p:
        p.stdout.readline()
        code, maps = code_of(p.pid), mappings(p.pid)
        for pattern in ("@ret", "@branch", "mov *, *", "test *, *"):
            patched_for_a_moment(p.pid, "--at", pattern, "--call", "nothing", probes, "-q", "-t", "0.2")
            assert code_of(p.pid) == code
            assert mappings(p.pid) == maps
        assert p.poll() is None


# Two at once


@pytest.mark.parametrize("first, second", [(LOOPS["pun_of_4"], "dec ecx"), ("dec ecx", LOOPS["pun_of_4"])])
def test_another_watchctl_does_not_change_the_bytes_behind_a_pun(build, probes, first, second):
    where = ["--function", "pun_of_4", "--call", "nothing", "-q"]
    with running(build("punned"), 1, "forever") as p:
        p.stdout.readline()
        code = code_of(p.pid)
        with armed("patch", "-p", p.pid, "--at", first, *where, probes) as w:
            assert "a patch of another watchctl's" in patch("-p", p.pid, "--at", second, *where, probes, status=7).stderr
            patch("-p", p.pid, "--at", LOOPS["pun_of_3"], "--function", "pun_of_3", "--call", "nothing", "-q", probes, "-t", "0.2")
            w.send_signal(signal.SIGINT)
            assert w.wait(timeout=WAIT) == 0
        assert code_of(p.pid) == code
        assert p.poll() is None


def test_in_one_session_the_bytes_behind_have_no_site(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch("--at", LOOPS["pun_of_4"], "--at", "dec ecx", "--function", "pun_of_4", "--call", "nothing", probes, "-o", log, "--", build("punned"), 40)
    assert done.stdout == said_by(40)
    assert tactics_of(log) == {("pun_of_4", 11): "refused", ("pun_of_4", 15): "jump"}


# Harm


@pytest.mark.slow
def test_threads_that_count_while_patches_come_and_go_and_watchctls_are_killed(build, probes):
    chance = random.Random(7)
    with running(build("punned"), 1, "forever") as p:
        p.stdout.readline()
        code, maps = code_of(p.pid), mappings(p.pid)
        for i in range(24):
            words = [WATCHCTL, "patch", "-p", p.pid, *SITES, "--call", chance.choice(["nothing", "value", "stack"]), "-q", "-t", chance.uniform(0.01, 0.2), probes]
            w = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if i % 2:
                time.sleep(chance.uniform(0.02, 0.5))
                w.kill()
            said = w.communicate(timeout=2 * WAIT)[1]
            assert w.returncode in (0, -9), said
            assert p.poll() is None, p.stdout.read()
            if i % 4 == 3:
                subprocess.run([WATCHCTL, "clear", "-p", str(p.pid)], check=True, stdout=subprocess.DEVNULL, timeout=WAIT)
                assert code_of(p.pid) == code
                assert mappings(p.pid) == maps
        assert goes_on(p)


def test_a_killed_watchctl_leaves_puns_that_work_until_they_are_cleared(build, probes):
    with running(build("punned"), 1, "forever") as p:
        p.stdout.readline()
        code, maps = code_of(p.pid), mappings(p.pid)
        with armed("patch", "-p", p.pid, *SITES, "--call", "value", probes, "-q") as w:
            w.kill()
            w.wait()
        assert code_of(p.pid) != code
        assert goes_on(p)
        cleared = subprocess.run([WATCHCTL, "clear", "-p", str(p.pid)], capture_output=True, text=True, timeout=WAIT)
        assert cleared.returncode == 0 and "took out 5 patches of 1 module" in cleared.stdout, cleared.stdout
        assert code_of(p.pid) == code
        assert mappings(p.pid) == maps


PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", "import json, hashlib, re, zlib; d = {str(i): [i] * 3 for i in range(500)}; s = json.dumps(d, sort_keys=True); "
                "print(hashlib.sha256(s.encode()).hexdigest(), len(zlib.compress(s.encode())), len(re.findall(r'\\d+', s)))"],
    "perl": ["perl", "-e", r'my %h; $h{$_ % 97}++ for 1..5000; print join(",", map {"$_=$h{$_}"} sort keys %h), "\n"; eval { die "x" }; print $@;'],
    "bash": ["bash", "-c", "for i in $(seq 200); do x=$((x+i*i)); done; echo $x; (echo sub; echo $((x%7))) | tr a-z A-Z; trap 'echo got' USR1; kill -USR1 $$; echo end"],
    "git": ["git", "hash-object", "--no-filters", "/usr/bin/git", "/bin/sh"],
    "jq": ["jq", "-n", "-c", '[range(300) | {a: ., b: (. * . | tostring)}] | map(select(.a % 7 == 3)) | group_by(.a % 2) | map(length)'],
}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["@ret", "@branch", "test *, *", "mov *, *"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_packaged_programs_print_what_they_print_without(probes, tmp_path, name, pattern):
    command = PROGRAMS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    plain = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=WAIT).stdout
    log = tmp_path / "log"
    done = patch("--at", pattern, "--call", "nothing", probes, "-q", "-o", log, "--", *command)
    assert plain and done.stdout == plain
    tactics = [s["tactic"] for s in of_type(report(log), "patch_site")]
    assert tactics.count("pun") > 10
