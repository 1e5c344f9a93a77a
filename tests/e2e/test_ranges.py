# rooms: engine/plan engine/arm
"""Ranges of any size and place: the bytes asked for, all of them, and no others."""
import pytest


def touched(w):
    """The bytes that each access covers, relative to the variable."""
    start = int(w.of("armed")[0]["addr"], 16)
    return [(int(a["addr"], 16) - start, a["size"]) for a in w.accesses]


def begin(victim, watch, size, *options):
    v = victim("mover")
    return v, watch("-p", v.pid, "-v", "row", "-s", size, *options)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 31, 32])
def test_each_byte_asked_for_and_no_other_is_seen(victim, watch, size):
    v, w = begin(victim, watch, size)
    for offset in range(40):
        v.tell(f"byte {offset}")
    w.end()
    assert w.balanced()
    covered = [o for o, n in touched(w)]
    assert len(w.accesses) == size, touched(w)
    assert sorted(covered) == covered
    assert v.finish() == 0


@pytest.mark.parametrize("offset, size", [(1, 2), (1, 3), (3, 2), (3, 7), (5, 8), (7, 9), (1, 12), (6, 20)])
def test_unaligned_ranges(victim, watch, offset, size):
    v = victim("mover")
    w = watch("-p", v.pid, "-v", f"row[{offset}]", "-s", size)
    for at in range(40):
        v.tell(f"byte {at}")
    w.end()
    assert w.balanced()
    assert len(w.accesses) == size, touched(w)


def test_a_register_that_covers_more_filters_what_was_not_asked_for(victim, watch):
    """Four watches of three bytes leave one register each, which covers four."""
    v = victim("mover")
    w = watch("-p", v.pid, *[x for i in range(4) for x in ("-v", f"row[{8 * i}]", "-s", "3")])
    for at in range(32):
        v.tell(f"byte {at}")
    w.end()
    assert w.balanced()
    assert [s["recorded"] for s in w.of("summary")] == [3, 3, 3, 3]
    assert [s["filtered"] for s in w.of("summary")] == [1, 1, 1, 1]


def test_one_store_over_several_registers_is_told_for_each(victim, watch):
    """The kernel sends one signal for it: the others must not get lost."""
    v, w = begin(victim, watch, 12)
    for at in (0, 4, 8, 1):
        v.tell(f"word {at}")
    w.end()
    assert w.balanced()
    summary = w.summary()
    assert summary["lost"] == 0 and summary["counted"] == summary["recorded"] == 6
    assert touched(w) == [(0, 8), (0, 8), (8, 4), (8, 4), (0, 8), (8, 4)] or \
        sorted(touched(w)) == [(0, 8)] * 3 + [(8, 4)] * 3


def test_two_watches_hit_by_one_instruction_are_both_told(victim, watch):
    v = victim("mover")
    w = watch("-p", v.pid, "-v", "row[0]", "-s", 4, "-v", "row[4]", "-s", 4, "-rw")
    for _ in range(5):
        v.tell("word 0")  # reads and writes eight bytes
    w.end()
    assert w.balanced()
    first, second = w.of("summary")
    assert (first["recorded"], first["lost"]) == (5, 0)
    assert (second["recorded"], second["lost"]) == (10, 0)
    new = [int(a["new"], 16) for a in w.accesses if a["watch"] == "row[0]"]
    assert new == [1, 2, 3, 4, 5]
    assert all(a["old"] == "0x0" and a["new"] == "0x0" for a in w.accesses if a["watch"] == "row[4]")


@pytest.mark.parametrize("options, code, words", [
    (["-v", "row", "-s", "33"], 2, ["at most 32"]),
    (["-v", "row[1]", "-s", "32"], 2, ["at most 31", "choose fewer"]),
    (["-v", "row"], 2, ["64 bytes", "at most 32"]),
    (["-v", "row", "-s", "16", "-v", "list.count", "-v", "flag", "-v", "ratio"], 2, ["at most 8"]),
    (["-v", "row", "-s", "12", "-i", "0"], 2, ["-i names one debug register"]),
    (["-v", "row", "-s", "12", "--changes"], 2, ["its own value"]),
    (["-v", "row", "-s", "0"], 2, ["-s"]),
])
def test_what_does_not_fit_is_said_with_what_would(victim, run, options, code, words):
    v = victim("mover")
    r = run("-p", v.pid, *options)
    assert r.returncode == code, r.stderr
    for word in words:
        assert word in r.stderr, r.stderr


def test_a_range_must_be_mapped_to_its_end(victim, run):
    v = victim("mover")
    with open(f"/proc/{v.pid}/maps") as maps:
        spans = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in maps]
    starts = {s for s, _ in spans}
    end = next(e for _, e in spans if e not in starts)
    r = run("-p", v.pid, "-v", hex(end - 4), "-s", 8)
    assert r.returncode == 5 and "unmapped" in r.stderr
