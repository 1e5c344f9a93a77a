# rooms: view/page
"""`watchctl report LOG --html FILE`: the page in a browser, against what `watchctl report --json` prints of the same log."""
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from conftest import BUILD, WAIT, WATCHCTL  # noqa: E402

ACCESSES = BUILD / "tests" / "bench" / "accesslog-gen"
GENERATOR = BUILD / "tests" / "bench" / "pagelog-gen"
N = 3000

TITLE = "</title><script>document.documentElement.dataset.hacked=1</script>"
NAME = "<img src=x onerror='document.documentElement.dataset.hacked=2'>"


def watchctl(*args, status=0):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == status, r.stderr
    return r


def generate(path, *args):
    subprocess.run([str(GENERATOR), *map(str, args), str(path)], check=True, timeout=WAIT)
    return path


def page_of(recorded, *args, status=0):
    page = Path(str(recorded) + ".html")
    watchctl("report", recorded, "--html", page, *args, status=status)
    return page


def objects(recorded, status=0):
    return [json.loads(line) for line in watchctl("report", "--json", "--regs", recorded, status=status).stdout.splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("page") / "log", "-n", N, "-c", 200)


@pytest.fixture(scope="module")
def told(recorded):
    return objects(recorded)


@pytest.fixture(scope="module")
def page(recorded):
    return page_of(recorded)


def count(b):
    return int(b.run("document.documentElement.dataset.accesses"))


def accesses(told):
    return [o for o in told if o["type"] == "access"]


def table(b):
    return b.run("[...document.querySelectorAll('#panel tbody tr')].map(r => [...r.cells].map(c => c.innerText))")


def choose(b, name, text):
    """Types into a filter, as a person does."""
    b.run(f"document.querySelector('#filters [name={name}]').focus()")
    b.type(text)
    b.settle()


def test_all_accesses_and_captures_are_in_the_page(shown, told):
    b = shown()
    assert count(b) == len(accesses(told)) == N
    assert int(b.run("document.documentElement.dataset.captures")) == 200
    assert b.run("document.getElementById('shown').textContent") == "3,000 of 3,000 accesses, 200 of 200 captures"
    assert b.run("document.title").startswith("counter, state - ")


def test_the_table_by_site_is_that_of_the_report(shown, told):
    expected = Counter({(o["watch"], o["kind"], o["module_offset"]): o["count"] for o in told if o["type"] == "site"})
    rows = table(shown("#tab=sites"))
    seen = Counter({(r[2], r[1].strip(), r[3].split("\n")[0].split("+")[1]): int(r[0].replace(",", "")) for r in rows})
    assert seen == expected and len(expected) > 40
    counts = [int(r[0].replace(",", "")) for r in rows]
    assert counts == sorted(counts, reverse=True)


def test_the_list_of_accesses_has_times_values_and_threads(shown, told):
    rows = table(shown("#tab=accesses"))
    assert len(rows) == 100
    for row, a in zip(rows, accesses(told)):
        assert row[0] == f"{(a['time_ns'] - 1000000000) / 1e9:.9f} s"
        assert row[1].strip() == a["kind"] and row[2] == a["watch"]
        old, new = a["old_text"], a["new_text"]
        same = new if a["kind"] == "read" else new + " (unchanged)"
        assert row[3] == (same if old == new else f"{old} → {new}")
        assert row[4].split()[0] == str(a["tid"])


@pytest.mark.parametrize("fragment, wanted", [
    ("watch=1", lambda a: a["watch"] == "state"),
    ("kind=r", lambda a: a["kind"] == "read"),
    ("thread=4711.4713", lambda a: a["tid"] == 4713),
    ("thread=worker-1", lambda a: a["comm"] == "worker-1"),
    ("value=100..200&watch=0", lambda a: a["watch"] == "counter" and 100 <= int(a["new"], 16) <= 200),
    ("value=0x2&watch=1", lambda a: a["watch"] == "state" and a["new"] == "0x2"),
    ("value=DONE&watch=1", lambda a: a["watch"] == "state" and a["new_text"] == "DONE"),
    ("value=!=IDLE&watch=1", lambda a: a["watch"] == "state" and a["new_text"] != "IDLE"),
    ("value=>1000&watch=0", lambda a: a["watch"] == "counter" and int(a["new"], 16) > 1000),
    ("changes=1", lambda a: a["old"] != a["new"]),
    ("time=0.002..0.007", lambda a: 2000000 <= a["time_ns"] - 1000000000 <= 7000000),
    ("q=mov+eax%2C", lambda a: "mov eax," in a["insn"]),
    ("caller=program%2B0x11025", lambda a: any(f["module_offset"] == "0x11025" for f in a["stack"])),
    ("watch=0&kind=w&thread=4711.4711&changes=1&time=0..0.005",
     lambda a: a["watch"] == "counter" and a["kind"] == "write" and a["tid"] == 4711 and a["old"] != a["new"] and
     a["time_ns"] <= 1005000000),
])
def test_filters_in_the_address_choose_what_they_say(shown, told, fragment, wanted):
    expected = sum(map(wanted, accesses(told)))
    b = shown("#" + fragment)
    assert 0 < expected < N
    assert count(b) == expected
    assert b.run("document.querySelectorAll('#chips .chip').length") == len(fragment.split("&"))


def test_a_filter_that_is_typed_stands_in_the_address_and_back_undoes_it(shown, told):
    b = shown()
    choose(b, "value", "DONE")
    expected = sum(a["new_text"] == "DONE" for a in accesses(told))
    assert b.run("location.hash") == "#value=DONE"
    assert count(b) == expected
    b.run("history.back()")
    b.wait(f"document.documentElement.dataset.accesses === '{N}'")
    assert b.run("document.querySelector('#filters [name=value]').value") == ""
    b.run("history.forward()")
    b.wait(f"document.documentElement.dataset.accesses === '{expected}'")


def test_what_is_no_value_and_no_time_is_said(shown):
    b = shown("#time=yesterday")
    assert "time is not understood" in b.run("document.getElementById('shown').textContent")


def test_a_click_on_a_site_shows_only_that(shown):
    b = shown()
    row = table(b)[5]
    b.run("document.querySelectorAll('#panel tbody tr')[5].querySelector('button').click()")
    b.settle()
    assert count(b) == int(row[0].replace(",", ""))
    assert "site=" in b.run("location.hash")
    assert b.run("document.getElementById('detail-title').textContent") == "Site"


def test_keys_go_from_access_to_access(shown, told):
    b = shown()
    b.run("document.getElementById('chart').focus()")
    b.key("Home")
    b.key("ArrowRight")
    b.key("ArrowRight")
    b.settle()
    third = accesses(told)[2]
    assert b.run("location.hash") == "#event=2"
    assert b.run("document.getElementById('detail-title').textContent") == "Access 3 of 3,200"
    detail = b.run("document.getElementById('detail-body').innerText")
    assert f"{(third['time_ns'] - 1000000000) / 1e9:.9f} s" in detail
    for name, value in third["regs"].items():
        assert f"{name}{value}" in detail.replace(" ", "").replace("\n", "")
    for frame in third["stack"][1:]:
        assert "program+" + frame["module_offset"] in detail
    b.key("End")
    b.settle()
    assert b.run("document.getElementById('detail-title').textContent") == "Capture 3,200 of 3,200"
    b.key("Enter")
    assert b.run("document.activeElement.id") == "detail"
    b.run("document.activeElement.blur()")
    b.key("?")
    assert b.run("document.getElementById('help').open") is True
    b.key("Escape")
    assert b.run("document.getElementById('help').open") is False


def box(b, name):
    return b.run(f"(() => {{ const r = document.getElementById('{name}').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()")


@pytest.mark.slow
def test_wheel_and_drag_and_hover(shown):
    b = shown()
    label = "document.getElementById('chart').getAttribute('aria-label')"
    whole = b.run(label)
    b.run("document.getElementById('chart').scrollIntoView()")
    x, y, w, h = box(b, "chart")
    for _ in range(6):
        b.mouse("Wheel", x + w / 2, y + 100, deltaX=0, deltaY=-400)
    b.settle()
    zoomed = b.run(label)
    assert zoomed != whole
    b.mouse("Pressed", x + w / 2, y + 100, button="left", buttons=1, clickCount=1)
    b.mouse("Moved", x + w / 2 - 200, y + 100, button="left", buttons=1)
    b.mouse("Released", x + w / 2 - 200, y + 100, button="left")
    b.settle()
    assert b.run(label) not in (whole, zoomed)
    for dy in range(int(h) - 32, 0, -8):  # from the lanes of tags and threads up
        if any(not (b.mouse("Moved", x + 100 + dx, y + dy), b.run("document.getElementById('tip').hidden"))[1] for dx in range(0, 900, 20)):
            break
    assert "thread 47" in b.run("document.getElementById('tip').innerText")
    b.run("document.getElementById('zoom-all').click()")
    b.settle()
    assert b.run(label) == whole


def test_stack_trees_count_all_and_open_by_keys(shown, told):
    b = shown("#tab=stacks&watch=1")
    outer = table(b) or b.run("[...document.querySelectorAll('[role=treeitem][aria-level=\"1\"] > .node > .cnt')].map(e => Number(e.textContent.replace(/,/g, '')))")
    assert sum(outer) == sum(a["watch"] == "state" for a in accesses(told))
    b.run("document.querySelector('[role=treeitem]').focus()")
    b.key("End")
    last = b.run("document.activeElement.getAttribute('aria-label')")
    b.key("ArrowUp")
    assert b.run("document.activeElement.getAttribute('aria-label')") != last
    b.key("Home")
    b.key("ArrowLeft")
    assert b.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    b.key("ArrowRight")
    assert b.run("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_the_flame_graph_is_as_wide_as_its_counts(shown):
    b = shown("#tab=flame")
    rects = b.run("[...document.querySelectorAll('#flame g')].map(g => [Number(g.querySelector('rect').getAttribute('width')), "
                  "Number(g.getAttribute('aria-label').split(', ').at(-2).replace(/,/g, ''))])")
    width, total = rects[0]
    assert total == N + 200 and len(rects) > 20
    for w, n in rects:
        assert abs(w - width * n / total) < 1
    b.run("document.querySelectorAll('#flame g')[3].dispatchEvent(new MouseEvent('click'))")
    assert b.run("document.querySelectorAll('#flame g').length") > 3
    b.key("Escape")
    assert len(rects) == b.run("document.querySelectorAll('#flame g').length")


def test_every_control_has_a_name_and_can_be_reached(shown):
    b = shown("#event=5")
    nameless = b.run("""[...document.querySelectorAll('button, input, select, [tabindex="0"]')].filter(e =>
        !(e.innerText || '').trim() && !e.getAttribute('aria-label') && !(e.labels && e.labels.length) &&
        !e.getAttribute('aria-labelledby')).map(e => e.outerHTML)""")
    assert nameless == []
    seen = set()
    for _ in range(60):
        b.key("Tab")
        seen.add(b.run("document.activeElement.id || document.activeElement.name || document.activeElement.textContent"))
    assert {"theme", "help-open", "q", "caller", "value", "thread", "time", "chart", "zoom-in", "tab-sites"} <= seen


LUMINANCE = """(() => {
    const parse = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = parse(c).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
    const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c; } return 'rgb(255,255,255)'; };
    const bad = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let n; (n = walk.nextNode()); ) {
        const e = n.parentElement;
        if (!n.textContent.trim() || !e.offsetParent || e.closest('script, svg, option'))
            continue;
        const a = light(getComputedStyle(e).color), b = light(back(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < 4.5)
            bad.push([ratio, e.outerHTML.slice(0, 100)]);
    }
    return bad;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["event=5", "tab=stacks&q=program", "tab=accesses&event=7&kind=w"])
def test_text_has_the_contrast_that_wcag_asks_for(shown, scheme, fragment):
    b = shown()
    b.prefer(color_scheme=scheme)
    b.open(b.run("decodeURI(location.pathname)"), "#" + fragment)
    assert b.run("document.documentElement.dataset.theme") == scheme
    assert b.run(LUMINANCE) == []


def test_the_switch_of_colours_goes_round(shown):
    b = shown()
    b.prefer(color_scheme="light")
    themes = []
    for _ in range(3):
        b.run("document.getElementById('theme').click()")
        themes.append(b.run("document.documentElement.dataset.theme"))
    assert themes == ["light", "dark", "light"]


@pytest.mark.slow_when("size1", "size2")
@pytest.mark.parametrize("size", [(1280, 900), (800, 600), (390, 844)])
def test_the_page_is_never_wider_than_the_window(shown, size):
    b = shown()
    for fragment in ("#event=9", "#tab=flame", "#tab=accesses", "#tab=threads"):
        b.resize(*size)
        b.open(b.run("decodeURI(location.pathname)"), fragment)
        b.settle()
        assert b.run("document.documentElement.scrollWidth") <= size[0]


def hostile_log(path):
    events = [
        log.process(1000, 77, NAME, 1700000000 * 10**9),
        log.watch(1001, 0, TITLE, 0x404010),
        log.code(1003, 0x401002, b"\x89\x07"),
        log.stack(1005, 0, [0x401002, 0x401100]),
    ]
    events += [log.access(2000 + 10 * i, 0, 77, 0x404010, i, i + 1, 0, 0x401002) for i in range(3)]
    return log.write_log(path, [log.packet(events)])


def test_markup_from_the_log_stays_text(browser, tmp_path):
    page = page_of(hostile_log(tmp_path / "log<b>x"))
    for tab in ("sites", "stacks", "flame", "threads", "accesses"):
        browser.open(page, f"#tab={tab}&event=1&caller=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        browser.open(page, f"#tab={tab}&event=1")
        assert browser.run("document.documentElement.dataset.hacked") is None
        assert browser.run("document.images.length + document.scripts.length") == 3
    assert TITLE in browser.run("document.body.innerText") and browser.run("document.title").startswith(TITLE)
    assert browser.messages == []


def test_nothing_else_may_run_in_the_page(browser, page):
    browser.open(page)
    browser.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.documentElement.dataset.hacked=1'}))")
    assert browser.run("document.documentElement.dataset.hacked") is None
    assert any("Content Security Policy" in m for m in browser.messages)


def test_an_empty_log_opens(browser, tmp_path):
    page = page_of(log.write_log(tmp_path / "log", [log.packet([log.process(1000, 77, "app", 0)])]))
    browser.open(page)
    assert count(browser) == 0 and browser.messages == []


def test_captures_alone_open(browser, tmp_path):
    browser.open(page_of(generate(tmp_path / "log", "-n", 0, "-c", 50)), "#tab=tags")
    assert sum(int(r[0]) for r in table(browser)) == 50
    assert browser.messages == []


def test_a_log_cut_short_opens_and_says_so(browser, tmp_path):
    recorded = generate(tmp_path / "log", "-n", 2000)
    events = recorded / "events"
    os.truncate(events, events.stat().st_size * 2 // 3 + 5)
    page = page_of(recorded, status=8)
    browser.open(page)
    assert count(browser) == len(accesses(objects(recorded, status=8))) > 0
    assert "The log is not whole" in browser.run("document.getElementById('notices').innerText")
    assert browser.messages == []


def test_source_and_instructions_are_around_the_place(browser, tmp_path, hardware):
    source = tmp_path / "prog.c"
    source.write_text("int flag;\n__attribute__((noinline)) void set_flag(int v)\n{\n\tflag = v; /* <b>here</b> */\n}\n"
                      "int main(void)\n{\n\tfor (int i = 0; i < 5; i++)\n\t\tset_flag(i);\n\treturn 0;\n}\n")
    subprocess.run(["gcc", "-g", "-O1", "-o", "prog", "prog.c"], cwd=tmp_path, check=True, timeout=WAIT)
    watchctl("-v", "flag", "-w", "-o", tmp_path / "log", "--", tmp_path / "prog")
    browser.open(page_of(tmp_path / "log"), "#event=2")
    code = browser.run("[...document.querySelectorAll('.code .here')].map(e => e.textContent)")
    assert code[0].endswith("▶         flag = v; /* <b>here</b> */") and "4" in code[0]
    assert "mov dword ptr [rip+" in code[1] and "# flag" in code[1]
    assert browser.run("document.querySelector('.change').textContent") == "flag: 1 → 2"
    browser.open(page_of(tmp_path / "log", "--no-source"), "#event=2")
    assert "here</b>" not in browser.run("document.documentElement.innerHTML")


@pytest.mark.slow
def test_more_than_fits_is_an_even_share_and_the_tables_count_all(browser, tmp_path):
    recorded = generate(tmp_path / "log", "-n", 30000)
    browser.open(page_of(recorded))
    sites = Counter(o["count"] for o in objects(recorded) if o["type"] == "site")
    assert Counter(int(r[0].replace(",", "")) for r in table(browser)) == sites
    assert "Registers are in this page for" in browser.run("document.getElementById('notices').innerText")
    assert browser.messages == []


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S).group(1))


def notices(b):
    return b.run("document.getElementById('notices').innerText")


@pytest.mark.slow
def test_a_hundred_thousand_threads_are_counted_though_not_all_are_named(browser, tmp_path):
    n, threads = 200000, 100000
    subprocess.run([ACCESSES, "-n", str(n), "-t", str(threads), "-f", "3", str(tmp_path / "log")], check=True, timeout=WAIT)
    page = page_of(tmp_path / "log")
    data = data_of(page)
    named, per_thread = len(data["threads"]), n // threads
    assert 1000 < named < threads and all(t[3] == per_thread for t in data["threads"])
    browser.open(page, "#tab=threads")
    assert count(browser) == n and browser.messages == []
    assert f"{n - named * per_thread:,} are of threads that are not in the tables" in notices(browser)
    assert table(browser)[0][:3] == ["other threads", "", f"{n - named * per_thread:,}"]
    assert browser.run("document.querySelector('#panel caption').textContent").startswith(f"{named:,} threads, and others")
    browser.open(page, "#thread=4000.4007")
    assert count(browser) == per_thread


@pytest.mark.slow
def test_combinations_beyond_the_room_for_them_are_said_and_still_counted(browser, tmp_path):
    n, threads, room = 320000, 4999, 150000  # odd: nearly every access is a new combination of thread and stack
    subprocess.run([ACCESSES, "-n", str(n), "-t", str(threads), "-f", "8", str(tmp_path / "log")], check=True, timeout=WAIT)
    known, beyond = set(), 0
    for i in range(n):
        combination = (i % threads, i % 64, i % 1000 == 999)  # as accesslog-gen's description has it
        if combination not in known and len(known) >= room:
            beyond += 1
        else:
            known.add(combination)
    page = page_of(tmp_path / "log")
    assert sum(data_of(page)["combos"][4::5]) == n
    browser.open(page)
    assert count(browser) == n and browser.messages == []
    assert f"{beyond:,} are counted by their place only, without thread and stack" in notices(browser)
    assert sorted(r[0] for r in table(browser)) == ["160,000"] * 2


def test_the_file_is_replaced_only_by_a_whole_page(tmp_path, recorded):
    page = tmp_path / "out.html"
    page.write_text("old")
    watchctl("report", tmp_path / "no-such-log", "--html", page, status=8)
    assert page.read_text() == "old" and os.listdir(tmp_path) == ["out.html"]
    watchctl("report", recorded, "--html", page)
    assert page.read_text().startswith("<!DOCTYPE html>") and os.listdir(tmp_path) == ["out.html"]
    assert subprocess.run([WATCHCTL, "report", str(recorded), "--html", "-"], capture_output=True,
                          timeout=WAIT).stdout.startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("args", [["--json"], ["--tag", "begin"], ["--sites"], ["-n", "5"], ["--tree"]])
def test_forms_that_print_exclude_the_page(tmp_path, recorded, args):
    r = watchctl("report", recorded, "--html", tmp_path / "x.html", *args, status=2)
    assert "--html" in r.stderr and not (tmp_path / "x.html").exists()
    watchctl("report", recorded, "--no-source", status=2)
