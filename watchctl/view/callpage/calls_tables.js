/* The tables: functions, calls, what else happened. */

const TABS = [
	{ key: "tree", name: "Call tree", show: treeTab, has: () => N },
	{ key: "flame", name: "Flame graph", show: flameTab, has: () => N },
	{ key: "functions", name: "Functions", show: functionTable, has: () => N },
	{ key: "calls", name: "Calls", show: callTable, has: () => N },
	{ key: "marks", name: "Signals", show: markTable, has: () => D.marks.length },
];

const sourceOf = f => f.file === undefined ? base(f.module) : base(f.file) + (f.line ? ":" + f.line : "");

function functionTable(panel) {
	const columns = [
		{ name: "total", n: true, sortFirst: true, value: s => s.total, cell: s => spanText(s.total) },
		{ name: "self", n: true, value: s => s.self, cell: s => spanText(s.self) },
		{ name: "calls", n: true, value: s => s.calls, cell: s => count(s.calls) },
		{ name: "longest", n: true, class: "hide-small", value: s => s.max, cell: s => linkButton(spanText(s.max), "the longest call of " + s.f.name, () => goTo(s.longest)) },
		{ name: "function", class: "place", value: s => s.f.name, cell: s => [linkButton(s.f.name, "search " + s.f.name, () => change({ q: s.f.name, tab: "calls" })), " ",
			el("span", { class: "sub data" }, sourceOf(s.f) + (s.f.over ? ", stepped over" : ""))] },
	];
	panel.append(sortedTable("functions", "Functions; of those that call themselves, total is that of the outermost calls", columns, functionSums().filter(s => !hits.on || hits.fns[s.fn] || !hits.fns.includes(1))));
}

const PAGE_ROWS = 100;
let firstShown = 0;

/* The calls that are listed, from the @skip-th on. */
function listedCalls(skip, n) {
	const out = [];
	for (let i = 0; i < N && out.length < n; i++)
		if (inThread(i) && (!hits.on || hits.call[i]) && skip-- <= 0)
			out.push(i);
	return out;
}

const listedCount = () => hits.on ? hits.n : S.thread === undefined ? N : lanes[Number(S.thread)].calls;

function pager(all) {
	const to = at => () => {
		firstShown = Math.max(0, Math.min(at, all - 1));
		showTab();
	};
	const button = (name, at, off) => el("button", { type: "button", disabled: off, onclick: to(at) }, name);
	const last = Math.max(0, Math.floor((all - 1) / PAGE_ROWS) * PAGE_ROWS);
	return el("div", { class: "pager" }, button("First", 0, !firstShown), button("Previous", firstShown - PAGE_ROWS, !firstShown),
		el("span", {}, all ? count(firstShown + 1) + "–" + count(Math.min(all, firstShown + PAGE_ROWS)) + " of " + plural(all, "call") : "no calls"),
		button("Next", firstShown + PAGE_ROWS, firstShown >= last), button("Last", last, firstShown >= last));
}

function callRow(i) {
	return el("tr", { class: "pick" + (i === chart.selected ? " current" : ""), onclick: () => goTo(i) }, el("td", { class: "n" }, count(logNumber(i))),
		el("td", { class: "n hide-small" }, timeText(C.begin[i])), el("td", { class: "n" }, spanText(duration(i))), el("td", { class: "hide-small data" }, threadName(C.thread[i])),
		el("td", { class: "call-line data" }, linkButton(callLine(i), "call " + logNumber(i), e => {
			e.stopPropagation();
			goTo(i);
		})));
}

function callTable(panel) {
	const all = listedCount();
	panel.append(pager(all), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Calls" }, el("table", {},
		el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "n" }, "call"), el("th", { scope: "col", class: "n hide-small" }, "time"), el("th", { scope: "col", class: "n" }, "took"),
			el("th", { scope: "col", class: "hide-small" }, "thread"), el("th", { scope: "col" }, "call"))),
		el("tbody", {}, ...listedCalls(firstShown, PAGE_ROWS).map(callRow)))));
}

function markTable(panel) {
	const columns = [
		{ name: "time", n: true, value: m => -m[1], sortFirst: true, cell: m => timeText(m[1]) },
		{ name: "thread", value: m => threadName(m[0]) },
		{ name: "what", class: "place", value: m => textOf(m[3]) },
		{ name: "in call", class: "place", value: m => m[2], cell: m => callOf(m[2]) >= 0 ? linkButton(fnName(callOf(m[2])), "call " + m[2], () => goTo(callOf(m[2]))) : "" },
	];
	panel.append(sortedTable("marks", "Signals, and where threads were blocked when the recording gave up", columns, D.marks));
}
