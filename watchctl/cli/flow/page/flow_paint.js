/* The picture: a lane for each thread, a box for each unit of work. What is narrower than a pixel is joined, paler where less was done. */

const ROW_H = 20, THIN_H = 11, HEAD_H = 18, AXIS_H = 22, NARROW = 2, LETTER = 6.7, LEFT = 196;
const chart = { from: 0, to: 1, home: [D.from_ns, Math.max(D.to_ns, D.from_ns + 1)], lanes: [], heads: [], byLane: [], height: 0, pending: false, colour: {}, process: [] };
const canvas = $("chart"), overview = $("overview"), box = $("lanes");
const MONO = "11px ui-monospace,'DejaVu Sans Mono',monospace";

function colours() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ["bg", "text", "muted", "line", "panel", "focus", "dense", "hit", "pick", "write", ...D.kinds])
		chart.colour[name] = style.getPropertyValue("--" + name).trim();
	chart.process = D.threads.map((_, lane) => barColour(processName(lane)));
}

const took = lane => row.busy[row.start[lane + 1]] - row.busy[row.start[lane]];
const isIdle = lane => row.start[lane + 1] - row.start[lane] <= 3 && took(lane) < (chart.home[1] - chart.home[0]) * 2e-4;

function isActiveHere(lane) {
	const k = firstAfter(lane, chart.from);
	return k < row.start[lane + 1] && U.begin[row.units[k]] < chart.to;
}

function isShown(lane) {
	switch (S.only) {
	case undefined: return true;
	case "path": return !chosen.lanes.size || chosen.lanes.has(lane);
	case "busy": return !isIdle(lane);
	case "here": return isActiveHere(lane);
	default: return leaderOf(lane) === Number(S.only);
	}
}

/* Processes in the order in which they did something first, and the threads of each likewise. */
function groups() {
	const found = new Map();
	for (let lane = 0; lane < L; lane++) {
		if (!isShown(lane))
			continue;
		if (!found.has(leaderOf(lane)))
			found.set(leaderOf(lane), []);
		found.get(leaderOf(lane)).push(lane);
	}
	return [...found.values()];
}

function layout() {
	let y = AXIS_H;
	chart.lanes = [];
	chart.heads = [];
	chart.byLane = [];
	for (const lanes of groups()) {
		if (lanes.length > 1) {
			chart.heads.push({ lane: lanes[0], y, n: lanes.length });
			y += HEAD_H;
		}
		for (const lane of lanes) {
			const thin = isIdle(lane), place = { lane, y, h: thin ? THIN_H : ROW_H, inGroup: lanes.length > 1, thin };
			chart.lanes.push(place);
			chart.byLane[lane] = place;
			y += place.h;
		}
		y += 3;
	}
	chart.height = Math.max(y + 2, 80);
	$("spacer").style.height = Math.max(0, chart.height - visibleHeight()) + "px";
}

const visibleHeight = () => Math.min(chart.height, Math.max(300, innerHeight - 330));
const width = () => Math.max(50, box.clientWidth - LEFT);
const scale = () => width() / (chart.to - chart.from);
const xOf = t => LEFT + (t - chart.from) * scale();
const tOf = x => chart.from + (x - LEFT) / scale();
const pale = () => chosen.path ? .3 : 1;

function fitText(text, room) {
	return text.length > room ? room > 3 ? text.slice(0, room - 1) + "…" : "" : text;
}

/* A wait inside of a unit: as the box, with nothing in it. */
function drawWait(g, e, x0, x1, y, h) {
	const a = Math.max(x0, LEFT - 2), b = Math.min(x1, LEFT + width() + 2), room = Math.floor((b - Math.max(a, LEFT) - 8) / LETTER);
	g.fillStyle = chart.colour.bg;
	g.fillRect(a + .5, y + 2, b - a - 1, h - 4);
	if (room < 7 || h < 14)
		return;
	g.fillStyle = chart.colour.muted;
	g.fillText(fitText(waitLine(e), room), Math.max(a, LEFT) + 4, y + h - 5);
}

function drawWaits(g, i, y, h) {
	const [, end] = edgesOf(i);
	let covered = -Infinity;
	for (let e = firstEdge(i, chart.from); e < end; e++) {
		if (!isWait(e) || E.begin[e] > chart.to)
			continue;
		const a = xOf(E.begin[e]), b = xOf(E.at[e]);
		if (b - a < NARROW || b <= covered)
			continue;
		drawWait(g, e, a, b, y, h);
		covered = b;
	}
}

/* Letters have room up to the first wait that can be seen. */
function textEnd(i) {
	const [, end] = edgesOf(i);
	for (let e = E ? firstEdge(i, chart.from) : end; e < end && E.at[e] <= chart.to; e++)
		if (isWait(e) && xOf(E.at[e]) - xOf(E.begin[e]) >= NARROW)
			return xOf(E.begin[e]);
	return Infinity;
}

function drawUnit(g, i, place, y, alpha) {
	const x0 = xOf(U.begin[i]), x1 = xOf(U.end[i]), a = Math.max(x0, LEFT - 2), b = Math.min(x1, LEFT + width() + 2), h = place.h - 3;
	g.globalAlpha = hits.on && !hits.unit[i] ? alpha * .35 : alpha;
	g.fillStyle = chart.process[place.lane];
	g.fillRect(a, y, Math.max(1, b - a - .5), h);
	const room = Math.floor((Math.min(b, textEnd(i)) - Math.max(a, LEFT) - 6) / LETTER);
	if (room > 7 && h > 14) {
		g.fillStyle = "#14181c";
		g.fillText(fitText(textOf(U.words[i]), room), Math.max(a, LEFT) + 3, y + h - 5);
	}
	if (E && b - a > 6)
		drawWaits(g, i, y, h);
	if (hits.on && hits.unit[i])
		outline(g, a, y, b - a, h, chart.colour.hit, 1.5);
}

function outline(g, x, y, w, h, colour, line) {
	g.globalAlpha = 1;
	g.strokeStyle = colour;
	g.lineWidth = line;
	g.strokeRect(x - .5, y - .5, Math.max(2, w) + 1, h + 1);
}

/* Units at places @a to @b, too narrow to be told apart, from pixel @x0 to @x1. */
function drawDense(g, place, x0, x1, y, a, b, alpha) {
	const hit = hits.on && hits.before[b] > hits.before[a], share = (row.busy[b] - row.busy[a]) * scale() / Math.max(1, x1 - x0);
	g.fillStyle = hit ? chart.colour.hit : chart.process[place.lane];
	g.globalAlpha = (hits.on && !hit ? .35 : 1) * alpha * (.45 + .55 * Math.min(1, share));
	g.fillRect(x0, y, Math.max(1, x1 - x0), place.h - 3);
}

/* Narrow boxes are skipped a pixel at a time, so that a lane costs what it shows. */
function drawLane(g, place, y, alpha) {
	const end = row.start[place.lane + 1], k = scale(), right = LEFT + width();
	let at = firstAfter(place.lane, chart.from);
	while (at < end) {
		const i = row.units[at], a = xOf(U.begin[i]);
		if (a > right)
			break;
		if ((U.end[i] - U.begin[i]) * k >= NARROW) {
			drawUnit(g, i, place, y, alpha);
			at++;
			continue;
		}
		const pixel = Math.floor(a), next = narrowEnd(at, firstBegin(at + 1, end, chart.from + (pixel + 1 - LEFT) / k), k);
		drawDense(g, place, pixel, pixel + 1, y, at, next, alpha);
		at = next;
	}
}

/* Of the units that begin in one pixel, a wide one can be the last one only. */
function narrowEnd(at, next, k) {
	const i = row.units[next - 1];
	return next - 1 > at && (U.end[i] - U.begin[i]) * k >= NARROW ? next - 1 : next;
}

function drawLabels(g, height, scroll) {
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.panel;
	g.fillRect(0, 0, LEFT - 3, height);
	g.fillStyle = chart.colour.line;
	g.fillRect(LEFT - 3, 0, 1, height);
	for (const head of chart.heads)
		drawHead(g, head, head.y - scroll);
	for (const place of chart.lanes)
		if (place.y - scroll < height && place.y + place.h - scroll > 0)
			drawLabel(g, place, place.y - scroll);
}

function drawHead(g, head, y) {
	g.fillStyle = chart.colour.text;
	g.font = "600 11.5px system-ui,sans-serif";
	const name = processName(head.lane) + (pidOf(head.lane) ? " " + pidOf(head.lane) : "");
	g.fillText(fitText(name, 18), 8, y + 13);
	g.font = "10.5px system-ui,sans-serif";
	g.fillStyle = chart.colour.muted;
	g.textAlign = "right";
	g.fillText(head.n + " threads", LEFT - 10, y + 13);
	g.textAlign = "left";
}

function drawLabel(g, place, y) {
	const left = place.inGroup ? 16 : 8, number = String(tidOf(place.lane));
	g.fillStyle = chart.process[place.lane];
	g.fillRect(left - 6, y + 1, 3, place.h - 3);
	g.font = place.thin ? "8.5px system-ui,sans-serif" : (place.inGroup ? "" : "600 ") + "11.5px system-ui,sans-serif";
	g.fillStyle = place.thin ? chart.colour.muted : chosen.lanes.has(place.lane) ? chart.colour.pick : chart.colour.text;
	g.fillText(fitText(lastName(place.lane), 20), left + 2, y + place.h - (place.thin ? 3 : 6));
	g.fillStyle = chart.colour.muted;
	g.font = place.thin ? "8.5px ui-monospace,monospace" : "10.5px ui-monospace,monospace";
	g.textAlign = "right";
	g.fillText(number, LEFT - 10, y + place.h - (place.thin ? 3 : 6));
	g.textAlign = "left";
}

/* Lines between lanes, and a darker ground under processes of several threads. */
function drawGround(g, scroll, height) {
	g.globalAlpha = 1;
	for (const place of chart.lanes) {
		const y = place.y - scroll;
		if (y > height || y + place.h < 0)
			continue;
		g.fillStyle = chart.colour.line;
		g.globalAlpha = .55;
		g.fillRect(LEFT, y + place.h - 1.5, width(), .7);
	}
	g.globalAlpha = 1;
}

function stepOf() {
	const least = (chart.to - chart.from) / (width() / 132), power = Math.pow(10, Math.floor(Math.log10(least)));
	return Math.max(1, [1, 2, 5, 10].map(m => m * power).find(s => s >= least));
}

/* Ticks are at round times of day. */
function drawAxis(g, height) {
	const step = stepOf(), digits = step >= 1e9 ? 0 : Math.min(9, Math.max(3, Math.ceil((9 - Math.floor(Math.log10(step) + 1e-9)) / 3) * 3));
	const shift = hasClock ? D.begin_real_us % 1e6 * 1000 : 0;
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.panel;
	g.fillRect(LEFT - 3, 0, width() + 3, AXIS_H - 3);
	g.font = MONO;
	for (let t = Math.ceil((chart.from + shift) / step) * step - shift; t < chart.to; t += step) {
		const x = xOf(t), text = momentText(t, digits);
		g.fillStyle = chart.colour.line;
		g.fillRect(x, 0, 1, height);
		g.fillStyle = chart.colour.muted;
		if (x + text.length * LETTER < LEFT + width())
			g.fillText(text, x + 3, 13);
	}
}

/* Where events are missing. */
function drawLosses(g, height) {
	g.fillStyle = chart.colour.write;
	for (let k = 0; k < D.losses.length; k += 2) {
		const x = xOf(D.losses[k]);
		if (x < LEFT || x > LEFT + width())
			continue;
		g.globalAlpha = .25;
		g.fillRect(x - 2, AXIS_H - 3, 4, height);
		g.globalAlpha = 1;
		g.fillRect(x - .5, 0, 1, height);
		g.font = "600 10px system-ui,sans-serif";
		g.fillText("lost", x + 3, AXIS_H + 7);
	}
	g.globalAlpha = 1;
}

function drawChosen(g, scroll) {
	g.font = MONO;
	for (const i of chosen.units) {
		const place = chart.byLane[U.lane[i]];
		if (!place || U.end[i] < chart.from || U.begin[i] > chart.to)
			continue;
		const a = Math.max(LEFT - 4, xOf(U.begin[i])), b = Math.min(LEFT + width() + 4, xOf(U.end[i]));
		drawUnit(g, i, place, place.y - scroll, 1);
		outline(g, a, place.y - scroll, b - a, place.h - 3, chart.colour.pick, i === chosen.unit ? 2.5 : 1.2);
	}
}

function draw() {
	const height = visibleHeight(), scroll = box.scrollTop;
	chart.pending = false;
	const g = prepare(canvas, LEFT + width(), height);
	drawAxis(g, height);
	drawGround(g, scroll, height);
	g.save();
	g.beginPath();
	g.rect(LEFT - 2, AXIS_H - 3, width() + 2, height);
	g.clip();
	g.font = MONO;
	for (const place of chart.lanes)
		if (place.y - scroll < height && place.y + place.h - scroll > AXIS_H)
			drawLane(g, place, place.y - scroll, pale());
	drawArrows(g, scroll, height);
	drawChosen(g, scroll);
	drawPathArrows(g, scroll);
	g.restore();
	drawLosses(g, height);
	drawLabels(g, height, scroll);
	drawCorner(g);
	drawOverview();
}

/* Over the names: how much time the picture shows. */
function drawCorner(g) {
	g.globalAlpha = 1;
	g.fillStyle = chart.colour.panel;
	g.fillRect(0, 0, LEFT - 3, AXIS_H - 3);
	g.fillStyle = chart.colour.muted;
	g.font = "10.5px system-ui,sans-serif";
	g.fillText(spanText(chart.to - chart.from) + " across" + (hasClock ? ", " + zoneText : ""), 8, 13);
	if (!N) {
		g.fillStyle = chart.colour.text;
		g.fillText("No unit of work is in this page.", LEFT + 10, 50);
	}
}

/* The strip above: how much was going on at each place of the whole. */
let shape = null;

function shapeOf(w) {
	const n = new Float64Array(w), [a, b] = chart.home, k = w / (b - a);
	for (let i = 0; i < N; i++) {
		const x = Math.floor((U.begin[i] - a) * k);
		if (x >= 0 && x < w)
			n[x]++;
	}
	return { w, n: n.map(Math.sqrt), max: Math.max(1, ...n.map(Math.sqrt)) };
}

function drawOverview() {
	const w = width(), g = prepare(overview, w, 40);
	if (!shape || shape.w !== w)
		shape = shapeOf(w);
	g.fillStyle = chart.colour.dense;
	for (let x = 0; x < w; x++) {
		const h = shape.n[x] / shape.max * 36;
		g.fillRect(x, 38 - h, 1, h);
	}
	drawBrush(g, w);
}
