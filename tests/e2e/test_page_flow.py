# rooms: cli/flow/page flow/graph
"""The page of a log of the system's events: its data against `flow graph` and `flow path`, and what a browser makes of it."""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, WAIT, WATCHCTL
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for BPF programs of the whole system")

DATA = "document.documentElement.dataset."
HOSTILE = '</script>"\'\x07<b>'


def watchctl(*words, status=0, **kw):
    r = subprocess.run([WATCHCTL, *map(str, words)], capture_output=True, text=True, timeout=WAIT, check=False, **kw)
    assert r.returncode == status, r.stderr
    return r.stdout


def lines(*words):
    return [json.loads(line) for line in watchctl(*words).splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A pipeline whose last program has a name that nothing else has, and a shell that calls itself what no thread should."""
    folder = tmp_path_factory.mktemp("flow")
    last = folder / f"count-{os.getpid()}"
    last.symlink_to("/usr/bin/wc")
    watchctl("flow", "record", "-o", folder / "log", "--", "sh", "-c",
             f"head -c 300000 /dev/zero | cat | {last} -c; printf '%s' \"$HOSTILE\" > /proc/$$/comm; sleep 0.1 | cat; exit 0",
             env=os.environ | {"HOSTILE": HOSTILE})
    return folder / "log"


@pytest.fixture(scope="module")
def page(recorded):
    page = Path(str(recorded) + ".html")
    watchctl("report", recorded, "--html", page)
    return page


@pytest.fixture(scope="module")
def graph(recorded):
    return lines("flow", "graph", recorded)


@pytest.fixture(scope="module")
def nodes(graph):
    return {o["id"]: o for o in graph if o["type"] == "node"}


@pytest.fixture(scope="module")
def edges(graph):
    return [o for o in graph if o["type"] == "edge" and o["strong"]]


@pytest.fixture(scope="module")
def last(recorded):
    """The path to the last program of the pipeline, as `flow path` has it."""
    return lines("flow", "path", recorded, "--to", f"count-{os.getpid()}", "--json")


# The file


def block(text, name):
    return re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', text, re.DOTALL)[1]


def numbers(text, name):
    n, shift = 0, 0
    for b in base64.b64decode(block(text, name)):
        n |= (b & 127) << shift
        shift += 7
        if b < 128:
            yield n
            n, shift = 0, 0


def signed(v):
    return -(v + 1) // 2 if v % 2 else v // 2


def units_of(text):
    """[(id, begin since the page's, took, thread, words)]"""
    data, texts, n = json.loads(block(text, "data")), json.loads(block(text, "texts")), numbers(text, "units")
    begin, number, out = 0, -1, []
    for _ in range(data["units"]):
        begin += signed(next(n))
        took, lane = next(n), next(n)
        number += next(n) + 1
        out.append((number, begin, took, data["threads"][lane], texts[next(n) - 2]))
        next(n)
    return out


def edges_of(text, units):
    data, texts, n = json.loads(block(text, "data")), json.loads(block(text, "texts")), numbers(text, "edges")
    for i, unit in enumerate(units):
        for _ in range(next(n)):
            state, source, end, took, words = next(n), next(n), signed(next(n)), next(n), next(n)
            if data["kinds"][state & 15] == "wait_for":
                next(n)
            yield (data["kinds"][state & 15], units[i - signed(source - 1)][0] if source else None, unit[0], unit[1] + end - took, unit[1] + end, texts[words - 2])


def test_the_file_has_the_units_and_edges_of_the_graph(page, nodes, edges):
    text = page.read_text()
    units = units_of(text)
    assert [u[0] for u in units] == sorted(nodes)
    start = nodes[units[0][0]]["begin_ns"] - units[0][1]
    for number, begin, took, thread, words in units:
        o = nodes[number]
        assert (begin + start, took, thread[1], words) == (o["begin_ns"], o["end_ns"] - o["begin_ns"], o["tid"], o["what"])
    told = sorted((e["kind"], e["from"].get("node", -1), e["to"]["node"], e["from"]["time_ns"], e["to"]["time_ns"], e["evidence"]) for e in edges)
    found = sorted((kind, -1 if source is None else source, to, a + start, b + start, words) for kind, source, to, a, b, words in edges_of(text, units))
    assert found == told


def test_report_and_flow_graph_write_the_same_page(recorded, page):
    when = re.compile(r'"made_ms":\d+')
    assert when.sub("", watchctl("flow", "graph", recorded, "--to", "html")) == when.sub("", page.read_text())


def test_it_is_for_its_owner_alone_and_takes_the_place_of_an_old_one(recorded, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    page.chmod(0o644)
    with page.open() as old:
        watchctl("report", recorded, "--html", page)
        assert old.read() == "old"
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_what_cannot_be_written_leaves_the_old_one(recorded, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    r = subprocess.run(["prlimit", "--fsize=4096", WATCHCTL, "report", recorded, "--html", page], capture_output=True, text=True, timeout=WAIT, check=False,
                       preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    assert r.returncode != 0 and "cannot write" in r.stderr
    assert page.read_text() == "old" and list(tmp_path.iterdir()) == [page]


def test_a_part_of_the_log_alone(recorded, nodes):
    name = f"count-{os.getpid()}"
    text = watchctl("flow", "graph", recorded, "--to", "html", "--process", name)
    part = lines("flow", "graph", recorded, "--process", name)
    units = units_of(text)
    assert [u[0] for u in units] == sorted(o["id"] for o in part if o["type"] == "node")
    assert 0 < len(units) < len(nodes)


def test_names_are_data_and_no_markup(page):
    text = page.read_text()
    assert HOSTILE not in text and text.count("</script>") == text.count("<script")
    names = [name for t in json.loads(block(text, "data"))["threads"] for name in t[4][1::2]]
    assert HOSTILE in names


def test_a_log_that_has_calls_too_has_the_page_of_these(recorded, tmp_path):
    log, page = tmp_path / "log", tmp_path / "page.html"
    subprocess.run([BUILD / "tests" / "bench" / "steplog-gen", "-n", "30", "-t", "1", log], check=True, timeout=WAIT, stdout=subprocess.DEVNULL)
    for f in recorded.glob("flow.*"):
        shutil.copy(f, log)
    r = subprocess.run([WATCHCTL, "report", log, "--html", page], capture_output=True, text=True, timeout=WAIT, check=False)
    assert r.returncode == 0 and f"watchctl flow graph {log} --to html writes their page" in r.stderr
    assert " - calls - watchctl</title>" in page.read_text()


@pytest.mark.parametrize("words, sentence", [
    (("flow", "graph", "LOG", "--html", "x"), "--html goes with flow path"),
    (("flow", "path", "LOG", "--to", "cat", "--json", "--html", "x"), "give one of them"),
    (("flow", "graph", "LOG", "--to", "svg"), "--to is json, dot or html"),
])
def test_what_cannot_be_is_refused(recorded, words, sentence):
    r = subprocess.run([WATCHCTL, *(str(recorded) if w == "LOG" else w for w in words)], capture_output=True, text=True, timeout=WAIT, check=False)
    assert r.returncode == 2 and sentence in r.stderr


# Stacks of waits

STACKS = r"""
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

static __attribute__((noinline)) void reap(pid_t pid) { waitpid(pid, NULL, 0); sink++; }
static __attribute__((noinline)) void keep_house(pid_t pid) { reap(pid); sink++; }

int main(void)
{
	char c;
	pid_t pid = fork();

	if (!pid)
		_exit(read(0, &c, 1) == 1 ? 0 : 1);
	keep_house(pid);
	return 0;
}
"""


@pytest.fixture(scope="module")
def with_stacks(tmp_path_factory):
    """(log, page): a program whose wait for its child ends when its stack is in the log."""
    folder = tmp_path_factory.mktemp("stacks")
    program, log, page = folder / f"house-{os.getpid()}", folder / "log", folder / "page.html"
    (folder / "house.c").write_text(STACKS, encoding="ascii")
    subprocess.run(["cc", "-g", "-O1", "-o", program, folder / "house.c"], check=True, timeout=WAIT)
    recorder = subprocess.Popen([WATCHCTL, "flow", "record", "--stacks", "-o", log, "--", program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
    report = [WATCHCTL, "report", "--tag", "wait", "--json", log]
    wait_until(lambda: '"function":"keep_house"' in subprocess.run(report, capture_output=True, text=True, timeout=WAIT, check=False).stdout)
    _, err = recorder.communicate("x", timeout=WAIT)
    assert recorder.returncode == 0, err
    watchctl("report", log, "--html", page)
    return log, page


def house(log):
    """The wait for the child, as `flow graph` has it."""
    waits = [o for o in lines("flow", "graph", log) if o["type"] == "edge" and o["kind"] == "wait_for" and "stack" in o]
    return next(o for o in waits if "keep_house" in [f.get("function") for f in o["stack"]])


def stacks_of(text):
    """[(own function, frames)]"""
    data, texts, n = json.loads(block(text, "data")), json.loads(block(text, "texts")), numbers(text, "stacks")
    out = []
    for _ in range(data["stacks"]):
        own, _, frames = next(n), next(n), next(n)
        out.append((texts[own - 2] if own else None, [texts[next(n) - 2] for _ in range(frames)]))
    return out


def test_captures_of_waits_are_events_of_the_system(with_stacks):
    log, page = with_stacks
    text = page.read_text()
    assert " - what led to what - watchctl</title>" in text
    assert units_of(text) and "capture" in watchctl("report", "--json", log)


def test_the_file_has_each_stack_once(with_stacks):
    log, page = with_stacks
    found, wait = stacks_of(page.read_text()), house(log)
    told = [f.get("function") for f in wait["stack"]]
    own = [frames for own, frames in found if own == "reap"]
    assert len(own) == 1 and [f.split("  ")[0] for f in own[0] if f.split("  ")[0] in told] == [f for f in told if f]
    assert any(re.fullmatch(r"keep_house  house\.c:\d+", f) for f in own[0])
    assert len({(o, tuple(f)) for o, f in found}) == len(found)


def test_the_page_lists_the_stack_of_a_wait(browser, with_stacks):
    log, page = with_stacks
    unit = house(log)["to"]["node"]
    browser.resize(1280, 900)
    browser.open(page, f"#unit={unit}")
    at_path = browser.run("[...document.querySelectorAll('#path .current ol.stack li')].map(e => e.textContent)")
    assert [f.split("  ")[0] for f in at_path if "house.c" in f][:3] == ["reap", "keep_house", "main"]
    assert "in reap" in browser.run("[...document.querySelectorAll('#path .current .wait')].map(e => e.title)")
    listed = browser.run("[...document.querySelectorAll('.edges ol.stack li')].map(e => e.textContent)")
    assert any(f.startswith("keep_house  house.c:") for f in listed)
    browser.run("location.hash = '#q=keep_house'")
    browser.wait(DATA + "found !== '0'")
    browser.run("document.getElementById('hit-next').click()")
    browser.wait(DATA + "path !== ''")
    assert path_shown(browser)[0] == unit
    assert browser.messages == []


# In a browser


def path_shown(b):
    return [int(n) for n in b.run(DATA + "path").split()]


def detail(b):
    return b.run("document.getElementById('detail-body').innerText")


def only_the_thread_of(b, node, nodes):
    """Of the single thread of a process: its lane is the first one."""
    value = b.run(f"[...document.forms.filters.only.options].find(o => o.textContent === '{nodes[node]['comm']} {nodes[node]['pid']}').value")
    return f"#only={value}&view="


def test_each_process_has_a_lane_and_all_units_are_there(shown, nodes):
    b = shown()
    assert int(b.run(DATA + "units")) == len(nodes)
    offered = b.run("[...document.forms.filters.only.options].map(o => o.textContent)")
    assert any(o.startswith(f"count-{os.getpid()} ") for o in offered) and any(o.startswith("cat ") for o in offered)
    assert any(o.startswith("</script>") for o in offered)


def test_the_path_is_that_of_flow_path(shown, recorded, last, tmp_path):
    shown()
    page = tmp_path / "path.html"
    watchctl("flow", "path", recorded, "--to", f"count-{os.getpid()}", "--html", page)
    b = shown()
    b.open(page)
    assert path_shown(b) == [link["to"]["id"] for link in last]
    text = detail(b)
    for link in last:
        assert f"/{link['to']['tid']}" in text and link["to"]["what"] in text
        if "edge" in link:
            assert link["edge"]["evidence"] in text


def test_paths_of_many_units_are_those_of_flow_path(shown, recorded, nodes):
    b = shown()
    for node in sorted(nodes)[-12:]:
        o = nodes[node]
        links = lines("flow", "path", recorded, "--to", f"{o['tid']}", "--json")
        b.run(f"location.hash = '#unit={links[0]['to']['id']}'")
        b.wait(DATA + f"path.split(' ')[0] === '{links[0]['to']['id']}'")
        assert path_shown(b) == [link["to"]["id"] for link in links]


def test_a_click_on_a_box_shows_what_led_to_it(shown, nodes, last):
    b, node = shown(), last[0]["to"]["id"]
    where = only_the_thread_of(b, node, nodes)
    assert path_shown(b) == []
    b.run(f"location.hash = '#unit={node}'")
    b.wait(DATA + "path !== ''")
    b.run("document.getElementById('zoom-unit').click()")
    b.settle()
    view = b.run("new URLSearchParams(location.hash.slice(1)).get('view')")
    b.run(f"location.hash = '{where}{view}'")
    b.wait(DATA + "path === ''")
    b.drawn()
    left, top, width = b.run("(r => [r.left, r.top, r.width])(document.getElementById('chart').getBoundingClientRect())")
    middle = left + 196 + (width - 196) / 2
    b.mouse("Moved", middle, top + 30)
    assert nodes[node]["what"] in b.run("document.getElementById('tip').innerText")
    b.click(middle, top + 30)
    b.wait(DATA + "path !== ''")
    assert path_shown(b) == [link["to"]["id"] for link in last]


def test_links_and_keys_go_to_what_brought_it_about(shown, last):
    node = last[0]["to"]["id"]
    b = shown(f"#unit={node}")
    b.run("document.querySelectorAll('#path li')[1].querySelector('button').click()")
    b.wait(DATA + f"path.split(' ')[0] === '{last[1]['to']['id']}'")
    b.run("document.getElementById('chart').focus()")
    b.run("history.back()")
    b.wait(DATA + f"path.split(' ')[0] === '{node}'")
    b.key("ArrowUp")
    b.wait(DATA + f"path.split(' ')[0] === '{last[1]['to']['id']}'")
    b.key("Escape")
    b.wait(DATA + "path === ''")


def test_the_search_finds_threads_and_words(shown, nodes):
    b, name = shown(), f"count-{os.getpid()}"
    b.key("/")
    b.type(name)
    b.settle()
    own = {i for i, o in nodes.items() if o.get("comm") == name}
    assert int(b.run(DATA + "found")) >= len(own) > 0
    b.key("Enter")
    b.wait(DATA + "path !== ''")
    first = path_shown(b)[0]
    b.key("Enter")
    b.wait(DATA + f"path.split(' ')[0] !== '{first}'")
    b.key("Enter", "shift")
    b.wait(DATA + f"path.split(' ')[0] === '{first}'")
    b.run("location.hash = '#q=no such thing'")
    b.wait(DATA + "found === '0'")


def test_the_picture_says_how_many_causes_it_has(shown, last):
    b = shown(f"#unit={last[0]['to']['id']}")
    b.wait("/ causes? here/.test(document.getElementById('arrows').textContent)")
    b.run("document.getElementById('zoom-all').click()")
    b.drawn()
    assert int(b.run(DATA + "arrows")) > 0


@pytest.mark.parametrize("fragment", ["#unit=99999999", "#unit=x&view=1..0", "#only=nobody", "#view=a..b&q=%00"])
def test_an_address_that_is_wrong_shows_the_page(shown, fragment):
    b = shown(fragment)
    assert path_shown(b) == []
