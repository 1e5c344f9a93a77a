/* What follows from the calls: callers, rows of the picture, the tree, sums of functions. */

const parent = new Int32Array(N).fill(-1);
const endOrder = new Uint32Array(N); /* by order, a call is from its number to this one */
const lanes = D.threads.map((_, thread) => ({ thread, calls: 0, deepest: -1 }));

(function nest() {
	const open = D.threads.map(() => []);
	for (let i = 0; i < N; i++) {
		const t = C.thread[i], d = C.depth[i], stack = open[t], lane = lanes[t];
		stack.length = Math.min(stack.length, d);
		for (let k = d - 1; k >= 0; k--)
			if (stack[k] !== undefined) {
				parent[i] = stack[k];
				break;
			}
		stack[d] = i;
		lane.calls++;
		if (d > lane.deepest)
			lane.deepest = d;
	}
	/* Calls come behind their callers. */
	for (let i = N - 1; i >= 0; i--) {
		if (endOrder[i] < i + 1)
			endOrder[i] = i + 1;
		if (parent[i] >= 0 && endOrder[parent[i]] < endOrder[i])
			endOrder[parent[i]] = endOrder[i];
	}
})();

/* For each thread and depth, its calls in order: rows[firstRow + depth] in rowCalls, up to the next one. */
const rows = { first: [], start: null, calls: new Uint32Array(N) };

(function sortRows() {
	let n = 0;
	for (const lane of lanes) {
		rows.first.push(n);
		n += lane.deepest + 1;
	}
	rows.start = new Uint32Array(n + 1);
	for (let i = 0; i < N; i++)
		rows.start[rows.first[C.thread[i]] + C.depth[i] + 1]++;
	for (let r = 0; r < n; r++)
		rows.start[r + 1] += rows.start[r];
	const at = rows.start.slice();
	for (let i = 0; i < N; i++)
		rows.calls[at[rows.first[C.thread[i]] + C.depth[i]]++] = i;
})();

/* The calls of that function, and what they took: outermost ones only where it calls itself. */
const duration = i => C.end[i] - C.begin[i];

let selfTimes = null;
function selfTime(i) {
	if (!selfTimes) {
		selfTimes = new Float64Array(N);
		for (let k = 0; k < N; k++) {
			selfTimes[k] += duration(k);
			if (parent[k] >= 0)
				selfTimes[parent[k]] -= duration(k);
		}
	}
	/* A signal handler may outlive what it came into. */
	return Math.max(0, selfTimes[i]);
}

const inThread = i => S.thread === undefined || C.thread[i] === Number(S.thread);

/* Calls by their path, as page_tree.js wants it: n is the total time in nanoseconds. */
let treeFor = {};
function callTree() {
	if (treeFor.root && treeFor.thread === S.thread)
		return treeFor.root;
	const root = { name: "all", n: 0, self: 0, calls: 0, children: new Map(), level: 0 }, of = new Array(N);
	for (let i = 0; i < N; i++) {
		if (!inThread(i))
			continue;
		const above = parent[i] < 0 ? root : of[parent[i]];
		let node = above.children.get(C.fn[i]);
		if (!node) {
			node = { name: fnName(i), fn: C.fn[i], n: 0, self: 0, calls: 0, first: i, children: new Map(), level: above.level + 1, parent: above };
			above.children.set(C.fn[i], node);
		}
		of[i] = node;
		node.calls++;
		node.n += duration(i);
		node.self += selfTime(i);
		if (above === root) {
			root.n += duration(i);
			root.calls++;
		}
	}
	treeFor = { thread: S.thread, root };
	return root;
}

/* By function: how many calls, total, self and longest; what calls itself counts once. */
function functionSums() {
	const sums = D.functions.map((f, fn) => ({ fn, f, calls: 0, total: 0, self: 0, max: 0, longest: -1 }));
	const open = D.threads.map(() => []), inside = D.threads.map(() => new Map());
	for (let i = 0; i < N; i++) {
		if (!inThread(i))
			continue;
		const t = C.thread[i], stack = open[t], within = inside[t], s = sums[C.fn[i]];
		while (stack.length && stack[stack.length - 1] !== parent[i])
			within.set(C.fn[stack[stack.length - 1]], within.get(C.fn[stack.pop()]) - 1);
		const times = within.get(C.fn[i]) || 0;
		within.set(C.fn[i], times + 1);
		stack.push(i);
		s.calls++;
		s.self += selfTime(i);
		if (!times)
			s.total += duration(i);
		if (duration(i) >= s.max) {
			s.max = duration(i);
			s.longest = i;
		}
	}
	return sums.filter(s => s.calls);
}
