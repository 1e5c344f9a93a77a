/* Moving about in the picture: wheel, mouse, keys. */

let settleTimer = 0;
function setView(from, to) {
	const [a, b] = chart.home, most = b - a, w = Math.min(most, Math.max(byOrder() ? 2 : 20, to - from));
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
			S.view = chart.from.toFixed(1) + ".." + chart.to.toFixed(1);
		writeFragment(false);
	}, 400);
}

function select(i) {
	chart.selected = i;
	change({ call: i < 0 ? undefined : String(logNumber(i)) });
}

/* So that the chosen call can be seen: beside each other, and above each other. */
function reveal(i) {
	const lane = chart.lanes.find(l => l.thread === C.thread[i]), w = chart.to - chart.from;
	if (right(i) < chart.from || left(i) > chart.to)
		setView(left(i) - w / 2, left(i) + w / 2);
	else if (xOf(right(i)) - xOf(left(i)) < 4)
		setView(left(i) - w / 16, left(i) + w / 16);
	if (!lane)
		return;
	const y = lane.y + LANE_H + C.depth[i] * ROW_H;
	if (y - AXIS_H < box.scrollTop || y + ROW_H > box.scrollTop + visibleHeight())
		box.scrollTop = Math.max(0, y - visibleHeight() / 2);
}

function goTo(i) {
	if (i < 0)
		return;
	if (!inThread(i))
		change({ thread: undefined });
	reveal(i);
	select(i);
	$("said").textContent = callLine(i);
}

function fit(i) {
	if (i < 0)
		return;
	const edge = (right(i) - left(i)) * .04;
	setView(left(i) - edge, right(i) + edge);
	reveal(i);
}

/* The call beside it in its row. */
function beside(i, by) {
	const row = rows.first[C.thread[i]] + C.depth[i], at = firstBeyond(rows.start[row], rows.start[row + 1], k => k, i - .5) + by;
	return at >= rows.start[row] && at < rows.start[row + 1] ? rows.calls[at] : -1;
}

/* Calls inside begin right behind their caller, in its thread. */
function firstInside(i) {
	for (let k = i + 1; k < endOrder[i]; k++)
		if (parent[k] === i)
			return k;
	return -1;
}

/* The first call that can be seen. */
function firstShownCall() {
	for (let i = 0; i < N; i++)
		if (inThread(i) && right(i) > chart.from && left(i) >= chart.from)
			return i;
	return -1;
}

function walk(to) {
	goTo(chart.selected < 0 ? firstShownCall() : to(chart.selected));
}

function lastCall() {
	let i = N - 1;
	while (i >= 0 && !inThread(i))
		i--;
	return i;
}

function chartKey(e) {
	const keys = {
		ArrowLeft: () => e.shiftKey ? move(-.2) : walk(i => beside(i, -1)),
		ArrowRight: () => e.shiftKey ? move(.2) : walk(i => beside(i, 1)),
		ArrowUp: () => e.shiftKey ? box.scrollBy(0, -60) : walk(i => parent[i]),
		ArrowDown: () => e.shiftKey ? box.scrollBy(0, 60) : walk(firstInside),
		Home: () => { goTo(N ? hitOrFirst() : -1); },
		End: () => goTo(lastCall()),
		Enter: () => $("detail").focus(),
		"+": () => zoom(.5, middle()), "=": () => zoom(.5, middle()), "-": () => zoom(2, middle()),
		0: () => setView(...chart.home), f: () => fit(chart.selected),
	};
	if (e.ctrlKey || e.altKey || e.metaKey || !keys[e.key])
		return;
	e.preventDefault();
	keys[e.key]();
}

/* The first call of what is shown. */
function hitOrFirst() {
	let i = 0;
	while (i < N - 1 && !inThread(i))
		i++;
	return i;
}

/* Around the chosen call, if it can be seen. */
function middle() {
	const i = chart.selected;
	return i >= 0 && left(i) >= chart.from && left(i) <= chart.to ? left(i) : undefined;
}

function chartEvents() {
	panEvents((x, y) => {
		const hit = callAt(x, y);
		if (hit)
			select(hit[0]);
	}, (x, y) => {
		const hit = callAt(x, y);
		if (hit)
			fit(hit[0]);
	});
	canvas.addEventListener("keydown", chartKey);
}
