/* The head of the page, filters, and how it all begins. */

function balance(s) {
	if (!s)
		return null;
	const parts = [];
	if (s.counted !== undefined)
		parts.push(count(s.counted) + " counted");
	parts.push(count(s.recorded) + " recorded");
	if (s.filtered)
		parts.push(count(s.filtered) + " filtered");
	const p = el("p", {}, parts.join(" · ") + " · ", el("span", { class: s.lost ? "bad" : "ok" }, s.lost ? count(s.lost) + " lost" : "0 lost"));
	return s.complete ? p : el("div", {}, p, el("p", { class: "hint" }, "The log ends without a balance: this is what was seen."));
}

const FACTS = 12; /* watches that have a card */
const ACCESS = { r: "reads", w: "writes", rw: "reads and writes", x: "executions", unknown: "accesses" };

function watchFact(w) {
	const head = el("p", { class: "data" }, el("span", { class: "name" }, w.name), " ", el("span", { class: "sub" }, w.type.name || ""));
	if (!w.addr)
		return el("div", { class: "fact" }, head, el("p", {}, el("b", { class: "n" }, count(w.accesses)), " accesses; the log does not say what was watched"));
	return el("div", { class: "fact" }, head,
		el("p", {}, el("b", { class: "n" }, count(w.accesses)), " " + (w.accesses === 1 ? ACCESS[w.access].replace(/s$|s(?= )/g, "") : ACCESS[w.access])),
		balance(w.summary),
		el("details", {}, el("summary", { class: "hint" }, "how it was watched"), el("p", { class: "hint data" }, [w.addr + ", " + plural(w.size, "byte"), w.full_name && w.full_name !== w.name ? w.full_name : "", "engine " + w.engine,
			"armed on " + count(w.threads_armed) + " of " + plural(w.threads, "thread"), w.verified ? "tested by a known access" : "not tested",
			w.kernel ? "with the kernel's accesses" : "", w.per_thread ? "each thread has its own" : ""].filter(t => t).join(" · "))),
		w.filter ? el("p", { class: "hint data" }, "only if " + w.filter) : null, w.why ? el("p", { class: "hint data" }, w.why) : null);
}

function showHead() {
	const first = D.processes[0], names = D.watches.filter(w => w.accesses || D.watches.length < 5).map(w => w.name);
	$("title").textContent = names.length ? names.slice(0, 4).join(", ") : D.captures ? "Captured stacks" : D.recording !== undefined ? "Step recording" : "Recorded log";
	$("subtitle").textContent = [first ? (first.cmdline || first.exe || first.comm || "") + ", process " + first.pid : "", first && first.host ? "on " + first.host : "",
		clockText(0), "over " + spanText(D.end_ns), D.processes.length > 1 ? plural(D.processes.length, "process", "processes") : ""].filter(t => t).join(" · ");
	const facts = D.watches.slice(0, FACTS).map(watchFact);
	if (D.watches.length > FACTS)
		facts.push(el("div", { class: "fact" }, el("p", {}, "and " + plural(D.watches.length - FACTS, "more watch", "more watches"))));
	if (D.captures || D.capture_summary)
		facts.push(el("div", { class: "fact" }, el("p", { class: "name" }, "captures"), el("p", {}, el("b", { class: "n" }, count(D.captures)), " under " + plural(D.tags.length, "tag")), balance(D.capture_summary)));
	if (D.calls || D.recording !== undefined)
		facts.push(el("div", { class: "fact" }, el("p", { class: "name" }, "step recording"), el("p", {}, el("b", { class: "n" }, count(D.calls)), " calls" + (D.steps ? ", " + count(D.steps) + " instructions" : "")),
			el("p", { class: "hint data" }, (D.recording ? D.recording + ". " : "") + "watchctl report --calls prints them, watchctl diff compares two recordings.")));
	$("facts").replaceChildren(...facts);
	const made = new Date(D.made_ms);
	$("made").textContent = "Made by watchctl " + D.version + " from " + D.log + ", " + made.toISOString().slice(0, 16).replace("T", " ") + " UTC. " +
		"Nothing in this page is loaded from elsewhere." + (D.no_source ? " Source lines were left out by choice." : "");
}

function showNotices() {
	const box = $("notices"), say = (...what) => box.append(el("div", { class: "notice" }, ...what));
	if (D.truncated !== undefined)
		say("The log is not whole: its last " + plural(D.ignored, "byte") + " could not be read, because " + D.truncated + ".");
	const losses = D.notes.filter(n => n.lost !== undefined), notes = D.notes.filter(n => n.lost === undefined);
	if (losses.length) {
		const why = new Map();
		losses.forEach(n => why.set(n.text, (why.get(n.text) || 0) + n.lost));
		say("Not everything was recorded: ", [...why].map(([text, n]) => count(n) + " lost" + (text ? " (" + text + ")" : "")).join(", ") + ".");
	}
	if (notes.length) {
		const list = el("ul", {}, ...notes.map(n => el("li", {}, timeText(n.ns, 3) + "  " + n.text)));
		box.append(notes.length > 4 ? el("details", { class: "notice" }, el("summary", {}, plural(notes.length + D.notes_left_out, "note")), list) : el("div", { class: "notice" }, list));
	}
	if (D.stride > 1)
		say("The time line shows " + count(D.events) + " of " + count(D.accesses + D.captures) + " accesses: every " + D.stride + "th one, the first and the last ones, those of rare places, and changes of the value. " +
			"The tables and, as long as nothing is filtered, the picture count all of them.");
	else if (D.details < D.accesses)
		box.append(el("div", { class: "notice info" }, "Registers are in this page for " + count(D.details) + " of " + count(D.accesses) + " accesses: the first and the last ones, those of rare places, changes of the value, and an even share. All else is here for every access."));
	const left = [[D.sites_left_out, "belong to a site or a watch that is not in the tables"], [D.tags_left_out, "belong to a tag that is not"],
		[D.threads_left_out, "are of threads that are not in the tables"], [D.stacks_left_out, "have a stack that is not kept"],
		[D.combos_left_out, "are counted by their place only, without thread and stack"]].filter(v => v[0]).map(v => count(v[0]) + " " + v[1]);
	if (left.length)
		say("There was no room for all of the log's variety. Of the accesses and captures, " + left.join(", ") + ".");
	if (D.pictures_left_out)
		say("There was no room for the values of all watches: some are drawn without their sums over time, or some of their values have no name.");
}

function showLegend() {
	const used = [1, 2, 3, 4, 0].filter(k => D.sites.some(s => s.kind === k)), items = used.map(k => el("li", { class: "k" + k }, kindIcon(k), KIND[k].name));
	if (D.tags.length)
		items.push(el("li", {}, "⚑ captured stack"));
	if (used.length)
		items.push(el("li", {}, "many in one place: reads upwards, writes downwards"));
	if (D.watches.filter(w => w.accesses).length > PANELS)
		items.push(el("li", {}, "the first " + PANELS + " watches are drawn: the filter Watch shows any other"));
	$("legend").replaceChildren(...items);
}

/* Filters */

const form = $("filters");

function buildForm() {
	form.thread.append(el("option", { value: "" }, "all"));
	const names = new Map();
	D.threads.forEach(t => names.set(t[2], (names.get(t[2]) || 0) + 1));
	for (const [name, n] of [...names].filter(([name, n]) => n > 1 && name).slice(0, 200))
		form.thread.append(el("option", { value: name }, "all " + n + " named " + name));
	D.threads.map((t, i) => [t, i]).sort((a, b) => b[0][3] + b[0][4] - a[0][3] - a[0][4]).slice(0, 500).forEach(([t, i]) =>
		form.thread.append(el("option", { value: t[0] + "." + t[1] }, threadName(i))));
	form.watch.append(el("option", { value: "" }, "all"), ...D.watches.map((w, i) => el("option", { value: String(i) }, w.name)));
	$("watch-label").hidden = D.watches.length < 2;
	for (const k of [1, 2, 3, 4, 0].filter(k => D.sites.some(s => s.kind === k)))
		$("kinds").append(el("label", { class: "k" + k }, el("input", { type: "checkbox", name: "kind", value: KIND[k].key }), " ", KIND[k].name));
	form.querySelector("fieldset").hidden = !D.sites.length;
	const functions = new Set();
	for (let i = 0; i < D.frames.length && functions.size < 2000; i++)
		if (D.frames[i][F.fn] >= 0)
			functions.add(frameName(i));
	$("functions").append(...[...functions].sort().map(f => el("option", { value: f })));

	let timer = 0;
	form.addEventListener("input", e => {
		clearTimeout(timer);
		timer = setTimeout(() => change(readForm()), e.target.type === "search" ? 250 : 0);
	});
	form.addEventListener("submit", e => {
		e.preventDefault();
		clearTimeout(timer);
		change(readForm());
	});
	$("clear").addEventListener("click", () => {
		clearFilters();
		form.q.focus();
	});
}

function readForm() {
	const kinds = [...form.querySelectorAll("[name=kind]:checked")].map(b => b.value).join("");
	return { q: form.q.value.trim(), caller: form.caller.value.trim(), value: form.value.value.trim(), thread: form.thread.value, watch: form.watch.value,
		time: form.time.value.trim(), kind: kinds, changes: form.changes.checked ? "1" : "" };
}

function fillForm() {
	for (const name of ["q", "caller", "value", "thread", "watch", "time"])
		if (form[name].value.trim() !== (S[name] || ""))
			form[name].value = S[name] || "";
	form.changes.checked = !!S.changes;
	form.querySelectorAll("[name=kind]").forEach(b => { b.checked = (S.kind || "").includes(b.value); });
}

const clearFilters = () => change(Object.fromEntries(NAMES.filter(n => !["tab", "event", "view"].includes(n)).map(n => [n, undefined])));

function showChosen() {
	const chips = [];
	const chip = (text, name) => chips.push(el("button", { type: "button", class: "chip data", "aria-label": "remove the filter " + text, onclick: () => {
		change({ [name]: undefined });
		($("clear").hidden ? form.q : $("clear")).focus();
	} }, text + " ✕"));
	if (S.site !== undefined && D.sites[S.site])
		chip("site " + siteName(D.sites[S.site]), "site");
	if (S.tag !== undefined && D.tags[S.tag])
		chip("tag " + D.tags[S.tag].name, "tag");
	for (const [name, text] of [["q", "search "], ["caller", "caller "], ["value", "value "], ["time", "time "]])
		if (S[name])
			chip(text + S[name], name);
	if (S.thread) {
		const i = D.threads.findIndex(t => t[0] + "." + t[1] === S.thread);
		chip("thread " + (i < 0 ? S.thread : threadName(i)), "thread");
	}
	if (S.watch !== undefined && D.watches[S.watch])
		chip("watch " + D.watches[S.watch].name, "watch");
	if (S.kind)
		chip("kind " + [...S.kind].map(k => (KIND.find(d => d.key === k) || { name: k }).name).join(", "), "kind");
	if (S.changes)
		chip("changes", "changes");
	const a = passedAccesses(), c = passedCaptures(), words = [];
	if (D.accesses || !D.captures)
		words.push(count(a) + " of " + plural(D.accesses, "access", "accesses"));
	if (D.captures)
		words.push(count(c) + " of " + plural(D.captures, "capture"));
	$("shown").textContent = (pass.bad ? pass.bad + " " : "") + words.join(", ") + partNote();
	$("chips").replaceChildren(...chips);
	$("clear").hidden = !chips.length;
	document.documentElement.dataset.accesses = a;
	document.documentElement.dataset.captures = c;
}

/* Everything that depends on what is chosen. */
function showAll() {
	applyFilter();
	fillForm();
	showChosen();
	showTab();
	showDetail();
	redraw();
}

/* Some of S become other values; undefined or "": not set. */
function change(to) {
	const before = JSON.stringify(S);
	for (const [name, value] of Object.entries(to)) {
		if (value === undefined || value === "")
			delete S[name];
		else
			S[name] = value;
	}
	if (JSON.stringify(S) === before)
		return;
	if ("site" in to || "tag" in to) {
		chart.selected = -1;
		delete S.event;
	}
	firstShown = 0;
	writeFragment(true);
	showAll();
}

function fromFragment() {
	S = readFragment();
	chart.selected = E && S.event !== undefined && E.n ? eventOf(Number(S.event) || 0) : -1;
	if (chart.selected >= (E ? E.n : 0))
		chart.selected = -1;
	const view = parseTime(S.view || S.time || "");
	if (view && view[0] < span)
		setView(view[0], Math.min(span, view[1]));
	else
		setView(...chart.home);
	showAll();
}

function pageKeys() {
	$("help-open").addEventListener("click", () => $("help").showModal());
	$("zoom-in").addEventListener("click", () => zoom(.5));
	$("zoom-out").addEventListener("click", () => zoom(2));
	$("zoom-all").addEventListener("click", () => setView(...chart.home));
	$("crop").addEventListener("click", () => change({ time: viewText(), view: undefined }));
	$("prev").addEventListener("click", () => stepFrom(-1));
	$("next").addEventListener("click", () => stepFrom(1));
	document.addEventListener("keydown", e => {
		const typing = e.target.closest && e.target.closest("input, select, textarea");
		if (typing || e.ctrlKey || e.altKey || e.metaKey || $("help").open)
			return;
		if (e.key === "?") {
			e.preventDefault();
			$("help").showModal();
		} else if (e.key === "/") {
			e.preventDefault();
			form.q.focus();
		}
	});
	followPage();
}

/* The time in which there was something to see; a log may begin long before. */
function findHome() {
	let first = Infinity, last = 0;
	for (const s of D.sites) {
		first = Math.min(first, s.first_ns);
		last = Math.max(last, s.last_ns);
	}
	if (E && E.n) {
		first = Math.min(first, E.t[0]);
		last = Math.max(last, E.t[E.n - 1]);
	}
	if (first > last)
		return;
	const edge = Math.max((last - first) * .02, 50);
	chart.home = [Math.max(0, first - edge), Math.min(span, last + edge)];
}

findHome();
setView(...chart.home);
themeEvents();
showHead();
showNotices();
showLegend();
buildForm();
showTabs();
chartEvents();
pageKeys();
fromFragment();

/* First the page as C has summed it up; then, after it has been painted, each single event. */
requestAnimationFrame(() => setTimeout(() => {
	document.documentElement.dataset.paintedMs = Math.round(performance.now());
	decode();
	scales = null;
	findHome();
	fromFragment();
	draw();
	document.documentElement.dataset.readyMs = Math.round(performance.now());
	document.documentElement.dataset.ready = "1";
}, 0));
