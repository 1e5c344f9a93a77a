/*
 * Trees whose nodes are { name, n, level, parent, children (a Map) }, and how they are worked with by the keyboard. @view
 * says what a node is called to people who hear it, and which cells its line has: label(node), cells(node).
 */

const sorted = node => [...node.children.values()].sort((a, b) => b.n - a.n || (a.name < b.name ? -1 : 1));

function treeItem(node, view) {
	const children = sorted(node), twisty = el("span", { class: "tw", "aria-hidden": "true" }, children.length ? "▸" : "");
	const item = el("li", { role: "treeitem", tabindex: -1, "aria-level": node.level, "aria-expanded": children.length ? "false" : null, "aria-label": view.label(node) },
		el("div", { class: "node" }, twisty, ...view.cells(node)));
	item.expand = yes => {
		if (!children.length)
			return;
		if (yes && !item.group) {
			item.group = el("ul", { role: "group" }, ...children.slice(0, 500).map(c => treeItem(c, view)));
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

/* The tree below @root, which is not a line itself; open down to where its most important path first divides. */
function treeOf(root, name, view) {
	const tree = el("ul", { role: "tree", "aria-label": name, onkeydown: treeKey }, ...sorted(root).slice(0, 500).map(c => treeItem(c, view)));
	for (let item = tree.firstElementChild; item; ) {
		item.expand(true);
		const children = item.group ? item.group.children : [];
		item = children.length ? children[0] : null;
		if (children.length > 4)
			break;
	}
	if (tree.firstElementChild)
		tree.firstElementChild.tabIndex = 0;
	return el("div", { class: "scroll" }, tree);
}
