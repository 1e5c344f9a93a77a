/* Shared by pictures in lanes: the page has chart, canvas, overview, box, draw(), setView(), showTip() and the like. */

/* Of all hues, so that neighbours differ; light enough for dark letters. */
function barColour(name) {
	let h = 0;
	for (let i = 0; i < name.length; i++)
		h = (h * 31 + name.charCodeAt(i)) >>> 0;
	return "hsl(" + h % 360 + " " + (40 + (h >>> 9) % 25) + "% " + (70 + (h >>> 16) % 10) + "%)";
}

function prepare(c, w, h) {
	const g = sizeCanvas(c, w, h);
	g.fillStyle = chart.colour.bg;
	g.fillRect(0, 0, w, h);
	return g;
}

function redraw() {
	if (!chart.pending) {
		chart.pending = true;
		requestAnimationFrame(draw);
	}
}

/* In the strip, the part that the picture shows. */
function drawBrush(g, w) {
	const [a, b] = chart.home;
	const x0 = (chart.from - a) / (b - a) * w, x1 = (chart.to - a) / (b - a) * w;
	g.globalAlpha = .6;
	g.fillStyle = chart.colour.panel;
	g.fillRect(0, 0, x0, 40);
	g.fillRect(x1, 0, w - x1, 40);
	g.globalAlpha = 1;
	g.strokeStyle = chart.colour.focus;
	g.lineWidth = 1.5;
	g.strokeRect(Math.max(.75, x0), .75, Math.max(3, Math.min(w - 1.5, x1) - Math.max(.75, x0)), 38.5);
}

function zoom(factor, around) {
	const at = around === undefined ? (chart.from + chart.to) / 2 : around;
	setView(at - (at - chart.from) * factor, at + (chart.to - at) * factor);
}

const move = share => setView(chart.from + share * (chart.to - chart.from), chart.to + share * (chart.to - chart.from));

function dragEvents(at, click) {
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
		const clicked = drag && !drag.moved;
		drag = null;
		if (clicked)
			click(...at(e), e);
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

/* @click and @doubleClick get the place in the canvas. */
function panEvents(click, doubleClick) {
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
	dragEvents(at, click);
	overviewEvents();
	canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
	canvas.addEventListener("dblclick", e => doubleClick(...at(e)));
	box.addEventListener("scroll", redraw);
	new ResizeObserver(redraw).observe($("chart-box"));
}
