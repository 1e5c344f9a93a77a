/* What is under the pointer, and what is said about it. */

/* [call, how many are in that pixel]; null: none. */
function callAt(x, y) {
	const at = y + box.scrollTop, lane = chart.lanes.find(l => at >= l.y + LANE_H && at < l.y + LANE_H + l.rows * ROW_H);
	if (!lane || y < AXIS_H)
		return null;
	const row = rows.first[lane.thread] + Math.floor((at - lane.y - LANE_H) / ROW_H), end = rows.start[row + 1];
	/* People do not hit one pixel. */
	const first = firstBeyond(rows.start[row], end, right, tOf(x - 1)), last = firstBeyond(first, end, left, tOf(x + 1));
	if (last <= first)
		return null;
	const exact = firstBeyond(first, last, right, tOf(x)), i = rows.calls[Math.min(exact, last - 1)];
	const wide = (right(i) - left(i)) * scale() >= NARROW;
	return [wide || last - first === 1 ? i : rows.calls[first], wide ? 1 : last - first];
}

const callFlags = i => [C.state[i] & TAIL ? "tail call" : "", C.state[i] & SIGNAL ? "signal handler" : "", C.state[i] & CALLBACK ? "called back" : "", endWords(i)].filter(t => t);

function tipLines(i, n) {
	const lines = [el("div", { class: "data" }, n > 1 ? plural(n, "call") + " in one place, first: " + fnName(i) : fnName(i))];
	for (const p of paramsOf(i))
		lines.push(el("div", { class: "v data cut" }, p.name + " = " + p.text));
	const result = resultOf(i), flags = callFlags(i);
	if (result !== undefined)
		lines.push(el("div", { class: "v data cut" }, "= " + result));
	lines.push(el("div", { class: "sub" }, spanText(duration(i)) + ", self " + spanText(selfTime(i)) + " · call " + count(logNumber(i)) + " · " + timeText(C.begin[i])));
	if (flags.length)
		lines.push(el("div", { class: "sub" }, flags.join(", ")));
	return lines;
}

function markAt(x, y) {
	const at = y + box.scrollTop, lane = chart.lanes.find(l => at >= l.y && at < l.y + LANE_H);
	return lane && D.marks.find(m => m[0] === lane.thread && Math.abs(xOf(markPlace(m)) - x) < 6);
}

function showTip(x, y) {
	const tip = $("tip"), hit = callAt(x, y), mark = hit ? null : markAt(x, y);
	tip.hidden = !hit && !mark;
	if (tip.hidden)
		return;
	tip.replaceChildren(...hit ? tipLines(...hit) : [el("div", { class: "data" }, textOf(mark[3])), el("div", { class: "sub" }, timeText(mark[1]))]);
	const w = tip.offsetWidth, h = tip.offsetHeight;
	tip.style.left = Math.max(0, Math.min(width() - w, x + 14)) + "px";
	tip.style.top = (y + 18 + h > visibleHeight() + 60 ? Math.max(0, y - h - 10) : y + 18) + "px";
}
