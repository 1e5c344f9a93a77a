/* Values: two halves of 32 bits, and what the type of the watch makes of them. */

const TYPE = { unknown: 0, signed: 1, unsigned: 2, bool: 3, char: 4, float: 5, pointer: 6, enum: 7, aggregate: 8 };
const PLAIN = 0, CATEGORIES = 24; /* so many different values get a line each on the axis */

const hexParts = text => {
	const v = BigInt(text);
	return [Number(v & 0xffffffffn), Number(v >> 32n)];
};
const keyOf = (lo, hi) => hi * 4294967296 + lo + (hi > 0x1fffff ? "+" + lo : "");

class Values {
	constructor(watch) {
		this.type = watch.type;
		this.size = watch.size || 8;
		this.bits = watch.type.bit_size || Math.min(this.size, 8) * 8;
		this.shift = watch.type.bit_size ? watch.type.bit_offset : 0;
		this.texts = new Map(watch.texts.map(([v, text]) => [v, text]));
		this.view = new DataView(new ArrayBuffer(8));
		this.isFloat = this.type.kind === TYPE.float && !watch.type.bit_size && (this.size === 4 || this.size === 8);
		this.named = [TYPE.bool, TYPE.char, TYPE.pointer, TYPE.enum].includes(this.type.kind);
		this.simple = !this.shift && this.bits === 32 && !this.isFloat;
	}

	big(lo, hi) {
		const v = ((BigInt(hi) << 32n) | BigInt(lo)) >> BigInt(this.shift);
		return this.type.signed ? BigInt.asIntN(this.bits, v) : BigInt.asUintN(this.bits, v);
	}

	/* For the axis: where there are more than 53 bits, about. */
	number(lo, hi) {
		if (this.simple)
			return this.type.signed ? lo | 0 : lo;
		if (this.isFloat) {
			this.view.setUint32(0, lo, true);
			this.view.setUint32(4, hi, true);
			return this.size === 4 ? this.view.getFloat32(0, true) : this.view.getFloat64(0, true);
		}
		if (!this.shift && this.bits === 64)
			return (this.type.signed ? hi | 0 : hi) * 4294967296 + lo;
		return Number(this.big(lo, hi));
	}

	text(lo, hi) {
		const hex = "0x" + (hi ? hi.toString(16) + lo.toString(16).padStart(8, "0") : lo.toString(16));
		if (this.named)
			return this.texts.get(hex) || (this.type.kind === TYPE.pointer ? hex : String(this.big(lo, hi)));
		if (this.isFloat) {
			const v = this.number(lo, hi);
			return String(this.size === 4 ? parseFloat(v.toPrecision(7)) : v);
		}
		if (this.type.kind === TYPE.signed || this.type.kind === TYPE.unsigned)
			return String(this.big(lo, hi));
		return "0x" + this.big(lo, hi).toString(16);
	}

	hex(text) {
		return this.text(...hexParts(text));
	}
}

const V = D.watches.map(w => new Values(w));
const plainHex = (lo, hi) => hi ? "0x" + hi.toString(16) + lo.toString(16).padStart(8, "0") : String(lo);

const oldText = i => {
	const w = C.watch[E.what[i]];
	return !(E.flags[i] & HAS_OLD) || w < 0 ? "" : (E.flags[i] & UNCERTAIN ? "~" : "") + V[w].text(E.oldLo[i], E.oldHi[i]);
};
const newText = i => {
	const c = E.what[i], w = C.watch[c];
	if (!(E.flags[i] & HAS_NEW))
		return "";
	return C.capture[c] || w < 0 ? plainHex(E.newLo[i], E.newHi[i]) : V[w].text(E.newLo[i], E.newHi[i]);
};
const changes = i => (E.flags[i] & 3) === 3 && (E.flags[i] & UNCERTAIN || E.oldLo[i] !== E.newLo[i] || E.oldHi[i] !== E.newHi[i]);

/*
 * The values of each watch by rank, where they are few and are names rather than amounts: pointers and enumerators
 * lie far apart or close together for no reason that a reader cares for.
 */
let scales = null;

function valueScales() {
	if (scales)
		return scales;
	scales = D.watches.map((w, i) => ({ seen: new Map(), min: Infinity, max: -Infinity, few: true, v: V[i] }));
	const see = (s, lo, hi) => {
		const n = s.v.number(lo, hi);
		if (n < s.min)
			s.min = n;
		if (n > s.max)
			s.max = n;
		if (s.few && s.v.named) {
			s.seen.set(n, [lo, hi]);
			s.few = s.seen.size <= CATEGORIES;
		}
	};
	/* What C has summed up knows the ends of all values, also of those that are not in the time line. */
	D.watches.forEach((w, i) => {
		if (w.value !== undefined)
			see(scales[i], ...hexParts(w.value));
		for (const r of w.parts ? w.parts.rows : [])
			if (r.length > 7)
				[r[7], r[8], r[9], r[10]].forEach(v => see(scales[i], ...hexParts(v)));
	});
	for (let k = 0; E && k < E.n; k++) {
		const w = C.watch[E.what[k]];
		if (w < 0)
			continue;
		if (E.flags[k] & HAS_NEW)
			see(scales[w], E.newLo[k], E.newHi[k]);
		if (E.flags[k] & HAS_OLD)
			see(scales[w], E.oldLo[k], E.oldHi[k]);
	}
	for (const s of scales) {
		s.ranked = s.v.named && s.few && s.seen.size > 0;
		if (s.ranked) {
			s.order = [...s.seen.keys()].sort((a, b) => a - b);
			s.rank = new Map(s.order.map((n, i) => [n, i]));
			s.min = 0;
			s.max = s.order.length - 1;
		}
	}
	return scales;
}

const position = (s, lo, hi) => {
	const n = s.v.number(lo, hi);
	return s.ranked ? s.rank.get(n) : n;
};

/* What to write beside the axis: [position, text]. */
function axisTicks(s, room) {
	if (s.min > s.max)
		return [];
	if (s.ranked) {
		const step = Math.ceil(s.order.length / Math.max(2, room));
		return s.order.map((n, i) => [i, s.v.text(...s.seen.get(n))]).filter((_, i) => i % step === 0);
	}
	if (s.v.type.kind === TYPE.pointer || s.v.type.kind === TYPE.unknown || s.v.type.kind === TYPE.aggregate)
		return [s.min, s.max].filter((v, i, a) => !i || v !== a[0]).map(v => [v, "0x" + Math.round(v).toString(16)]);
	const step = niceStep((s.max - s.min) / Math.max(2, room), s.v.isFloat ? 0 : 1), ticks = [];
	for (let v = Math.ceil(s.min / step) * step; v <= s.max + step * 1e-9 && ticks.length < 50; v += step)
		ticks.push([v, s.v.isFloat ? String(parseFloat(v.toPrecision(6))) : shortNumber(v)]);
	return ticks;
}

function niceStep(raw, least) {
	if (!(raw > 0))
		return 1;
	const p = Math.pow(10, Math.floor(Math.log10(raw)));
	return Math.max(least, [1, 2, 5, 10].map(k => k * p).find(v => v >= raw) || 10 * p);
}

const shortNumber = v => Math.abs(v) >= 1e7 ? v.toExponential(3) : fmt.format(v);

/* Times: nanoseconds since the beginning. */
