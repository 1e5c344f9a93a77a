// A JavaScript program that obeys, accounts and checks itself: compiled loops, workers, WebAssembly that traps, timers, garbage.
"use strict";
const { Worker, isMainThread, workerData } = require("worker_threads");
const WORKERS = 2, HITS = 0, FIRST = 8; // words of the shared memory: the watched one, and what the workers tell from FIRST on

function fnv(bytes) {
  let h = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) h = Math.imul(h ^ bytes[i], 0x01000193) >>> 0;
  return h;
}

const wasm = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 8, 1, 4,
  0x70, 0x65, 0x65, 0x6b, 0, 0, 10, 9, 1, 7, 0, 0x20, 0, 0x28, 2, 0, 11]); // peek(address), of one page of memory
const peek = new WebAssembly.Instance(new WebAssembly.Module(wasm)).exports.peek;

function oneRound(text, want) {
  let bad = 0;
  if (fnv(text) !== want) bad++;
  if (peek(64) !== 0) bad++;
  try { peek(0x7fffffff); bad++; } catch (e) { if (!(e instanceof WebAssembly.RuntimeError)) bad++; } // a SIGSEGV of V8's own
  const garbage = Array.from({ length: 200 }, (_, i) => ({ i, next: [i, String(i)] }));
  if (garbage.reduce((sum, g) => sum + g.next[0] + Number(g.next[1]), 0) !== 199 * 200) bad++;
  return bad;
}

const text = Uint8Array.from({ length: 4000 }, (_, i) => i * 7);

function add(cell, n) {
  for (let i = 0; i < n; i++) Atomics.add(cell, HITS, 1);
}

if (!isMainThread) {
  const cell = new Int32Array(workerData.memory), mine = FIRST + 4 * workerData.number, want = fnv(text);
  for (;;) {
    const hits = Atomics.exchange(cell, mine + 2, 0);
    if (hits) { add(cell, hits); Atomics.store(cell, mine + 3, 1); Atomics.notify(cell, mine + 3); }
    Atomics.add(cell, mine + 1, oneRound(text, want));
    Atomics.add(cell, mine, 1);
    Atomics.wait(cell, mine + 2, 0, 2);
  }
}

const memory = new SharedArrayBuffer(1 << 20), cell = new Int32Array(memory);
for (let i = 0; i < 4; i++) cell[1 + i] = Number(process.argv[2]) + i; // by which the memory is found from outside
let ticks = 0, cut = 0, last = process.hrtime.bigint();
setInterval(() => {
  const now = process.hrtime.bigint();
  if (now < last) cut++;
  last = now; ticks++; cut += oneRound(text, fnv(text));
}, 5).unref();
for (let number = 0; number < WORKERS; number++) new Worker(__filename, { workerData: { memory, number } }).unref();

// One after the other: where two add at the same time V8's loop of compare-and-swap writes once more.
function hit(n) {
  const share = Math.floor(n / (WORKERS + 1));
  for (let w = 0; share && w < WORKERS; w++) {
    const hits = FIRST + 4 * w + 2, done = hits + 1;
    Atomics.store(cell, hits, share);
    Atomics.notify(cell, hits);
    while (!Atomics.load(cell, done)) Atomics.wait(cell, done, 0);
    Atomics.store(cell, done, 0);
  }
  add(cell, n - WORKERS * share);
}

console.log("pid " + process.pid + " 0x0");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [verb, n] = line.split(" ");
  if (verb === "hit") {
    hit(Number(n));
    console.log("ok " + cell[HITS]);
  } else if (verb === "check") {
    let rounds = ticks, errors = cut;
    for (let w = 0; w < WORKERS; w++) {
      rounds = Math.min(rounds, cell[FIRST + 4 * w]);
      errors += cell[FIRST + 4 * w + 1];
    }
    console.log("ok " + rounds + " " + errors);
  } else {
    console.log("bye " + cell[HITS] + " " + cut);
    process.exit(7);
  }
});
