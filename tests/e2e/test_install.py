# rooms: tools/install.mk debian
"""`make install` below a DESTDIR, as a package is made: all is there, works from there, and goes again."""
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, WAIT


def make(*args):
    # By the name that it was built with: another one is another set of flags, and all is compiled again.
    done = subprocess.run(["make", "-s", f"BUILD={os.environ.get('BUILD', 'build')}", "PREFIX=/usr", *args], cwd=ROOT, capture_output=True,
                          text=True, timeout=5 * WAIT, env=dict(os.environ, PACKAGES="none"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("root")
    make("install", f"DESTDIR={path}")
    return path


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def test_the_program_runs_from_there(root):
    def run(*args):
        return subprocess.run([root / "usr/bin/watchctl", *args], capture_output=True, text=True, timeout=WAIT)

    assert run("--version").stdout.startswith("watchctl ")


def test_step_finds_its_worker_in_libexec(root, tmp_path):
    if not (BUILD / "lib/libsteprec.so").exists():
        pytest.skip("it was built without LLDB")
    (tmp_path / "app.c").write_text("int twice(int n) { return 2 * n; }\nint main(void) { return twice(3) - 6; }\n")
    subprocess.run(["gcc", "-g", "-O0", "-o", tmp_path / "app", tmp_path / "app.c"], check=True, timeout=WAIT)
    program = root / "usr/bin/watchctl"
    subprocess.run([program, "step", "-o", tmp_path / "calls", "--", tmp_path / "app"], capture_output=True, check=True,
                   timeout=WAIT)
    calls = subprocess.run([program, "report", "--calls", tmp_path / "calls"], capture_output=True, text=True, check=True,
                           timeout=WAIT).stdout
    assert "twice(n = 3) = 6" in calls


def test_every_page_document_and_script_is_installed(root):
    there = files(root / "usr")
    for page in (ROOT / "man").iterdir():
        assert f"share/man/man{page.suffix[1]}/{page.name}" in there
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/pictures").iterdir(),
                     *(ROOT / "examples").iterdir()]:
        assert f"share/doc/watchctl/{document.relative_to(ROOT)}" in there
    for script in (ROOT / "debugger").glob("*.py"):
        assert f"share/watchctl/debugger/{script.name}" in there
    assert {"share/bash-completion/completions/watchctl", "share/zsh/vendor-completions/_watchctl"} <= there


def test_no_installed_text_knows_where_it_was_built(root):
    for name in files(root / "usr"):
        path = root / "usr" / name
        if path.is_symlink() or path.suffix in (".so", ".a", ".o", ".0", ".png") or os.access(path, os.X_OK):
            continue
        text = path.read_text()
        assert str(root) not in text and str(ROOT) not in text, name


def test_the_debugger_commands_find_the_installed_program(root):
    script = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(root / 'usr/share/watchctl/debugger')!r})
import watchctl_session
print(watchctl_session.program())
"""
    env = {k: v for k, v in os.environ.items() if k != "WATCHCTL"}
    found = subprocess.run(["python3", "-c", script], capture_output=True, text=True, check=True, timeout=WAIT,
                           env=env).stdout.strip()
    assert found == str(root / "usr/bin/watchctl")


def test_the_lldb_script_finds_the_installed_plugin(root):
    if not (BUILD / "lib/libsteprec.so").exists():
        pytest.skip("libsteprec.so was not built: there is no liblldb")
    script = f"""
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(root / 'usr/share/watchctl/lldb')!r})
import steprec_load
print(next(p for p in steprec_load.candidates() if os.path.exists(p)))
"""
    env = {k: v for k, v in os.environ.items() if k != "WATCHCTL_LIBSTEPREC"}
    found = subprocess.run(["python3", "-c", script], capture_output=True, text=True, check=True, timeout=WAIT,
                           env=env).stdout.strip()
    assert found == str(root / "usr/lib/watchctl/libsteprec.so")


def test_a_program_is_built_with_what_pkg_config_says(root, tmp_path):
    env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=str(root), PKG_CONFIG_LIBDIR=str(root / "usr/lib/pkgconfig"),
               PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")

    def ask(*what):
        return subprocess.run(["pkg-config", *what, "stackwalk"], capture_output=True, text=True, check=True, env=env,
                              timeout=WAIT).stdout.split()

    version = re.search(r"^VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.M)[1]
    assert ask("--modversion") == [version]
    source = tmp_path / "user.c"
    source.write_text('#include <stackwalk.h>\n#include <stdio.h>\nint main(void)\n{\n\tuint64_t pc[8];\n'
                      '\tprintf("%d\\n", stackwalk_frames(pc, 8, NULL) > 0);\n\treturn 0;\n}\n')
    program = tmp_path / "user"
    subprocess.run(["gcc", "-o", program, source, *ask("--cflags", "--libs")], check=True, timeout=WAIT)
    env = dict(os.environ, LD_LIBRARY_PATH=str(root / "usr/lib"))
    assert subprocess.run([program], capture_output=True, text=True, env=env, timeout=WAIT).stdout == "1\n"


def test_probes_are_linked_with_what_is_installed(root, tmp_path):
    """As docs/tasks/write-probes.md has it: watchctl reads the object, and names its functions."""
    text = (ROOT / "docs/tasks/write-probes.md").read_text()
    command = re.search(r"^    (cc -shared .*?probe_runtime\.o)$", text, re.M | re.S)[1].replace("\\\n", " ")
    command = command.replace("/usr/local", str(root / "usr")).split()
    example = ROOT / "examples/probes.c"
    (tmp_path / "probes.c").write_text(example.read_text())
    subprocess.run([*command, f"-I{root}/usr/include"], check=True, timeout=WAIT, cwd=tmp_path)
    r = subprocess.run([root / "usr/bin/watchctl", "patch", "-p", str(os.getpid()), "--at", "entry malloc", "--call", "nosuch",
                        tmp_path / "probes.so"], capture_output=True, text=True, timeout=WAIT)
    names = re.findall(r"^PROBE\((\w+)\)", example.read_text(), re.M)
    assert r.returncode == 5 and names and all(name in r.stderr for name in names), r.stderr


def test_a_program_is_compiled_and_traced_by_what_is_installed(root, tmp_path):
    if not (BUILD / "libcalltrace-pass.so").exists():
        pytest.skip("built without LLVM: there is no pass")
    source = tmp_path / "app.c"
    source.write_text("#include <calltrace.h>\nint twice(int n) { return 2 * n; }\n"
                      "int main(void) { return calltrace_flush() || !calltrace_enabled() || twice(3) - 6; }\n")
    for options in ([], ["-static"]):
        log = tmp_path / f"run{len(options)}.log"
        subprocess.run([root / "usr/bin/calltrace-cc", f"-I{root}/usr/include", *options, source, "-o", tmp_path / "app"], check=True, timeout=WAIT)
        env = dict(os.environ, LD_LIBRARY_PATH=str(root / "usr/lib"), CALLTRACE_OUTPUT=str(log))
        subprocess.run([tmp_path / "app"], check=True, env=env, timeout=WAIT)
        calls = subprocess.run([root / "usr/bin/watchctl", "report", "--calls", log], capture_output=True, text=True, check=True, timeout=WAIT).stdout
        assert re.search(r"^ *1 +twice ", calls, re.M), calls
        subprocess.run([root / "usr/bin/calltrace-cc", "--calltrace-stub", f"-I{root}/usr/include", *options, source, "-o", tmp_path / "stub"], check=True, timeout=WAIT)
        env["CALLTRACE_OUTPUT"] += ".stub"
        assert subprocess.run([tmp_path / "stub"], env=env, timeout=WAIT).returncode == 1
        assert not (tmp_path / f"run{len(options)}.log.stub").exists()
    said = subprocess.run([root / "usr/bin/calltrace-opt", "--version"], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    assert said.startswith("calltrace-opt ")


def test_uninstall_leaves_nothing(tmp_path):
    other = tmp_path / "usr/share/doc/other/README"
    other.parent.mkdir(parents=True)
    other.write_text("not ours\n")
    make("install", f"DESTDIR={tmp_path}")
    make("uninstall", f"DESTDIR={tmp_path}")
    assert files(tmp_path) == {"usr/share/doc/other/README"}
    assert not [p for p in tmp_path.rglob("*") if p.is_dir() and p.name in ("watchctl", "debugger", "lldb")]
