/* Moving about in the picture: keys, the chosen unit, what is under the pointer. */

let settleTimer = 0;
function setView(from, to) {
	const [a, b] = chart.home, most = b - a, w = Math.min(most, Math.max(200, to - from));
	const start = Math.max(a, Math.min(b - w, from + (to - from - w) / 2));
	chart.from = start;
	chart.to = start + w;
	redraw();
	/* Browsers do not like an address that changes all the time. */
	clearTimeout(settleTimer);
	settleTimer = setTimeout(() => {
		if (w > most * .999)
			delete S.view;
		else
			S.view = chart.from.toFixed(0) + ".." + chart.to.toFixed(0);
		writeFragment(false);
		if (S.only === "here") {
			layout();
			redraw();
		}
	}, 400);
}

const select = (i, at) => change({ unit: i < 0 ? undefined : String(U.id[i]), at: at === undefined ? undefined : String(Math.round(at)) });

/* So that a unit can be seen: beside each other, and above each other. A narrow one becomes wide enough to be seen among others. */
function reveal(i) {
	const place = chart.byLane[U.lane[i]], w = chart.to - chart.from, took = U.end[i] - U.begin[i];
	if (took * scale() < 3)
		setView(U.begin[i] - Math.max(took * 20, w / 64), U.begin[i] + Math.max(took * 20, w / 64));
	else if (U.end[i] < chart.from || U.begin[i] > chart.to)
		setView(U.begin[i] - w / 2, U.begin[i] + w / 2);
	if (place)
		scrollTo(place);
}

function scrollTo(place) {
	if (place.y - AXIS_H < box.scrollTop || place.y + place.h > box.scrollTop + visibleHeight())
		box.scrollTop = Math.max(0, place.y - visibleHeight() / 2);
}

function goTo(i, at) {
	if (i < 0)
		return;
	if (!chart.byLane[U.lane[i]])
		change({ only: undefined });
	reveal(i);
	select(i, at);
	$("said").textContent = who(i) + ", " + textOf(U.words[i]);
}

function fit(i) {
	if (i < 0)
		return;
	const edge = Math.max(100, (U.end[i] - U.begin[i]) * .08);
	setView(U.begin[i] - edge, U.end[i] + edge);
	reveal(i);
}

/* All of the path, from what began it on; or its last steps. */
function fitPath(most = Infinity) {
	if (!chosen.path)
		return;
	const steps = chosen.path.steps.slice(0, most), from = Math.min(...steps.map(s => U.begin[s.unit])), to = Math.max(...steps.map(s => s.until)), edge = Math.max(500, (to - from) * .04);
	setView(from - edge, to + edge);
}

/* The unit before or behind it in its lane. */
function beside(i, by) {
	const at = row.at[i] + by, lane = U.lane[i];
	return at >= row.start[lane] && at < row.start[lane + 1] ? row.units[at] : -1;
}

/* The unit that brought it about; and the first that it brought about. */
const causeUnit = i => { const e = causeOf(i, U.end[i]); return e < 0 || E.flags[e] & OWN ? -1 : E.from[e]; };

function effectUnit(i) {
	let best = -1;
	for (let k = E.outStart[i]; k < E.outStart[i + 1]; k++) {
		const e = E.out[k];
		if (!isWait(e) && E.to[e] !== i && (best < 0 || E.begin[e] < E.begin[best]))
			best = e;
	}
	return best < 0 ? -1 : E.to[best];
}

function firstShownUnit() {
	const i = lowerBound(U.begin, chart.from);
	return i < N ? i : N - 1;
}

const walk = to => goTo(chosen.unit < 0 ? firstShownUnit() : to(chosen.unit));
const middle = () => chosen.unit >= 0 && U.begin[chosen.unit] >= chart.from && U.begin[chosen.unit] <= chart.to ? U.begin[chosen.unit] : undefined;

function chartKey(e) {
	const keys = {
		ArrowLeft: () => e.shiftKey ? move(-.2) : walk(i => beside(i, -1)),
		ArrowRight: () => e.shiftKey ? move(.2) : walk(i => beside(i, 1)),
		ArrowUp: () => e.shiftKey ? box.scrollBy(0, -60) : walk(causeUnit),
		ArrowDown: () => e.shiftKey ? box.scrollBy(0, 60) : walk(effectUnit),
		Home: () => goTo(N ? 0 : -1), End: () => goTo(N - 1), Enter: () => $("detail").focus(), Escape: () => select(-1),
		"+": () => zoom(.5, middle()), "=": () => zoom(.5, middle()), "-": () => zoom(2, middle()),
		0: () => setView(...chart.home), f: () => fit(chosen.unit), a: () => fitPath(),
	};
	if (e.ctrlKey || e.altKey || e.metaKey || !keys[e.key] || !E)
		return;
	e.preventDefault();
	keys[e.key]();
}

const placeAt = y => chart.lanes.find(p => y + box.scrollTop >= p.y && y + box.scrollTop < p.y + p.h);

/* [unit, how many are in that pixel]; null: none. */
function unitAt(x, y) {
	const place = y < AXIS_H - 3 || x < LEFT ? null : placeAt(y);
	if (!place)
		return null;
	/* People do not hit one pixel. */
	const low = firstAfter(place.lane, tOf(x - 1.5)), high = firstBegin(low, row.start[place.lane + 1], tOf(x + 1.5));
	if (low >= high)
		return null;
	let i = row.units[low];
	for (let k = low; k < Math.min(high, low + 8); k++)
		if (U.begin[row.units[k]] <= tOf(x) && U.end[row.units[k]] >= tOf(x))
			i = row.units[k];
	return [i, (U.end[i] - U.begin[i]) * scale() >= NARROW ? 1 : high - low];
}

/* The wait of unit @i at that time, -1: none. */
function waitAt(i, t) {
	const [, b] = edgesOf(i);
	for (let e = firstEdge(i, t); e < b; e++)
		if (isWait(e) && E.begin[e] <= t)
			return e;
	return -1;
}

function unitTip(i, n, t) {
	const cause = causeOf(i, U.end[i]), wait = waitAt(i, t);
	return [el("div", { class: "data" }, who(i)), n > 1 ? el("div", {}, plural(n, "unit") + " in one place, one of them:") : null,
		el("div", {}, textOf(U.words[i]) + ", " + spanText(U.end[i] - U.begin[i])), wait >= 0 ? el("div", {}, "here waiting " + spanText(E.at[wait] - E.begin[wait]) + ": " + waitLine(wait)) : null,
		cause >= 0 ? el("div", {}, "brought about by " + causeLine(cause)) : null, el("div", { class: "sub" }, momentText(t, 9))].filter(x => x);
}

function laneTip(place) {
	const lane = place.lane, names = D.threads[lane][4].filter((_, k) => k % 2).reverse().map(clean);
	return [el("div", { class: "data" }, lastName(lane) + "/" + tidOf(lane)), pidOf(lane) ? el("div", {}, "process " + processName(lane) + " " + pidOf(lane)) : null,
		names.length > 1 ? el("div", { class: "data" }, "its names: " + names.join(" → ")) : null, el("div", { class: "sub" }, plural(row.start[lane + 1] - row.start[lane], "unit") + ", " + spanText(took(lane)) + " in all")].filter(x => x);
}

function lossTip(x) {
	for (let k = 0; k < D.losses.length; k += 2)
		if (Math.abs(xOf(D.losses[k]) - x) < 4)
			return [el("div", {}, (D.losses[k + 1] ? plural(D.losses[k + 1], "event") + " lost" : "events are missing, how many is not known")), el("div", {}, "Causes across this are not known."), el("div", { class: "sub" }, momentText(D.losses[k]))];
	return null;
}

function tipLines(x, y) {
	if (!E)
		return null;
	const place = y < AXIS_H - 3 ? null : placeAt(y), hit = x < LEFT ? null : unitAt(x, y);
	if (hit)
		return unitTip(...hit, tOf(x));
	return x < LEFT ? place && laneTip(place) : lossTip(x);
}

function showTip(x, y) {
	const tip = $("tip"), lines = tipLines(x, y);
	tip.hidden = !lines;
	if (!lines)
		return;
	tip.replaceChildren(...lines);
	const w = tip.offsetWidth, h = tip.offsetHeight;
	tip.style.left = Math.max(0, Math.min(box.clientWidth - w, x + 14)) + "px";
	tip.style.top = (y + 18 + h > visibleHeight() + 40 ? Math.max(0, y - h - 10) : y + 18) + "px";
}

function chartEvents() {
	panEvents((x, y, e) => {
		const hit = unitAt(x, y);
		select(hit ? hit[0] : -1, hit && e.shiftKey ? tOf(x) : undefined);
	}, (x, y) => {
		const hit = unitAt(x, y);
		if (hit)
			fit(hit[0]);
	});
	canvas.addEventListener("keydown", chartKey);
	addEventListener("resize", () => {
		layout();
		redraw();
	});
}
