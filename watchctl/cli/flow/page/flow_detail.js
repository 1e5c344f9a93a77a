/* At the side: the chosen unit, the path to it, and what leads into it and out of it. */

const LISTED = 60, WAITS_TOLD = 3, FRAMES_TOLD = 8;

const unitLink = (i, text, at) => linkTo(text || who(i, at), "unit " + U.id[i], () => goTo(i, at));
const linkTo = (text, label, action) => el("button", { type: "button", class: "link data", title: label, onclick: action }, text);
const causeLine = e => E.flags[e] & OWN ? edgeText(e) : who(E.from[e], E.begin[e]) + " (" + kindName(e) + ": " + edgeText(e) + ")";
const dot = e => el("i", { class: "dot k-" + D.kinds[E.kind[e]] });

const frameList = (s, from, to) => el("ol", { class: "stack data", start: from }, ...s.frames.slice(from, to).map(f => el("li", {}, clean(textOf(f)))));

/* The first frames, and behind a click the others. */
function stackPart(e) {
	const s = stackOf(e);
	if (!s)
		return [];
	const end = s.end ? el("p", { class: "hint" }, "… " + textOf(s.end)) : null, more = s.frames.length - FRAMES_TOLD;
	return [frameList(s, 0, FRAMES_TOLD), more > 0 ? el("details", {}, el("summary", {}, plural(more, "more frame")), frameList(s, FRAMES_TOLD), end) : end];
}

function waitItem(e, until) {
	const by = waitEnder(e), end = Math.min(E.at[e], until);
	return el("div", { class: "wait", title: ownFunction(e) || null }, "of these " + spanText(end - E.begin[e]) + " waiting: " + edgeText(e), ...by ? [by[0], unitLink(E.from[e], who(E.from[e], end), end), by[1]] : [], ...stackPart(e));
}

function causeItem(e) {
	if (E.flags[e] & OWN)
		return el("div", {}, dot(e), "brought about at " + momentText(E.at[e]) + " by " + edgeText(e));
	return el("div", {}, dot(e), "brought about at " + momentText(E.at[e]) + " by ", unitLink(E.from[e], who(E.from[e], E.begin[e]), E.begin[e]), " (" + kindName(e) + ": " + edgeText(e) + ")");
}

function stepItem(s) {
	const words = [el("div", {}, el("span", { class: "when" }, momentText(U.begin[s.unit])), " ", unitLink(s.unit, who(s.unit, s.until), s.until < U.end[s.unit] ? s.until : undefined)),
		el("div", {}, textOf(U.words[s.unit]) + ", " + spanText(s.until - U.begin[s.unit])), ...s.waits.slice(0, WAITS_TOLD).map(e => waitItem(e, s.until))];
	if (s.waits.length > WAITS_TOLD)
		words.push(el("div", { class: "wait" }, "and " + plural(s.waits.length - WAITS_TOLD, "more wait")));
	if (s.edge >= 0)
		words.push(causeItem(s.edge));
	else if (s.follows)
		words.push(el("div", {}, "went on from its unit before, without a wait"));
	return el("li", { class: s.unit === chosen.unit ? "current" : null }, ...words);
}

function pathPart() {
	const p = chosen.path;
	return [el("h3", {}, "What led to this, the latest first"), el("ol", { class: "steps", id: "path" }, ...p.steps.map(stepItem)), el("p", { class: "hint" }, PATH_ENDS[p.end])];
}

function list(title, edges, item) {
	if (!edges.length)
		return [];
	return [el("details", {}, el("summary", {}, title + " (" + count(edges.length) + ")" + (edges.length > LISTED ? ", the first " + LISTED : "")), el("ul", { class: "edges" }, ...edges.slice(0, LISTED).map(e => el("li", {}, ...item(e)))))];
}

const inItem = e => [dot(e), momentText(E.at[e]) + " ", E.flags[e] & OWN ? "" : unitLink(E.from[e], who(E.from[e], E.begin[e]), E.begin[e]), (E.flags[e] & OWN ? "" : " · ") + kindName(e) + ": " + edgeText(e)];
const outItem = e => [dot(e), momentText(E.begin[e]) + " ", unitLink(E.to[e], who(E.to[e], E.at[e])), " · " + kindName(e) + ": " + edgeText(e)];
const waitedItem = e => [el("div", { title: ownFunction(e) || null }, spanText(E.at[e] - E.begin[e]) + " from " + momentText(E.begin[e]) + ": " + edgeText(e), ...waitEnder(e) ? [waitEnder(e)[0], unitLink(E.from[e], who(E.from[e], E.at[e]), E.at[e]), waitEnder(e)[1]] : [], ...stackPart(e))];

/* Waits may overlap, as one in a page fault inside of a call does. */
function waitedTime(i) {
	const [a, b] = edgesOf(i), waits = [];
	let sum = 0, covered = U.begin[i];
	for (let e = a; e < b; e++)
		if (isWait(e))
			waits.push(e);
	for (const e of waits.sort((x, y) => E.begin[x] - E.begin[y])) {
		sum += Math.max(0, Math.min(E.at[e], U.end[i]) - Math.max(E.begin[e], covered));
		covered = Math.max(covered, E.at[e]);
	}
	return sum;
}

function facts(i) {
	const lane = U.lane[i], waited = waitedTime(i), all = U.end[i] - U.begin[i];
	return [["thread", lastName(lane) + ", number " + tidOf(lane)], ["process", pidOf(lane) ? processName(lane) + ", number " + pidOf(lane) : "not known"],
		["began", (dayText() + " " + momentText(U.begin[i], 9)).trim() + (hasClock ? " " + zoneText : "")], ["took", spanText(all) + (waited ? ", " + spanText(waited) + " of it waiting" : "")], ["unit", count(U.id[i])]];
}

function showDetail() {
	const i = chosen.unit, body = $("detail-body");
	document.documentElement.dataset.path = chosen.path ? chosen.path.steps.map(s => U.id[s.unit]).join(" ") : "";
	if (i < 0) {
		body.replaceChildren(el("p", { class: "hint" }, "Choose a box in the picture: what led to it is listed here, and marked there."));
		return;
	}
	const [a, b] = edgesOf(i), into = [], out = [];
	for (let e = a; e < b; e++)
		if (!isWait(e) && E.from[e] >= 0)
			into.push(e);
	for (let k = E.outStart[i]; k < E.outStart[i + 1]; k++)
		out.push(E.out[k]);
	out.sort((x, y) => E.begin[x] - E.begin[y]);
	body.replaceChildren(el("p", { class: "change data" }, who(i)), el("p", { class: "sub" }, textOf(U.words[i]) + (S.at === undefined ? "" : ", as it was at " + momentText(Number(S.at)))),
		el("dl", {}, ...facts(i).flatMap(([k, v]) => [el("dt", {}, k), el("dd", { class: "data" }, v)])), ...pathPart(),
		...list("Waits inside of it, the longest first", waitsOf(i, U.end[i], 0), waitedItem), ...list("Into it", into, inItem), ...list("Out of it", out, outItem));
}
