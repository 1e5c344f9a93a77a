# rooms: view/diff/html view/page
"""`watchctl diff GOOD BAD --html FILE` in a browser: both runs beside each other, on wide and narrow screens."""
import json
import re
import subprocess

import pytest
from conftest import BUILD, WAIT, WATCHCTL

GENERATOR = BUILD / "tests" / "bench" / "steplog-gen"
AFTER = "[...document.querySelectorAll('.after .row:not(.head)')]"


def show(b, page, width=1400, scheme="light"):
    b.messages.clear()
    b.prefer(color_scheme=scheme)
    b.resize(width, 900)
    b.ask("Page.navigate", url="about:blank")
    b.ask("Page.navigate", url=page.resolve().as_uri())
    b.wait(f"location.href === '{page.resolve().as_uri()}' && document.readyState === 'complete'")
    b.drawn()


@pytest.fixture(scope="module")
def generate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diff")

    def make(name, *args):
        r = subprocess.run([GENERATOR, "-n", "3000", "-t", "2", *args, folder / name], check=True, capture_output=True, text=True, timeout=WAIT)
        return folder / name, json.loads(r.stdout) if r.stdout.strip() else None

    return make


@pytest.fixture(scope="module")
def good(generate):
    return generate("good", "-s", "3")[0]


def page_of(good, bad, page):
    r = subprocess.run([WATCHCTL, "diff", good, bad, "--html", page, "-q"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 1, r.stderr
    return page


def calls_from(log, number, tid):
    """The functions that the thread called from that call of the log on."""
    r = subprocess.run([WATCHCTL, "report", "--json", log], capture_output=True, text=True, timeout=WAIT, check=True)
    objects = map(json.loads, r.stdout.splitlines())
    return [o["function"] for o in objects if o["type"] == "call" and o["tid"] == tid and o["call"] >= number]


@pytest.mark.parametrize("kind", ["value", "result", "missing", "extra"])
def test_both_runs_are_shown_from_the_difference_on(browser, good, generate, tmp_path, kind):
    bad, told = generate(kind, "-s", "4", "-d", f"{kind}@900")
    show(browser, page_of(good, bad, tmp_path / "d.html"))
    shown = browser.run(AFTER + ".map(r => [r.className.split(' ')[1], ...[...r.children].map(c => c.textContent.split('(')[0])])")
    assert shown and browser.messages == []
    if kind in ("value", "result"):
        assert shown[0] == ["differs", told["function"], told["function"]]
        assert all(row[0] in ("same", "inside") and row[1] == row[2] for row in shown[1:])
    else:
        only = "good" if kind == "missing" else "bad"
        assert shown[0] == [only] + ([told["function"], ""] if kind == "missing" else ["", told["function"]])
        behind = next(i for i, row in enumerate(shown) if row[0] != only)
        assert all(row[0] in ("same", "inside") and row[1] == row[2] for row in shown[behind:])
    if kind != "missing":
        expected = calls_from(bad, told["call"], told["tid"])
        of_bad = [row[2] for row in shown if row[2]]
        assert of_bad == expected[:len(of_bad)] and len(of_bad) >= min(150, len(expected))


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Of a program that calls itself thirty times, with long parameters."""
    folder = tmp_path_factory.mktemp("deep")
    (folder / "deep.c").write_text("""#include <stdlib.h>
__attribute__((noinline)) int descend(const char *a_parameter_with_a_long_name, int depth, int wrong)
{
	return depth ? descend(a_parameter_with_a_long_name, depth - 1, depth == 3 ? wrong : 0) + 1 : wrong;
}
int main(int argc, char **argv) { return descend("some text of some length, with words", 30, atoi(argv[1])) == 0; }
""")
    subprocess.run(["gcc", "-O0", "-g", folder / "deep.c", "-o", folder / "deep"], check=True, timeout=WAIT)
    for name in ("0", "7"):
        subprocess.run([WATCHCTL, "step", "-q", "-o", folder / name, "--", folder / "deep", name], timeout=WAIT, check=True)
    return page_of(folder / "0", folder / "7", folder / "page.html")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
def test_words_stay_whole_however_deep_and_narrow(browser, deep, width, scheme):
    show(browser, deep, width, scheme)
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= width
    broken = browser.run("""[...document.querySelectorAll('.cell, td, th, pre, p, h2, .side')].filter(e => {
        const range = document.createRange(), text = e.textContent.trim();
        range.selectNodeContents(e);
        const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top))).size;
        return lines > 4 && lines > text.length / 8;
    }).map(e => e.textContent)""")
    assert [text for text in broken if "\n" not in text] == []  # those are stacks: a line a frame
    assert browser.messages == []
    light = int(re.search(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor"))[0]) > 128
    assert light == (scheme == "light")
