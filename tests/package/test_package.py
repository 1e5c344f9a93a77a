"""The Debian packages that `make deb` has made, in the folder that DEB names: unpacked and used, without installing."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEB = Path(os.environ["DEB"])
TIMEOUT = 120
APP = r"""
#include <stackwalk.h>
volatile int flag;
__attribute__((noinline)) static void set_flag(int value) { flag = value; }
int main(void)
{
	STACKWALK_TAG("start");
	for (int i = 1; i <= 3; i++)
		set_flag(i);
	return 0;
}
"""


def packages():
    return {p.name.split("_")[0]: p for p in DEB.glob("*.deb")}


def field(package, name):
    return subprocess.run(["dpkg-deb", "-f", packages()[package], name], capture_output=True, text=True, check=True,
                          timeout=TIMEOUT).stdout.strip()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("root")
    for name, package in packages().items():
        if not name.endswith("-dbgsym"):
            subprocess.run(["dpkg-deb", "-x", package, path], check=True, timeout=TIMEOUT)
    return path


@pytest.fixture(scope="module")
def app(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("app")
    (folder / "app.c").write_text(APP)
    library = next(root.glob("usr/lib/*/libstackwalk.so")).parent
    env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=str(root), PKG_CONFIG_LIBDIR=str(library / "pkgconfig"),
               PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "stackwalk"], capture_output=True, text=True, check=True,
                           env=env, timeout=TIMEOUT).stdout.split()
    subprocess.run(["gcc", "-g", "-O0", "-o", folder / "app", folder / "app.c", *flags, f"-Wl,-rpath,{library}"],
                   check=True, timeout=TIMEOUT)
    return folder / "app"


def run(root, *args):
    return subprocess.run([root / "usr/bin/watchctl", *map(str, args)], capture_output=True, text=True, timeout=TIMEOUT)


def test_there_is_each_package_of_the_makefiles_version():
    version = re.search(r"^VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.M)[1]
    for name in ("watchctl", "watchctl-lldb", "libstackwalk0", "libstackwalk-dev"):
        assert field(name, "Version") == version
    assert (DEB / f"watchctl_{version}.dsc").exists()


def test_what_make_installs_by_itself_is_what_debian_is_asked_for():
    control = (ROOT / "debian/control").read_text()
    wanted = set(re.findall(r"[a-z0-9.+-]+", re.search(r"^Build-Depends:(.*?)^\S", control, re.M | re.S)[1]))
    make = (ROOT / "tools/packages.mk").read_text()
    named = set(re.search(r"^PACKAGES_BUILD := (.*)$", make, re.M)[1].split())
    named |= set(re.search(r"^PACKAGES_LLDB := (.*)$", make, re.M)[1].split())
    essential = {"gcc", "g++", "make"}
    assert named - essential == wanted - {"debhelper-compat", "13"}


def test_lldb_is_recommended_and_not_needed_by_the_program():
    assert "lldb" not in field("watchctl", "Depends")
    assert "liblldb-19" in field("watchctl", "Recommends")
    assert "liblldb-19" in field("watchctl-lldb", "Depends")


def test_the_build_was_hardened(root):
    dynamic = subprocess.run(["readelf", "-Wdl", root / "usr/bin/watchctl"], capture_output=True, text=True, check=True,
                             timeout=TIMEOUT).stdout
    assert "GNU_RELRO" in dynamic and "NOW" in dynamic and "PIE" in dynamic
    names = subprocess.run(["readelf", "-W", "--dyn-syms", root / "usr/bin/watchctl"], capture_output=True, text=True,
                           check=True, timeout=TIMEOUT).stdout
    assert "__stack_chk_fail" in names and "__snprintf_chk" in names


def test_no_package_was_asked_for_while_building():
    log = (DEB / "build.log").read_text()
    assert "installing Debian packages" not in log and "apt-get" not in log


def test_a_watch_is_recorded_and_reported(root, app, tmp_path):
    done = run(root, "-v", "flag", "-o", tmp_path / "log", "--", app)
    if "no hardware debug registers" in done.stderr:
        pytest.skip("this machine offers no debug registers")
    assert done.returncode == 0, done.stderr
    report = run(root, "report", "--sites", tmp_path / "log").stdout
    assert "set_flag" in report and "3 accesses counted by the CPU: 3 recorded, 0 lost" in report


def test_step_finds_its_worker(root, app, tmp_path):
    done = run(root, "step", "-o", tmp_path / "log", "--", app)
    assert done.returncode == 0, done.stderr
    assert "set_flag" in run(root, "report", "--calls", tmp_path / "log").stdout


def test_every_command_has_its_page(root):
    for line in run(root, "__complete").stdout.splitlines():
        name = line.split("\t")[0]
        page = "watchctl" if name in ("watch", "help") else f"watchctl-{name}"
        assert (root / f"usr/share/man/man1/{page}.1.gz").exists(), page
