# rooms: base trace/log cli/output
"""Every file that watchctl makes is for its owner alone, whatever the umask; and no link that somebody else has put there is followed."""
import os
import re
import shutil
import stat
import subprocess

import pytest
from conftest import WAIT, WATCHCTL, Victim

KEPT = "what was there before\n"


def call(*args, expect=0, **kw):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT, **kw)
    assert r.returncode == expect, (r.returncode, r.stderr)
    return r


def no_umask():
    os.umask(0)


def modes(path):
    """Of all files below @path: what others may do with them."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            at = os.path.join(folder, name)
            found[os.path.relpath(at, path)] = stat.S_IMODE(os.lstat(at).st_mode) & 0o077
    return found


@pytest.fixture(scope="module")
def logs(build, hardware, tmp_path_factory):
    """A watch log and two step logs, made with a umask of 000; and what else was made meanwhile."""
    home = tmp_path_factory.mktemp("home")
    v = Victim(build("secrets"))
    v_end = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "counter", "-n", "2", "-o", str(home / "log"),
                              "--output", str(home / "said")], preexec_fn=no_umask)
    while not (home / "said").exists() or b"armed" not in (home / "said").read_bytes():
        assert v_end.poll() is None
        if b"watching" in (home / "said").read_bytes() if (home / "said").exists() else False:
            break
    for _ in range(3):
        v.tell("count")
    assert v_end.wait(timeout=WAIT) == 0
    v.finish()
    for name in ("a", "b"):
        call("step", "-o", home / name, "--from", "serve", "--", build("secrets"), input="count\n", preexec_fn=no_umask)
    return home


def test_what_recording_leaves_is_for_its_owner_alone(logs):
    found = modes(logs)
    assert {"log", "log/metadata", "log/events", "a/events", "said"} <= set(found)
    assert not {name: oct(mode) for name, mode in found.items() if mode}


def test_what_is_made_from_a_log_is_for_its_owner_alone(logs, tmp_path):
    made = tmp_path / "made"
    made.mkdir(0o700)
    commands = [["report", logs / "log", "--html", made / "page.html"],
                ["snapshot", logs / "log", "-o", made / "copy"],
                ["snapshot", logs / "log", "-o", made / "redacted", "--no-values"],
                ["diff", logs / "a", logs / "b", "--html", made / "diff.html", "--save-masks", made / "masks"],
                ["symbolize", made / "copy"]]
    commands += [["export", logs / "log", "--to", to, "-o", made / f"export.{to}"]
                 for to in ("chrome", "folded", "csv", "jsonl", "speedscope", "dot", "perf-script", "callgrind",
                            "perfetto")]
    for command in commands:
        call(*command, preexec_fn=no_umask)
    found = modes(made)
    assert len(found) > 12
    assert not {name: oct(mode) for name, mode in found.items() if mode}


def test_a_file_that_is_there_keeps_its_mode(logs, tmp_path):
    (tmp_path / "masks").write_text("x\n")
    (tmp_path / "masks").chmod(0o644)
    call("diff", logs / "a", logs / "b", "--save-masks", tmp_path / "masks")
    assert stat.S_IMODE((tmp_path / "masks").stat().st_mode) == 0o644
    assert "x\n" not in (tmp_path / "masks").read_text().splitlines()


@pytest.fixture
def public(tmp_path):
    """A folder where everybody may make files, and a link there that somebody else has put in our way."""
    folder = tmp_path / "public"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "target").write_text(KEPT)
    for name in ("page", "masks", "said", "log", "export", "copy"):
        (folder / name).symlink_to(tmp_path / "target")
    yield folder
    assert (tmp_path / "target").read_text() == KEPT


def test_a_link_in_a_public_folder_is_not_written_through(logs, public):
    call("report", logs / "log", "--html", public / "page", expect=1)
    call("diff", logs / "a", logs / "b", "--html", public / "page", expect=2)
    call("diff", logs / "a", logs / "b", "--save-masks", public / "masks", expect=2)
    call("snapshot", logs / "log", "-o", public / "copy", expect=8)
    call("-v", "counter", "--output", public / "said", "--", "/bin/true", expect=2)
    assert "exists already" in call("step", "-o", public / "log", "--", "/bin/true", expect=8).stderr


def test_an_export_to_a_link_in_a_public_folder_takes_its_place_or_is_refused(logs, public):
    assert subprocess.run([WATCHCTL, "export", logs / "log", "--to", "csv", "-o", public / "export"],
                          capture_output=True).returncode == 2
    subprocess.run([WATCHCTL, "export", logs / "log", "--to", "csv", "--force", "-o", public / "export"],
                   capture_output=True)


def test_a_file_of_somebody_else_in_a_public_folder_is_not_written_to(logs, public):
    if os.geteuid():
        pytest.skip("to make a file of somebody else takes root")
    (public / "theirs").write_text(KEPT)
    os.chown(public / "theirs", 65534, 65534)
    call("diff", logs / "a", logs / "b", "--save-masks", public / "theirs", expect=2)
    assert (public / "theirs").read_text() == KEPT


def test_a_link_in_a_folder_of_ones_own_is_followed(logs, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    call("diff", logs / "a", logs / "b", "--save-masks", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").is_file()


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_names_in_public_folders_cannot_be_guessed_and_are_never_opened_through_a_link(logs, tmp_path, build):
    """All that is made in /tmp and the like, by whatever process of ours, is made anew, or has no name at all."""
    trace = tmp_path / "trace"
    environment = dict(os.environ, HOME=str(tmp_path), TMPDIR="/tmp")
    environment.pop("XDG_RUNTIME_DIR", None)
    script = "run " + build("secrets") + "\nwatch counter\ndetach\nquit\n"
    commands = [["report", logs / "log", "--html", tmp_path / "page"], ["export", logs / "a", "--to", "chrome"], []]
    for command in commands:
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=open,openat,creat,mkdir,mkdirat,bind,symlink,mknod", "-o", trace,
                        WATCHCTL, *map(str, command)], input=script, capture_output=True, text=True, timeout=WAIT,
                       env=environment)
        for line in trace.read_text().splitlines():
            where = re.search(r'"(/tmp|/var/tmp|/dev/shm|/run)(/[^"]*)?"', line)
            if not where or str(tmp_path) in line or str(logs) in line or "= -1" in line:
                continue
            if re.search(r"O_CREAT|creat\(", line):
                assert "O_EXCL" in line or "/watchctl-" in line, line
            if "mkdir" in line and "/watchctl-" in line:
                assert re.search(r"/watchctl-[0-9a-f]{32}", line) and "0700" in line, line
            assert "bind(" not in line and "symlink" not in line, line
