# rooms: stackwalk trace/tags
"""libstackwalk as a program's author meets it: installed, linked, and collecting by itself.

The victim (tests/victims/captures.c) prints what its log must hold; the log is read back with `watchctl report`.
"""
import collections
import json
import os
import re
import signal
import subprocess

import pytest

from conftest import BUILD, ROOT, VICTIMS, WAIT, WATCHCTL, wait_until

API = {
    "stackwalk_collecting", "stackwalk_capture", "stackwalk_capture_value", "stackwalk_capture_tag",
    "stackwalk_capture_tag_value", "stackwalk_frames", "stackwalk_frames_from", "stackwalk_log_open",
    "stackwalk_log_close", "stackwalk_log_error",
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """What `make install` places, in a folder of its own."""
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["make", "-s", "install", f"BUILD={os.environ.get('BUILD', BUILD)}", f"PREFIX={prefix}", f"DESTDIR={os.sep}"], cwd=ROOT,
                   check=True, timeout=10 * WAIT, capture_output=True)
    return prefix


@pytest.fixture(scope="session")
def flags(installed):
    env = dict(os.environ, PKG_CONFIG_PATH=str(installed / "lib" / "pkgconfig"))

    def ask(*words):
        return subprocess.run(["pkg-config", *words, "stackwalk"], env=env, check=True, capture_output=True,
                              text=True).stdout.split()

    return ask


@pytest.fixture(scope="session")
def program(installed, flags):
    """program(source, kind, compiler) -> a program linked with the installed library, compiled once."""
    made = {}

    def make(source, kind="shared", compiler="gcc", extra=()):
        key = (str(source), kind, compiler, tuple(extra))
        if key not in made:
            out = installed / f"program-{len(made)}"
            library = ["-Wl,-rpath," + str(installed / "lib"), *flags("--libs")]
            if kind != "shared":
                library = ["-L" + str(installed / "lib"), "-l:libstackwalk.a"]
            if kind == "static":
                library.append("-static")
            subprocess.run([compiler, "-O2", "-g", *extra, *flags("--cflags"), str(source), "-o", str(out), *library,
                            "-pthread"], check=True, timeout=WAIT)
            made[key] = str(out)
        return made[key]

    return make


KINDS = ["shared", "archive", "static"]


def report(log, expect=0):
    out = subprocess.run([WATCHCTL, "report", str(log), "--json", "--events"], capture_output=True, text=True,
                         timeout=WAIT)
    assert out.returncode == expect, out.stderr
    return [json.loads(line) for line in out.stdout.splitlines()]


class Log:
    def __init__(self, path, expect=0):
        objects = report(path, expect)
        self.stacks = [o for o in objects if o["type"] == "stack"]
        self.count = collections.Counter(o["tag"] for o in self.stacks)
        self.summary = next((o for o in objects if o["type"] == "summary"), None)

    def of(self, tag):
        return [o for o in self.stacks if o["tag"] == tag]

    def balanced(self):
        s = self.summary
        return s["recorded"] + s["lost"] == s["counted"] and s["recorded"] == len(self.stacks)


def said(text):
    """{tag: count} of what the victim printed."""
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in text.splitlines()}


def functions(stack):
    return [f.get("function") for f in stack["stack"]]


@pytest.fixture
def victim_run(program, tmp_path):
    def call(mode, kind="shared", log=None):
        log = log or tmp_path / "log"
        out = subprocess.run([program(VICTIMS / "captures.c", kind), str(log), mode], capture_output=True, text=True,
                             timeout=WAIT)
        assert out.returncode == 0, out.stderr
        return log, out.stdout

    return call


def test_the_shared_library_exports_its_functions_and_needs_only_libc(installed):
    library = str(installed / "lib" / "libstackwalk.so")
    names = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[2].split("@")[0] for line in names.splitlines() if " A " not in line}
    assert exported == API
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert "NODELETE" in dynamic


def test_the_archive_defines_no_global_name_but_its_functions(installed):
    names = subprocess.run(["nm", "-g", "--defined-only", str(installed / "lib" / "libstackwalk.a")], check=True,
                           capture_output=True, text=True).stdout
    assert {line.split()[2] for line in names.splitlines() if len(line.split()) == 3} == API


def test_every_function_has_a_man_page(installed):
    macros = {"STACKWALK_TAG", "STACKWALK_TAG_VALUE"}
    for name in (API | macros) - {"stackwalk_collecting"}:
        assert (installed / "share" / "man" / "man3" / f"{name}.3").exists(), name


@pytest.mark.parametrize("compiler,extra", [("gcc", ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-pedantic"]),
                                            ("clang", ["-Wall", "-Wextra", "-Werror"]),
                                            ("g++", ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror"])])
def test_the_header_compiles_without_a_warning(installed, flags, tmp_path, compiler, extra):
    source = tmp_path / "user.c"
    source.write_text("""#include <stackwalk.h>
int main(void) { uint64_t f[4]; enum stackwalk_end why; STACKWALK_TAG("a"); STACKWALK_TAG_VALUE("b", 1);
stackwalk_capture(1); stackwalk_capture_value(1, 2); return stackwalk_frames(f, 4, &why) < 1; }
""")
    subprocess.run([compiler, *extra, *flags("--cflags"), str(source), *(["-x", "none"] if "c++" in extra else []),
                    *flags("--libs"), "-Wl,-rpath," + str(installed / "lib"), "-o", str(tmp_path / "user")], check=True,
                   timeout=WAIT)
    subprocess.run([str(tmp_path / "user")], check=True, timeout=WAIT)


def test_the_example_records_every_miss_that_it_counts(installed, program, tmp_path):
    log = tmp_path / "log"
    example = installed / "share" / "doc" / "watchctl" / "examples" / "cache.c"
    out = subprocess.run([program(example), "2", str(log)], check=True, capture_output=True, text=True, timeout=WAIT)
    misses = int(out.stdout.split()[0])
    got = Log(log)
    assert misses > 0
    assert got.count == {"cache-miss": misses, "worker-done": 2}
    assert got.balanced()
    searched = [s for s in got.of("cache-miss") if "serve_search" in functions(s)]
    assert len(searched) > misses / 2
    assert functions(searched[0])[:4] == ["fill", "look_up", "serve_search", "serve"]


def test_a_static_musl_program_captures_as_far_as_its_code_says(installed, tmp_path):
    log, exe = tmp_path / "log", tmp_path / "cache"
    subprocess.run(["musl-gcc", "-O2", "-g", "-static", "-I", str(installed / "include"),
                    str(installed / "share" / "doc" / "watchctl" / "examples" / "cache.c"), "-o", str(exe),
                    "-L" + str(installed / "lib"), "-l:libstackwalk.a"], check=True, timeout=WAIT)
    out = subprocess.run([str(exe), "1", str(log)], check=True, capture_output=True, text=True, timeout=WAIT)
    got = Log(log)
    assert got.count["cache-miss"] == int(out.stdout.split()[0]) and got.balanced()
    kinds = {tuple(functions(s)[:4]) for s in got.of("cache-miss")}
    assert kinds == {("fill", "look_up", "serve_search", "serve"), ("fill", "look_up", "serve_front_page", "serve")}
    # musl's own code has no unwind information: it says so, and ends there.
    assert {s["stack_end"] for s in got.stacks} == {"no_rule"}


@pytest.mark.parametrize("kind", KINDS)
def test_captures_in_the_first_and_last_moments_of_threads_and_the_process(victim_run, kind):
    log, out = victim_run("life", kind)
    got = Log(log)
    assert got.count == said(out)
    assert got.balanced() and got.summary["lost"] == 0
    assert all(functions(s)[0] == "in_thread" for s in got.of("thread"))
    assert all(functions(s)[0] == "in_destructor" for s in got.of("thread-end"))
    assert functions(got.of("at-exit")[0])[0] == "at_exit"
    assert functions(got.of("main")[0])[:2] == ["life", "main"]
    # A thread's destructor runs in the thread that ends, under the same id.
    assert {s["tid"] for s in got.of("thread")} == {s["tid"] for s in got.of("thread-end")}
    assert all(s["stack_end"] == "complete" for s in got.stacks)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_names_and_values_come_back_as_they_were(victim_run, kind):
    log, out = victim_run("tags", kind)
    got = Log(log)
    assert got.count == said(out)
    assert int(got.of("18")[0]["value"], 16) == 2**64 - 1
    assert int(got.of("valued")[0]["value"], 16) == 42
    assert "value" not in got.of("17")[0]
    assert functions(got.of("17")[0])[:3] == ["number", "tags", "main"]
    places = [s["stack"][0]["line"] for s in got.of("twice")]
    assert len(set(places)) == 2 and places[0] == places[1] == places[2]


def test_a_name_too_many_loses_its_name_and_nothing_else(victim_run):
    log, _ = victim_run("names")
    got = Log(log)
    assert sum(got.count.values()) == 1500 and got.balanced()
    assert sum(1 for tag in got.count if re.fullmatch(r"name-\d+", tag)) == 1023
    assert got.count["(unnamed)"] == 1500 - 1023


def test_nothing_of_the_process_is_changed(victim_run):
    log, out = victim_run("unchanged")
    assert Log(log).count == said(out)


def test_captures_in_signal_handlers_that_interrupt_captures(victim_run):
    log, out = victim_run("signals")
    got, want = Log(log), said(out)
    assert got.balanced()
    assert got.summary["lost"] == 0 and got.count == want
    # In the order in which they happened, each with its own value.
    assert [int(s["value"], 16) for s in got.of("work")] == list(range(want["work"]))
    assert sorted(int(s["value"], 16) for s in got.of("handler")) == list(range(want["handler"]))
    wrong = [s for s in got.of("work") if functions(s)[:3] != ["work", "signals", "main"]]
    assert not wrong
    wrong = [s for s in got.of("handler") if functions(s)[0] != "handler" or "main" not in functions(s)]
    assert len(wrong) == 0


@pytest.mark.slow
def test_a_handler_that_leaves_by_longjmp_loses_no_more_than_what_it_interrupted(victim_run):
    log, out = victim_run("longjmps")
    got, want = Log(log), said(out)
    assert got.balanced()
    assert got.count["jump"] == want["jump"]
    # Of `work`, the one that was under way may be there or lost, and it may have been the one not counted by the victim.
    assert want["work"] <= got.count["work"] + got.summary["lost"] <= want["work"] + want["jump"]


def test_walks_agree_with_glibcs_from_callbacks_and_signal_handlers(victim_run):
    _, out = victim_run("frames")
    assert said(out)["frames"] >= 2002


def test_a_forked_child_is_not_collected_from(victim_run, tmp_path):
    log, out = victim_run("forks")
    got = Log(log)
    assert got.count == said(out) and got.balanced()
    child = Log(f"{log}.child")
    assert child.count == {"own": 1} and child.balanced()
    assert child.of("own")[0]["pid"] != got.of("parent")[0]["pid"]


def test_no_memory_for_a_ring_is_lost_and_counted(victim_run):
    log, _ = victim_run("no_memory")
    got = Log(log)
    assert got.count == {"fed": 2}
    assert got.summary["lost"] == 100 and got.balanced()


@pytest.mark.slow
def test_a_killed_process_leaves_a_log_of_what_had_been_written(program, tmp_path):
    """It is written from time to time, not at the end."""
    log = tmp_path / "log"
    with subprocess.Popen([program(VICTIMS / "captures.c"), str(log), "forever"], stdout=subprocess.PIPE,
                          text=True) as p:
        try:
            assert p.stdout.readline() == "work 10000\n"
            wait_until(lambda: Log(log).count["work"] >= 10000)
        finally:
            p.send_signal(signal.SIGKILL)
    got = Log(log)
    assert got.count["work"] >= 10000
    assert [int(s["value"], 16) for s in got.stacks] == list(range(len(got.stacks)))


def test_what_cannot_be_opened_is_refused_with_a_reason(victim_run):
    import errno

    _, out = victim_run("errors")
    want = {"close": errno.EINVAL, "null": errno.EINVAL, "frames": errno.EINVAL, "buffer": errno.EINVAL,
            "enoent": errno.ENOENT, "eexist": errno.EEXIST, "ebusy": errno.EBUSY, "again": errno.EINVAL}
    for line in out.splitlines():
        name, number, reason = line.split(" ", 2)
        assert int(number) == -want.pop(name), line
        assert len(reason) > 10, line
    assert not want


def test_a_full_disk_ends_the_log_and_not_the_program(victim_run, tmp_path):
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], check=True)
    try:
        log, out = victim_run("full_disk", log=small / "log")
        name, number, reason = out.split(" ", 2)
        assert name == "close" and int(number) < 0 and "space" in reason.lower()
        got = Log(log)
        assert [int(s["value"], 16) for s in got.stacks] == list(range(len(got.stacks)))
        assert len(got.stacks) > 1000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_babeltrace_reads_the_librarys_log(victim_run):
    log, _ = victim_run("tags")
    out = subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert out.returncode == 0, out.stderr
    assert len(re.findall(r"\bcapture(?:_value)?:", out.stdout)) == len(Log(log).stacks)
