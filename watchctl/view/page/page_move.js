/* Moving about in the time line: wheel, mouse, keys, and what is told about the place under the pointer. */

let settleTimer = 0;
function setView(from, to) {
	const least = Math.min(span, 100), width = Math.min(span, Math.max(least, to - from));
	let start = from + (to - from - width) / 2;
	start = Math.max(0, Math.min(span - width, start));
	chart.from = start;
	chart.to = start + width;
	redraw();
	/* Browsers do not like an address that changes all the time. */
	clearTimeout(settleTimer);
	settleTimer = setTimeout(() => {
		const all = Math.abs(chart.from - chart.home[0]) < 1 && Math.abs(chart.to - chart.home[1]) < 1;
		if (all)
			delete S.view;
		else
			S.view = viewText();
		writeFragment(false);
	}, 400);
}

const viewText = () => (chart.from / 1e9).toFixed(9) + ".." + (chart.to / 1e9).toFixed(9);

function zoom(factor, around) {
	const at = around === undefined ? (chart.from + chart.to) / 2 : around;
	setView(at - (at - chart.from) * factor, at + (chart.to - at) * factor);
}

function columnTip(l, x) {
	const i = Math.floor(x - LEFT), out = [];
	if (i < 0 || i >= l.plot || !chart.columns)
		return null;
	l.panels.forEach((p, k) => {
		/* People do not hit one pixel. */
		const col = chart.columns.panels[k], n = [0, 0, 0, 0, 0];
		let min = NaN, max = NaN;
		for (let j = Math.max(0, i - 1); j <= i + 1; j++) {
			n.forEach((_, q) => { n[q] += col.n[q][j] || 0; });
			if (!(col.min[j] >= min))
				min = isNaN(col.min[j]) ? min : col.min[j];
			if (!(col.max[j] <= max))
				max = isNaN(col.max[j]) ? max : col.max[j];
		}
		const sum = n.reduce((a, b) => a + b);
		if (sum)
			out.push(D.watches[p.watch].name + ": " + n.map((v, q) => v ? count(v) + " × " + KIND[q].name : "").filter(v => v).join(", ") +
				(isNaN(min) ? "" : "; value " + scaleText(p.watch, min) + (max > min ? " to " + scaleText(p.watch, max) : "")));
	});
	return out.length ? ["about " + timeText(tOf(l, x), 6), ...out] : null;
}

function scaleText(watch, v) {
	const s = valueScales()[watch];
	if (s.ranked)
		return s.v.text(...s.seen.get(s.order[v]));
	return s.v.type.kind === TYPE.pointer ? "0x" + v.toString(16) : String(v);
}

function eventTip(i) {
	const c = E.what[i], lines = [timeText(E.t[i]) + (C.capture[c] ? "" : "  " + KIND[C.kind[c]].name)];
	if (C.capture[c])
		lines.push("tag " + (D.tags[C.place[c]] || { name: "?" }).name + (newText(i) ? " = " + newText(i) : ""));
	else
		lines.push((C.watch[c] < 0 ? "" : D.watches[C.watch[c]].name + ": ") + valueChange(i));
	const site = C.capture[c] ? null : D.sites[C.place[c]];
	lines.push("thread " + threadName(C.thread[c]));
	if (site)
		lines.push(siteName(site) + "  " + siteLine(site));
	else if (C.stack[c] >= 0 && D.stacks[C.stack[c]].length > 1)
		lines.push(frameName(D.stacks[C.stack[c]][1]) + "  " + frameLine(D.stacks[C.stack[c]][1]));
	return lines;
}

function valueChange(i) {
	const has = E.flags[i] & 3;
	if (has === 3 && !changes(i))
		return newText(i) + (C.kind[E.what[i]] === 1 ? "" : " (unchanged)");
	if (has === 3)
		return oldText(i) + " → " + newText(i);
	return has & HAS_NEW ? newText(i) : has ? "was " + oldText(i) : C.watch[E.what[i]] >= 0 && D.watches[C.watch[E.what[i]]].withheld ? "(withheld)" : "value not recorded";
}

function nearest(x, y) {
	let best = -1, dist = 14 * 14;
	for (const [hx, hy, i] of chart.hot) {
		const d = (hx - x) * (hx - x) + (hy - y) * (hy - y);
		if (d < dist) {
			dist = d;
			best = i;
		}
	}
	return best;
}

function showTip(x, y) {
	const tip = $("tip"), l = chart.layout, i = nearest(x, y), lines = i >= 0 ? eventTip(i) : chart.marks ? null : columnTip(l, x);
	tip.hidden = !lines;
	if (!lines)
		return;
	tip.replaceChildren(...lines.map(t => el("div", { class: "data" }, t)));
	const w = tip.offsetWidth, h = tip.offsetHeight;
	tip.style.left = Math.max(0, Math.min(l.width - w, x + 14)) + "px";
	tip.style.top = (y + 16 + h > l.height ? Math.max(0, y - h - 10) : y + 16) + "px";
}

function chartEvents() {
	let drag = null;
	const at = e => {
		const r = canvas.getBoundingClientRect();
		return [e.clientX - r.left, e.clientY - r.top];
	};
	canvas.addEventListener("wheel", e => {
		e.preventDefault();
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
			const d = (e.deltaX || e.deltaY) / chart.layout.plot * (chart.to - chart.from);
			setView(chart.from + d, chart.to + d);
		} else
			zoom(Math.pow(1.0018, e.deltaY), Math.max(chart.from, Math.min(chart.to, tOf(chart.layout, at(e)[0]))));
	}, { passive: false });
	canvas.addEventListener("pointerdown", e => {
		drag = { x: at(e)[0], from: chart.from, to: chart.to, moved: false };
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", e => {
		const [x, y] = at(e);
		if (!drag) {
			showTip(x, y);
			return;
		}
		if (Math.abs(x - drag.x) > 3)
			drag.moved = true;
		if (drag.moved) {
			$("tip").hidden = true;
			const d = (drag.x - x) / chart.layout.plot * (drag.to - drag.from);
			setView(drag.from + d, drag.to + d);
		}
	});
	canvas.addEventListener("pointerup", e => {
		if (drag && !drag.moved) {
			const i = nearest(...at(e));
			if (i >= 0)
				select(i, true);
		}
		drag = null;
	});
	canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
	canvas.addEventListener("dblclick", e => zoom(.25, tOf(chart.layout, at(e)[0])));
	canvas.addEventListener("keydown", chartKey);

	let brush = null;
	overview.addEventListener("pointerdown", e => {
		brush = true;
		overview.setPointerCapture(e.pointerId);
		moveBrush(e);
	});
	const moveBrush = e => {
		const t = (e.clientX - overview.getBoundingClientRect().left - LEFT) / chart.layout.plot * span, half = (chart.to - chart.from) / 2;
		if (half * 2 < span)
			setView(t - half, t + half);
	};
	overview.addEventListener("pointermove", e => brush && moveBrush(e));
	overview.addEventListener("pointerup", () => { brush = null; });
	new ResizeObserver(redraw).observe($("chart-box"));
}

/* The next event that passes, from @i on. */
function step(i, by) {
	for (i += by; E && i >= 0 && i < E.n; i += by)
		if (pass.event[i])
			return i;
	return -1;
}

function goTo(i) {
	if (i < 0)
		return;
	select(i, false);
	const t = E.t[i], width = chart.to - chart.from;
	if (t < chart.from || t > chart.to)
		setView(t - width / 2, t + width / 2);
	$("said").textContent = eventTip(i).join(", ");
}

function stepFrom(by) {
	if (!E)
		return;
	if (chart.selected >= 0)
		goTo(step(chart.selected, by));
	else
		goTo(by > 0 ? step(lowerBound(E.t, chart.from) - 1, 1) : step(lowerBound(E.t, chart.to + .5), -1));
}

function chartKey(e) {
	const width = chart.to - chart.from;
	const keys = {
		ArrowLeft: () => e.shiftKey ? setView(chart.from - width / 5, chart.to - width / 5) : stepFrom(-1),
		ArrowRight: () => e.shiftKey ? setView(chart.from + width / 5, chart.to + width / 5) : stepFrom(1),
		Home: () => goTo(step(-1, 1)),
		End: () => E && goTo(step(E.n, -1)),
		Enter: () => $("detail").focus(),
		"+": () => zoom(.5, chart.selected >= 0 ? E.t[chart.selected] : undefined),
		"=": () => zoom(.5, chart.selected >= 0 ? E.t[chart.selected] : undefined),
		"-": () => zoom(2),
		0: () => setView(...chart.home),
	};
	if (e.ctrlKey || e.altKey || e.metaKey || !keys[e.key])
		return;
	e.preventDefault();
	keys[e.key]();
}
