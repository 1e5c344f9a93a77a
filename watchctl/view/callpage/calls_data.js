/* What C has put into the page, and how to read it: see callpage_json.c and callpage_calls.h. */

const N = D.calls, columns = bytesOf("columns");
const column = (name, to) => {
	numbers(columns, D.columns[name], to);
	return to;
};

/* The calls in the order in which they began: C.begin[i] to C.end[i] in nanoseconds, and so on. */
const C = {
	begin: column("time", new Float64Array(N)), end: column("duration", new Float64Array(N)), fn: column("function", new Uint32Array(N)),
	thread: column("thread", new Uint32Array(N)), depth: column("depth", new Uint32Array(N)), state: column("state", new Uint8Array(N)),
};

for (let i = 0, t = 0; i < N; i++) {
	t += C.begin[i];
	C.begin[i] = t;
	C.end[i] += t;
}

const TAIL = 1, CALLBACK = 2, SIGNAL = 4;
const endWords = i => D.ends[C.state[i] >> 4];
const fnName = i => D.functions[C.fn[i]].name;
const threadName = t => D.threads[t][1] + (D.threads[t][2] ? " " + D.threads[t][2] : "");

/* Numbers of calls in the log, when somebody asks. */
let logNumbers = null;

function logNumber(i) {
	if (!logNumbers) {
		logNumbers = column("number", new Float64Array(N));
		for (let k = 0, n = 0; k < N; k++)
			n = logNumbers[k] += n + 1;
	}
	return logNumbers[i];
}

/* The call of that number in the log; -1: it is not in the page. */
function callOf(number) {
	logNumber(0);
	const i = lowerBound(logNumbers, number);
	return i < N && logNumbers[i] === number ? i : -1;
}

/* Texts of values, when somebody asks: V.text, and V.at is where those of a call begin in V.v. */
let V = null;

function values() {
	if (V)
		return V;
	const bytes = bytesOf("values"), text = JSON.parse($("texts").textContent), at = new Uint32Array(N + 1);
	const v = new Uint32Array(bytes.length);
	const next = reader(bytes);
	let used = 0;
	$("texts").textContent = "";
	for (let i = 0; i < N; i++) {
		at[i] = used;
		for (let n = next() + 1; n > 0; n--)
			v[used++] = next();
	}
	at[N] = used;
	V = { text, at, v };
	return V;
}

const FIRST_TEXT = 2;
const textOf = n => n >= FIRST_TEXT ? values().text[n - FIRST_TEXT] : n ? "(not in this page)" : undefined;

/* [{ name, type, text }, ...] */
function paramsOf(i) {
	const f = D.functions[C.fn[i]], { at, v } = values(), n = at[i + 1] - at[i] - 1;
	return Array.from({ length: n }, (_, k) => {
		const p = f.params[k] || ["", 0];
		return { name: p[0] || "#" + (k + 1), type: textOf(p[1]), text: textOf(v[at[i] + k]) || "?" };
	});
}

const resultOf = i => textOf(values().v[values().at[i + 1] - 1]);

/* "parse(fd = 3, n = 12) = 0": as watchctl report --calls has it. */
function callLine(i) {
	const f = D.functions[C.fn[i]], args = paramsOf(i), result = resultOf(i);
	const rest = args.length < f.params.length ? "..." : f.untyped && !f.params.length ? "..." : null;
	const list = args.map(a => a.name + " = " + a.text).concat(rest === null ? [] : rest).join(", ");
	return f.name + "(" + list + ")" + (result === undefined ? "" : " = " + result) + (endWords(i) ? "  (" + endWords(i) + ")" : "");
}
