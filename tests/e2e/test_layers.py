# rooms: tools/layers
"""tools/layers: what breaks the layers is found and named by file and line, what keeps them passes."""

import subprocess
from pathlib import Path

import pytest
from waiting import WAIT

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [
    "watchctl/code/regs.h", "watchctl/code/unwind/cfi.h", "watchctl/code/insn/insn.h", "handler/wire.h", "watchctl/base/error.h",
    "watchctl/trace/event.h", "watchctl/target/proc/proc.h", "watchctl/engine/plan/engine.h", "watchctl/monitor/monitor.h",
    "watchctl/view/event/view.h", "watchctl/view/event/view_impl.h", "watchctl/cli/command.h",
]


def layers(root):
    return subprocess.run([ROOT / "tools" / "layers", root], capture_output=True, text=True, timeout=WAIT)


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
    ("handler/main.c", '#include "watchctl/code/regs.h"'),
    ("watchctl/cli/main.c", '#include "watchctl/view/event/view.h"'),
    ("watchctl/monitor/monitor.c", '#include "watchctl/engine/plan/engine.h"'),
    ("watchctl/trace/log.c", '#include "handler/wire.h"'),
    ("watchctl/code/insn/insn.c", "#include <Zydis/Zydis.h>"),
    ("watchctl/code/elf/elffile.c", "#include <elfutils/libdw.h>"),
    ("stackwalk/walk.c", '#include "watchctl/trace/event.h"'),
    ("watchctl/cli/main.c", '#include "watchctl/code/insn/insn.h"'),
    ("watchctl/target/inject/inject.c", '#include "handler_image.h"'),
])
def test_an_allowed_include_passes(tmp_path, path, line):
    plant(tmp_path, path, line)
    r = layers(tmp_path)
    assert r.returncode == 0, r.stdout


@pytest.mark.parametrize("path, line, says", [
    ("handler/main.c", '#include "watchctl/code/unwind/cfi.h"', "handler/ may include only handler/, watchctl/code/regs.h"),
    ("handler/main.c", "#include <stdio.h>", "freestanding"),
    ("stackwalk/walk.c", '#include "watchctl/target/proc/proc.h"', "stackwalk/ may include only stackwalk/, watchctl/base/"),
    ("watchctl/code/names.c", '#include "watchctl/trace/event.h"', "watchctl/code/ may include only watchctl/base/"),
    ("stackwalk/walk.c", "#include <sys/ptrace.h>", "watchctl/target/"),
    ("watchctl/base/vec.h", '#include "watchctl/code/regs.h"', "watchctl/base/ may include only watchctl/base/"),
    ("watchctl/view/top.c", '#include "watchctl/target/proc/proc.h"', "watchctl/view/ may include only"),
    ("watchctl/engine/e.c", '  #  include "watchctl/monitor/monitor.h"', "watchctl/engine/ may include only"),
    ("watchctl/cli/main.c", '#include "watchctl/view/event/view_impl.h"', "a header *_impl.h stays in its folder"),
    ("watchctl/view/text.c", "#include <Zydis/Zydis.h>", "stays in watchctl/code/insn/insn.c"),
    ("watchctl/view/text.c", "#include <elfutils/libdw.h>", "stays in watchctl/code/"),
    ("watchctl/engine/intake/handler_ring.c", "#include <bpf/libbpf.h>", "stays in watchctl/engine/kernel/kernel_recorder.c"),
    ("watchctl/view/text.c", '#include "view.h"', "includes are written from there"),
    ("elsewhere/new.c", '#include "watchctl/base/error.h"', "in no layer"),
])
def test_a_forbidden_include_is_named_by_file_and_line(tmp_path, path, line, says):
    plant(tmp_path, path, line)
    r = layers(tmp_path)
    assert r.returncode == 1
    assert r.stdout.startswith("%s:2: " % path)
    assert says in r.stdout.splitlines()[0]


def test_folders_that_include_each_other_are_named_with_the_lines(tmp_path):
    plant(tmp_path, "watchctl/code/insn/insn.c", '#include "watchctl/code/unwind/cfi.h"')
    (tmp_path / "watchctl/code/unwind/cfi.h").write_text('#include "watchctl/code/insn/insn.h"\n')
    r = layers(tmp_path)
    assert r.returncode == 1
    first, *lines = r.stdout.splitlines()
    assert first == "these folders include each other: watchctl/code/insn, watchctl/code/unwind"
    assert "  watchctl/code/insn/insn.c:2: watchctl/code/unwind/cfi.h" in lines
    assert "  watchctl/code/unwind/cfi.h:1: watchctl/code/insn/insn.h" in lines


def compile_objects(root, sources):
    for name, text in sources.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name in sources:
        if name.endswith(".c"):
            out = root / "build" / (name[:-2] + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-I", root, "-c", "-o", out, root / name], check=True)


def layers_of_symbols(root):
    return subprocess.run([ROOT / "tools" / "layers", root, root / "build"], capture_output=True, text=True, timeout=WAIT)


def test_a_function_that_comes_by_way_of_another_header_is_named(tmp_path):
    compile_objects(tmp_path, {
        "watchctl/base/number.h": "int number(void);\n",
        "watchctl/base/number.c": '#include "watchctl/base/number.h"\nint number(void) { return 1; }\n',
        "watchctl/trace/event.h": '#include "watchctl/base/number.h"\n',
        "watchctl/view/event/view.c": '#include "watchctl/trace/event.h"\nint view(void);\nint view(void) { return number(); }\n',
    })
    r = layers_of_symbols(tmp_path)
    assert r.returncode == 1
    assert "watchctl/view/event/view.c: number() comes by way of another header: include watchctl/base/number.h" in r.stdout


def test_a_function_of_a_room_that_may_not_be_used_is_named_though_no_include_shows_it(tmp_path):
    compile_objects(tmp_path, {
        "watchctl/target/proc/proc.c": "int proc(void);\nint proc(void) { return 1; }\n",
        "watchctl/view/event/view.c": "int proc(void);\nint view(void);\nint view(void) { return proc(); }\n",
    })
    r = layers_of_symbols(tmp_path)
    assert r.returncode == 1
    assert "watchctl/view/event/view.c: proc() is of watchctl/target/proc/proc, which it may not use" in r.stdout
