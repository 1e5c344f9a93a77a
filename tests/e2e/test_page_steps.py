# rooms: view/page view/callpage
"""`watchctl report LOG --html FILE` of calls: the page in a browser, against `report --json` and the account of the program itself."""
import json
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from conftest import BUILD, VICTIMS, WAIT, WATCHCTL

GENERATOR = BUILD / "tests" / "bench" / "steplog-gen"
DATA = "document.documentElement.dataset."


def watchctl(*args, status=0):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == status, r.stderr
    return r.stdout


def page_of(recorded, status=0):
    page = Path(str(recorded) + ".html")
    watchctl("report", recorded, "--html", page, status=status)
    return page


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    log = tmp_path_factory.mktemp("calls") / "log"
    subprocess.run([GENERATOR, "-n", "3000", "-t", "3", log], check=True, timeout=WAIT, stdout=subprocess.DEVNULL)
    return log


@pytest.fixture(scope="module")
def told(recorded):
    objects = [json.loads(line) for line in watchctl("report", "--json", recorded).splitlines()]
    calls = {o["call"]: o for o in objects if o["type"] == "call"}
    for o in objects:
        if o["type"] == "return":
            calls[o["call"]]["end"] = o
    return calls


@pytest.fixture(scope="module")
def page(recorded):
    return page_of(recorded)


def line_of(c):
    """As the page writes a call."""
    end = c["end"]
    result = " ".join(t for t in (end.get("ret", {}).get("text"), end.get("errno")) if t)
    args = ", ".join(f'{a["name"]} = {a["text"]}' for a in c["args"])
    return f'{c["function"]}({args})' + (f" = {result}" if result else "")


def rows(b):
    return b.run("[...document.querySelectorAll('#panel tbody tr')].map(r => [...r.cells].map(c => c.textContent))")


def nanoseconds(text):
    number, unit = text.split()
    return float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


def close_to(shown_ns, ns):
    """The page shows four digits."""
    return abs(shown_ns - ns) <= max(1, ns * 6e-4)


def chart(b):
    return b.run("(r => [r.left, r.top, r.width, r.height])(document.getElementById('chart').getBoundingClientRect())")


def detail(b):
    return b.run("document.getElementById('detail-body').innerText")


@pytest.mark.slow
def test_all_calls_are_in_the_page(shown, told):
    b = shown("#tab=calls")
    assert int(b.run(DATA + "calls")) == len(told) > 3000
    assert f"{len(told):,} calls" in b.run("document.getElementById('facts').innerText")
    listed = []
    while True:
        listed += rows(b)
        if b.run("(n => n.disabled || (n.click(), false))([...document.querySelectorAll('.pager button')].find(n => n.textContent === 'Next'))"):
            break
    assert len(listed) == len(told)
    for row in listed:
        c = told[int(row[0].replace(",", ""))]
        assert row[4].startswith(line_of(c)) and row[3].split()[0] == str(c["tid"])
        assert close_to(nanoseconds(row[2]), c["end"]["duration_ns"])


def test_functions_have_the_sums_of_their_calls(shown, told):
    calls, total, children, own = Counter(), Counter(), Counter(), Counter()
    for c in told.values():
        children[c.get("parent")] += c["end"]["duration_ns"]
    for number, c in told.items():
        name, above = c["function"], c
        calls[name] += 1
        own[name] += c["end"]["duration_ns"] - children[number]
        while above := told.get(above.get("parent")):
            if above["function"] == name:
                break
        total[name] += 0 if above else c["end"]["duration_ns"]
    table = rows(shown("#tab=functions"))
    assert {r[4].split()[0]: int(r[2].replace(",", "")) for r in table} == dict(calls)
    for r in table:
        name = r[4].split()[0]
        assert close_to(nanoseconds(r[0]), total[name]) and close_to(nanoseconds(r[1]), own[name])


def paths(told):
    """path -> [nanoseconds, calls]"""
    sums, path = defaultdict(lambda: [0, 0]), {}
    for number, c in told.items():
        path[number] = path.get(c.get("parent"), ()) + (c["function"],)
        sums[path[number]][0] += c["end"]["duration_ns"]
        sums[path[number]][1] += 1
    return sums


def test_the_tree_and_the_flame_graph_have_the_same_totals(shown, told):
    b = shown()
    b.run("for (let i; (i = document.querySelector('[role=treeitem][aria-expanded=false]')); ) i.expand(true)")
    tree = b.run("""[...document.querySelectorAll('[role=treeitem]')].map(i => {
        const path = [];
        for (let n = i; n; n = n.parentElement.closest('[role=treeitem]'))
            path.unshift(n.querySelector('code').textContent);
        return [path, i.getAttribute('aria-label')];
    })""")
    expected = paths(told)
    assert {tuple(p) for p, _ in tree} == set(expected)
    for path, label in tree:
        total, self_time, calls = re.search(r", total (.*?), self (.*?), ([\d,]+) call", label).groups()
        ns, n = expected[tuple(path)]
        inside = sum(v[0] for p, v in expected.items() if p[:-1] == tuple(path))
        assert close_to(nanoseconds(total), ns) and int(calls.replace(",", "")) == n
        assert close_to(nanoseconds(self_time), ns - inside)
    b.run("document.getElementById('tab-flame').click()")
    flame = b.run("[...document.querySelectorAll('#flame g')].map(g => g.getAttribute('aria-label'))")
    labels = Counter(label.split(", total ")[0] + ", " + label.split(", total ")[1].split(", self")[0] for _, label in tree)
    drawn = Counter(", ".join(label.split(", ")[:2]) for label in flame[1:])
    assert drawn and not drawn - labels
    assert close_to(nanoseconds(flame[0].split(", ")[1]), sum(v[0] for p, v in expected.items() if len(p) == 1))


def zoomed_to(b, number):
    """Where the bar of the call is, once it fills the picture."""
    b.run(f"location.hash = '#call={number}'")
    b.settle()
    b.run("document.getElementById('zoom-call').click()")
    b.settle()
    left, top, width, _ = chart(b)
    return left + width / 2, top


@pytest.mark.slow_when("lookup", "read_request")
@pytest.mark.parametrize("name", ["parse_value", "lookup", "read_request"])
def test_hover_shows_parameters_and_result(shown, told, name):
    number, call = next((n, c) for n, c in told.items() if c["function"] == name)
    b = shown()
    x, top = zoomed_to(b, number)
    found = None
    for y in range(24, 400, 8):
        b.mouse("Moved", x, top + y)
        text = b.run("(t => t.hidden ? '' : t.innerText)(document.getElementById('tip'))")
        if f"call {number:,} " in text:
            found = text
    lines = found.split("\n")
    assert lines[0] == name
    assert lines[1:1 + len(call["args"])] == [f'{a["name"]} = {a["text"]}' for a in call["args"]]
    if "ret" in call["end"]:
        assert any(line.startswith("= " + call["end"]["ret"]["text"]) for line in lines)


def test_a_click_on_a_bar_opens_the_call(shown, told):
    number, call = next((n, c) for n, c in told.items() if c["function"] == "parse_value")
    b = shown()
    x, top = zoomed_to(b, number)
    lane = [c for c in told.values() if c["tid"] == call["tid"]]
    b.run(f"location.hash = '#thread={[*dict.fromkeys(c['tid'] for c in told.values())].index(call['tid'])}'")
    b.settle()
    b.run("document.getElementById('zoom-all').click()")
    assert len(lane) > 900 and call["depth"] >= 1
    b.click(x, top + 20 + 20 + 8)  # the outermost call is as wide as the picture
    b.settle()
    assert detail(b).startswith("serve\n") and "requests" in detail(b)


def test_details_have_types_and_callers(shown, told):
    number, call = next((n, c) for n, c in told.items() if c["function"] == "compare")
    text = detail(shown(f"#call={number}"))
    for a in call["args"]:
        assert a["text"] in text and a["type"] in text
    chain, above = [], call
    while above := told.get(above.get("parent")):
        chain.append(above["function"])
    shown_chain = text.split("Called from")[1].split()
    assert shown_chain[:len(chain)] == chain
    assert "call\n" + f"{number:,}" in text


def test_search_finds_functions_and_values(shown, told):
    b = shown()
    b.key("/")
    b.type("lookup")
    b.settle()
    expected = sum(c["function"] == "lookup" or "lookup" in line_of(c) for c in told.values())
    assert int(b.run(DATA + "found")) == expected > 100
    value = next(c for c in told.values() if c["function"] == "parse_request")["args"][0]["text"]
    b.run("document.querySelector('#filters [name=q]').value = ''")
    b.type(value)
    b.settle()
    expected = [n for n, c in told.items() if value.lower() in
                "\n".join([a["text"] for a in c["args"]] + [c["end"].get("ret", {}).get("text", "")]).lower()]
    assert int(b.run(DATA + "found")) == len(expected) >= 1
    b.key("Enter")
    b.settle()
    assert b.run("location.hash").split("call=")[1].split("&")[0] == str(expected[0])
    b.key("Escape")
    b.settle()
    assert b.run(DATA + "found") == "0" and "q=" not in b.run("location.hash")


@pytest.mark.slow
def test_the_keyboard_goes_from_call_to_call(shown, told):
    b = shown()
    b.run("document.getElementById('chart').focus()")
    order = sorted(told)
    b.key("Home")
    b.settle()
    assert f"call={order[0]}" in b.run("location.hash")

    def chosen():
        b.settle()
        return int(re.search(r"call=(\d+)", b.run("location.hash"))[1])

    first_inside = next(n for n in order if told[n].get("parent") == order[0])
    b.key("ArrowDown")
    assert chosen() == first_inside
    second = [n for n in order if told[n].get("parent") == order[0]][1]
    b.key("ArrowRight")
    assert chosen() == second
    b.key("ArrowLeft")
    assert chosen() == first_inside
    b.key("ArrowUp")
    assert chosen() == order[0]
    b.key("End")
    assert chosen() == order[-1]
    before = b.run("document.getElementById('chart').toDataURL()")
    b.key("0")
    b.settle()
    b.key("+")
    b.settle()
    assert "view=" in b.run("(new Promise(r => setTimeout(() => r(location.hash), 500)))") and b.run("document.getElementById('chart').toDataURL()") != before
    b.key("?")
    assert b.run("document.getElementById('help').open")
    b.key("Escape")
    assert not b.run("document.getElementById('help').open")


def test_wheel_and_drag_move_the_picture(shown):
    b = shown()
    left, top, width, _ = chart(b)
    b.ask("Input.dispatchMouseEvent", type="mouseWheel", x=left + width / 2, y=top + 60, deltaX=0, deltaY=-900)
    view = "(new Promise(r => setTimeout(() => r(location.hash.split('view=')[1]), 600)))"
    zoomed = b.run(view)
    assert zoomed
    b.mouse("Moved", left + 600, top + 60)
    b.mouse("Pressed", left + 600, top + 60, button="left", clickCount=1)
    b.mouse("Moved", left + 500, top + 60, button="left", buttons=1)
    b.mouse("Released", left + 500, top + 60, button="left", clickCount=1)
    dragged = b.run(view)
    a, c = (tuple(map(float, v.split("&")[0].split(".."))) for v in (zoomed, dragged))
    assert c[0] > a[0] and abs((c[1] - c[0]) - (a[1] - a[0])) < 1


def test_by_order_of_calls(shown, told):
    b = shown("#by=order")
    assert b.run("document.querySelector('#filters [name=by]').value") == "order"
    b.run("document.getElementById('chart').focus()")
    b.key("Home")
    b.settle()
    assert detail(b).split("\n")[0] == told[1]["function"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_screen_in_light_and_dark(browser, page, told, scheme, width):
    browser.prefer(color_scheme=scheme)
    browser.resize(width, 900)
    number = next(n for n, c in told.items() if c["function"] == "compare")
    for tab in ("tree", "flame", "functions", "calls"):
        browser.open(page, f"#tab={tab}&call={number}")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run(DATA + "theme") == scheme
        narrow = browser.run("""[...document.querySelectorAll('td, th, dd, .fn, code, p')].filter(e => {
            const text = e.textContent.trim(), range = document.createRange();
            range.selectNodeContents(e);
            const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top))).size;
            return lines > 3 && lines > text.length / 3;
        }).map(e => e.textContent)""")
        assert narrow == []  # as many lines as letters: words are broken letter by letter
    browser.prefer(color_scheme="light")
    assert browser.messages == []


def test_hostile_texts_stay_texts(browser, tmp_path):
    source, program = tmp_path / "v.c", tmp_path / "v"
    source.write_text("""#include <string.h>
__attribute__((noinline)) int take(const char *s) { return (int)strlen(s); }
int main(void) { return take("</script><script>document.documentElement.dataset.hacked=1</script><img src=x onerror=x>") == 0; }
""")
    subprocess.run(["gcc", "-O0", "-g", "-fno-builtin", source, "-o", program], check=True, timeout=WAIT)
    watchctl("step", "-q", "-o", tmp_path / "log", "--", program)
    browser.open(page_of(tmp_path / "log"), "#tab=calls&q=hacked")
    assert browser.run(DATA + "hacked") is None and browser.messages == []
    assert int(browser.run(DATA + "found")) >= 1
    assert any("take(s = \"</script><script>" in r[4] for r in rows(browser))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    program = BUILD / "victims" / "step_shapes_page"
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", VICTIMS / "step_shapes.c", "-O0", "-D_GNU_SOURCE", "-g", "-fno-builtin", "-D__NO_INLINE__", "-pthread", "-ldl",
                    "-o", program], check=True, timeout=WAIT)
    return program


@pytest.mark.parametrize("shape", ["recursion", "threads", "values"])
def test_the_page_has_the_calls_that_the_program_says_it_made(browser, shapes, tmp_path, shape):
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", tmp_path / "log", "--", shapes, shape], capture_output=True, text=True, timeout=2 * WAIT)
    assert r.returncode == 0, r.stderr
    account = [m.groups() for m in re.finditer(r"^E (\d+) (\S+) ?(.*)$", r.stdout, re.M)]
    assert account
    names = Counter(name for _, name, _ in account)
    browser.open(page_of(tmp_path / "log"), "#tab=functions")
    seen = {r[4].split()[0]: int(r[2].replace(",", "")) for r in rows(browser)}
    assert {name: seen.get(name, 0) for name in names} == dict(names)
    browser.open(page_of(tmp_path / "log"), "#tab=calls")
    lines = []
    while True:
        lines += [(row[3].split()[0], row[4]) for row in rows(browser)]
        if browser.run("(n => n.disabled || (n.click(), false))([...document.querySelectorAll('.pager button')].find(n => n.textContent === 'Next'))"):
            break
    for tid, name, rest in account:
        args = dict(re.findall(r"(\w+)=(-?\d+)(?= |$)", rest)) if shape == "recursion" else {}  # there, all are numbers
        at = next((i for i, (t, text) in enumerate(lines) if t == tid and text.startswith(name + "(") and
                   all(re.search(rf"\b{a} = {v}\b", text) for a, v in args.items())), None)
        assert at is not None, (tid, name, rest)
        del lines[at]
    assert browser.messages == []


def test_what_found_no_room_is_said(browser, page, tmp_path):
    text, other = page.read_text(), tmp_path / "page.html"
    assert '"calls_left_out":0,"texts_left_out":0' in text
    text = text.replace('"calls_left_out":0,"texts_left_out":0', '"calls_left_out":1234,"texts_left_out":56')
    other.write_text(re.sub(r'"all_calls":(\d+)', lambda m: f'"all_calls":{int(m[1]) + 1234}', text, count=1))
    browser.open(other)
    said = browser.run("document.getElementById('notices').innerText")
    assert "1,234 were left out" in said and "56 of them are not in this page" in said and browser.messages == []


def test_a_log_that_is_cut_short_says_so(browser, recorded, tmp_path):
    cut = tmp_path / "cut"
    subprocess.run(["cp", "-r", recorded, cut], check=True)
    stream = max((f for f in cut.iterdir()), key=lambda f: f.stat().st_size)
    with open(stream, "r+b") as f:
        f.truncate(stream.stat().st_size // 2)
    browser.open(page_of(cut, status=8))
    assert "The log is not whole" in browser.run("document.getElementById('notices').innerText")
    assert 0 < int(browser.run(DATA + "calls")) < 3000 and browser.messages == []


def test_signals_are_marked_in_their_call(browser, shapes, tmp_path):
    subprocess.run([WATCHCTL, "step", "-q", "-o", tmp_path / "log", "--", shapes, "signals"], check=True, capture_output=True, timeout=2 * WAIT)
    told = [json.loads(line) for line in watchctl("report", "--json", "--events", tmp_path / "log").splitlines()]
    names = {o["call"]: o["function"] for o in told if o["type"] == "call"}
    signals = [(o["signal"], names[o["call"]]) for o in told if o["type"] == "signal"]
    browser.open(page_of(tmp_path / "log"), "#tab=marks")
    assert [(r[2].split()[0], r[3]) for r in rows(browser)] == signals and len(signals) == 6
    assert "not returned: " in browser.run("document.getElementById('facts').innerText") and browser.messages == []
