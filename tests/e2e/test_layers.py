"""tools/layers: what breaks the layers is found and named by file and line, what keeps them passes."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [
    "stackwalk/regs.h", "stackwalk/cfi.h", "stackwalk/insn.h", "handler/wire.h", "watchctl/base/error.h",
    "watchctl/trace/event.h", "watchctl/target/proc.h", "watchctl/engine/engine.h", "watchctl/monitor/monitor.h",
    "watchctl/view/view.h", "watchctl/cli/command.h",
]


def layers(root):
    return subprocess.run([ROOT / "tools" / "layers", root], capture_output=True, text=True, timeout=60)


def plant(root, path, line):
    for header in HEADERS:
        file = root / header
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    source = root / path
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("/* first line */\n%s\n" % line)


def test_the_tree_keeps_its_layers():
    r = layers(ROOT)
    assert r.returncode == 0, r.stdout


@pytest.mark.parametrize("path, line", [
    ("handler/main.c", '#include "stackwalk/regs.h"'),
    ("watchctl/cli/main.c", '#include "watchctl/view/view.h"'),
    ("watchctl/monitor/monitor.c", '#include "watchctl/engine/engine.h"'),
    ("watchctl/trace/log.c", '#include "handler/wire.h"'),
    ("stackwalk/insn.c", "#include <Zydis/Zydis.h>"),
    ("stackwalk/elf.c", "#include <elfutils/libdw.h>"),
    ("watchctl/target/inject.c", '#include "handler_image.h"'),
])
def test_an_allowed_include_passes(tmp_path, path, line):
    plant(tmp_path, path, line)
    r = layers(tmp_path)
    assert r.returncode == 0, r.stdout


@pytest.mark.parametrize("path, line, says", [
    ("handler/main.c", '#include "stackwalk/cfi.h"', "handler/ may include only stackwalk/regs.h"),
    ("handler/main.c", "#include <stdio.h>", "freestanding"),
    ("stackwalk/walk.c", '#include "watchctl/trace/event.h"', "stackwalk/ may include only watchctl/base/"),
    ("stackwalk/walk.c", "#include <sys/ptrace.h>", "watchctl/target/"),
    ("watchctl/base/vec.h", '#include "stackwalk/regs.h"', "watchctl/base/ may include only watchctl/base/"),
    ("watchctl/view/top.c", '#include "watchctl/target/proc.h"', "watchctl/view/ may include only"),
    ("watchctl/engine/e.c", '  #  include "watchctl/monitor/monitor.h"', "watchctl/engine/ may include only"),
    ("watchctl/cli/main.c", '#include "stackwalk/insn.h"', "watchctl/cli/ may include only"),
    ("watchctl/view/text.c", "#include <Zydis/Zydis.h>", "stays in stackwalk/insn.c"),
    ("watchctl/view/text.c", "#include <elfutils/libdw.h>", "stays in stackwalk/"),
    ("watchctl/engine/ring.c", "#include <bpf/libbpf.h>", "stays in watchctl/engine/kernel_recorder.c"),
    ("watchctl/view/text.c", '#include "view.h"', "includes are written from there"),
    ("elsewhere/new.c", '#include "watchctl/base/error.h"', "in no layer"),
])
def test_a_forbidden_include_is_named_by_file_and_line(tmp_path, path, line, says):
    plant(tmp_path, path, line)
    r = layers(tmp_path)
    assert r.returncode == 1
    assert r.stdout.startswith("%s:2: " % path)
    assert says in r.stdout.splitlines()[0]
