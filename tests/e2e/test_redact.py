# rooms: trace/rows trace/log view/rewrite
"""--no-values and --redact: what was to be withheld is nowhere in the log, in no view, and nobody takes it for 0."""
import csv
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, wait_until

KEY = 0x5EC2E7A1B2C3D4E5
TEXT = "hunter2-is-no-password"
PASSWORD = "argument-that-nobody-may-read"
STORES = 3


def needles():
    """The secret in every form in which it could be found in a file."""
    forms = [KEY.to_bytes(8, "little"), f"{KEY:x}".encode(), str(KEY).encode(), TEXT.encode(), TEXT[:8].encode()]
    return forms + [(KEY >> 32).to_bytes(4, "little"), (KEY & 0xFFFFFFFF).to_bytes(4, "little")]


def holds_secret(data):
    return [n for n in needles() if n in data or n.upper() in data.upper()]


def bytes_of(log):
    return b"".join(p.read_bytes() for p in sorted(Path(log).rglob("*")) if p.is_file())


def work(v):
    for _ in range(STORES):
        v.tell(f"store {KEY:x} {TEXT}")
        v.tell("count")


def call(*args, expect=0, **kw):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, timeout=WAIT, **kw)
    assert r.returncode == expect, (r.returncode, r.stderr)
    return r


def objects(log, *args):
    return [json.loads(line) for line in call("report", "--json", *args, log).stdout.splitlines()]


def of(found, kind):
    return [o for o in found if o["type"] == kind]


def recorded(watch, victim, log, *options, command=()):
    """A log of STORES stores into the secret, and of the counter beside it."""
    v = victim("secrets", PASSWORD)
    w = watch(*command, "-p", v.pid, "-v", "secret", "-rw", "-v", "counter", "-rw", "-o", log, *options, wait=not command)
    if command:
        w.wait_for("recorder")
    work(v)
    w.end()
    v.finish()
    return w


@pytest.fixture(scope="module")
def plain(build, hardware, tmp_path_factory):
    """A log of accesses with everything in it."""
    from conftest import Victim, Watch
    log = tmp_path_factory.mktemp("plain") / "log"
    v = Victim(build("secrets"), PASSWORD)
    w = Watch("-p", v.pid, "-v", "secret", "-rw", "-v", "counter", "-rw", "-o", log)
    work(v)
    w.end()
    v.finish()
    return log


def steps_of(build, log, *options):
    lines = "".join(f"store {KEY:x} {TEXT}\ncount\n" for _ in range(STORES))
    call("step", "-o", log, "--from", "serve", "--count", "0", *options, "--", build("secrets"), PASSWORD,
         input=lines.encode())
    return log


@pytest.fixture(scope="module")
def plain_steps(build, hardware, tmp_path_factory):
    return steps_of(build, tmp_path_factory.mktemp("steps") / "log")


def test_the_tests_would_find_the_secret_in_a_log_that_has_it(plain, plain_steps):
    assert holds_secret(bytes_of(plain)) and PASSWORD.encode() in bytes_of(plain)
    found = bytes_of(plain_steps)
    assert KEY.to_bytes(8, "little") in found and TEXT.encode() in found


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_log_without_values_has_no_secret_in_its_bytes(watch, victim, tmp_path, engine):
    log = tmp_path / "log"
    w = recorded(watch, victim, log, "--no-values", "--engine", engine)
    raw = bytes_of(log)
    assert not holds_secret(raw)
    assert PASSWORD.encode() not in raw
    accesses = of(objects(log, "--regs", "--events"), "access")
    assert w.balanced() and len(accesses) == w.summary(0)["recorded"] + w.summary(1)["recorded"] > 0
    for a in accesses:
        assert a["withheld"] == ["values", "registers"]
        assert not {"old", "new", "old_text", "new_text", "regs"} & set(a)


def test_what_registers_say_about_an_access_stays_when_they_go(watch, victim, plain, tmp_path):
    """Kind, instruction, function and line are those of the log that has everything."""
    recorded(watch, victim, tmp_path / "log", "--no-values")
    def what(log):
        return [(a["watch"], a["kind"], a.get("insn"), a.get("function"), a.get("line"),
                 [f.get("function") for f in a["stack"]]) for a in of(objects(log, "--events"), "access")]
    assert what(tmp_path / "log") == what(plain)


def test_the_log_itself_says_that_values_were_withheld(watch, victim, tmp_path):
    recorded(watch, victim, tmp_path / "log", "--redact", "secret")
    found = objects(tmp_path / "log")
    assert any("withheld" in n["text"] and '"secret"' in n["text"] for n in of(found, "note"))
    assert {w["watch"]: w.get("withheld") for w in of(found, "armed")} == {"secret": ["values"], "counter": None}


def test_a_redacted_watch_has_no_values_and_the_other_one_has(watch, victim, tmp_path):
    recorded(watch, victim, tmp_path / "log", "--redact", "secret")
    assert not holds_secret(bytes_of(tmp_path / "log"))
    accesses = of(objects(tmp_path / "log", "--events"), "access")
    assert {tuple(a["withheld"]) for a in accesses if a["watch"] == "secret"} == {("values", "registers")}
    counters = [a for a in accesses if a["watch"] == "counter"]
    # The secret is in a register while the counter is written.
    assert {tuple(a["withheld"]) for a in counters} == {("registers",)}
    assert int(counters[-1]["new"], 16) == 3 * 2 * STORES + STORES


def test_bytes_that_are_watched_under_two_names_are_withheld_under_both(watch, victim, tmp_path):
    v = victim("secrets")
    where = watch("-p", v.pid, "-v", "secret").end().of("armed")[0]["addr"]
    w = watch("-p", v.pid, "-v", "secret", "-v", where, "-s", 8, "-o", tmp_path / "log", "--redact", "secret")
    work(v)
    w.end()
    assert not holds_secret(bytes_of(tmp_path / "log"))


def test_a_name_that_means_no_watch_is_refused_before_anything_is_recorded(victim, tmp_path, hardware):
    v = victim("secrets")
    r = call("-p", v.pid, "-v", "secret", "-o", tmp_path / "log", "--redact", "secert", expect=2)
    assert b"--redact secert" in r.stderr and b"would be withheld" in r.stderr
    assert not (tmp_path / "log").exists()


def test_what_is_printed_live_has_no_secret(victim, watch):
    v = victim("secrets")
    p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "secret", "-rw", "--regs", "--no-values", "--color", "never"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert b"secret" in p.stdout.readline()
        work(v)
        p.send_signal(2)
        out, err = p.communicate(timeout=WAIT)
    finally:
        p.kill()
    assert p.returncode == 0, err
    assert b"(withheld)" in out and not holds_secret(out)


def test_a_flight_recorder_and_its_snapshots_have_no_secret(watch, victim, tmp_path):
    recorded(watch, victim, tmp_path / "log", "--ring", "1M", "--no-values", "--trigger", "new!=0", command=["record"])
    logs = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert len(logs) >= 2  # the trigger knows the value, and has saved a log without it
    for log in logs:
        assert not holds_secret(bytes_of(log)), log
        assert of(objects(log, "--events"), "access")


def test_a_snapshot_to_be_given_away_has_no_secret_and_every_access(plain, tmp_path):
    call("snapshot", plain, "-o", tmp_path / "all", "--no-values")
    call("snapshot", plain, "-o", tmp_path / "one", "--redact", "secret")
    for name in ("all", "one"):
        assert not holds_secret(bytes_of(tmp_path / name))
        before, after = (of(objects(log, "--events"), "access") for log in (plain, tmp_path / name))
        assert [(a["time_ns"], a["kind"], a.get("insn")) for a in after] == \
            [(a["time_ns"], a["kind"], a.get("insn")) for a in before]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all", "one"]  # and nothing whole beside them
    assert PASSWORD.encode() not in bytes_of(tmp_path / "all")


FORMATS = ["chrome", "folded", "speedscope", "csv", "jsonl", "dot", "perf-script", "callgrind", "perfetto"]


@pytest.mark.parametrize("to", FORMATS)
def test_an_export_has_no_secret(plain, tmp_path, to):
    regs = ["--regs"] if to == "jsonl" else []
    out = call("export", plain, "--to", to, "--redact", "secret", *regs).stdout
    assert out and not holds_secret(out)


def test_withheld_values_in_a_table_are_named_and_not_zero(plain):
    rows = list(csv.DictReader(io.StringIO(call("export", plain, "--to", "csv", "--redact", "secret").stdout.decode())))
    secret = [r for r in rows if r["watch"] == "secret"]
    assert secret and all(r["old"] == r["new"] == "" and r["new_text"] == "(withheld)" for r in secret)
    assert all(r["new"].startswith("0x") for r in rows if r["watch"] == "counter")


def test_a_page_has_no_secret_and_says_withheld(plain, tmp_path):
    call("report", plain, "--html", tmp_path / "page.html", "--no-values")
    page = (tmp_path / "page.html").read_bytes()
    assert not holds_secret(page)
    assert b'"withheld":true' in page and b'"regs_withheld":true' in page


@pytest.mark.parametrize("how", [["--regs"], ["--sites"], ["--json", "--regs"], ["--tree"], ["--folded"]])
def test_a_report_has_no_secret(plain, how):
    out = call("report", plain, "--redact", "*ecre*", *how).stdout
    assert out and not holds_secret(out)


def test_a_name_that_nothing_in_the_log_has_is_told(plain):
    assert b"--redact nobody" in call("report", plain, "--redact", "nobody").stderr


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")
def test_babeltrace_shows_what_was_withheld(watch, victim, tmp_path):
    recorded(watch, victim, tmp_path / "log", "--no-values")
    out = subprocess.run(["babeltrace2", str(tmp_path / "log")], capture_output=True, timeout=WAIT, check=True).stdout
    accesses = [line for line in out.splitlines() if b" access: " in line]
    assert accesses and all(b'"values_and_registers"' in line for line in accesses)
    assert not holds_secret(out)


# Step recordings


def test_a_step_recording_without_values_has_no_secret(build, tmp_path):
    steps_of(build, tmp_path / "log", "--no-values")
    raw = bytes_of(tmp_path / "log")
    assert not holds_secret(raw) and PASSWORD.encode() not in raw
    calls = of(objects(tmp_path / "log", "--calls"), "call")
    assert calls and all(a == {k: a[k] for k in ("name", "type", "state", "text") if k in a} and a["state"] == "withheld"
                         for c in calls for a in c["args"])


def test_a_redacted_function_takes_what_it_calls_with_it(build, tmp_path):
    steps_of(build, tmp_path / "log", "--redact", "set_secret", "--redact", "serve")
    raw = bytes_of(tmp_path / "log")
    assert not holds_secret(raw)  # copy_text() and strncpy() were given it, too
    calls = of(objects(tmp_path / "log", "--calls"), "call")
    state = {c["function"]: {a.get("state") for a in c["args"]} for c in calls}
    assert state["set_secret"] == state["copy_text"] == {"withheld"}


def test_calls_outside_of_a_redacted_function_keep_their_values(build, tmp_path):
    steps_of(build, tmp_path / "log", "--redact", "set_secret")
    found = objects(tmp_path / "log", "--calls")
    counts = [c for c in of(found, "call") if c["function"] == "count"]
    assert len(counts) == 2 * STORES and all(c["args"][0]["text"] == "3" for c in counts)
    inside = [c for c in of(found, "call") if c["function"] in ("set_secret", "copy_text")]
    assert len(inside) == 2 * STORES
    assert {a["state"] for c in inside for a in c["args"]} == {"withheld"}


def test_a_log_of_steps_can_be_given_away(plain_steps, tmp_path):
    call("snapshot", plain_steps, "-o", tmp_path / "log", "--redact", "serve", "--redact", "str*")
    assert not holds_secret(bytes_of(tmp_path / "log"))
    out = call("export", plain_steps, "--to", "jsonl", "--no-values").stdout
    assert out and not holds_secret(out)


def test_logs_without_values_are_not_called_equal(build, plain_steps, tmp_path):
    for name in ("a", "b"):
        steps_of(build, tmp_path / name, "--no-values")
    for good, bad in (("a", "b"), (plain_steps, "b")):
        good = tmp_path / good
        text = call("diff", good, tmp_path / "b").stdout.decode()
        assert "withheld" in text and "no parameters and results were compared" in text
        summary = of([json.loads(line) for line in call("diff", "--json", good, tmp_path / "b").stdout.splitlines()],
                     "summary")[0]
        assert summary["all_withheld"] is True and summary["values"] == 0


def test_a_function_withheld_in_one_log_is_compared_in_neither(build, plain_steps, tmp_path):
    steps_of(build, tmp_path / "log", "--redact", "set_secret")
    text = call("diff", plain_steps, tmp_path / "log").stdout.decode()
    assert "withheld" in text and "were not compared" in text
    assert "0 differences" in text


def test_differences_can_be_shown_without_the_values(build, plain_steps, tmp_path):
    lines = "".join(f"store {KEY ^ 1:x} {TEXT}2\ncount\n" for _ in range(STORES))
    call("step", "-o", tmp_path / "log", "--from", "serve", "--count", "0", "--", build("secrets"), PASSWORD,
         input=lines.encode())
    shown = call("diff", plain_steps, tmp_path / "log", expect=1).stdout
    assert TEXT.encode() in shown
    for form in ([], ["--json"], ["--html", "-"]):
        out = call("diff", *form, "--no-values", plain_steps, tmp_path / "log", expect=1).stdout
        assert not holds_secret(out) and b"withheld" in out


def test_accesses_withheld_in_one_log_are_compared_by_place_alone(watch, victim, plain, tmp_path):
    recorded(watch, victim, tmp_path / "log", "--redact", "secret")
    r = subprocess.run([WATCHCTL, "diff", "--json", plain, tmp_path / "log"], capture_output=True, timeout=WAIT)
    found = [json.loads(line) for line in r.stdout.splitlines()]
    assert r.returncode == 0, (r.stdout, r.stderr)
    assert of(found, "summary")[0]["withheld"] == 1


# The prompt


def test_the_prompt_withholds_what_it_was_told_to(victim, hardware, tmp_path):
    v = victim("secrets")
    for n, commands in enumerate([[f"attach {v.pid} --redact secret -o {tmp_path}/0", "watch secret -rw", "watch counter -rw"],
                                  [f"attach {v.pid} -o {tmp_path}/1", "watch secret -rw --no-values", "watch counter -rw"]]):
        p = subprocess.Popen([WATCHCTL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=dict(os.environ, HOME=str(tmp_path)))
        try:
            p.stdin.write(("\n".join(commands) + "\n").encode())
            p.stdin.flush()
            log = tmp_path / str(n)
            wait_until(lambda: log.is_dir() and len(of(objects(log), "armed")) == 2)
            work(v)
            out, _ = p.communicate(b"detach\nquit\n", timeout=WAIT)
        finally:
            p.kill()
            p.wait()
        assert not holds_secret(out) and not holds_secret(bytes_of(log)), n
        kinds = {(a["watch"], tuple(a["withheld"])) for a in of(objects(log, "--events"), "access")}
        assert kinds == {("secret", ("values", "registers")), ("counter", ("registers",))}
