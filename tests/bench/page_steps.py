"""The report page of many calls: making it, and opening it in a headless Chromium.

A step log of so many calls in four threads is generated; the page is made of it, and opened several times in a fresh
browser each. Painted: the first picture of all calls; ready: parameters and sums can be shown. Frame: drawing the picture
anew, of all calls and zoomed to a hundredth. Times are those of the page's own clock, from when the browser began to
load it.
"""

import subprocess
import time

import page_bench
from page_bench import chromium_py

FRAMES = 20


def make(args, folder):
    recorded, page = folder / "log", folder / "page.html"
    subprocess.run([args.generator, "-n", str(args.n), "-t", "4", str(recorded)], check=True, stdout=subprocess.DEVNULL)
    begun = time.monotonic()
    subprocess.run([args.watchctl, "report", str(recorded), "--html", str(page)], check=True)
    return page, {"make_s": round(time.monotonic() - begun, 2), **page_bench.sizes(recorded, page)}


def frame_ms(browser):
    """A window that is resized draws anew: the time of one frame, from the frames in a second of that."""
    return browser.run(f"""(async () => {{
        const lanes = document.getElementById('lanes'), times = [];
        for (let i = 0; i < {FRAMES}; i++) {{
            lanes.dispatchEvent(new Event('scroll'));
            await new Promise(done => requestAnimationFrame(() => {{
                const begun = performance.now();
                setTimeout(() => {{ times.push(performance.now() - begun); done(); }}, 0);
            }}));
        }}
        return times.sort((a, b) => a - b)[{FRAMES} / 2];
    }})()""")


def look(page, calls):
    with chromium_py.Browser((1400, 1000)) as browser:
        browser.open(page)
        data = "document.documentElement.dataset."
        assert int(browser.run(data + "calls")) >= calls and not browser.messages, browser.messages
        row = {"painted_ms": int(browser.run(data + "paintedMs")), "ready_ms": int(browser.run(data + "readyMs")), "frame_ms": frame_ms(browser)}
        begun = time.monotonic()
        browser.run("location.hash = '#q=parse_value'")
        browser.wait(data + "found !== '0'")
        return row | {"search_ms": round((time.monotonic() - begun) * 1000)}


def words(row):
    return (f"{row['calls']} calls, log {row['log_mb']} MB: page of {row['page_mb']} MB made in {row['make_s']} s; opens: painted after "
            f"{row['painted_ms']} ms, values and sums after {row['ready_ms']} ms; drawing takes {row['frame_ms']} ms, a search {row['search_ms']} ms")


if __name__ == "__main__":
    page_bench.run(__doc__, "calls", make, look, words)
