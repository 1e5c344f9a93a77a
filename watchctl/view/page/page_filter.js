/* What is shown: kept in the fragment of the address, so that it can be shared and Back works. */

const NAMES = ["q", "caller", "value", "thread", "watch", "time", "kind", "changes", "site", "tag", "event", "view", "tab"];
let S = {}; /* of these, those that are set: texts */

/* Which events pass, for each 0 or 1; combinations, the same; and how many events passed. */
const pass = { combo: new Uint8Array(C.n).fill(1), event: null, n: 0, exact: true, bad: "" };

/* "0.5..1.2", "..3", "2.." in seconds -> [from, to] in ns; null: not understood. */
function parseTime(text) {
	const m = /^\s*([\d.eE+-]*?)\s*(?:s\s*)?\.\.\s*([\d.eE+-]*)\s*s?\s*$/.exec(text);
	if (!m)
		return null;
	const from = m[1] === "" ? 0 : Number(m[1]) * 1e9, to = m[2] === "" ? Infinity : Number(m[2]) * 1e9;
	return isNaN(from) || isNaN(to) || from > to ? null : [from, to];
}

const NUMBER = /^[+-]?(0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?)$/i;

function toNumber(text) {
	const t = text.trim(), negative = t.startsWith("-");
	return NUMBER.test(t) ? (negative ? -1 : 1) * Number(t.replace(/^[+-]/, "")) : NaN;
}

/* A test of a value: of its number, or with @text of how it is written. */
function parseValue(text) {
	const t = text.trim();
	let m;
	if ((m = /^(-?[\w.]+?)\.\.(-?[\w.]+)$/.exec(t))) {
		const a = toNumber(m[1]), b = toNumber(m[2]);
		if (!isNaN(a) && !isNaN(b))
			return { number: v => v >= a && v <= b };
	}
	if ((m = /^(!=|==?|>=|<=|>|<)\s*(.+)$/.exec(t))) {
		const b = toNumber(m[2]), test = { "!=": v => v !== b, "=": v => v === b, "==": v => v === b,
			">=": v => v >= b, "<=": v => v <= b, ">": v => v > b, "<": v => v < b }[m[1]];
		if (!isNaN(b))
			return { number: test };
		const name = m[2].toLowerCase();
		if (m[1] === "!=")
			return { text: s => s.toLowerCase() !== name };
		return m[1].startsWith("=") ? { text: s => s.toLowerCase() === name } : null;
	}
	if (/^0x[0-9a-f]+$/i.test(t)) {
		const [lo, hi] = hexParts(t);
		return { exact: [lo, hi] };
	}
	const n = toNumber(t);
	if (!isNaN(n))
		return { number: v => v === n };
	const name = t.toLowerCase();
	return { text: s => s.toLowerCase().includes(name) };
}

function matchesText(c, words) {
	const site = C.capture[c] ? null : D.sites[C.place[c]], tag = C.capture[c] ? D.tags[C.place[c]] : null;
	const stack = D.stacks[C.stack[c]], thread = D.threads[C.thread[c]];
	const all = [site ? [site.function, site.inlined, site.file, siteLine(site), site.insn, site.module, site.syscall,
		D.watches[site.watch].name].join(" ") : "", tag ? tag.name : "",
	thread ? thread[1] + " " + thread[2] : "",
	stack ? stack.slice(1).map(f => frameName(f) + " " + frameLine(f)).join(" ") : ""].join(" ").toLowerCase();
	return words.every(w => all.includes(w));
}

function callerTest(text) {
	const want = text.toLowerCase(), known = new Map();
	return stack => {
		if (stack < 0)
			return false;
		let yes = known.get(stack);
		if (yes === undefined) {
			yes = D.stacks[stack].slice(1).some(f => frameName(f).toLowerCase().includes(want));
			known.set(stack, yes);
		}
		return yes;
	};
}

function filterCombos() {
	const words = (S.q || "").toLowerCase().split(/\s+/).filter(w => w);
	const caller = S.caller ? callerTest(S.caller) : null, kinds = S.kind;
	const site = S.site === undefined ? -1 : Number(S.site), tag = S.tag === undefined ? -1 : Number(S.tag);
	const watch = S.watch === undefined ? -1 : Number(S.watch);
	const thread = S.thread;
	for (let c = 0; c < C.n; c++) {
		const h = D.threads[C.thread[c]];
		pass.combo[c] = (site < 0 || (!C.capture[c] && C.place[c] === site)) &&
			(tag < 0 || (C.capture[c] && C.place[c] === tag)) &&
			(watch < 0 || C.watch[c] === watch) &&
			(!kinds || (!C.capture[c] && kinds.includes(KIND[C.kind[c]].key))) &&
			(!thread || (h && (h[0] + "." + h[1] === thread || h[2] === thread))) &&
			(!caller || caller(C.stack[c])) &&
			(!words.length || matchesText(c, words)) ? 1 : 0;
	}
}

function valueTest() {
	const test = S.value ? parseValue(S.value) : null, memo = D.watches.map(() => new Map());
	if (S.value && !test)
		pass.bad = "The value is not understood.";
	if (!test)
		return null;
	return i => {
		const c = E.what[i], w = C.watch[c], isNew = E.flags[i] & HAS_NEW;
		if (!(E.flags[i] & 3))
			return false;
		const lo = isNew ? E.newLo[i] : E.oldLo[i], hi = isNew ? E.newHi[i] : E.oldHi[i];
		if (test.exact)
			return lo === test.exact[0] && hi === test.exact[1];
		if (test.number)
			return test.number(w < 0 ? hi * 4294967296 + lo : V[w].number(lo, hi));
		if (w < 0)
			return false;
		const key = keyOf(lo, hi);
		let yes = memo[w].get(key);
		if (yes === undefined) {
			yes = test.text(V[w].text(lo, hi));
			if (memo[w].size < 100000)
				memo[w].set(key, yes);
		}
		return yes;
	};
}

const narrowed = () => ["q", "caller", "value", "thread", "watch", "time", "kind", "changes", "site", "tag"].some(n => S[n]);

/* Of the whole log as C has counted it, as long as neither value nor time are asked for. */
const countsAreWhole = () => !S.value && !S.time && !S.changes;

function applyFilter() {
	pass.bad = "";
	filterCombos();
	const time = S.time ? parseTime(S.time) : null, value = valueTest();
	if (S.time && !time)
		pass.bad = "The time is not understood: 0.5..1.2 are seconds since the beginning.";
	if (!E)
		return;
	if (!pass.event)
		pass.event = new Uint8Array(E.n);
	const from = time ? time[0] : -1, to = time ? time[1] : Infinity, onlyChanges = !!S.changes;
	let n = 0;
	for (let i = 0; i < E.n; i++) {
		const yes = pass.combo[E.what[i]] && E.t[i] >= from && E.t[i] <= to && (!onlyChanges || changes(i)) &&
			(!value || value(i));
		pass.event[i] = yes ? 1 : 0;
		n += pass.event[i];
	}
	pass.n = n;
	countCombos();
}

/* How many of each combination pass. Exact, unless the time line is only a share of the log. */
const passed = new Float64Array(C.n);

function countCombos() {
	passed.fill(0);
	pass.exact = countsAreWhole() || D.stride === 1;
	if (countsAreWhole()) {
		for (let c = 0; c < C.n; c++)
			passed[c] = pass.combo[c] ? C.total[c] : 0;
		return;
	}
	for (let i = 0; i < E.n; i++)
		if (pass.event[i])
			passed[E.what[i]]++;
}

function sumBy(key, want) {
	const sums = new Map();
	for (let c = 0; c < C.n; c++)
		if (passed[c] && want(c))
			sums.set(key(c), (sums.get(key(c)) || 0) + passed[c]);
	return sums;
}

const isAccess = c => !C.capture[c], isCapture = c => C.capture[c] === 1;
const passedAccesses = () => passed.reduce((n, v, c) => n + (isAccess(c) ? v : 0), 0);
const passedCaptures = () => passed.reduce((n, v, c) => n + (isCapture(c) ? v : 0), 0);
