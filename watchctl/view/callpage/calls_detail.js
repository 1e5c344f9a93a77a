/* The chosen call. */

const INSIDE = 100; /* calls listed */

const outerOf = new Map();
for (let k = 0; k < D.outer.length; k += 2)
	outerOf.set(D.outer[k], D.outer[k + 1]);

const callLink = i => linkButton(fnName(i), "call " + logNumber(i), () => goTo(i));

function paramTable(i) {
	const params = paramsOf(i), result = resultOf(i), f = D.functions[C.fn[i]], lines = params.map(p => [p.name, p.type, p.text]);
	if (result !== undefined)
		lines.push(["result", textOf(f.type), result]);
	if (!lines.length)
		return el("p", { class: "hint" }, "No parameters and no result were recorded.");
	return el("table", { class: "params" }, el("tbody", {}, ...lines.map(([name, type, text]) => el("tr", {}, el("td", { class: "data" }, name),
		el("td", { class: "data" }, text, type ? el("div", { class: "sub" }, type) : null)))));
}

/* Who called it: calls of this log, and then frames outside of it. */
function callerList(i) {
	const list = el("ol", { class: "stack path" });
	let top = i;
	for (let k = parent[i]; k >= 0; k = parent[k]) {
		list.append(el("li", {}, callLink(k)));
		top = k;
	}
	for (const line of (textOf(outerOf.get(top) || 0) || "").split("\n"))
		if (line)
			list.append(el("li", { class: "data sub" }, line));
	return list.children.length ? [el("h3", {}, "Called from"), list] : [];
}

function insideList(i) {
	const list = el("ol", { class: "stack path" });
	let n = 0;
	for (let k = i + 1; k < endOrder[i]; k++)
		if (parent[k] === i && ++n <= INSIDE)
			list.append(el("li", {}, callLink(k), " ", el("span", { class: "sub" }, spanText(duration(k)))));
	return n ? [el("h3", {}, plural(n, "call") + " inside" + (n > INSIDE ? ", the first " + INSIDE : "")), list] : [];
}

function showDetail() {
	const i = chart.selected, body = $("detail-body");
	if (i < 0) {
		body.replaceChildren(el("p", { class: "hint" }, "Choose a call in the picture or in a table."));
		return;
	}
	const f = D.functions[C.fn[i]], flags = callFlags(i), facts = [["call", count(logNumber(i))], ["thread", threadName(C.thread[i])], ["began", timeText(C.begin[i]) + (clockText(C.begin[i]) ? " (" + clockText(C.begin[i]) + ")" : "")],
		["took", spanText(duration(i)) + ", self " + spanText(selfTime(i))], ["depth", count(C.depth[i])]];
	if (flags.length)
		facts.push(["how", flags.join(", ")]);
	body.replaceChildren(el("p", { class: "change data" }, f.full || f.name), el("p", { class: "sub data" }, [sourceOf(f), f.file === undefined ? "" : base(f.module)].filter(t => t).join(" · ")),
		paramTable(i), el("dl", {}, ...facts.flatMap(([k, v]) => [el("dt", {}, k), el("dd", { class: "data" }, v)])), ...callerList(i), ...insideList(i));
}
