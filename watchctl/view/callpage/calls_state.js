/* What is chosen: kept in the address (page_fragment.js); and which calls the search finds. */

const NAMES = ["q", "thread", "by", "call", "view", "tab"];
let S = readFragment();

/* For each call 0 or 1; and how many of them come before each place of rows.calls. */
const hits = { on: false, call: new Uint8Array(N), before: new Uint32Array(N + 1), n: 0, fns: new Uint8Array(D.functions.length) };

/* Calls of functions whose name has the text in it, and those with it in a value. */
function search() {
	const text = (S.q || "").trim().toLowerCase();
	hits.on = text !== "";
	hits.n = 0;
	hits.call.fill(0);
	hits.fns.fill(0);
	if (!hits.on)
		return;
	D.functions.forEach((f, i) => { hits.fns[i] = (f.full || f.name).toLowerCase().includes(text); });
	const { at, v, text: texts } = values(), found = new Uint8Array(texts.length + FIRST_TEXT);
	texts.forEach((t, i) => { found[i + FIRST_TEXT] = t.toLowerCase().includes(text); });
	for (let i = 0; i < N; i++) {
		if (!inThread(i))
			continue;
		let hit = hits.fns[C.fn[i]];
		for (let k = at[i]; !hit && k < at[i + 1]; k++)
			hit = found[v[k]];
		hits.call[i] = hit;
		hits.n += hit;
	}
	for (let k = 0; k < N; k++)
		hits.before[k + 1] = hits.before[k] + hits.call[rows.calls[k]];
}

/* The next call found, from call @i on in that direction; around the end, the first one. */
function hitFrom(i, by) {
	for (let k = 0; k < N; k++) {
		i = (i + by + N) % N;
		if (hits.call[i])
			return i;
	}
	return -1;
}

function goToHit(by) {
	if (!hits.n)
		return;
	goTo(hitFrom(chart.selected >= 0 ? chart.selected : by > 0 ? -1 : 0, by));
}

/* Some of S become other values; undefined or "": not set. */
function change(to) {
	for (const [name, value] of Object.entries(to)) {
		if (value === undefined || value === "")
			delete S[name];
		else
			S[name] = value;
	}
	writeFragment(true);
	showAll(to);
}

/* Everything that depends on what is chosen. */
function showAll(changed) {
	if (!changed || "q" in changed || "thread" in changed) {
		search();
		firstShown = 0;
	}
	if (!changed || "by" in changed || "thread" in changed)
		layout();
	if (!changed || "by" in changed)
		setView(...chart.home);
	fillForm();
	showChosen();
	showTab();
	showDetail();
	redraw();
}

function showChosen() {
	const all = D.calls === D.all_calls ? "" : " in this page";
	$("shown").textContent = hits.on ? count(hits.n) + " of " + plural(N, "call") + all + " found" : "";
	document.documentElement.dataset.found = hits.n;
}
