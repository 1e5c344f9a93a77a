/* The tree of calls and the flame graph: both from the same sums. */

const nodeFound = node => hits.on && node.fn !== undefined && hits.fns[node.fn];

function marked(node) {
	return el("code", {}, nodeFound(node) ? el("mark", {}, node.name) : node.name);
}

const treeView = root => ({
	label: node => node.name + ", total " + spanText(node.n) + ", self " + spanText(node.self) + ", " + plural(node.calls, "call"),
	cells: node => [el("span", { class: "cnt" }, spanText(node.n)), el("span", { class: "pct" }, percent(node.n, root.n)),
		el("span", { class: "cnt self" }, spanText(node.self)), el("span", { class: "calls-n" }, count(node.calls) + "×"),
		functionCell(node)],
});

/* Indented; not deeper than a narrow screen has room for. */
function functionCell(node) {
	const cell = el("span", { class: "fn data" }, marked(node), " ", goButton(node));
	cell.style.paddingLeft = Math.min(node.level - 1, 30) * .7 + "rem";
	return cell;
}

const goButton = node => el("button", { type: "button", class: "link sub", tabindex: -1, "aria-label": "the first call of it here", onclick: e => {
	e.stopPropagation();
	goTo(node.first);
} }, "→");

const sumsBar = root => el("div", { class: "bar" }, el("span", {}, plural(D.threads.length && S.thread === undefined ? lanes.filter(l => l.calls).length : 1, "thread") + ", " +
	spanText(root.n) + " in " + plural(root.calls, "outermost call") + "; the time that the recording costs is in it"));

function treeTab(panel) {
	const root = callTree(), scroll = treeOf(root, "Calls by caller", treeView(root));
	scroll.prepend(el("div", { class: "treehead", "aria-hidden": "true" }, el("span", { class: "tw" }), el("span", { class: "cnt" }, "total"), el("span", { class: "pct" }),
		el("span", { class: "cnt self" }, "self"), el("span", { class: "calls-n" }, "calls"), el("span", {}, "function")));
	panel.append(sumsBar(root), scroll);
}

function flameTab(panel) {
	const root = callTree();
	panel.append(sumsBar(root));
	if (root.n)
		flameGraph(panel, root, { amount: spanText, others: "the tab Call tree has the same numbers", found: nodeFound,
			self: (n, node) => spanText(n) + " of it itself, " + plural(node.calls, "call") });
	else
		panel.append(el("p", { class: "hint" }, "No time was recorded."));
}
