/* The head of the page, the form, and how it all begins. */

const form = $("filters");
const LAST_STEPS = 6; /* of a path that are shown at first */
const processes = () => new Set(D.threads.map(t => t[2])).size;

function showHead() {
	$("title").textContent = "What led to what";
	const part = [D.process ? "of " + clean(D.process) : "", D.around ? "around a time" : ""].filter(t => t).join(", ");
	$("subtitle").textContent = [clean(base(D.log)), hasClock ? dayText() + " " + momentText(D.from_ns, 3) + " " + zoneText : "", "over " + spanText(chart.home[1] - chart.home[0]), plural(D.cpus, "CPU"), plural(N, "unit") + " of work of " + plural(L, "thread") +
		" in " + plural(processes(), "process", "processes"), plural(D.edges, "cause and wait", "causes and waits"), part ? "a part of the log: " + part : ""].filter(t => t).join(" · ");
	$("made").textContent = "Made by watchctl " + D.version + " from " + clean(D.log) + ", " + new Date(D.made_ms).toISOString().slice(0, 16).replace("T", " ") + " UTC. Nothing in this page is loaded from elsewhere.";
}

function showNotices() {
	const say = text => $("notices").append(el("div", { class: "notice" }, text));
	if (D.lost || D.losses.length)
		say((D.lost ? plural(D.lost, "event was", "events were") + " lost while recording" : "Events are missing") + ": causes across the places that are marked are not known." + (D.more_losses ? " " + plural(D.more_losses, "more place is", "more places are") + " not marked." : ""));
	if (D.damaged !== undefined)
		say("Parts of the log are damaged (" + D.damaged + "): causes across them are not known.");
	if (D.units_left_out || D.edges_left_out)
		say("The log has more than this page: " + plural(D.units_left_out, "unit") + " of its end and " + plural(D.edges_left_out, "edge") + " were left out. watchctl flow graph --around TIME --to html makes a page of another part.");
	if (D.texts_left_out)
		say(plural(D.texts_left_out, "text") + " found no room in this page. watchctl flow graph prints them.");
	if (D.process || D.around)
		$("notices").append(el("div", { class: "notice info" }, "This page has a part of the log: what was asked for, and what leads from there or to it."));
}

function showLegend() {
	const kinds = new Set(E.kind);
	$("legend").replaceChildren(...D.kinds.filter((name, k) => kinds.has(k) && name !== "wait_for" && name !== "weak").map(name => el("li", {}, el("i", { class: "dot k-" + name }), name)),
		el("li", {}, el("i", { class: "dot own" }), "of the thread's own: its timeout, its I/O"), el("li", {}, el("i", { class: "dot empty" }), "a wait inside of a unit"));
}

function buildForm() {
	const seen = new Map();
	D.threads.forEach((t, lane) => {
		if (!seen.has(t[2]))
			seen.set(t[2], processName(lane) + " " + (pidOf(lane) || tidOf(lane)));
	});
	form.only.replaceChildren(el("option", { value: "" }, "all"), el("option", { value: "path" }, "of the path"), el("option", { value: "busy" }, "that did much"), el("option", { value: "here" }, "active here"),
		...[...seen].sort((a, b) => a[1] < b[1] ? -1 : 1).map(([leader, name]) => el("option", { value: leader }, name)));
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
	form.only.addEventListener("change", () => change({ only: form.only.value }));
	form.addEventListener("submit", e => e.preventDefault());
}

function fillForm() {
	if (document.activeElement !== form.q || !S.q)
		form.q.value = S.q || "";
	form.only.value = S.only || "";
	$("hit-prev").disabled = $("hit-next").disabled = !hits.n;
	$("zoom-path").disabled = $("zoom-unit").disabled = !chosen.path;
	$("shown").textContent = hits.on ? count(hits.n) + " of " + plural(N, "unit") + " found" : "";
	document.documentElement.dataset.found = hits.n;
}

function buttons() {
	const click = (id, action) => $(id).addEventListener("click", action);
	click("help-open", () => $("help").showModal());
	click("zoom-in", () => zoom(.5, middle()));
	click("zoom-out", () => zoom(2, middle()));
	click("zoom-all", () => setView(...chart.home));
	click("zoom-unit", () => fit(chosen.unit));
	click("zoom-path", () => fitPath());
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

/* An address may have been written by somebody else, and be wrong. */
function fromFragment() {
	S = readFragment();
	if (S.only && !["path", "busy", "here"].includes(S.only) && !D.threads.some(t => t[2] === Number(S.only)))
		delete S.only;
	if (S.unit === undefined && !location.hash && D.start !== undefined) {
		S.unit = String(D.start);
		if (unitOf(D.start) >= 0 && D.start_ns < U.end[unitOf(D.start)])
			S.at = String(D.start_ns);
		S.only = "path";
	}
	const view = /^(-?[\d.]+)\.\.(-?[\d.]+)$/.exec(S.view || ""), from = S.view;
	showAll();
	if (view && Number(view[2]) > Number(view[1])) {
		S.view = from;
		setView(Number(view[1]), Number(view[2]));
	} else if (chosen.unit >= 0)
		fitPath(LAST_STEPS);
	if (chosen.unit >= 0 && chart.byLane[U.lane[chosen.unit]])
		scrollTo(chart.byLane[U.lane[chosen.unit]]);
}

/* First the picture of the units; then, after it has been painted, what led to them. */
chart.from = chart.home[0];
chart.to = chart.home[1];
colours();
layout();
showHead();
showNotices();
themeEvents();
draw();
const whole = new Promise(done => {
	if (document.readyState === "loading")
		addEventListener("DOMContentLoaded", done);
	else
		done();
});
const painted = new Promise(done => requestAnimationFrame(() => setTimeout(() => {
	document.documentElement.dataset.paintedMs = Math.round(performance.now());
	performance.mark("painted");
	done();
}, 0)));
Promise.all([whole, painted]).then(() => {
	texts = JSON.parse($("texts").textContent);
	$("texts").textContent = "";
	readEdges();
	readStacks();
	showLegend();
	buildForm();
	chartEvents();
	buttons();
	pageKeys();
	fromFragment();
	document.documentElement.dataset.units = N;
	document.documentElement.dataset.readyMs = Math.round(performance.now());
	document.documentElement.dataset.ready = "1";
});
