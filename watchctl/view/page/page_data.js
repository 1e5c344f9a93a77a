/* What C has put into the page, and how to read it: see page_json.c, page_tables_json.c and page_events.h. */

const KIND = [
	{ key: "u", name: "unknown", shape: "cross" },
	{ key: "r", name: "read", shape: "circle" },
	{ key: "w", name: "write", shape: "triangle" },
	{ key: "b", name: "read and write", shape: "diamond" },
	{ key: "x", name: "execute", shape: "square" },
];

/* Combinations of place, thread and stack; -1: of those for which there was no room. */
const C = { n: D.combos.length / 5 };
C.capture = new Uint8Array(C.n);
C.place = new Int32Array(C.n);
C.thread = new Int32Array(C.n);
C.stack = new Int32Array(C.n);
C.total = new Float64Array(C.n);
C.watch = new Int32Array(C.n);
C.kind = new Uint8Array(C.n);
for (let i = 0; i < C.n; i++) {
	C.capture[i] = D.combos[5 * i];
	C.place[i] = D.combos[5 * i + 1];
	C.thread[i] = D.combos[5 * i + 2];
	C.stack[i] = D.combos[5 * i + 3];
	C.total[i] = D.combos[5 * i + 4];
	const site = C.capture[i] ? null : D.sites[C.place[i]];
	C.watch[i] = site ? site.watch : -1;
	C.kind[i] = site ? site.kind : 0;
}

const frameText = new Array(D.frames.length);
const F = { fn: 0, file: 1, line: 2, module: 3, offset: 4, ip: 5, flags: 6 };

const textAt = i => i < 0 ? undefined : D.texts[i];

/* "set_flag", "libc.so.6+0x1234", "0x7f..." */
function frameName(i) {
	if (frameText[i] === undefined) {
		const f = D.frames[i], fn = textAt(f[F.fn]), module = textAt(f[F.module]);
		frameText[i] = fn !== undefined ? fn
			: module !== undefined ? base(module) + "+0x" + f[F.offset].toString(16) : f[F.ip];
	}
	return frameText[i];
}

function frameLine(i) {
	const f = D.frames[i], file = textAt(f[F.file]);
	return file === undefined ? "" : base(file) + (f[F.line] ? ":" + f[F.line] : "");
}

function siteName(s) {
	const name = s.inlined || s.function;
	if (name !== undefined)
		return s.inlined ? name + " in " + s.function : name + (s.offset ? "+" + s.offset : "");
	return s.module !== undefined ? base(s.module) + "+" + s.module_offset : s.ip;
}

const siteLine = s => s.file === undefined ? "" : base(s.file) + (s.line ? ":" + s.line : "");
const threadName = i => i < 0 ? "other threads"
	: D.threads[i][1] + (D.threads[i][2] !== "" ? " " + D.threads[i][2] : "");

/* All accesses and captures of the time line, in columns. NULL until decode() has run. */
let E = null;

function decode() {
	const text = atob($("events").textContent), bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++)
		bytes[i] = text.charCodeAt(i);
	$("events").textContent = "";

	const n = D.events, series = 1024, seenLo = new Uint32Array(series), seenHi = new Uint32Array(series);
	const seriesOf = new Uint16Array(C.n);
	for (let i = 0; i < C.n; i++)
		seriesOf[i] = C.capture[i] ? series - 1 : C.watch[i] < 0 ? series - 2 : C.watch[i] % (series - 2);
	const e = {
		n, t: new Float64Array(n), what: new Uint32Array(n), flags: new Uint8Array(n),
		oldLo: new Uint32Array(n), oldHi: new Uint32Array(n), newLo: new Uint32Array(n), newHi: new Uint32Array(n),
		seq: D.stride > 1 ? new Float64Array(n) : null, detail: new Int32Array(n).fill(-1),
	};
	let at = 0, lo = 0, hi = 0;
	/* Seven bits a byte: the low 32 bits into lo, the others into hi. */
	const next = () => {
		let b = bytes[at++];
		lo = b & 127;
		hi = 0;
		for (let shift = 7; b > 127; shift += 7) {
			b = bytes[at++];
			const v = b & 127;
			if (shift < 28)
				lo |= v << shift;
			else if (shift === 28) {
				lo |= v << 28;
				hi = v >> 4;
			} else
				hi |= v << (shift - 32);
		}
		lo >>>= 0;
		hi >>>= 0;
	};
	let t = 0, seq = 0, ndetails = 0;
	for (let i = 0; i < n; i++) {
		if (e.seq) {
			next();
			seq += hi * 4294967296 + lo;
			e.seq[i] = seq;
		}
		next();
		t += hi * 4294967296 + lo;
		e.t[i] = t;
		next();
		const flags = lo & 31, what = hi * 134217728 + (lo >>> 5), s = seriesOf[what];
		e.what[i] = what;
		e.flags[i] = flags;
		let fromLo = seenLo[s], fromHi = seenHi[s];
		if (flags & 1) {
			if (!(flags & 4)) {
				next();
				fromLo = (fromLo ^ lo) >>> 0;
				fromHi = (fromHi ^ hi) >>> 0;
			}
			e.oldLo[i] = seenLo[s] = fromLo;
			e.oldHi[i] = seenHi[s] = fromHi;
		}
		if (flags & 2) {
			next();
			e.newLo[i] = seenLo[s] = (fromLo ^ lo) >>> 0;
			e.newHi[i] = seenHi[s] = (fromHi ^ hi) >>> 0;
		}
		if (flags & 8)
			e.detail[i] = ndetails++;
	}
	E = e;
}

const HAS_OLD = 1, HAS_NEW = 2, UNCERTAIN = 16;
const seqOf = i => E.seq ? E.seq[i] : i;

/* The event of that number, or the next one that is there. */
function eventOf(seq) {
	return E.seq ? lowerBound(E.seq, seq) : Math.min(seq, E.n - 1);
}

/* The registers of the access with detail @i: rows leave out what is as in the one before. */
function registersOf(i) {
	const r = [];
	for (let k = i - i % D.whole_regs; k <= i; k++)
		D.regs[k].split(",").forEach((v, j) => {
			if (v !== "")
				r[j] = v;
		});
	return r;
}
