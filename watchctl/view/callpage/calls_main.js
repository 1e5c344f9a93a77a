/* The head of the page, the form, and how it all begins. */

const form = $("filters");

function showHead() {
	$("title").textContent = D.range ? "Calls " + D.range : "Calls";
	$("subtitle").textContent = [D.cmdline ? D.cmdline + ", process " + D.pid : "", D.host ? "on " + D.host : "", clockText(0), "over " + spanText(D.end_ns),
		D.processes > 1 ? plural(D.processes, "process", "processes") : ""].filter(t => t).join(" · ");
	const fact = (n, text, hint) => el("div", { class: "fact" }, el("p", {}, el("b", { class: "n" }, count(n)), " " + text), hint ? el("p", { class: "hint data" }, hint) : null);
	const ends = new Map();
	for (let i = 0; i < N; i++)
		if (endWords(i))
			ends.set(endWords(i), (ends.get(endWords(i)) || 0) + 1);
	$("facts").replaceChildren(fact(D.all_calls, D.all_calls === 1 ? "call" : "calls", ends.size ? "not returned: " + [...ends].map(([how, n]) => count(n) + " (" + how + ")").join(", ") : "all of them returned"),
		fact(D.functions.length, D.functions.length === 1 ? "function" : "functions", D.filters ? "recorded: " + D.filters : ""), fact(lanes.filter(l => l.calls).length, lanes.filter(l => l.calls).length === 1 ? "thread" : "threads", D.stepper ? "recorded by the stepper " + D.stepper : ""));
	if (D.steps)
		$("facts").append(fact(D.steps, "instructions", "watchctl report --instructions prints them"));
	$("made").textContent = "Made by watchctl " + D.version + " from " + D.log + ", " + new Date(D.made_ms).toISOString().slice(0, 16).replace("T", " ") + " UTC. Nothing in this page is loaded from elsewhere.";
}

function showNotices() {
	const say = (...what) => $("notices").append(el("div", { class: "notice" }, ...what));
	if (D.truncated !== undefined)
		say("The log is not whole: its last " + plural(D.ignored, "byte") + " could not be read, because " + D.truncated + ".");
	if (D.calls_left_out)
		say("The page has the first " + count(D.calls) + " of " + count(D.all_calls) + " calls; " + count(D.calls_left_out) + " were left out, and are in no sum here.");
	if (D.texts_left_out)
		say("There was no room for all values: " + plural(D.texts_left_out, "of them is", "of them are") + " not in this page. watchctl report --calls prints them.");
	if (D.marks_left_out)
		say(plural(D.marks_left_out, "signal") + " found no room in this page.");
	const losses = D.notes.filter(n => n.lost), notes = D.notes.filter(n => !n.lost);
	if (losses.length)
		say("Not everything was recorded: ", losses.map(n => count(n.lost) + " lost" + (n.text ? " (" + n.text + ")" : "")).join(", ") + ".");
	if (notes.length) {
		const list = el("ul", {}, ...notes.map(n => el("li", {}, timeText(n.ns, 3) + "  " + n.text)));
		$("notices").append(notes.length > 4 ? el("details", { class: "notice" }, el("summary", {}, plural(notes.length + D.notes_left_out, "note")), list) : el("div", { class: "notice" }, list));
	}
}

function buildForm() {
	form.thread.replaceChildren(el("option", { value: "" }, "all"), ...lanes.filter(l => l.calls).map(l => el("option", { value: l.thread }, threadName(l.thread) + " (" + count(l.calls) + ")")));
	let timer = 0;
	form.q.addEventListener("input", () => {
		clearTimeout(timer);
		timer = setTimeout(() => change({ q: form.q.value }), 150);
	});
	form.q.addEventListener("keydown", e => {
		if (e.key === "Enter") {
			if (form.q.value !== (S.q || ""))
				change({ q: form.q.value });
			goToHit(e.shiftKey ? -1 : 1);
		} else if (e.key === "Escape") {
			change({ q: undefined });
			canvas.focus();
		}
	});
	form.thread.addEventListener("change", () => change({ thread: form.thread.value }));
	form.by.addEventListener("change", () => change({ by: form.by.value }));
	form.addEventListener("submit", e => e.preventDefault());
}

function fillForm() {
	if (document.activeElement !== form.q || !S.q)
		form.q.value = S.q || "";
	form.thread.value = S.thread || "";
	form.by.value = S.by || "";
	$("hit-prev").disabled = $("hit-next").disabled = !hits.n;
}

function buttons() {
	const click = (id, action) => $(id).addEventListener("click", action);
	click("help-open", () => $("help").showModal());
	click("zoom-in", () => zoom(.5, middle()));
	click("zoom-out", () => zoom(2, middle()));
	click("zoom-all", () => setView(...chart.home));
	click("zoom-call", () => fit(chart.selected));
	click("prev", () => walk(i => beside(i, -1)));
	click("next", () => walk(i => beside(i, 1)));
	click("hit-prev", () => goToHit(-1));
	click("hit-next", () => goToHit(1));
}

function pageKeys() {
	document.addEventListener("keydown", e => {
		const typing = e.target.closest && e.target.closest("input, select, textarea");
		const keys = { "?": () => $("help").showModal(), "/": () => form.q.focus(), n: () => goToHit(1), p: () => goToHit(-1) };
		if (typing || e.ctrlKey || e.altKey || e.metaKey || $("help").open || !keys[e.key])
			return;
		e.preventDefault();
		keys[e.key]();
	});
	followPage();
}

/* What an address says that somebody else has written may be wrong. */
function fromFragment() {
	S = readFragment();
	if (!(lanes[Number(S.thread)] && lanes[Number(S.thread)].calls))
		delete S.thread;
	chart.selected = S.call === undefined ? -1 : callOf(Number(S.call));
	const view = /^(-?[\d.]+)\.\.(-?[\d.]+)$/.exec(S.view || ""), from = S.view;
	showAll();
	if (view && Number(view[2]) > Number(view[1])) {
		S.view = from;
		setView(Number(view[1]), Number(view[2]));
	} else if (chart.selected >= 0)
		reveal(chart.selected);
}

/* First the picture; then, after it has been painted, what needs the values or sums. */
layout();
chart.from = chart.home[0];
chart.to = chart.home[1];
themeEvents();
draw();
showHead();
showNotices();
const whole = new Promise(done => {
	if (document.readyState === "loading")
		addEventListener("DOMContentLoaded", done);
	else
		done();
});
const painted = new Promise(done => requestAnimationFrame(() => setTimeout(() => {
	document.documentElement.dataset.paintedMs = Math.round(performance.now());
	done();
}, 0)));
Promise.all([whole, painted]).then(() => {
	buildForm();
	showTabs();
	chartEvents();
	buttons();
	pageKeys();
	values();
	fromFragment();
	document.documentElement.dataset.calls = N;
	document.documentElement.dataset.readyMs = Math.round(performance.now());
	document.documentElement.dataset.ready = "1";
});
