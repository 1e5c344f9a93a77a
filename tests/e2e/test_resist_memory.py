# rooms: target handler
"""Programs that do to their memory what makes a watch on it difficult, or leave none for us."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, snapshot, wait_until

ENGINES = ["handler", "ring", "ptrace"]
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def counts(w):
    return {s["watch"]: s["recorded"] for s in w.of("summary")}


def on_pages(watch, v, engine, pages, *args):
    watches = [x for p in pages for x in ("-v", p, "-s", "8", "-w")]
    return watch("-p", v.pid, *watches, "--engine", engine, *args)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watched_page_that_goes_and_comes_is_watched_by_its_address(victim, watch, before_and_after, engine):
    """munmap and mmap there again; mremap; MADV_DONTNEED; mprotect(PROT_NONE): four pages, four watches."""
    v = victim("resist_memory")
    pages = []
    for i in range(4):
        v.tell(f"on {i}")
        pages.append(v.tell("map private"))
        v.tell("touch 1")
    w = on_pages(watch, v, engine, pages)
    v.tell("on 0")
    v.tell("touch 3")
    v.tell("unmap")
    again = v.tell("map private")
    v.tell("touch 2")
    v.tell("on 1")
    v.tell("touch 3")
    assert v.tell("move") != pages[1]
    v.tell("touch 7")  # elsewhere
    v.tell("on 2")
    v.tell("touch 3")
    assert v.tell("forget") == "0" and v.tell("read 1") == "0"
    v.tell("touch 2")
    v.tell("on 3")
    v.tell("touch 3")
    assert v.tell("protect") == "0" and v.tell("unprotect") == "0"
    assert v.tell("read 1") == "3"
    v.tell("touch 2")
    w.end()
    assert list(counts(w).values()) == [5 if again == pages[0] else 3, 3, 5, 5] and w.balanced()
    # The old value is the last one seen: that the page was emptied meanwhile, nobody has told.
    values = [(a["old"], a["new"]) for a in w.accesses if a["addr"] == pages[2]]
    assert values == [("0x1", "0x1"), ("0x1", "0x2"), ("0x2", "0x3"), ("0x3", "0x1"), ("0x1", "0x2")]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watch_in_a_huge_page_stays_when_that_is_split_and_put_together(victim, watch, engine):
    v = victim("resist_memory")
    page = v.tell("map huge")
    huge = "AnonHugePages:      2048 kB" in Path(f"/proc/{v.pid}/smaps").read_text()
    w = on_pages(watch, v, engine, [page])
    v.tell("touch 3")
    assert v.tell("split") == "0"
    v.tell("touch 3")
    v.tell("forget")
    v.tell("touch 3")
    v.tell("collapse")  # refused by kernels where it cannot be
    v.tell("touch 3")
    w.end()
    assert list(counts(w).values()) == [12] and w.balanced()
    print("a huge page" if huge else "this kernel gave no huge page")


@pytest.mark.parametrize("engine", ENGINES)
def test_of_shared_memory_each_session_tells_the_accesses_of_its_own_process(victim, watch, tmp_path, engine):
    a, b = victim("resist_memory"), victim("resist_memory")
    at = [v.tell(f"map file {tmp_path}/shared") for v in (a, b)]
    first, second = [on_pages(watch, v, engine, [p]) for v, p in zip((a, b), at)]
    a.tell("touch 3")
    b.tell("touch 5")
    a.tell("touch 2")
    assert b.tell("read 1") == "2"
    first.end()
    second.end()
    assert list(counts(first).values()) == [5] and list(counts(second).values()) == [5]
    assert {x["pid"] for x in first.accesses} == {a.pid} and {x["pid"] for x in second.accesses} == {b.pid}
    assert [x["new"] for x in first.accesses] == ["0x1", "0x2", "0x3", "0x1", "0x2"]
    assert first.balanced() and second.balanced()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_page_that_somebody_has_yet_to_fill_holds_up_neither_us_nor_the_program(victim, watch, engine):
    """userfaultfd: whoever touches the page waits. We do not touch it; and who waits there is not brought through."""
    v = victim("resist_memory")
    page = v.tell("map fault")
    if page == "0x0":
        pytest.skip("userfaultfd is not permitted here")
    w = on_pages(watch, v, engine, [page])
    v.tell("waits")
    v.tell("write 3")
    assert v.tell("met") == "no"
    w2 = watch("-p", v.pid, "-v", "word", "-w", "--engine", "ring")  # one more, while a thread waits there
    v.tell("write 3")
    w2.end()
    assert v.tell("met") == "no"
    assert v.tell("fill") == "0"
    wait_until(lambda: v.tell("met") == "yes")
    v.tell("touch 2")
    w.end()
    assert list(counts(w).values()) == [3] and w.balanced()


@pytest.mark.parametrize("what", ["AS", "MEMLOCK"])
def test_a_program_without_room_for_us_is_left_alone_with_a_clear_sentence(victim, watch, run, before_and_after, what):
    v = victim("resist_memory")
    assert v.tell(f"limit {what}") == "0"
    v.tell("write 1")
    with before_and_after(v.pid):
        r = run("-p", v.pid, "-v", "word", "-w", "--engine", "handler", "-t", "5")
        assert r.returncode == 7
        assert "may not map" in r.stderr and "is limited" in r.stderr and "--engine ring" in r.stderr
        w = watch("-p", v.pid, "-v", "word", "-w", "--engine", "ring")  # what it offers works
        v.tell("write 3")
        w.end()
    assert w.summary()["recorded"] == 3


@pytest.mark.parametrize("what", ["NOFILE", "SIGPENDING"])
def test_a_program_without_a_free_descriptor_or_signal_is_watched_all_the_same(victim, watch, before_and_after, what):
    v = victim("resist_memory")
    assert v.tell(f"limit {what}") == "0"
    v.tell("write 1")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "word", "-w", "--engine", "handler")
        v.tell("write 3")
        w.end()
    assert w.summary()["recorded"] == 3 and w.balanced()


@pytest.fixture
def cgroup():
    """cgroup(pid, spare): puts it into a memory cgroup of its own, with so many bytes to spare."""
    for base, limit, usage in (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"), \
                              (Path("/sys/fs/cgroup"), "memory.max", "memory.current"):
        if (base / limit).exists() or (base / "cgroup.controllers").exists() and "memory" in (
                base / "cgroup.controllers").read_text():
            break
    else:
        pytest.skip("no memory cgroups here")
    group = base / f"watchctl-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"memory cgroups may not be made here: {e}")
    if not (group / limit).exists():
        group.rmdir()
        pytest.skip("the memory controller is not on")

    def put(pid, spare):
        (group / "cgroup.procs").write_text(str(pid))
        used = int((group / usage).read_text())
        (group / limit).write_text(str(used + spare))

    yield put

    def removed():
        try:
            group.rmdir()
        except OSError:
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        return not group.exists()

    wait_until(removed)


@root
def test_our_event_buffer_is_not_charged_to_a_container_with_no_memory_left(victim, watch, cgroup):
    """8 MB of it, used from end to end, where the program has 2 MB to spare: it is our memory."""
    v = victim("resist_memory")
    v.tell("write 10")
    cgroup(v.pid, 2 << 20)
    w = watch("-p", v.pid, "-v", "word", "-w", "--engine", "handler", "-q")
    v.tell("write 60000")
    w.end()
    assert v.alive() and w.balanced() and w.summary()["recorded"] > 30000
    v.tell("write 10")


@root
def test_a_program_that_unmaps_what_it_does_not_know_survives_that_it_was_us(victim, watch):
    """munmap of every mapping that was not there at its start, our handler with them; and writes on."""
    v = victim("resist_memory")
    v.tell("write 1")
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "word", "-w", "--engine", "handler", "--verbose")
    v.tell("write 3")
    assert int(v.tell("strangers")) == 2
    v.send("write 3")
    w.end(sig=None, expect=7)
    if "handler: in place" not in w.stderr:
        pytest.skip("no guard on this machine: the next hit kills such a program (docs/limits.md)")
    assert v.process.stdout.readline() == "ok \n"
    assert any("has unmapped the handler" in n["text"] for n in w.of("note"))
    assert w.balanced()
    v.tell("write 3")
    assert snapshot(v.pid) == before  # SIGTRAP's action too: it led to where nothing is


@pytest.mark.parametrize("engine", ["ring", "ptrace"])
def test_engines_that_put_nothing_into_a_program_have_nothing_to_unmap(victim, watch, engine):
    v = victim("resist_memory")
    w = watch("-p", v.pid, "-v", "word", "-w", "--engine", engine)
    assert v.tell("strangers") == "0"
    v.tell("write 3")
    w.end()
    assert w.summary()["recorded"] == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_that_the_watched_library_was_unloaded_is_told_before_another_takes_its_place(victim, watch, build, tmp_path, engine):
    """The register stays at the address, where the other one has its variable: that is not the one asked for."""
    one, two = tmp_path / "one.so", tmp_path / "two.so"
    for copy in one, two:
        shutil.copy(build("libplugin.so"), copy)
    v = victim("puppet")
    v.tell(f"dlopen {one}")
    w = watch("-p", v.pid, "-v", "one.so:plugin_state", "-w", "--engine", engine)
    v.tell("plugin 3")
    wait_until(lambda: len(w.accesses) == 3)
    v.tell("dlclose")
    wait_until(lambda: any(n["text"].startswith(f"{one} has been unloaded") for n in w.of("note")))
    v.tell(f"dlopen {two}")
    v.tell("plugin 2")
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0
    places = [(a.get("function"), a.get("module", "").rsplit("/", 1)[-1]) for a in w.accesses]
    assert places[:3] == [("plugin_touch", "one.so")] * 3
    assert ("plugin_touch", "one.so") not in places[3:]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_library_that_comes_back_to_its_place_has_the_watched_variable_again(victim, watch, build, tmp_path, engine):
    one = tmp_path / "one.so"
    shutil.copy(build("libplugin.so"), one)
    v = victim("puppet")
    v.tell(f"dlopen {one}")
    w = watch("-p", v.pid, "-v", "one.so:plugin_state", "-w", "--engine", engine)
    v.tell("plugin 3")
    wait_until(lambda: len(w.accesses) == 3)
    v.tell("dlclose")
    wait_until(lambda: any(n["text"].startswith(f"{one} has been unloaded") for n in w.of("note")))
    v.tell(f"dlopen {one}")
    v.tell("plugin 2")
    wait_until(lambda: any(n["text"].startswith(f"{one} has been loaded at the same place again") for n in w.of("note")))
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0
    told = [n["text"] for n in w.of("note") if n["text"].startswith(str(one))]
    assert len(told) == 2 and told[0].endswith("are accesses to other data until it is loaded there again")
    after = [(a.get("function"), a.get("module", "").rsplit("/", 1)[-1]) for a in w.accesses[3:]]
    assert [p for p in after if p[1] == "one.so"] == [("plugin_start", "one.so")] + [("plugin_touch", "one.so")] * 2
    assert all(function for function, _ in after)  # the loader's own writes, too


@pytest.mark.parametrize("mib", range(12, 50, 4))
def test_whatever_fails_for_want_of_our_own_memory_nothing_is_left_in_the_program(victim, before_and_after, hardware, mib):
    v = victim("resist_memory")
    v.tell("write 1")  # it has begun: it looks at its mappings first
    with before_and_after(v.pid):
        r = subprocess.run(["prlimit", f"--as={mib << 20}", WATCHCTL, "-p", str(v.pid), "-v", "word", "--engine", "handler", "-t", "0.1"],
                           capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0 or r.stderr, "it failed without a word"
