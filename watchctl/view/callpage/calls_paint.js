/* The picture: a lane for each thread with a row for each depth, a bar for each call. What is narrower than a pixel is joined. */

const ROW_H = 17, LANE_H = 20, AXIS_H = 20, MAX_H = 414, NARROW = 1.5, LETTER = 6.7;
const chart = { from: 0, to: 1, home: [0, 1], lanes: [], height: 0, selected: -1, pending: false, colour: {}, fn: [] };
const canvas = $("chart"), overview = $("overview"), box = $("lanes");

const byOrder = () => S.by === "order";
const left = i => byOrder() ? i : C.begin[i];
const right = i => byOrder() ? endOrder[i] : C.end[i];

function colours() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ["bg", "text", "muted", "line", "panel", "focus", "dense", "hit", "pick", "write"])
		chart.colour[name] = style.getPropertyValue("--" + name).trim();
	chart.fn = D.functions.map(f => barColour(f.name));
}

/* Which threads have a lane, and where. */
function layout() {
	let y = AXIS_H, first = Infinity, last = 0;
	chart.lanes = lanes.filter(l => l.calls && (S.thread === undefined || l.thread === Number(S.thread))).map(l => {
		const lane = { thread: l.thread, y, rows: l.deepest + 1, calls: l.calls };
		y += LANE_H + lane.rows * ROW_H + 6;
		return lane;
	});
	chart.height = Math.max(y, 60);
	for (let i = 0; i < N; i++) {
		if (left(i) < first)
			first = left(i);
		if (right(i) > last)
			last = right(i);
	}
	if (first > last)
		[first, last] = [0, 1];
	const edge = Math.max((last - first) * .01, byOrder() ? .5 : 50);
	chart.home = [first - edge, last + edge];
	$("spacer").style.height = Math.max(0, chart.height - visibleHeight()) + "px";
	overviewShape = null;
}

const visibleHeight = () => Math.min(chart.height, MAX_H);
const width = () => box.clientWidth;
const scale = () => width() / (chart.to - chart.from);
const xOf = t => (t - chart.from) * scale();
const tOf = x => chart.from + x / scale();

/* In rows.calls from @low to @high, the first whose edge is beyond @t. */
function firstBeyond(low, high, edge, t) {
	while (low < high) {
		const mid = (low + high) >>> 1;
		if (edge(rows.calls[mid]) > t)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Calls @a to @b of rows.calls are too narrow to be told apart. */
function drawDense(g, x0, x1, y, a, b) {
	const hit = hits.on && hits.before[b] > hits.before[a];
	g.fillStyle = hit ? chart.colour.hit : chart.colour.dense;
	g.globalAlpha = hits.on && !hit ? .35 : 1;
	g.fillRect(x0, y, Math.max(1, x1 - x0), ROW_H - 1);
}

function barText(i, room) {
	const name = V && room > fnName(i).length + 6 ? callLine(i) : fnName(i);
	return name.length > room ? name.slice(0, room - 1) + "…" : name;
}

function drawBar(g, i, x0, x1, y) {
	const a = Math.max(x0, -2), b = Math.min(x1, width() + 2), room = Math.floor((Math.min(b, width()) - Math.max(a, 0) - 6) / LETTER);
	g.fillStyle = chart.fn[C.fn[i]];
	g.globalAlpha = hits.on && !hits.call[i] ? .3 : 1;
	g.fillRect(a, y, Math.max(1, b - a - .5), ROW_H - 1);
	if (room > 1) {
		g.globalAlpha = hits.on && !hits.call[i] ? .55 : 1;
		g.fillStyle = hits.on && !hits.call[i] ? chart.colour.text : "#14181c";
		g.fillText(barText(i, room), Math.max(a, 0) + 3, y + 12);
	}
	if (hits.on && hits.call[i])
		outline(g, a, y, b - a, chart.colour.hit, 1.5);
	if (D.ends[C.state[i] >> 4])
		drawEnd(g, i, b, y);
}

/* A mark where a call did not simply return. */
function drawEnd(g, i, x, y) {
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.write;
	g.fillRect(x - 2.5, y, 2, ROW_H - 1);
}

function outline(g, x, y, w, colour, line) {
	g.globalAlpha = 1;
	g.strokeStyle = colour;
	g.lineWidth = line;
	g.strokeRect(x + .75, y + .75, Math.max(1, w - 2), ROW_H - 2.5);
}

/* One depth of one thread. What is narrow is skipped by halves, so that a row costs what it shows. */
function drawRow(g, row, y) {
	const end = rows.start[row + 1], k = scale();
	let at = firstBeyond(rows.start[row], end, right, chart.from), from = -1, x0 = 0, x1 = 0, wasHit = false;
	const flush = () => {
		if (from >= 0)
			drawDense(g, x0, x1, y, from, at);
		from = -1;
	};
	while (at < end) {
		const i = rows.calls[at], a = (left(i) - chart.from) * k, b = (right(i) - chart.from) * k;
		if (a > width())
			break;
		if (b - a >= NARROW) {
			flush();
			drawBar(g, i, a, b, y);
			at++;
			continue;
		}
		const pixel = Math.floor(a) + 1, next = wideBefore(at + 1, firstBeyond(at + 1, end, left, chart.from + pixel / k), k);
		const hit = hits.before[next] > hits.before[at];
		if (from >= 0 && (Math.floor(a) > x1 || hit !== wasHit))
			flush();
		if (from < 0) {
			from = at;
			x0 = Math.floor(a);
			wasHit = hit;
		}
		x1 = Math.max(pixel, b);
		at = next;
	}
	flush();
}

/* Of the calls in one pixel, a wide one can be the last one only. */
function wideBefore(from, next, k) {
	const i = rows.calls[next - 1];
	return next - 1 >= from && (right(i) - left(i)) * k >= NARROW ? next - 1 : next;
}

function axisText(t, step) {
	return byOrder() ? count(Math.round(t) + 1) : step >= 1e9 ? (t / 1e9).toFixed(0) + " s" : step >= 1e6 ? +(t / 1e6).toFixed(0) / 1e3 + " s"
		: step >= 1e3 ? +(t / 1e6).toFixed(3) + " ms" : +(t / 1e3).toFixed(3) + " µs";
}

function drawAxis(g, height) {
	const least = (chart.to - chart.from) / (width() / 110), power = Math.pow(10, Math.floor(Math.log10(least)));
	let step = [1, 2, 5, 10].map(m => m * power).find(s => s >= least);
	if (byOrder())
		step = Math.max(1, step);
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.panel;
	g.fillRect(0, 0, width(), AXIS_H - 2);
	for (let t = Math.ceil(chart.from / step) * step; t < chart.to; t += step) {
		const x = xOf(t), text = axisText(t, step);
		g.fillStyle = chart.colour.line;
		g.fillRect(x, 0, 1, height);
		g.fillStyle = chart.colour.muted;
		if (x + text.length * LETTER < width() && t >= -step / 2)
			g.fillText(text, x + 3, 12);
	}
}

const markPlace = m => byOrder() ? lowerBound(C.begin, m[1]) : m[1];

function drawMarks(g, lane, y) {
	for (const m of D.marks) {
		const x = xOf(markPlace(m));
		if (m[0] !== lane.thread || x < -5 || x > width() + 5)
			continue;
		g.fillStyle = chart.colour.write;
		g.beginPath();
		g.moveTo(x - 5, y + 3);
		g.lineTo(x + 5, y + 3);
		g.lineTo(x, y + 14);
		g.fill();
		g.fillRect(x - .5, y + 3, 1, LANE_H + lane.rows * ROW_H - 3);
	}
}

function drawLane(g, lane, y, height) {
	const first = rows.first[lane.thread];
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.text;
	g.font = "600 12px system-ui,sans-serif";
	g.fillText("thread " + threadName(lane.thread) + " · " + plural(lane.calls, "call"), 6, y + 14);
	g.font = "11px ui-monospace,'DejaVu Sans Mono',monospace";
	for (let d = 0; d < lane.rows; d++) {
		const top = y + LANE_H + d * ROW_H;
		if (top > height)
			break;
		if (top + ROW_H > AXIS_H)
			drawRow(g, first + d, top);
	}
	g.globalAlpha = 1;
	drawMarks(g, lane, y);
}

function drawSelected(g, scroll) {
	const i = chart.selected, lane = i >= 0 && chart.lanes.find(l => l.thread === C.thread[i]);
	if (!lane)
		return;
	const a = Math.max(-4, xOf(left(i))), b = Math.min(width() + 4, xOf(right(i)));
	outline(g, a, lane.y + LANE_H + C.depth[i] * ROW_H - scroll, Math.max(3, b - a), chart.colour.pick, 2);
}

function draw() {
	const height = visibleHeight(), scroll = box.scrollTop;
	chart.pending = false;
	const g = prepare(canvas, width(), height);
	g.font = "11px ui-monospace,'DejaVu Sans Mono',monospace";
	for (const lane of chart.lanes) {
		const y = lane.y - scroll;
		if (y < height && y + LANE_H + lane.rows * ROW_H > 0)
			drawLane(g, lane, y, height);
	}
	drawSelected(g, scroll);
	drawAxis(g, N ? AXIS_H - 2 : height);
	if (!N)
		g.fillText("No calls were recorded.", 8, 44);
	drawOverview();
}

/* The strip above: how deep the calls go at each place of the whole. */
let overviewShape = null;

function shapeOf(w) {
	const deep = new Uint16Array(w), [a, b] = chart.home, k = w / (b - a);
	for (let i = 0; i < N; i++) {
		if (!inThread(i))
			continue;
		const d = C.depth[i] + 1, to = Math.min(w - 1, Math.floor((right(i) - a) * k));
		for (let x = Math.floor((left(i) - a) * k); x <= to; x++)
			if (deep[x] < d)
				deep[x] = d;
	}
	return { w, deep, max: Math.max(1, deep.reduce((m, d) => d > m ? d : m, 0)) };
}

function drawOverview() {
	const w = width(), g = prepare(overview, w, 40), [a, b] = chart.home;
	if (!overviewShape || overviewShape.w !== w)
		overviewShape = shapeOf(w);
	g.fillStyle = chart.colour.dense;
	for (let x = 0; x < w; x++) {
		const h = overviewShape.deep[x] / overviewShape.max * 36;
		g.fillRect(x, 38 - h, 1, h);
	}
	drawBrush(g, w);
}
