/* Stacks by count: as a tree, and as a flame graph. */

/* Frames are equal when they have the same name; where a stack was cut short, why comes first. */
function buildTree(inverted) {
	const root = { name: "all", n: 0, self: 0, children: new Map(), level: 0 };
	for (const [stack, n] of sumBy(c => C.stack[c], () => true)) {
		root.n += n;
		const names = [];
		if (stack < 0)
			names.push("(stack not kept in this page)");
		else {
			const s = D.stacks[stack];
			for (let i = 1; i < s.length; i++)
				names.push(s[i]);
			if (!inverted) {
				names.reverse();
				if (D.stack_ends[s[0]])
					names.unshift("(" + D.stack_ends[s[0]] + ")");
			}
		}
		let node = root;
		for (const f of names) {
			const key = typeof f === "string" ? f : frameName(f);
			let child = node.children.get(key);
			if (!child) {
				child = { name: key, frame: typeof f === "string" ? -1 : f, n: 0, self: 0, children: new Map(), level: node.level + 1, parent: node };
				node.children.set(key, child);
			}
			child.n += n;
			node = child;
		}
		node.self += n;
	}
	return root;
}

const sorted = node => [...node.children.values()].sort((a, b) => b.n - a.n || (a.name < b.name ? -1 : 1));
const percent = (n, of) => of ? (n / of * 100).toFixed(1) + " %" : "";

let inverted = false;

function stackBar(root, what) {
	const box = el("input", { type: "checkbox" });
	box.checked = inverted;
	box.addEventListener("change", () => {
		inverted = box.checked;
		showTab();
	});
	return el("div", { class: "bar" }, el("span", {}, plural(root.n, D.captures ? D.accesses ? "access or capture" : "capture" : "access", D.captures ? D.accesses ? "accesses and captures" : "captures" : "accesses") + " " + what + partNote()),
		el("label", {}, box, " innermost frame first (who calls it)"));
}

function treeItem(node, total) {
	const children = sorted(node), twisty = el("span", { class: "tw", "aria-hidden": "true" }, children.length ? "▸" : "");
	const item = el("li", { role: "treeitem", tabindex: -1, "aria-level": node.level, "aria-expanded": children.length ? "false" : null,
		"aria-label": node.name + ", " + count(node.n) + ", " + percent(node.n, total) },
	el("div", { class: "node" }, twisty, el("span", { class: "cnt" }, count(node.n)), el("span", { class: "pct" }, percent(node.n, total)),
		el("span", { class: "fn data" }, el("code", {}, node.name), " ", el("span", { class: "sub" }, node.frame >= 0 ? frameLine(node.frame) : ""))));
	item.expand = yes => {
		if (!children.length)
			return;
		if (yes && !item.group) {
			item.group = el("ul", { role: "group" }, ...children.slice(0, 500).map(c => treeItem(c, total)));
			item.append(item.group);
		}
		if (item.group)
			item.group.hidden = !yes;
		item.setAttribute("aria-expanded", String(yes));
		twisty.textContent = yes ? "▾" : "▸";
	};
	item.firstChild.addEventListener("click", () => {
		item.expand(item.getAttribute("aria-expanded") !== "true");
		focusItem(item);
	});
	return item;
}

function focusItem(item) {
	for (const other of item.closest("[role=tree]").querySelectorAll("[tabindex='0']"))
		other.tabIndex = -1;
	item.tabIndex = 0;
	item.focus();
}

function treeKey(e) {
	const item = e.target.closest("[role=treeitem]"), tree = e.currentTarget;
	if (!item)
		return;
	const visible = [...tree.querySelectorAll("[role=treeitem]")].filter(i => i.offsetParent !== null);
	const at = visible.indexOf(item), open = item.getAttribute("aria-expanded");
	const go = i => visible[i] && focusItem(visible[i]);
	const keys = {
		ArrowDown: () => go(at + 1), ArrowUp: () => go(at - 1), Home: () => go(0), End: () => go(visible.length - 1),
		ArrowRight: () => open === "false" ? item.expand(true) : go(at + 1),
		ArrowLeft: () => open === "true" ? item.expand(false) : item.parentElement.closest("[role=treeitem]") && focusItem(item.parentElement.closest("[role=treeitem]")),
		Enter: () => item.expand(open === "false"), " ": () => item.expand(open === "false"),
	};
	if (keys[e.key]) {
		e.preventDefault();
		e.stopPropagation();
		keys[e.key]();
	}
}

function stackTree(panel) {
	const root = buildTree(inverted), tree = el("ul", { role: "tree", "aria-label": "Stacks by count", onkeydown: treeKey });
	panel.append(stackBar(root, "by stack"));
	if (!root.n) {
		panel.append(el("p", { class: "hint" }, "No stacks."));
		return;
	}
	tree.append(...sorted(root).slice(0, 500).map(c => treeItem(c, root.n)));
	panel.append(el("div", { class: "scroll" }, tree));
	/* Open down to where the most frequent path first divides. */
	for (let item = tree.firstElementChild; item; ) {
		item.expand(true);
		const children = item.group ? item.group.children : [];
		item = children.length ? children[0] : null;
		if (children.length > 4)
			break;
	}
	if (tree.firstElementChild)
		tree.firstElementChild.tabIndex = 0;
}

/* The flame graph: width is count, colour only tells neighbours apart. */

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

function flameGraph(panel) {
	const root = buildTree(inverted);
	panel.append(stackBar(root, "by stack; the wider, the more"));
	if (!root.n) {
		panel.append(el("p", { class: "hint" }, "No stacks."));
		return;
	}
	const picture = svg("svg", { id: "flame", role: "application", "aria-label": "Flame graph; the tab Stacks has the same numbers. Arrows move, Enter zooms, Escape shows all." });
	const said = el("p", { class: "data", role: "status" }, "All: " + count(root.n) + ". A click on a function shows only what is below it.");
	let top = root, rects = [], focused = 0;
	const tell = r => { said.textContent = r.node.name + ": " + count(r.node.n) + " of " + count(root.n) + " (" + percent(r.node.n, root.n) + "), " + count(r.node.self) + " end here"; };
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
			const g = svg("g", { tabindex: "-1", role: "img", "aria-label": r.node.name + ", " + count(r.node.n) + ", " + percent(r.node.n, root.n) });
			g.append(svg("title", {}, r.node.name + "\n" + count(r.node.n) + " (" + percent(r.node.n, root.n) + ")"),
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
