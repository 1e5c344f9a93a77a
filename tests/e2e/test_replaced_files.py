# rooms: code/elf code/symbols trace/log
"""A log keeps names from files that were replaced while it was recorded, against addr2line on a copy of the old file."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import WAIT, WATCHCTL

SOURCE = """
#include <stdio.h>
volatile int counter;
PADDING
__attribute__((noinline)) void STORE(int n) { counter = n; __asm__ volatile(""); }
__attribute__((noinline)) void CALLER(int n) { STORE(n); __asm__ volatile(""); }
int main(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	for (int n = 1; fgets(line, sizeof(line), stdin); n++) {
		CALLER(n);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""
OTHER_CODE = 'void pad(void) { __asm__ volatile(".skip 4096, 0x90"); }'


def compile_it(path, store, caller, padding=""):
    text = SOURCE.replace("STORE", store).replace("CALLER", caller).replace("PADDING", padding)
    source = path.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", "-o", path, source], check=True,
                   timeout=WAIT)
    return path


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def store(self, n):
        for _ in range(n):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=WAIT)


@pytest.fixture
def program(tmp_path):
    """The program, and a copy of its file; replace() puts another build at its path, with other names at its addresses."""
    (tmp_path / "old").mkdir()
    path = compile_it(tmp_path / "app", "old_store", "old_caller")
    kept = tmp_path / "old" / "app"
    shutil.copy(path, kept)
    other = compile_it(tmp_path / "other", "other_store", "other_caller", OTHER_CODE)
    p = Program(path)
    p.path, p.kept = path, kept
    p.replace = lambda: os.replace(other, path)
    yield p
    p.process.kill()
    p.process.wait()


def report(log):
    r = subprocess.run([WATCHCTL, "report", "--json", log], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def own_frames(objects, path):
    """Per access, the frames in the program: function, line, and address in the file."""
    return [[(f["function"], f.get("line"), f["module_offset"]) for f in a["stack"] if f.get("module") == str(path)]
            for a in objects if a["type"] == "access"]


def line_of(kept, offset):
    at = subprocess.run(["addr2line", "-f", "-e", kept, offset], capture_output=True, text=True, check=True).stdout.split()
    return at[0], int(at[1].rsplit(":", 1)[1].split()[0])


def check_names(stacks, kept, n):
    assert len(stacks) == n
    for stack in stacks:
        assert [f[0] for f in stack[:2]] == ["old_store", "old_caller"], stack
        assert stack[0][:2] == line_of(kept, stack[0][2])


def test_a_log_has_the_names_that_the_live_output_had(watch, program, tmp_path):
    log = tmp_path / "run.log"
    w = watch("-p", program.pid, "-v", "counter", "-w", "-o", log, "--echo")
    program.store(2)
    program.replace()
    program.store(2)
    w.end()
    live = own_frames(w.objects, program.path)
    check_names(live, program.kept, 4)
    assert own_frames(report(log), program.path) == live


def test_names_need_no_look_at_the_file_before_it_is_replaced(watch, program, tmp_path):
    log = tmp_path / "run.log"
    w = watch("-p", program.pid, "-v", "counter", "-w", "-o", log)
    program.replace()
    program.store(3)
    w.end()
    objects = report(log)
    check_names(own_frames(objects, program.path), program.kept, 3)
    assert not any("has changed" in o.get("text", "") for o in objects if o["type"] == "note")
    assert "other_store" not in json.dumps(objects)


def test_names_outlive_a_program_that_ends_first(watch, program, tmp_path):
    log = tmp_path / "run.log"
    w = watch("-p", program.pid, "-v", "counter", "-w", "-o", log)
    program.store(2)
    os.unlink(program.path)
    program.end()
    w.end(sig=None, expect=None)
    check_names(own_frames(report(log), program.path), program.kept, 2)


def test_a_file_that_stays_in_place_costs_the_log_nothing(watch, program, tmp_path):
    log = tmp_path / "run.log"
    w = watch("-p", program.pid, "-v", "counter", "-w", "-o", log)
    program.store(2)
    w.end()
    assert not (log / "symbols").exists()
    check_names(own_frames(report(log), program.path), program.kept, 2)


def test_a_file_replaced_after_the_recording_is_not_used_for_names(watch, program, tmp_path):
    log = tmp_path / "run.log"
    w = watch("-p", program.pid, "-v", "counter", "-w", "-o", log)
    program.store(2)
    w.end()
    stored = shutil.copytree(log, tmp_path / "symbolized.log")
    subprocess.run([WATCHCTL, "symbolize", stored], check=True, capture_output=True, timeout=WAIT)
    program.replace()
    objects = report(log)
    assert sum(o["type"] == "access" for o in objects) == 2
    assert not any(name in json.dumps(objects) for name in ("other_store", "other_caller", "old_store", "old_caller"))
    assert any("has changed" in o["text"] for o in objects if o["type"] == "note")
    check_names(own_frames(report(stored), program.path), program.kept, 2)  # what symbolize is for
