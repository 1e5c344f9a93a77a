/* What is chosen stands in the address: S has it, NAMES are the names of its members. */

function readFragment() {
	const from = new URLSearchParams(location.hash.slice(1)), s = {};
	for (const name of NAMES)
		if (from.get(name))
			s[name] = from.get(name);
	return s;
}

function writeFragment(push) {
	const to = new URLSearchParams();
	for (const name of NAMES)
		if (S[name])
			to.set(name, S[name]);
	const hash = "#" + to.toString();
	if (hash === location.hash || (hash === "#" && !location.hash))
		return;
	history[push ? "pushState" : "replaceState"](null, "", hash === "#" ? location.pathname + location.search : hash);
}
