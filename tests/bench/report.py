"""From what the rounds measured to the table and to JSON."""

import statistics


def ratio(row, reference):
    """The median over the rounds that both have, and its spread; None without such a round."""
    both = [row.values[n] / reference.values[n] for n in row.values if n in reference.values]
    if not both:
        return None
    return {"median": statistics.median(both), "least": min(both), "most": max(both), "rounds": len(both)}


class Target:
    """A claim: cost of `row` over cost of `reference` is at most (at least) `limit`.

    `bound` names a row that no recorder of this kind can beat; put in the place of `reference` it gives the
    best ratio that this machine allows.
    """

    def __init__(self, row, reference, sense, limit, bound=None):
        self.row, self.reference, self.sense, self.limit, self.bound = row, reference, sense, limit, bound

    def judge(self, rows):
        claim = {"row": self.row, "over": self.reference, "target": f"{self.sense} {self.limit:g}"}
        row, reference = rows.get(self.row), rows.get(self.reference)
        found = ratio(row, reference) if row and reference else None
        if not found:
            problem = [r.problem for r in (row, reference) if r and r.problem]
            return {**claim, "skipped": problem[0] if problem else "not measured"}
        met = found["median"] <= self.limit if self.sense == "<=" else found["median"] >= self.limit
        if self.bound in rows:
            best = ratio(row, rows[self.bound])
            if best:
                claim["possible"] = best["median"]
        return {**claim, **found, "met": met}


def duration(ns):
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.{2 if ns < 10 * size else 1}f} {unit}"
    return f"{ns:.2f} ns"


def factor(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


QUIET = 1.05  # on a quiet machine the rounds of the floor differ by less
FREE = 1.15  # ... and a second thread, on a CPU of its own, makes a hit of the first less dear than that


class Result:
    def __init__(self, about, rows, server_rows, targets):
        self.about = about
        self.rows = rows
        self.server_rows = server_rows
        self.by_name = {row.name: row for row in rows}
        self.claims = [t.judge(self.by_name) for t in targets if t.row in self.by_name]

    def _rows_json(self, rows):
        out = []
        for row in rows:
            o = {"name": row.name}
            if row.problem:
                o["skipped"] = row.problem
            if row.values:
                o["ns"] = statistics.median(row.values.values())
                o["rounds_ns"] = list(row.values.values())
                o["hits"] = row.hits
                if row.tool and row.tool.program is None:
                    o["lost"] = row.lost
            out.append(o)
        return out

    def as_json(self):
        return {
            "machine": {**self.about, "noise": self.noise(), "crowding": self.crowding()},
            "rows": self._rows_json(self.rows),
            "server": self._rows_json(self.server_rows),
            "targets": self.claims,
        }

    def print(self, out):
        about = self.about
        print(f"{about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}; load before {about['load_before']}", file=out)
        print(f"measured for {about['seconds']} s; medians of {about['rounds']} rounds", file=out)
        self._print_noise(out)
        print(file=out)
        self._print_hits(out)
        self._print_server(out)
        print_claims(self.claims, out)

    def noise(self):
        """How far the rounds of the floor are apart; None: not measured."""
        floor = self.by_name.get("floor")
        return max(floor.values.values()) / min(floor.values.values()) if floor and floor.values else None

    def crowding(self):
        """What a hit costs with two threads over what it costs with one; None: not measured, or one CPU."""
        one, two = self.by_name.get("floor"), self.by_name.get("floor, 2 threads")
        over = ratio(two, one) if one and two and self.about["cpus"] > 1 else None
        return over["median"] if over else None

    def _print_noise(self, out):
        noise, crowding = self.noise(), self.crowding()
        if noise and noise > QUIET:
            print(f"NOISY: the same floor took {100 * (noise - 1):.0f} % longer in one round than in another", file=out)
        if crowding and crowding > FREE:
            print("NOISY: other programs kept a CPU busy: what a recorder does there is taken from the victim", file=out)

    def _print_hits(self, out):
        floor = self.by_name.get("floor")
        print(f"{'PER HIT':24}{'cost':>11}{'least':>11}{'most':>11}{'x floor':>9}{'hits':>10}", file=out)
        for row in self.rows:
            if not row.values:
                print(f"{row.name:24}  skipped: {row.problem}", file=out)
                continue
            values = list(row.values.values())
            cells = "".join(f"{duration(v):>11}" for v in (statistics.median(values), min(values), max(values)))
            over = ratio(row, floor) if floor else None
            # Of two threads the cost is each one's own; of a loop that does not trap, there is no such ratio.
            over = factor(over["median"]) if over and values[0] > 500 else ""
            print(f"{row.name:24}{cells}{over:>9}{row.hits:>10}{self._note(row)}", file=out)

    def _print_server(self, out):
        rows = [row for row in self.server_rows if row.values or row.problem]
        if not rows:
            return
        bare = rows[0]
        print(f"\n{'REDIS-SERVER, SET -P 16':27}{'commands/s':>12}{'of bare':>10}", file=out)
        for row in rows:
            if not row.values:
                print(f"{row.name:27}  skipped: {row.problem}", file=out)
                continue
            rate = 1e9 / statistics.median(row.values.values())
            share = ratio(bare, row)
            share = f"{100 * share['median']:.2f} %" if share else ""
            print(f"{row.name:27}{rate:>12,.0f}{share:>10}{self._note(row)}", file=out)

    @staticmethod
    def _note(row):
        note = f"  {row.lost} LOST" if row.lost else ""
        return note + (f"  gave up: {row.problem}" if row.problem else "")


def print_claims(claims, out):
    names = [f"{c['row']} / {c['over']}" for c in claims]
    width = max([48, *(len(name) + 1 for name in names)])
    print(f"\n{'TARGET':{width}}{'ratio':>8}{'least':>9}{'most':>9}{'target':>10}", file=out)
    for c, name in zip(claims, names):
        if "skipped" in c:
            print(f"{name:{width}}  skipped: {c['skipped']}", file=out)
            continue
        cells = f"{factor(c['median']):>8}{factor(c['least']):>9}{factor(c['most']):>9}{c['target']:>10}"
        verdict = "met" if c["met"] else "NOT met"
        if not c["met"] and "possible" in c:
            verdict += f" (an empty handler: {factor(c['possible'])})"
        print(f"{name:{width}}{cells}  {verdict}", file=out)
