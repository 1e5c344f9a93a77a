/*
 * The flame graph of a tree (page_tree.js): width is n, colour only tells neighbours apart. @words: amount(n), self(n) in
 * words, and where else the numbers are; @words.found, if there, which nodes are marked.
 */

const ROW = 18;

function flameColour(name) {
	let h = 0;
	for (let i = 0; i < name.length; i++)
		h = (h * 31 + name.charCodeAt(i)) >>> 0;
	return "hsl(" + (18 + h % 36) + " " + (62 + (h >>> 8) % 24) + "% " + (66 + (h >>> 16) % 12) + "%)";
}

function flameRects(top, width) {
	const rects = [], visit = (node, x, w, depth) => {
		rects.push({ node, x, w, depth });
		let at = x;
		for (const c of sorted(node)) {
			const cw = c.n / node.n * w;
			if (cw >= .6 && depth < 200 && rects.length < 4000)
				visit(c, at, cw, depth + 1);
			at += cw;
		}
	};
	const line = [];
	for (let n = top.parent; n; n = n.parent)
		line.unshift(n);
	line.forEach((node, depth) => rects.push({ node, x: 0, w: width, depth }));
	visit(top, 0, width, line.length);
	return rects;
}

function flameGraph(panel, root, words) {
	const amount = words.amount, share = node => amount(node.n) + " (" + percent(node.n, root.n) + ")";
	const picture = svg("svg", { id: "flame", role: "application", "aria-label": "Flame graph; " + words.others + ". Arrows move, Enter zooms, Escape shows all." });
	const said = el("p", { class: "data", role: "status" }, "All: " + amount(root.n) + ". A click on a function shows only what is below it.");
	let top = root, rects = [], focused = 0;
	const tell = r => { said.textContent = r.node.name + ": " + amount(r.node.n) + " of " + amount(root.n) + " (" + percent(r.node.n, root.n) + "), " + words.self(r.node.self, r.node); };
	const groups = () => [...picture.children];
	const focus = i => {
		if (!rects[i])
			return;
		if (groups()[focused])
			groups()[focused].setAttribute("tabindex", "-1");
		focused = i;
		groups()[i].setAttribute("tabindex", "0");
		groups()[i].focus();
		tell(rects[i]);
	};
	const show = (node, focusIt) => {
		top = node;
		const width = Math.max(200, panel.clientWidth - 2);
		rects = flameRects(top, width);
		const rows = Math.max(...rects.map(r => r.depth)) + 1;
		picture.setAttribute("viewBox", "0 0 " + width + " " + rows * ROW);
		picture.style.height = rows * ROW + "px";
		picture.replaceChildren(...rects.map((r, i) => {
			const g = svg("g", { tabindex: "-1", role: "img", "aria-label": r.node.name + ", " + amount(r.node.n) + ", " + percent(r.node.n, root.n), class: words.found && words.found(r.node) ? "found" : "" });
			g.append(svg("title", {}, r.node.name + "\n" + share(r.node)),
				svg("rect", { x: r.x, y: r.depth * ROW, width: Math.max(.5, r.w), height: ROW - 1, rx: 1.5, fill: flameColour(r.node.name) }));
			const room = Math.floor((r.w - 8) / 6.7);
			if (room > 2)
				g.append(svg("text", { x: r.x + 4, y: r.depth * ROW + 12.5 }, r.node.name.length > room ? r.node.name.slice(0, room - 1) + "…" : r.node.name));
			g.addEventListener("click", () => show(r.node, true));
			g.addEventListener("pointerenter", () => tell(r));
			return g;
		}));
		focused = rects.findIndex(r => r.node === top);
		groups()[focused].setAttribute("tabindex", "0");
		if (focusIt)
			focus(focused);
	};
	picture.addEventListener("keydown", e => {
		const r = rects[focused], go = test => focus(rects.findIndex(test));
		const beside = by => {
			const same = rects.filter(o => o.depth === r.depth);
			const i = same.indexOf(r) + by;
			if (same[i])
				focus(rects.indexOf(same[i]));
		};
		const keys = {
			ArrowUp: () => go(o => o.node === r.node.parent), ArrowDown: () => go(o => o.node.parent === r.node),
			ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
			Enter: () => show(r.node, true), " ": () => show(r.node, true), Escape: () => show(root, true),
		};
		if (keys[e.key]) {
			e.preventDefault();
			e.stopPropagation();
			keys[e.key]();
		}
	});
	panel.append(picture, said);
	show(root, false);
}
