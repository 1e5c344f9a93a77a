/* What every page needs: its data, elements, numbers and times in words. */

const $ = id => document.getElementById(id);
const D = JSON.parse($("data").textContent);

/* Everything that is shown goes through here: as text, never as markup. */
function el(tag, props, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(props || {})) {
		if (value === undefined || value === null || value === false)
			continue;
		if (name === "class")
			e.className = value;
		else if (name.startsWith("on"))
			e.addEventListener(name.slice(2), value);
		else
			e.setAttribute(name, value === true ? "" : value);
	}
	e.append(...children.filter(c => c !== null && c !== undefined && c !== false));
	return e;
}

const fmt = new Intl.NumberFormat("en-US");
const count = n => fmt.format(n);
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, props, ...children) {
	const e = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(props || {}))
		e.setAttribute(name, value);
	e.append(...children);
	return e;
}

const base = path => path === undefined ? "" : path.slice(path.lastIndexOf("/") + 1);
const percent = (n, of) => of ? (n / of * 100).toFixed(1) + " %" : "";

function timeText(ns, digits = 9) {
	return (ns / 1e9).toFixed(digits) + " s";
}

function spanText(ns) {
	return ns < 1e3 ? Math.round(ns) + " ns" : ns < 1e6 ? +(ns / 1e3).toPrecision(4) + " µs"
		: ns < 1e9 ? +(ns / 1e6).toPrecision(4) + " ms" : +(ns / 1e9).toPrecision(5) + " s";
}

function clockText(ns) {
	if (D.begin_real_us === undefined)
		return "";
	const us = D.begin_real_us + Math.floor(ns / 1000), d = new Date(Math.floor(us / 1000));
	return d.toISOString().slice(0, 10) + " " + d.toISOString().slice(11, 19) + "." + String(us % 1e6).padStart(6, "0") + " UTC";
}

/* How many of the sorted @v are less than @x. */
function lowerBound(v, x, n = v.length) {
	let low = 0, high = n;
	while (low < high) {
		const mid = (low + high) >>> 1;
		if (v[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A canvas of that many CSS pixels, sharp on every screen: its context, in these. */
function sizeCanvas(c, width, height) {
	const ratio = window.devicePixelRatio || 1;
	c.style.height = height + "px";
	if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) {
		c.width = Math.round(width * ratio);
		c.height = Math.round(height * ratio);
	}
	const g = c.getContext("2d");
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	return g;
}
