/* Blocks of bytes in the page, and numbers in them: page_bytes.h. */

function bytesOf(id) {
	const block = $(id), text = block.textContent;
	block.textContent = "";
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text);
	const raw = atob(text), bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++)
		bytes[i] = raw.charCodeAt(i);
	return bytes;
}

/* Numbers from @at on, each seven bits a byte, into @to. */
function numbers(bytes, at, to) {
	for (let i = 0; i < to.length; i++) {
		let b = bytes[at++], v = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[at++];
			v += (b & 127) * scale;
		}
		to[i] = v;
	}
	return at;
}

/* Gives one number after the other. */
function reader(bytes) {
	let p = 0;
	return () => {
		let b = bytes[p++], n = b & 127;
		for (let scale = 128; b > 127; scale *= 128) {
			b = bytes[p++];
			n += (b & 127) * scale;
		}
		return n;
	};
}
