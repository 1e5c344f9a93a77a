# rooms: code/symbols code/elf
"""Names of a library that is replaced on disk and loaded again, against the program's own account of who stored what."""

import json
import os
import subprocess

import pytest

from conftest import WAIT, WATCHCTL

HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
volatile int counter;
/* Reads lines "load GENERATION", stores at once, and tells the last value. */
int main(int argc, char **argv)
{
	void (*store)(volatile int *, int) = NULL, *lib = NULL;
	int generation, n = 0;
	char name[64];

	puts("ready");
	fflush(stdout);
	while (scanf(" load %d", &generation) == 1) {
		if (lib && dlclose(lib))
			return 2;
		lib = dlopen(argv[1], RTLD_NOW);
		snprintf(name, sizeof(name), "store_%d", generation);
		*(void **)&store = lib ? dlsym(lib, name) : NULL;
		if (!store)
			return 3;
		for (int i = 0; i < 3; i++)
			store(&counter, ++n);
		printf("%d\\n", n);
		fflush(stdout);
	}
	return 0;
}
"""
# All generations have their function at one address, so that a name of another one would fit.
LIBRARY = """
__attribute__((noinline)) void store_N(volatile int *p, int n) { *p = n; __asm__ volatile(""); }
int generation_N = N;
"""
GENERATIONS = 4


def compile_it(path, text, *flags):
    source = path.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["gcc", "-O1", "-g", "-o", path, source, *flags], check=True, timeout=WAIT)
    return path


class Host:
    def __init__(self, tmp_path, build_id):
        self.library = tmp_path / "libplug.so"
        self.made = [compile_it(tmp_path / f"lib{n}", LIBRARY.replace("N", str(n)), "-shared", "-fPIC", f"-Wl,--build-id={build_id}")
                     for n in range(GENERATIONS)]
        program = compile_it(tmp_path / "host", HOST, "-ldl", "-Wl,--build-id")
        self.process = subprocess.Popen([program, self.library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        self.stored = {}  # value -> generation

    def load(self, generation):
        os.rename(self.made[generation], self.library)
        self.process.stdin.write(f"load {generation}\n")
        self.process.stdin.flush()
        last = self.process.stdout.readline()
        self.stored.update({n: generation for n in range(int(last) - 2, int(last) + 1)})


@pytest.fixture
def host(tmp_path):
    started = []

    def start(build_id="sha1"):
        started.append(Host(tmp_path, build_id))
        return started[-1]

    yield start
    for h in started:
        h.process.kill()
        h.process.wait()


def check(objects, host):
    """One thread stores one value after the other. Each store has the name of its own generation, or none; that of the
    last, whose file is in place, has one."""
    accesses = sorted((o for o in objects if o["type"] == "access"), key=lambda a: a["time_ns"])
    assert len(accesses) == len(host.stored)
    for a, (value, generation) in zip(accesses, sorted(host.stored.items())):
        if "new" in a:
            assert int(a["new"], 16) == value
        own = f"store_{generation}"
        names = {a.get("function"), a["stack"][0].get("function") if a["stack"] else None}
        assert names <= {own, None}, (own, a)
        assert generation != GENERATIONS - 1 or own in names, a


def report(log):
    r = subprocess.run([WATCHCTL, "report", "--json", log], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
@pytest.mark.parametrize("loaded_before", [False, True], ids=["loaded after the start", "loaded before"])
def test_first_accesses_of_a_replaced_library_never_have_names_of_the_old_one(watch, host, tmp_path, engine, loaded_before):
    h = host()
    if loaded_before:
        h.load(0)
        h.stored.clear()  # before the watch
    w = watch("-p", h.pid, "-v", "counter", "-w", "--engine", engine, "-o", tmp_path / "log", "--echo")
    for generation in range(loaded_before, GENERATIONS):
        h.load(generation)
    w.end()
    check(w.objects, h)
    check(report(tmp_path / "log"), h)
