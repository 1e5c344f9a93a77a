/* The time line: a panel of values for each watch, a lane for each thread, one for each tag. */

let LEFT = 92;
const RIGHT = 12, TOP = 6, AXIS = 20, LANES = 8, PANELS = 8, TAG_LANES = 6, MARKS = 700, MARK = 4.5;
const span = Math.max(D.end_ns, 1);
const chart = { from: 0, to: span, home: [0, span], hot: [], marks: null, selected: -1, pending: false, colour: {} };
const canvas = $("chart"), overview = $("overview");

function colours() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ["bg", "text", "muted", "line", "read", "write", "rw", "exec", "other", "value", "tag", "sel", "focus", "panel"])
		chart.colour[name] = style.getPropertyValue("--" + name).trim();
	chart.kind = ["other", "read", "write", "rw", "exec"].map(n => chart.colour[n]);
}

/* Forms differ as well as colours. */
function mark(g, shape, x, y, r) {
	g.beginPath();
	if (shape === "circle")
		g.arc(x, y, r, 0, 7);
	else if (shape === "triangle") {
		g.moveTo(x, y - r);
		g.lineTo(x + r, y + r);
		g.lineTo(x - r, y + r);
		g.closePath();
	} else if (shape === "diamond") {
		g.moveTo(x, y - r);
		g.lineTo(x + r, y);
		g.lineTo(x, y + r);
		g.lineTo(x - r, y);
		g.closePath();
	} else if (shape === "square")
		g.rect(x - r, y - r, 2 * r, 2 * r);
	else {
		g.moveTo(x - r, y - r);
		g.lineTo(x + r, y + r);
		g.moveTo(x + r, y - r);
		g.lineTo(x - r, y + r);
	}
}

function drawMark(g, kind, x, y, r) {
	mark(g, KIND[kind].shape, x, y, r);
	g.fillStyle = g.strokeStyle = chart.kind[kind];
	if (KIND[kind].shape === "circle" || KIND[kind].shape === "cross") {
		g.fillStyle = chart.colour.bg;
		g.lineWidth = 1.6;
		if (KIND[kind].shape === "circle")
			g.fill();
		g.stroke();
	} else
		g.fill();
}

function kindIcon(kind) {
	const path = { circle: "M6 1.5a4.5 4.5 0 1 0 .01 0", triangle: "M6 1 11 11H1z", diamond: "M6 .5 11.5 6 6 11.5.5 6z",
		square: "M1.5 1.5h9v9h-9z", cross: "M2 2 10 10M10 2 2 10" }[KIND[kind].shape];
	const hollow = KIND[kind].shape === "circle" || KIND[kind].shape === "cross";
	return svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path",
		{ d: path, fill: hollow ? "none" : "currentColor", stroke: "currentColor", "stroke-width": hollow ? 1.8 : 0 }));
}

const kindCell = kind => el("span", { class: "kind k" + kind }, kindIcon(kind), KIND[kind].name);

/* Which watches, threads and tags have a place in the picture, and where. */
function layout() {
	const width = Math.max(280, canvas.parentElement.clientWidth), l = { width, panels: [], lanes: [], tags: [] };
	const shown = D.watches.map((w, i) => i).filter(i => D.watches[i].accesses && (S.watch === undefined || Number(S.watch) === i));
	const height = shown.length > 2 ? 110 : shown.length > 1 ? 140 : 190;
	const threads = [...sumBy(c => C.thread[c], () => true)].sort((a, b) => b[1] - a[1]).map(v => v[0]);
	const own = threads.filter(t => t >= 0).slice(0, threads.length > LANES ? LANES - 1 : LANES);
	const tags = [...sumBy(c => C.place[c], isCapture)].sort((a, b) => b[1] - a[1]).map(v => v[0]).slice(0, TAG_LANES);
	LEFT = width > 700 ? 118 : 84;
	let y = TOP;
	for (const w of shown.slice(0, PANELS)) {
		l.panels.push({ watch: w, y, h: height });
		y += height + 8;
	}
	l.lane = new Int32Array(D.threads.length + 1).fill(-1);
	l.tagLane = new Int32Array(D.tags.length + 1).fill(-1);
	own.forEach(t => {
		l.lane[t + 1] = l.lanes.length;
		l.lanes.push({ thread: t, name: threadName(t), y, h: 22 });
		y += 24;
	});
	if (threads.length > own.length) {
		const rest = threads.filter(t => !own.includes(t));
		rest.forEach(t => { l.lane[t + 1] = l.lanes.length; });
		l.lanes.push({ thread: -2, name: rest.includes(-1) ? "other threads" : plural(rest.length, "other thread"), y, h: 22 });
		y += 24;
	}
	tags.forEach(t => {
		l.tagLane[t + 1] = l.tags.length;
		l.tags.push({ tag: t, name: "# " + (t < 0 ? "other tags" : D.tags[t].name), y, h: 18 });
		y += 20;
	});
	if (y === TOP)
		y += 44; /* for the words that say why nothing is there */
	l.axis = y;
	l.height = y + AXIS;
	l.plot = width - LEFT - RIGHT;
	l.panelOf = new Int32Array(D.watches.length).fill(-1);
	l.panels.forEach((p, i) => { l.panelOf[p.watch] = i; });
	return l;
}

function prepare(c, width, height) {
	const g = sizeCanvas(c, width, height);
	g.clearRect(0, 0, width, height);
	g.font = "11px " + getComputedStyle(document.body).fontFamily;
	return g;
}

const xOf = (l, t) => LEFT + (t - chart.from) / (chart.to - chart.from) * l.plot;
const tOf = (l, x) => chart.from + (x - LEFT) / l.plot * (chart.to - chart.from);

function fit(g, text, room) {
	if (g.measureText(text).width <= room)
		return text;
	let n = text.length;
	while (n > 1 && g.measureText(text.slice(0, n) + "…").width > room)
		n--;
	return text.slice(0, n) + "…";
}

function drawTimeAxis(g, l) {
	const width = chart.to - chart.from, step = niceStep(width / Math.max(2, l.plot / 110), 1);
	const digits = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(step))));
	g.fillStyle = chart.colour.muted;
	g.strokeStyle = chart.colour.line;
	g.lineWidth = 1;
	g.textAlign = "center";
	g.textBaseline = "top";
	for (let t = Math.ceil(chart.from / step) * step; t <= chart.to; t += step) {
		const x = xOf(l, t);
		g.beginPath();
		g.moveTo(x, TOP);
		g.lineTo(x, l.axis);
		g.stroke();
		if (x < l.width - 30 && x > 20)
			g.fillText(timeText(t, digits), x, l.axis + 5);
	}
}

/* Amounts fill the height with what is in view; ranks keep their places. */
function scaleInView(scale, col) {
	if (scale.ranked)
		return scale;
	let min = isNaN(col.before) ? Infinity : col.before, max = isNaN(col.before) ? -Infinity : col.before;
	for (let x = 0; x < col.min.length; x++) {
		if (col.min[x] < min)
			min = col.min[x];
		if (col.max[x] > max)
			max = col.max[x];
	}
	if (min > max)
		return scale;
	if (min === max)
		return Object.assign(Object.create(scale), { min: min - 1, max: max + 1, v: scale.v });
	return Object.assign(Object.create(scale), { min, max });
}

function drawFrames(g, l, columns) {
	const s = valueScales();
	for (const p of l.panels) {
		const scale = scaleInView(s[p.watch], columns.panels[l.panelOf[p.watch]]);
		p.low = p.y + p.h - 26;
		p.high = p.y + 20;
		const range = scale.max - scale.min;
		p.at = v => range > 0 ? p.low - (v - scale.min) / range * (p.low - p.high) : (p.low + p.high) / 2;
		g.textBaseline = "middle";
		g.textAlign = "right";
		for (const [v, text] of axisTicks(scale, (p.low - p.high) / 20)) {
			const y = p.at(v);
			g.strokeStyle = chart.colour.line;
			g.beginPath();
			g.moveTo(LEFT, y);
			g.lineTo(l.width - RIGHT, y);
			g.stroke();
			g.fillStyle = chart.colour.text;
			g.fillText(fit(g, text, LEFT - 10), LEFT - 6, y);
		}
		g.textAlign = "left";
		g.fillStyle = chart.colour.text;
		g.font = "600 " + g.font;
		g.fillText(fit(g, D.watches[p.watch].name, l.plot - 10), LEFT + 5, p.y + 8);
		g.font = g.font.replace("600 ", "");
	}
	for (const lane of [...l.lanes, ...l.tags]) {
		g.textAlign = "right";
		g.textBaseline = "middle";
		g.fillStyle = chart.colour.text;
		g.fillText(fit(g, lane.name, LEFT - 10), LEFT - 6, lane.y + lane.h / 2);
		g.strokeStyle = chart.colour.line;
		g.beginPath();
		g.moveTo(LEFT, lane.y + lane.h);
		g.lineTo(l.width - RIGHT, lane.y + lane.h);
		g.stroke();
	}
}

/* What C has summed up, for the whole log: exact also where the time line has only a share. */
function fromParts(l, columns) {
	for (const p of l.panels) {
		const w = D.watches[p.watch], s = valueScales()[p.watch], col = columns.panels[l.panelOf[p.watch]];
		if (!w.parts)
			continue;
		for (const r of w.parts.rows) {
			const x = Math.floor((r[0] * w.parts.width - chart.from) / (chart.to - chart.from) * l.plot);
			if (x < 0 || x >= l.plot)
				continue;
			for (let k = 0; k < 5; k++)
				col.n[k][x] += r[1 + k];
			if (r.length > 7)
				columnValues(col, x, [9, 10].map(i => position(s, ...hexParts(r[i]))), position(s, ...hexParts(r[7])), position(s, ...hexParts(r[8])));
		}
		for (const lane of w.lanes) {
			const to = columns.lanes[l.lane[lane.thread + 1]];
			if (to)
				for (const r of lane.parts.rows) {
					const x = Math.floor((r[0] * lane.parts.width - chart.from) / (chart.to - chart.from) * l.plot);
					for (let k = 0; k < 5 && x >= 0 && x < l.plot; k++)
						to.n[k][x] += r[1 + k];
				}
		}
	}
}

function columnValues(col, x, values, first, last) {
	for (const v of values) {
		if (!(v >= col.min[x]))
			col.min[x] = v;
		if (!(v <= col.max[x]))
			col.max[x] = v;
	}
	if (isNaN(col.first[x]))
		col.first[x] = first;
	col.last[x] = last;
}

function newColumns(l) {
	const w = Math.ceil(l.plot) + 1, counts = () => [0, 1, 2, 3, 4].map(() => new Float64Array(w));
	return {
		panels: l.panels.map(() => ({ n: counts(), min: new Float64Array(w).fill(NaN), max: new Float64Array(w).fill(NaN),
			first: new Float64Array(w).fill(NaN), last: new Float64Array(w).fill(NaN), before: NaN })),
		lanes: l.lanes.map(() => ({ n: counts() })), tags: l.tags.map(() => new Float64Array(w)),
	};
}

/* One pass over the events in view: columns of one pixel for the lines, and the marks as long as they are few. */
function fromEvents(l, columns, i0, i1) {
	const scale = l.plot / (chart.to - chart.from), s = valueScales(), marks = [];
	let few = true;
	for (let i = i0; i < i1; i++) {
		const c = E.what[i], x = Math.min(l.plot | 0, ((E.t[i] - chart.from) * scale) | 0), ok = pass.event[i];
		if (C.capture[c]) {
			const lane = l.tagLane[C.place[c] + 1];
			if (ok && lane >= 0)
				columns.tags[lane][x]++;
		} else {
			const panel = C.watch[c] < 0 ? -1 : l.panelOf[C.watch[c]];
			if (panel >= 0 && (E.flags[i] & HAS_NEW)) {
				const v = position(s[C.watch[c]], E.newLo[i], E.newHi[i]), col = columns.panels[panel];
				if (!(v >= col.min[x]))
					col.min[x] = v;
				if (!(v <= col.max[x]))
					col.max[x] = v;
				if (isNaN(col.first[x]))
					col.first[x] = E.flags[i] & HAS_OLD ? position(s[C.watch[c]], E.oldLo[i], E.oldHi[i]) : v;
				col.last[x] = v;
			}
			if (ok && panel >= 0)
				columns.panels[panel].n[C.kind[c]][x]++;
			if (ok && l.lane[C.thread[c] + 1] >= 0)
				columns.lanes[l.lane[C.thread[c] + 1]].n[C.kind[c]][x]++;
		}
		if (ok && few) {
			few = marks.length < MARKS;
			marks.push(i);
		}
	}
	return few ? marks : null;
}

/* The value as it was when the picture begins. */
function valuesBefore(l, columns, i0) {
	let missing = l.panels.length;
	for (let i = i0 - 1; i >= 0 && missing && i > i0 - 200000; i--) {
		const w = C.watch[E.what[i]], panel = w < 0 ? -1 : l.panelOf[w];
		if (panel >= 0 && isNaN(columns.panels[panel].before) && (E.flags[i] & HAS_NEW)) {
			columns.panels[panel].before = position(valueScales()[w], E.newLo[i], E.newHi[i]);
			missing--;
		}
	}
	for (const p of l.panels) {
		const w = D.watches[p.watch], col = columns.panels[l.panelOf[p.watch]];
		if (isNaN(col.before) && w.value !== undefined)
			col.before = position(valueScales()[p.watch], ...hexParts(w.value));
	}
}

function drawLine(g, l, p, col) {
	let last = col.before, started = false;
	g.strokeStyle = chart.colour.value;
	g.lineWidth = 1.2;
	g.globalAlpha = .75;
	g.beginPath();
	if (last === last) {
		g.moveTo(LEFT, p.at(last));
		started = true;
	}
	for (let x = 0; x < col.min.length; x++) {
		if (isNaN(col.last[x]))
			continue;
		const px = LEFT + x + .5, to = last === last ? last : col.first[x];
		if (!started)
			g.moveTo(px, p.at(to));
		started = true;
		g.lineTo(px, p.at(to));
		if (col.min[x] !== col.max[x] || col.min[x] !== to) {
			g.lineTo(px, p.at(col.min[x]));
			g.lineTo(px, p.at(col.max[x]));
		}
		g.lineTo(px, p.at(col.last[x]));
		last = col.last[x];
	}
	if (started)
		g.lineTo(LEFT + l.plot, p.at(last));
	g.stroke();
	g.globalAlpha = 1;
}

/* How many accesses there are in each column: reads upwards, writes downwards, others in the middle. */
function drawDensity(g, n, y, h) {
	let most = 1;
	for (let x = 0; x < n[0].length; x++)
		most = Math.max(most, n[1][x], n[2][x], n[3][x] + n[4][x] + n[0][x]);
	const part = v => v ? Math.max(2, Math.log1p(v) / Math.log1p(most) * (h / 2 - 1)) : 0, mid = y + h / 2;
	for (let x = 0; x < n[0].length; x++) {
		const other = n[0][x] + n[3][x] + n[4][x];
		if (n[1][x]) {
			g.fillStyle = chart.kind[1];
			g.fillRect(LEFT + x, mid - part(n[1][x]), 1, part(n[1][x]));
		}
		if (n[2][x]) {
			g.fillStyle = chart.kind[2];
			g.fillRect(LEFT + x, mid, 1, part(n[2][x]));
		}
		if (other) {
			g.fillStyle = chart.kind[n[3][x] ? 3 : n[4][x] ? 4 : 0];
			g.fillRect(LEFT + x, mid - part(other) / 2, 1, part(other));
		}
	}
}

function drawMarks(g, l, marks) {
	const s = valueScales();
	chart.hot = [];
	for (const i of marks) {
		const c = E.what[i], x = xOf(l, E.t[i]), r = marks.length > 300 ? 3.4 : MARK;
		if (C.capture[c]) {
			const lane = l.tags[l.tagLane[C.place[c] + 1]];
			if (lane) {
				g.fillStyle = chart.colour.tag;
				g.fillRect(x - .75, lane.y + 2, 1.5, lane.h - 4);
				g.fillRect(x - .75, lane.y + 2, 6, 5);
				chart.hot.push([x + 1, lane.y + lane.h / 2, i]);
			}
			continue;
		}
		const panel = l.panels[C.watch[c] < 0 ? -1 : l.panelOf[C.watch[c]]], lane = l.lanes[l.lane[C.thread[c] + 1]];
		if (panel) {
			const has = E.flags[i] & 3, isNew = E.flags[i] & HAS_NEW;
			const v = has ? position(s[C.watch[c]], isNew ? E.newLo[i] : E.oldLo[i], isNew ? E.newHi[i] : E.oldHi[i]) : NaN;
			const y = isNaN(v) ? panel.low + 14 : panel.at(v);
			drawMark(g, C.kind[c], x, y, r);
			chart.hot.push([x, y, i]);
		}
		if (lane) {
			drawMark(g, C.kind[c], x, lane.y + lane.h / 2, Math.min(r, 3.6));
			chart.hot.push([x, lane.y + lane.h / 2, i]);
		}
	}
}

function drawSelected(g, l) {
	if (chart.selected < 0 || !E || E.t[chart.selected] < chart.from || E.t[chart.selected] > chart.to)
		return;
	const x = xOf(l, E.t[chart.selected]);
	g.strokeStyle = chart.colour.focus;
	g.lineWidth = 1.5;
	g.setLineDash([4, 3]);
	g.beginPath();
	g.moveTo(x, TOP);
	g.lineTo(x, l.axis);
	g.stroke();
	g.setLineDash([]);
	for (const [hx, hy, i] of chart.hot)
		if (i === chart.selected) {
			g.beginPath();
			g.arc(hx, hy, 8, 0, 7);
			g.stroke();
		}
}

function draw() {
	chart.pending = false;
	const l = chart.layout = layout(), g = prepare(canvas, l.width, l.height), columns = newColumns(l);
	/* Summed up by C as long as nothing is left out by a filter and a pixel is wider than a part. */
	const wide = (chart.to - chart.from) / l.plot >= 0.4 * Math.max(0, ...D.watches.map(w => w.parts ? w.parts.width : 0));
	const useParts = !E || (D.stride > 1 && !narrowed() && wide);
	chart.hot = [];
	chart.marks = null;
	chart.columns = columns;
	if (useParts)
		fromParts(l, columns);
	if (E) {
		const i0 = lowerBound(E.t, chart.from), i1 = lowerBound(E.t, chart.to + .5);
		if (!useParts) {
			valuesBefore(l, columns, i0);
			chart.marks = fromEvents(l, columns, i0, i1);
		} else
			for (let i = i0; i < i1; i++)
				if (C.capture[E.what[i]] && l.tagLane[C.place[E.what[i]] + 1] >= 0)
					columns.tags[l.tagLane[C.place[E.what[i]] + 1]][Math.min(l.plot | 0, xOf(l, E.t[i]) - LEFT | 0)]++;
	}
	drawTimeAxis(g, l);
	drawFrames(g, l, columns);
	l.panels.forEach((p, i) => {
		drawLine(g, l, p, columns.panels[i]);
		if (!chart.marks)
			drawDensity(g, columns.panels[i].n, p.low + 2, 24);
	});
	if (chart.marks)
		drawMarks(g, l, chart.marks);
	else {
		l.lanes.forEach((lane, i) => drawDensity(g, columns.lanes[i].n, lane.y, lane.h));
		l.tags.forEach((lane, i) => {
			g.fillStyle = chart.colour.tag;
			columns.tags[i].forEach((n, x) => n && g.fillRect(LEFT + x, lane.y + 3, 1, lane.h - 6));
		});
	}
	if (!D.accesses && !D.captures) {
		g.fillStyle = chart.colour.muted;
		g.textAlign = "center";
		g.fillText("The log has no accesses and no captures.", l.width / 2, l.height / 2);
	}
	drawSelected(g, l);
	drawOverview(l);
	describeChart();
}

function drawOverview(l) {
	const g = prepare(overview, l.width, 40), w = Math.ceil(l.plot) + 1, n = [0, 1, 2, 3, 4].map(() => new Float64Array(w));
	for (const watch of D.watches)
		for (const r of watch.parts ? watch.parts.rows : []) {
			/* A part may be wider than a pixel. */
			const x0 = Math.floor(r[0] * watch.parts.width / span * l.plot);
			for (let k = 0; k < 5 && x0 < w; k++)
				n[k][x0] += r[1 + k];
		}
	drawDensity(g, n, 2, 36);
	const x0 = LEFT + chart.from / span * l.plot, x1 = LEFT + chart.to / span * l.plot;
	g.fillStyle = chart.colour.focus;
	g.globalAlpha = .14;
	g.fillRect(x0, 0, Math.max(2, x1 - x0), 40);
	g.globalAlpha = 1;
	g.strokeStyle = chart.colour.focus;
	g.lineWidth = 1.5;
	g.strokeRect(x0, 1, Math.max(2, x1 - x0), 38);
	g.fillStyle = chart.colour.muted;
	g.textAlign = "right";
	g.textBaseline = "middle";
	g.fillText("whole log", LEFT - 6, 20);
}

function describeChart() {
	canvas.setAttribute("aria-label", "Time line from " + timeText(chart.from, 6) + " to " + timeText(chart.to, 6) + ": " +
		D.watches.filter((w, i) => S.watch === undefined || Number(S.watch) === i).map(w => w.name).join(", ") +
		(E ? "; " + plural(pass.n, "access or capture", "accesses and captures") + " shown." : "."));
}

function redraw() {
	if (chart.pending)
		return;
	chart.pending = true;
	requestAnimationFrame(draw);
}
