/* Threads, times, units and edges in words: as watchctl flow path has them. */

const FIRST_TEXT = 2;
let texts = null;

/* Names of threads may have anything in them. */
const clean = text => text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "?");
const textOf = n => n >= FIRST_TEXT ? texts ? texts[n - FIRST_TEXT] : "…" : "(not in this page)";

const tidOf = lane => D.threads[lane][1];
const pidOf = lane => D.threads[lane][0];
const leaderOf = lane => D.threads[lane][2];
const processName = lane => clean(D.threads[lane][3]) || "?";

/* The name that it had then, or its first one. */
function nameAt(lane, ns) {
	const names = D.threads[lane][4];
	for (let k = 0; k < names.length; k += 2)
		if (names[k] <= ns)
			return clean(names[k + 1]) || "?";
	return names.length ? clean(names[names.length - 1]) || "?" : "?";
}

const lastName = lane => nameAt(lane, Infinity);
const who = (i, ns) => nameAt(U.lane[i], ns === undefined ? U.end[i] : ns) + "/" + tidOf(U.lane[i]);
const hasClock = D.begin_real_us !== undefined;
const zoneText = D.zone_s ? "UTC" + (D.zone_s < 0 ? "−" : "+") + String(Math.floor(Math.abs(D.zone_s) / 3600)) + (D.zone_s % 3600 ? ":" + String(Math.abs(D.zone_s) % 3600 / 60).padStart(2, "0") : "") : "UTC";

/* The time of day with that many digits behind the second; or since the log's begin where the clock is not known. */
function momentText(ns, digits = 6) {
	if (!hasClock)
		return "+" + (Math.max(0, ns) / 1e9).toFixed(digits);
	const us = D.begin_real_us % 1e6, whole = Math.round(ns) + us * 1000, second = Math.floor(whole / 1e9);
	const day = new Date((Math.floor(D.begin_real_us / 1e6) + second + D.zone_s) * 1000);
	const rest = String(whole - second * 1e9).padStart(9, "0").slice(0, digits);
	return day.toISOString().slice(11, 19) + (digits ? "." + rest : "");
}

const dayText = () => hasClock ? new Date(D.begin_real_us / 1000 + D.zone_s * 1000).toISOString().slice(0, 10) : "";
const kindName = e => D.kinds[E.kind[e]].replace("_", " ");
const edgeText = e => textOf(E.words[e]);

/* ", which app/12 had" */
function waitEnder(e) {
	if (E.from[e] < 0 || E.flags[e] & OWN)
		return null;
	return E.flags[e] & OWNER ? [", which ", " had"] : [", until ", " ended it"];
}

/* "in take_order"; "": the program's own function is not known. */
function ownFunction(e) {
	const s = stackOf(e);
	return s && s.own ? "in " + clean(textOf(s.own)) : "";
}

/* "lock 0x7f.. (in take_order), which app/12 had" */
function waitLine(e) {
	const by = waitEnder(e), own = ownFunction(e);
	return edgeText(e) + (own ? " (" + own + ")" : "") + (by ? by[0] + who(E.from[e], E.at[e]) + by[1] : "");
}
