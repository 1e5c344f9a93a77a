/* The data that C has put into the page, and how to read them: see flow_page_json.c and flow_page_impl.h. */

const N = D.units;
const signed = v => v % 2 ? -(v + 1) / 2 : v / 2;

/* The units in the order in which they began: nanoseconds since the page's begin, the lane, the graph's number, a text. */
const U = {
	begin: new Float64Array(N), end: new Float64Array(N), lane: new Uint32Array(N), id: new Uint32Array(N), words: new Uint32Array(N),
	part: new Uint8Array(N),
};

(function readUnits() {
	const next = reader(bytesOf("units"));
	for (let i = 0, ns = 0, id = -1; i < N; i++) {
		U.begin[i] = ns += signed(next());
		U.end[i] = ns + next();
		U.lane[i] = next();
		U.id[i] = id += next() + 1;
		U.words[i] = next();
		U.part[i] = next();
	}
})();

/* The units of a lane are row.units[row.start[lane]] to row.start[lane + 1]; row.at is the place of each unit, row.busy sums what they took. */
const L = D.threads.length;
const row = { start: new Uint32Array(L + 1), units: new Uint32Array(N), at: new Uint32Array(N), busy: new Float64Array(N + 1) };

(function sortRows() {
	for (let i = 0; i < N; i++)
		row.start[U.lane[i] + 1]++;
	for (let l = 0; l < L; l++)
		row.start[l + 1] += row.start[l];
	const used = row.start.slice();
	for (let i = 0; i < N; i++) {
		row.at[i] = used[U.lane[i]]++;
		row.units[row.at[i]] = i;
	}
	for (let k = 0; k < N; k++)
		row.busy[k + 1] = row.busy[k] + U.end[row.units[k]] - U.begin[row.units[k]];
})();

/*
 * The edges, when they are there: those into unit i are E.start[i] to E.start[i + 1], by the time at which they end. E.from is the unit, -1:
 * not known; those out of a unit are E.out[E.outStart[i]] and so on. E.strong counts those that are no waits: E.strong[e] are
 * before edge e, and E.rows[k] before place k of row.units.
 */
let E = null;
const BEGINS = 1, OWN = 2, OWNER = 8;
const KIND = Object.fromEntries(D.kinds.map((name, i) => [name, i]));
const isWait = e => E.kind[e] === KIND.wait_for;
const edgesOf = i => E ? [E.start[i], E.start[i + 1]] : [0, 0];

function readEdges() {
	const next = reader(bytesOf("edges")), n = D.edges;
	E = {
		start: new Uint32Array(N + 1), to: new Uint32Array(n), kind: new Uint8Array(n), flags: new Uint8Array(n), from: new Int32Array(n),
		at: new Float64Array(n), begin: new Float64Array(n), words: new Uint32Array(n), stack: new Uint32Array(n),
	};
	for (let i = 0, e = 0; i < N; i++) {
		E.start[i] = e;
		for (let left = next(); left > 0; left--, e++) {
			const state = next(), from = next();
			E.to[e] = i;
			E.kind[e] = state & 15;
			E.flags[e] = state >> 4;
			E.from[e] = from ? i - signed(from - 1) : -1;
			E.at[e] = U.begin[i] + signed(next());
			E.begin[e] = E.at[e] - next();
			E.words[e] = next();
			E.stack[e] = isWait(e) ? next() : 0;
		}
		sortEdges(E.start[i], e);
	}
	E.start[N] = n;
	countEdges(n);
}

/* They were found in about the order of time only. Those of one time stay in that order, which is that of flow_path.c. */
function sortEdges(a, b) {
	let e = a + 1;
	while (e < b && E.at[e - 1] <= E.at[e])
		e++;
	if (e >= b)
		return;
	const order = Array.from({ length: b - a }, (_, k) => a + k).sort((x, y) => E.at[x] - E.at[y]);
	for (const name of ["kind", "flags", "from", "at", "begin", "words", "stack"]) {
		const sorted = order.map(k => E[name][k]);
		E[name].set(sorted, a);
	}
}

function countEdges(n) {
	E.outStart = new Uint32Array(N + 1);
	for (let e = 0; e < n; e++)
		if (E.from[e] >= 0)
			E.outStart[E.from[e] + 1]++;
	for (let i = 0; i < N; i++)
		E.outStart[i + 1] += E.outStart[i];
	const used = E.outStart.slice();
	E.out = new Uint32Array(E.outStart[N]);
	for (let e = 0; e < n; e++)
		if (E.from[e] >= 0)
			E.out[used[E.from[e]]++] = e;
	E.strong = new Uint32Array(n + 1);
	for (let e = 0; e < n; e++)
		E.strong[e + 1] = E.strong[e] + (isWait(e) ? 0 : 1);
	E.rows = new Uint32Array(N + 1);
	for (let k = 0; k < N; k++) {
		const [a, b] = edgesOf(row.units[k]);
		E.rows[k + 1] = E.rows[k] + E.strong[b] - E.strong[a];
	}
}

/* Those of waits, by number: the text of the program's own function (0: not known), why there are no more frames (0: there are none), and the frames' texts. */
const stacks = [null];
const stackOf = e => stacks[E.stack[e]];

function readStacks() {
	const next = reader(bytesOf("stacks"));
	while (stacks.length <= D.stacks)
		stacks.push({ own: next(), end: next(), frames: Array.from({ length: next() }, next) });
}

/* The unit with that number in the graph; -1: it is not in the page. */
function unitOf(id) {
	const i = lowerBound(U.id, id);
	return i < N && U.id[i] === id ? i : -1;
}

/* The place in row.units of the first unit of @lane that ends after @t. */
function firstAfter(lane, t) {
	let low = row.start[lane], high = row.start[lane + 1];
	while (low < high) {
		const mid = (low + high) >>> 1;
		if (U.end[row.units[mid]] > t)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* From place @low to @high, the first unit that begins after @t. */
function firstBegin(low, high, t) {
	while (low < high) {
		const mid = (low + high) >>> 1;
		if (U.begin[row.units[mid]] > t)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Of the edges into unit @i, the first that ends at @t or later. */
function firstEdge(i, t) {
	let [low, high] = edgesOf(i);
	while (low < high) {
		const mid = (low + high) >>> 1;
		if (E.at[mid] >= t)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}
