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

const stackView = total => ({
	label: node => node.name + ", " + count(node.n) + ", " + percent(node.n, total),
	cells: node => [el("span", { class: "cnt" }, count(node.n)), el("span", { class: "pct" }, percent(node.n, total)),
		el("span", { class: "fn data" }, el("code", {}, node.name), " ", el("span", { class: "sub" }, node.frame >= 0 ? frameLine(node.frame) : ""))],
});

function stackTree(panel) {
	const root = buildTree(inverted);
	panel.append(stackBar(root, "by stack"), root.n ? treeOf(root, "Stacks by count", stackView(root.n)) : el("p", { class: "hint" }, "No stacks."));
}

function stackFlame(panel) {
	const root = buildTree(inverted);
	panel.append(stackBar(root, "by stack; the wider, the more"));
	if (root.n)
		flameGraph(panel, root, { amount: count, others: "the tab Stacks has the same numbers", self: n => count(n) + " end here" });
	else
		panel.append(el("p", { class: "hint" }, "No stacks."));
}
