/* The tables: sites, threads, tags, accesses. */

const TABS = [
	{ key: "sites", name: "Sites", show: siteTable, has: () => D.sites.length },
	{ key: "stacks", name: "Stacks", show: stackTree, has: () => D.stacks.length },
	{ key: "flame", name: "Flame graph", show: stackFlame, has: () => D.stacks.length },
	{ key: "threads", name: "Threads", show: threadTable, has: () => D.threads.length },
	{ key: "tags", name: "Tags", show: tagTable, has: () => D.tags.length },
	{ key: "accesses", name: D.captures && !D.accesses ? "Captures" : "Accesses", show: eventTable, has: () => D.events },
];

/* Said where numbers are of a share of the log only. */
const partNote = () => pass.exact ? "" : " (in the time line's share: 1 of " + D.stride + ")";

function siteTable(panel) {
	const sums = sumBy(c => C.place[c], isAccess), several = D.watches.filter(w => w.accesses).length > 1;
	const rows = [...sums].filter(([i]) => i >= 0).map(([i, n]) => ({ i, n, s: D.sites[i] }));
	const threads = new Map();
	for (let c = 0; c < C.n; c++)
		if (passed[c] && isAccess(c)) {
			if (!threads.has(C.place[c]))
				threads.set(C.place[c], new Set());
			threads.get(C.place[c]).add(C.thread[c]);
		}
	const threadsOf = r => narrowed() ? threads.get(r.i).size : r.s.threads;
	const value = (s, v) => s[v] === undefined ? "" : V[s.watch].hex(s[v]);
	const columns = [
		{ name: "Count", n: true, sortFirst: true, value: r => r.n, cell: r => count(r.n) },
		{ name: "Kind", value: r => r.s.kind, cell: r => [kindCell(r.s.kind), r.s.kernel ? el("div", { class: "sub" }, "by the kernel" + (r.s.syscall ? ": " + r.s.syscall : "")) : ""] },
		...(several ? [{ name: "Watch", value: r => r.s.watch, cell: r => D.watches[r.s.watch].name }] : []),
		{ name: "Place", class: "place", value: r => siteName(r.s), cell: r => [linkButton(siteName(r.s), "only " + siteName(r.s) + ", " + KIND[r.s.kind].name,
			() => change({ site: S.site === String(r.i) ? undefined : String(r.i), tag: undefined })),
		el("div", { class: "sub" }, siteLine(r.s) || base(r.s.module) || "", r.s.after ? " (where execution went on: the instruction is not known)" : "")] },
		{ name: "Instruction", class: "mono", value: r => r.s.insn || "", cell: r => r.s.insn || "" },
		{ name: "Threads", n: true, value: threadsOf, cell: r => count(threadsOf(r)) },
		{ name: "Last", class: "mono", value: r => value(r.s, "new"), cell: r => r.s.old === undefined || (r.s.old === r.s.new && !r.s.old_uncertain) ? value(r.s, "new") : (r.s.old_uncertain ? "~" : "") + value(r.s, "old") + " → " + value(r.s, "new") },
	];
	panel.append(sortedTable("sites", plural(rows.length, "site") + partNote(), columns, rows,
		r => S.site === String(r.i) ? { class: "current", "aria-current": "true" } : {}));
	if (D.sites_left_out)
		panel.append(el("p", { class: "hint" }, "Sites beyond the first " + count(D.sites.length) + " are not in this page: " + count(D.sites_left_out) + " accesses."));
}

function threadTable(panel) {
	const accesses = sumBy(c => C.thread[c], isAccess), captures = sumBy(c => C.thread[c], isCapture), kinds = sumBy(c => C.thread[c] * 8 + C.kind[c], isAccess);
	const rows = [...new Set([...accesses.keys(), ...captures.keys()])].map(i => ({ i, a: accesses.get(i) || 0, c: captures.get(i) || 0 }));
	const kind = k => ({ name: ["Unknown", "Reads", "Writes", "Read and write", "Executions"][k], n: true, value: r => kinds.get(r.i * 8 + k) || 0, cell: r => count(kinds.get(r.i * 8 + k) || 0) });
	const used = [1, 2, 3, 4, 0].filter(k => D.sites.some(s => s.kind === k));
	const columns = [
		{ name: "Thread", value: r => r.i < 0 ? Infinity : D.threads[r.i][1], cell: r => r.i < 0 ? threadName(r.i) : linkButton(threadName(r.i), "only thread " + threadName(r.i),
			() => change({ thread: D.threads[r.i][0] + "." + D.threads[r.i][1] })) },
		{ name: "Process", n: true, value: r => r.i < 0 ? 0 : D.threads[r.i][0], cell: r => r.i < 0 ? "" : String(D.threads[r.i][0]) },
		{ name: "Accesses", n: true, sortFirst: true, value: r => r.a + r.c / 1e9, cell: r => count(r.a) },
		...used.map(kind),
		...(D.captures ? [{ name: "Captures", n: true, value: r => r.c, cell: r => count(r.c) }] : []),
	];
	const known = rows.filter(r => r.i >= 0).length;
	panel.append(sortedTable("threads", (known < rows.length ? plural(known, "thread") + ", and others" : plural(known, "thread")) + partNote(), columns, rows));
}

function tagTable(panel) {
	const sums = sumBy(c => C.place[c], isCapture), rows = [...sums].map(([i, n]) => ({ i, n }));
	const name = r => r.i < 0 ? "other tags" : D.tags[r.i].name;
	const columns = [
		{ name: "Count", n: true, sortFirst: true, value: r => r.n, cell: r => count(r.n) },
		{ name: "Tag", class: "place", value: name, cell: r => r.i < 0 ? name(r) : linkButton(name(r), "only the tag " + name(r), () => change({ tag: String(r.i), site: undefined })) },
	];
	panel.append(sortedTable("tags", plural(rows.length, "tag") + partNote(), columns, rows));
}

const PAGE = 100;
let firstShown = 0; /* among those that pass */

/* Where the @n-th event that passes is. */
function nthPassed(n) {
	for (let i = 0; i < E.n; i++)
		if (pass.event[i] && n-- === 0)
			return i;
	return -1;
}

function eventTable(panel) {
	if (!E)
		return;
	if (firstShown >= pass.n)
		firstShown = 0;
	const rows = [];
	for (let i = pass.n ? nthPassed(firstShown) : -1; i >= 0 && rows.length < PAGE; i = step(i, 1))
		rows.push(i);
	const turn = to => {
		firstShown = Math.max(0, Math.min(Math.floor((pass.n - 1) / PAGE) * PAGE, to));
		showTab();
	};
	const button = (text, label, to, off) => el("button", { type: "button", "aria-label": label, disabled: off, onclick: () => turn(to) }, text);
	const several = D.watches.filter(w => w.accesses).length > 1, none = firstShown === 0, end = firstShown + PAGE >= pass.n;
	panel.append(el("div", { class: "pager" }, button("« first", "first page", 0, none), button("‹", "page before", firstShown - PAGE, none),
		el("span", {}, pass.n ? count(firstShown + 1) + " to " + count(firstShown + rows.length) + " of " + count(pass.n) : "none"),
		button("›", "next page", firstShown + PAGE, end), button("last »", "last page", pass.n, end)));
	const body = rows.map(i => {
		const c = E.what[i], site = C.capture[c] ? null : D.sites[C.place[c]], stack = D.stacks[C.stack[c]];
		const where = site ? siteName(site) : stack && stack.length > 1 ? frameName(stack[1]) : "";
		return el("tr", { class: "pick" + (i === chart.selected ? " current" : ""), onclick: e => e.target.closest("button") || select(i, true) },
			el("td", { class: "n mono" }, linkButton(timeText(E.t[i]), "details of the access at " + timeText(E.t[i]), () => select(i, true))),
			el("td", {}, C.capture[c] ? "# " + (D.tags[C.place[c]] || { name: "other tag" }).name : kindCell(C.kind[c])),
			several ? el("td", {}, C.watch[c] < 0 ? "" : D.watches[C.watch[c]].name) : null,
			el("td", { class: "mono" }, C.capture[c] ? newText(i) : valueChange(i)),
			el("td", {}, threadName(C.thread[c])), el("td", { class: "place" }, where));
	});
	panel.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accesses" }, el("table", {},
		el("caption", {}, "Accesses and captures in the order of their times" + (D.stride > 1 ? "; of this log 1 of " + D.stride + ", and those kept with registers" : "")),
		el("thead", {}, el("tr", {}, ...["Time", "Kind", ...(several ? ["Watch"] : []), "Value", "Thread", "Place"].map((t, i) => el("th", { scope: "col", class: i ? null : "n" }, t)))),
		el("tbody", {}, ...body))));
}
