"""What the measurements of pages share: a log is generated, its page is made, and opened several times."""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import chromium_py  # noqa: E402

ROUNDS = 3


def sizes(recorded, page):
    return {"log_mb": round(sum(f.stat().st_size for f in recorded.iterdir()) / 1e6, 1),
            "page_mb": round(page.stat().st_size / 1e6, 1)}


def run(doc, what, make, look, words):
    """@make(args, folder) -> the page, what it took; @look(page, n) -> one opening; medians of these. @words: a row as text."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--" + what, dest="n", type=int, default=1000000)
    parser.add_argument("--json")
    args = parser.parse_args()
    why = chromium_py.missing()
    if why:
        sys.exit(f"the page is not opened: {why}")
    folder = Path(tempfile.mkdtemp(prefix="watchctl-page-"))
    try:
        page, row = make(args, folder)
        rounds = [look(page, args.n) for _ in range(ROUNDS)]
    finally:
        shutil.rmtree(folder)
    row |= {key: round(statistics.median(r[key] for r in rounds), 1) for key in rounds[0]}
    row[what] = args.n
    print(words(row))
    if args.json:
        Path(args.json).write_text(json.dumps(row, indent=1) + "\n")
