/* The choice, kept in the address (page_fragment.js); the path to it; and which units the search finds. */

const NAMES = ["q", "unit", "at", "only", "view"];
let S = readFragment();

const chosen = { unit: -1, path: null, units: new Set(), lanes: new Set() };
const hits = { on: false, unit: new Uint8Array(N), before: new Uint32Array(N + 1), n: 0 };

function choosePath() {
	const i = S.unit === undefined || !E ? -1 : unitOf(Number(S.unit)), at = Number(S.at);
	chosen.unit = i;
	chosen.path = i < 0 ? null : pathOf(i, S.at === undefined || !(at >= U.begin[i]) ? U.end[i] : Math.min(at, U.end[i]));
	chosen.units = new Set(chosen.path ? chosen.path.steps.map(s => s.unit) : []);
	chosen.lanes = new Set([...chosen.units].map(u => U.lane[u]));
}

const laneHas = (lane, text) => String(tidOf(lane)) === text || String(pidOf(lane)) === text ||
	(lastName(lane) + "/" + tidOf(lane) + "\n" + processName(lane) + "\n" + D.threads[lane][4].filter((_, k) => k % 2).join("\n")).toLowerCase().includes(text);

/* Units of threads with that name or number, and those with the text in their words, in those of an edge into them, or in a stack of a wait. */
function search() {
	const text = (S.q || "").trim().toLowerCase();
	hits.on = text !== "" && E !== null;
	hits.n = 0;
	hits.unit.fill(0);
	if (!hits.on)
		return;
	const lane = D.threads.map((_, l) => laneHas(l, text)), found = new Uint8Array(texts.length + FIRST_TEXT);
	const kinds = D.kinds.map(k => k.replace("_", " ") === text);
	texts.forEach((t, k) => { found[k + FIRST_TEXT] = t.toLowerCase().includes(text); });
	const inStack = stacks.map(s => s !== null && s.frames.some(f => found[f]));
	for (let i = 0; i < N; i++) {
		let hit = lane[U.lane[i]] || found[U.words[i]];
		for (let e = E.start[i]; !hit && e < E.start[i + 1]; e++)
			hit = found[E.words[e]] || inStack[E.stack[e]] || kinds[E.kind[e]];
		hits.unit[i] = hit ? 1 : 0;
		hits.n += hit ? 1 : 0;
	}
	for (let k = 0; k < N; k++)
		hits.before[k + 1] = hits.before[k] + hits.unit[row.units[k]];
}

/* The next one from unit @i on, around the end the first. */
function goToHit(by) {
	let i = chosen.unit >= 0 ? chosen.unit : by > 0 ? -1 : 0;
	for (let k = 0; hits.n && k < N; k++) {
		i = (i + by + N) % N;
		if (hits.unit[i]) {
			goTo(i);
			return;
		}
	}
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
	if (!changed || "unit" in changed || "at" in changed)
		choosePath();
	if (!changed || "q" in changed)
		search();
	if (!changed || "only" in changed || S.only === "path")
		layout();
	fillForm();
	showDetail();
	redraw();
}
