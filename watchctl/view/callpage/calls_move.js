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

function zoom(factor, around) {
	const at = around === undefined ? (chart.from + chart.to) / 2 : around;
	setView(at - (at - chart.from) * factor, at + (chart.to - at) * factor);
}

const move = share => setView(chart.from + share * (chart.to - chart.from), chart.to + share * (chart.to - chart.from));

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

function dragEvents(at) {
	let drag = null;
	canvas.addEventListener("pointerdown", e => {
		drag = { x: at(e)[0], y: e.clientY, scroll: box.scrollTop, from: chart.from, to: chart.to, moved: false };
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", e => {
		const [x, y] = at(e);
		if (!drag) {
			showTip(x, y);
			return;
		}
		drag.moved = drag.moved || Math.abs(x - drag.x) > 3 || Math.abs(e.clientY - drag.y) > 3;
		if (drag.moved) {
			$("tip").hidden = true;
			const d = (drag.x - x) / width() * (drag.to - drag.from);
			setView(drag.from + d, drag.to + d);
			if (e.pointerType === "mouse")
				box.scrollTop = drag.scroll + drag.y - e.clientY;
		}
	});
	canvas.addEventListener("pointerup", e => {
		const hit = drag && !drag.moved ? callAt(...at(e)) : null;
		drag = null;
		if (hit)
			select(hit[0]);
	});
	canvas.addEventListener("pointercancel", () => { drag = null; });
}

function overviewEvents() {
	let brush = false;
	const moveBrush = e => {
		const r = overview.getBoundingClientRect(), [a, b] = chart.home, half = (chart.to - chart.from) / 2;
		const t = a + (e.clientX - r.left) / r.width * (b - a);
		if (half * 2 < b - a)
			setView(t - half, t + half);
	};
	overview.addEventListener("pointerdown", e => {
		brush = true;
		overview.setPointerCapture(e.pointerId);
		moveBrush(e);
	});
	overview.addEventListener("pointermove", e => brush && moveBrush(e));
	overview.addEventListener("pointerup", () => { brush = false; });
}

function chartEvents() {
	const at = e => {
		const r = canvas.getBoundingClientRect();
		return [e.clientX - r.left, e.clientY - r.top];
	};
	canvas.addEventListener("wheel", e => {
		e.preventDefault();
		$("tip").hidden = true;
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
			move((e.deltaX || e.deltaY) / width());
		else
			zoom(Math.pow(1.0018, e.deltaY), Math.max(chart.from, Math.min(chart.to, tOf(at(e)[0]))));
	}, { passive: false });
	dragEvents(at);
	overviewEvents();
	canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
	canvas.addEventListener("dblclick", e => {
		const hit = callAt(...at(e));
		if (hit)
			fit(hit[0]);
	});
	canvas.addEventListener("keydown", chartKey);
	box.addEventListener("scroll", redraw);
	new ResizeObserver(redraw).observe($("chart-box"));
}
