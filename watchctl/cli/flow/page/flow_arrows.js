/* Arrows from the moment in one lane to the moment in the other. Those that nobody could tell apart are one, or none. */

const MERGES = [6, 18, 54], MOST_DRAWN = 1500;
const middleOf = (place, scroll) => place.y - scroll + (place.h - 3) / 2;
const isArrow = e => !isWait(e) && E.kind[e] !== KIND.weak && E.from[e] >= 0;

/* Of the edges into unit @i from place @e on, the first that is an arrow between lanes that are shown. */
function nextArrow(i, e) {
	while (e < E.start[i + 1] && E.at[e] <= chart.to && !(isArrow(e) && chart.byLane[U.lane[E.from[e]]]))
		e++;
	return e < E.start[i + 1] && E.at[e] <= chart.to ? e : -1;
}

/* Into one lane, the first arrow in each @merge pixels: it costs what it shows, however many there are. */
function laneArrows(place, merge, found) {
	const high = firstBegin(row.start[place.lane], row.start[place.lane + 1], chart.to), part = merge / scale();
	let k = firstAfter(place.lane, chart.from), t = chart.from;
	while (k < high) {
		const i = row.units[k], e = nextArrow(i, firstEdge(i, t));
		if (e >= 0) {
			found.push(e);
			t = chart.from + (Math.floor((E.at[e] - chart.from) / part + 1e-9) + 1) * part;
		}
		/* The last unit that began before, if it may have more; else the one behind it. */
		const next = firstBegin(k + 1, high, t);
		k = e >= 0 && next === k + 1 ? k : next - 1 > k ? next - 1 : k + 1;
	}
}

/* Of the causes of unit @i, how many are outside of the picture. */
const outside = i => E.strong[firstEdge(i, chart.from)] - E.strong[E.start[i]] + E.strong[E.start[i + 1]] - E.strong[firstEdge(i, chart.to)];

/* How many there are in all: only the first and the last unit of a lane go on outside of the picture. */
function countArrows() {
	let n = 0;
	for (const place of chart.lanes) {
		const low = firstAfter(place.lane, chart.from), high = firstBegin(low, row.start[place.lane + 1], chart.to);
		if (low >= high)
			continue;
		n += E.rows[high] - E.rows[low] - outside(row.units[low]) - (high - 1 > low ? outside(row.units[high - 1]) : 0);
	}
	return n;
}

/* The finest that is no mess. */
function collectArrows() {
	let found = [], merge;
	for (merge of MERGES) {
		found = [];
		for (const place of chart.lanes)
			laneArrows(place, merge, found);
		if (found.length <= MOST_DRAWN)
			break;
	}
	return { found, merge, seen: Math.max(found.length, countArrows()), hidden: found.length > MOST_DRAWN };
}

function arrowHead(g, x, y, from, size) {
	const angle = Math.atan2(y - from[1], x - from[0]);
	g.beginPath();
	g.moveTo(x, y);
	g.lineTo(x - size * Math.cos(angle - .45), y - size * Math.sin(angle - .45));
	g.lineTo(x - size * Math.cos(angle + .45), y - size * Math.sin(angle + .45));
	g.fill();
}

/* Something of the same thread: its own timeout, its own I/O. */
function drawOwn(g, x, y, size) {
	g.beginPath();
	g.moveTo(x, y - size);
	g.lineTo(x + size, y);
	g.lineTo(x, y + size);
	g.lineTo(x - size, y);
	g.fill();
}

/* To the border of the other lane's box: the line does not cover what it begins. */
function drawArrow(g, e, scroll, size) {
	const from = chart.byLane[U.lane[E.from[e]]], to = chart.byLane[U.lane[E.to[e]]];
	const x1 = xOf(E.at[e]), x0 = xOf(E.begin[e]);
	if (!from || !to)
		return;
	g.strokeStyle = g.fillStyle = chart.colour[D.kinds[E.kind[e]]];
	if (from === to) {
		drawOwn(g, x1, middleOf(to, scroll), size * .7);
		return;
	}
	const down = to.y > from.y ? 1 : -1, y0 = middleOf(from, scroll), y1 = middleOf(to, scroll) - down * (to.h - 3) / 2;
	g.beginPath();
	g.moveTo(x0, y0);
	g.lineTo(x1, y1);
	g.stroke();
	arrowHead(g, x1, y1, [x0, y0], size);
}

function drawArrows(g, scroll, height) {
	const none = { found: [], seen: 0, hidden: false }, arrows = E ? collectArrows() : none;
	chart.arrows = arrows;
	sayArrows(arrows);
	if (arrows.hidden)
		return;
	/* Many are a ground for what is chosen, few are to be read. */
	const strength = (chosen.path ? .3 : 1) * Math.max(.3, Math.min(1, 150 / arrows.found.length));
	g.lineWidth = 1;
	for (const edge of arrows.found) {
		const a = chart.byLane[U.lane[E.from[edge]]].y - scroll, b = chart.byLane[U.lane[E.to[edge]]].y - scroll;
		if (Math.max(a, b) < 0 || Math.min(a, b) > height)
			continue;
		g.globalAlpha = (E.flags[edge] & BEGINS ? .9 : .55) * strength;
		drawArrow(g, edge, scroll, 6);
	}
	g.globalAlpha = 1;
}

function drawPathArrows(g, scroll) {
	for (const step of chosen.path ? chosen.path.steps : []) {
		if (step.edge < 0 || E.from[step.edge] < 0)
			continue;
		g.globalAlpha = 1;
		g.lineWidth = 2.4;
		drawArrow(g, step.edge, scroll, 9);
	}
}

/* The picture says what is not in it. */
function sayArrows(arrows) {
	const drawn = arrows.found.length, all = plural(arrows.seen, "cause") + " here";
	$("arrows").textContent = !E ? "Reading what led to what …" : arrows.hidden ? all + ", too many to draw an arrow each: zoom in, or choose some threads"
		: drawn < arrows.seen ? all + ", " + plural(drawn, "arrow") + ": into a thread, one in " + arrows.merge + " pixels, and from threads that are shown" : plural(drawn, "cause") + " here, an arrow each";
	document.documentElement.dataset.arrows = arrows.hidden ? 0 : drawn;
}
