"""The report page of a large log: making it, and opening it in a headless Chromium.

A log of so many accesses with registers and stacks of 16 frames is generated; the page is made of it, and opened
several times in a fresh browser each. Painted: the first picture, from what was summed up in C; ready: every
single access can be filtered. Times are those of the page's own clock, from when the browser began to load it.
"""

import subprocess
import time

import page_bench
from page_bench import chromium_py


def make(args, folder):
    recorded, page = folder / "log", folder / "page.html"
    subprocess.run([args.generator, "-n", str(args.n), str(recorded)], check=True)
    begun = time.monotonic()
    run = subprocess.run(["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys\n"
                          "r = subprocess.call(sys.argv[1:])\n"
                          "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\nsys.exit(r)",
                          args.watchctl, "report", str(recorded), "--html", str(page)], check=True, capture_output=True, text=True)
    return page, {"make_s": round(time.monotonic() - begun, 2), "make_rss_mb": int(run.stdout) // 1024,
                  **page_bench.sizes(recorded, page)}


def look(page, accesses):
    with chromium_py.Browser() as browser:
        browser.open(page)
        data = "document.documentElement.dataset."
        assert int(browser.run(data + "accesses")) == accesses and not browser.messages, browser.messages
        begun = time.monotonic()
        browser.run("location.hash = '#kind=w'")
        browser.wait(f"{data}accesses !== '{accesses}'")
        return {"painted_ms": int(browser.run(data + "paintedMs")), "ready_ms": int(browser.run(data + "readyMs")),
                "filter_ms": round((time.monotonic() - begun) * 1000)}


def words(row):
    return (f"{row['accesses']} accesses, log {row['log_mb']} MB: page of {row['page_mb']} MB made in {row['make_s']} s with "
            f"{row['make_rss_mb']} MB; opens: painted after {row['painted_ms']} ms, all accesses after {row['ready_ms']} ms; "
            f"a filter takes {row['filter_ms']} ms")


if __name__ == "__main__":
    page_bench.run(__doc__, "accesses", make, look, words)
