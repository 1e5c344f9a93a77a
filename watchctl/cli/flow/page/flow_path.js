/* The way back from a unit, over what began each, to what began it all: the same rule as watchctl/flow/graph/flow_path.c has. */

const PATH_STEPS = 64, WAIT_SHARE = 20;

function bringsAbout(i, e, ns) {
	const kind = E.kind[e];
	if (kind === KIND.wait_for || kind === KIND.weak || E.at[e] > ns)
		return false;
	if (E.flags[e] & BEGINS)
		return true;
	return U.lane[E.from[e]] !== U.lane[i] && (kind === KIND.message || kind === KIND.work || kind === KIND.spawn);
}

/* The latest one; -1: none. */
function causeOf(i, ns) {
	const [a, b] = edgesOf(i);
	for (let e = b - 1; e >= a; e--)
		if (bringsAbout(i, e, ns))
			return e;
	return -1;
}

/* Long ones, the longest first. */
function waitsOf(i, until, share) {
	const [a, b] = edgesOf(i), least = share ? Math.floor((until - U.begin[i]) / share) : 0, waits = [];
	for (let e = a; e < b; e++) {
		const took = E.at[e] - E.begin[e];
		if (isWait(e) && E.begin[e] < until && took >= least && took > 0)
			waits.push(e);
	}
	return waits.sort((x, y) => E.at[y] - E.begin[y] - E.at[x] + E.begin[x]);
}

/* The unit before in its lane, if the thread did not wait between them; -1. */
function unitBefore(i, seen) {
	const before = row.at[i] > row.start[U.lane[i]] ? row.units[row.at[i] - 1] : -1;
	return before >= 0 && U.end[before] === U.begin[i] && !seen.has(before) ? before : -1;
}

/* { steps: [{ unit, until, edge, follows, waits }], end }, the newest first. follows: nothing is known but what it did before. */
function pathOf(unit, ns) {
	const steps = [], seen = new Set();
	let end = "long";
	while (steps.length < PATH_STEPS) {
		const until = Math.max(U.begin[unit], Math.min(ns, U.end[unit])), edge = causeOf(unit, ns);
		steps.push({ unit, until, edge, waits: waitsOf(unit, until, WAIT_SHARE) });
		seen.add(unit);
		if (edge < 0) {
			const before = unitBefore(unit, seen);
			if (before < 0) {
				end = U.part[unit] ? "part" : "input";
				break;
			}
			steps[steps.length - 1].follows = true;
			ns = U.begin[unit];
			unit = before;
			continue;
		}
		if (E.kind[edge] === KIND.timer && E.flags[edge] & OWN) {
			end = "timer";
			break;
		}
		if (seen.has(E.from[edge])) {
			end = "circle";
			break;
		}
		unit = E.from[edge];
		ns = E.begin[edge];
	}
	return { steps, end };
}

const PATH_ENDS = {
	input: "No thread that was recorded brought this about: it began before the recording, or by an input from outside.",
	timer: "It set this timeout itself: here the path ends.",
	circle: "From here the path goes round in a circle.",
	long: "There is more: choose the last of these.",
	part: "This page has a part of the log only, and not what led to this: watchctl flow path goes on.",
};
