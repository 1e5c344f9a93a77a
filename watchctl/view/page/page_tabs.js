/* Tabs, each of which shows a table, a tree or a picture in the panel: TABS has them, of each page its own. */

const tabs = () => TABS.filter(t => t.has());
const currentTab = () => tabs().find(t => t.key === S.tab) || tabs()[0];

function showTabs() {
	const bar = $("tabs");
	bar.replaceChildren(...tabs().map(t => {
		const b = el("button", { type: "button", role: "tab", id: "tab-" + t.key, "aria-controls": "panel" }, t.name);
		b.addEventListener("click", () => change({ tab: t.key === tabs()[0].key ? undefined : t.key }));
		return b;
	}));
	bar.onkeydown = e => {
		const all = [...bar.children], at = all.indexOf(document.activeElement), to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[e.key];
		if (to === undefined || !all[(to + all.length) % all.length])
			return;
		e.preventDefault();
		all[(to + all.length) % all.length].click();
		$("tab-" + currentTab().key).focus();
	};
}

function showTab() {
	const panel = $("panel"), tab = currentTab(), at = document.activeElement;
	const label = at && panel.contains(at) ? at.getAttribute("aria-label") : null;
	panel.replaceChildren();
	if (!tab) {
		panel.append(el("p", { class: "hint" }, D.calls ? "Calls are printed by watchctl report --calls." : "Nothing was recorded."));
		return;
	}
	for (const b of $("tabs").children) {
		const on = b.id === "tab-" + tab.key;
		b.setAttribute("aria-selected", String(on));
		b.tabIndex = on ? 0 : -1;
	}
	panel.setAttribute("aria-labelledby", "tab-" + tab.key);
	tab.show(panel);
	/* Whoever came by the keyboard stays where he was. */
	const again = label && [...panel.querySelectorAll("[aria-label]")].find(e => e.getAttribute("aria-label") === label);
	if (again)
		again.focus();
}

const order = {}; /* of each table: [column, -1 or 1] */

/* @columns: {name, n (a number), value(row), cell(row)}; the first click on a number sorts the largest first. */
function sortedTable(key, caption, columns, rows, rowProps, limit = 1000) {
	const [by, way] = order[key] || [columns.findIndex(c => c.sortFirst), -1];
	const col = columns[by];
	const list = rows.map((r, i) => [col.value(r), i, r]).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * way || a[1] - b[1]).map(v => v[2]);
	const head = columns.map((c, i) => {
		const b = el("button", { type: "button" }, c.name + (i === by ? way < 0 ? " ▾" : " ▴" : ""));
		b.addEventListener("click", () => {
			order[key] = [i, i === by ? -way : c.n ? -1 : 1];
			showTab();
			[...$("panel").querySelectorAll("thead button")][i].focus();
		});
		return el("th", { scope: "col", class: [c.n ? "n" : "", c.class || ""].join(" ").trim() || null, "aria-sort": i === by ? way < 0 ? "descending" : "ascending" : null }, b);
	});
	const body = list.slice(0, limit).map(r => el("tr", rowProps ? rowProps(r) : {}, ...columns.map(c => {
		const content = c.cell ? c.cell(r) : c.value(r);
		return el("td", { class: [c.n ? "n" : "", c.class || ""].join(" ").trim() || null }, ...(Array.isArray(content) ? content : [content]));
	})));
	return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, el("table", {},
		el("caption", {}, caption + (list.length > limit ? "; the first " + count(limit) + " of " + count(list.length) : "")),
		el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)));
}

const linkButton = (text, label, action) => el("button", { type: "button", class: "link", "aria-label": label, onclick: action }, text);
