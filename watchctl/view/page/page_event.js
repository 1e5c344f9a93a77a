/* One access or capture in full; or, of a chosen site, what is known of the place. */

const pairs = list => el("dl", {}, ...list.filter(p => p && p[1] !== "" && p[1] !== undefined).flatMap(([k, v]) => [el("dt", {}, k), el("dd", { class: "data" }, v)]));

function codeBlock(listing, label) {
	const rows = listing.lines.map(([at, text, here]) => el("span", here ? { class: "here", "aria-current": "location" } : {},
		el("span", { class: "no" }, typeof at === "number" ? String(at) : at), (here ? "▶ " : "  ") + text));
	return el("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label }, ...rows);
}

function siteListings(s) {
	const out = [];
	if (s.source) {
		out.push(el("h3", {}, "Source: " + s.file + (s.line ? ":" + s.line : "")));
		if (s.source.why)
			out.push(el("p", { class: "hint" }, "Not shown: " + s.source.why + "."));
		else
			out.push(s.source.newer ? el("p", { class: "notice" }, "The file is younger than the program: lines may have moved.") : null, codeBlock(s.source, "Source"));
	}
	if (s.code) {
		out.push(el("h3", {}, "Instructions" + (s.after ? ", where execution went on" : "")));
		out.push(s.code.why ? el("p", { class: "hint" }, "Not shown: " + s.code.why + ".") : codeBlock(s.code, "Instructions"));
	} else
		out.push(el("p", { class: "hint" }, "Source and instructions of this site are not in this page."));
	return out.filter(e => e);
}

function stackList(stack) {
	if (stack < 0)
		return el("p", { class: "hint" }, "The stack of this access is not kept in this page: watchctl report has it.");
	const s = D.stacks[stack], list = el("ol", { class: "stack", start: 0 }, ...s.slice(1).map(i => {
		const flags = D.frames[i][F.flags], name = frameName(i);
		return el("li", {}, linkButton(name, "only stacks with " + name, () => change({ caller: name })), " ",
			el("span", { class: "sub" }, [frameLine(i), flags & 1 ? "(inlined)" : "", flags & 2 ? "(where execution went on)" : "", flags & 4 ? "(signal handler called)" : ""].filter(t => t).join(" ")));
	}));
	return D.stack_ends[s[0]] ? el("div", {}, list, el("p", { class: "hint" }, "… " + D.stack_ends[s[0]])) : list;
}

function registers(i) {
	if (E.detail[i] < 0)
		return el("p", { class: "hint" }, "Registers are in this page for " + count(D.details) + " of " + count(D.accesses) + " accesses, and not for this one: watchctl report --regs prints them all.");
	const r = registersOf(E.detail[i]);
	if (D.regs_withheld && r.every((v, k) => v === "0" || D.reg_names[k] === "rip"))
		return el("p", { class: "hint" }, "Withheld: they were kept out of the log, or of this page.");
	return el("div", { class: "regs" }, ...D.reg_names.map((name, k) => name === "fs_base" && r[k] === "0" ? null : el("span", {}, el("b", {}, name), "0x" + r[k])));
}

function showEvent(i) {
	const c = E.what[i], capture = C.capture[c], site = capture ? null : D.sites[C.place[c]], w = C.watch[c], thread = D.threads[C.thread[c]];
	const number = D.stride === 1 ? " " + count(seqOf(i) + 1) + " of " + count(D.events) : "";
	$("detail-title").textContent = (capture ? "Capture" : "Access") + number;
	const body = [el("p", { class: "change data" }, capture ? "# " + (D.tags[C.place[c]] || { name: "other tag" }).name + (newText(i) ? " = " + newText(i) : "")
		: (w < 0 ? "" : D.watches[w].name + ": ") + valueChange(i))];
	body.push(el("div", { class: "tools" }, linkButton("← before", "the access before", () => goTo(step(i, -1))), el("span", {}, " "), linkButton("next →", "the next access", () => goTo(step(i, 1)))));
	body.push(pairs([capture ? null : ["kind", kindCell(C.kind[c])], ["time", timeText(E.t[i])], ["", ""], ["of day", clockText(E.t[i])],
		["thread", threadName(C.thread[c]) + (thread ? ", process " + thread[0] : "")],
		site ? ["place", siteName(site)] : null, site && site.file ? ["line", site.file + (site.line ? ":" + site.line : "")] : null,
		site && site.insn ? [site.after ? "went on at" : "instruction", el("code", {}, site.ip + "  " + site.insn)] : null,
		site && site.kernel ? ["made by", "the kernel" + (site.syscall ? ": " + site.syscall : "")] : null,
		site && site.module ? ["module", site.module] : null]));
	body.push(el("h3", {}, "Stack"), stackList(C.stack[c]));
	if (!capture)
		body.push(el("h3", {}, "Registers, after the access"), registers(i));
	if (site)
		body.push(...siteListings(site));
	$("detail-body").replaceChildren(...body);
}

function showSite(index) {
	const s = D.sites[index];
	if (!s)
		return;
	$("detail-title").textContent = "Site";
	$("detail-body").replaceChildren(el("p", { class: "change data" }, siteName(s)), pairs([["kind", kindCell(s.kind)], ["accesses", count(s.count)],
		["threads", count(s.threads)], ["first", timeText(s.first_ns)], ["last", timeText(s.last_ns)],
		["line", s.file ? s.file + (s.line ? ":" + s.line : "") : ""], ["instruction", s.insn ? el("code", {}, s.ip + "  " + s.insn) : ""], ["module", s.module]]),
	...siteListings(s));
}

function showDetail() {
	if (E && chart.selected >= 0)
		showEvent(chart.selected);
	else if (S.site !== undefined)
		showSite(Number(S.site));
	else {
		$("detail-title").textContent = "Access";
		$("detail-body").replaceChildren(el("p", { class: "hint" }, "Choose an access in the time line or in the table, or a site."));
	}
}

/* @push: a step that Back undoes. */
function select(i, push) {
	chart.selected = i;
	S.event = String(seqOf(i));
	writeFragment(push);
	showDetail();
	redraw();
	if (currentTab() && currentTab().key === "accesses")
		showTab();
}
