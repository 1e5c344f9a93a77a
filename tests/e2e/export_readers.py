"""Readers of what `watchctl export` writes, each written from its format's published description alone."""
import json
import re
import struct
from collections import Counter


class Bad(AssertionError):
    pass


def must(claim, *what):
    if not claim:
        raise Bad(what)


def number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


# Trace Event Format: "Trace Event Format", Google, the sections JSON Object Format and Event Descriptions.

def trace_events(text):
    """The events of a file: each valid by itself, durations nested in each thread."""
    def no_constant(name):
        raise Bad(name)

    doc = json.loads(text, parse_constant=no_constant)
    must(isinstance(doc, dict) and isinstance(doc["traceEvents"], list), "object format")
    must(doc.get("displayTimeUnit", "ms") in ("ms", "ns"), doc.get("displayTimeUnit"))
    stacks, named = {}, {"process_name": set(), "thread_name": set()}
    for e in doc["traceEvents"]:
        must(e["ph"] in "BEiCM", e)
        must(type(e["pid"]) is int and type(e["tid"]) is int, e)
        must("args" not in e or isinstance(e["args"], dict), e)
        if e["ph"] == "M":
            must(e["name"] in named and isinstance(e["args"]["name"], str), e)
            named[e["name"]].add((e["pid"], e["tid"]))
            continue
        must(number(e["ts"]) and e["ts"] >= 0, e)
        must(e["ph"] == "E" or (isinstance(e["name"], str) and e["name"]), e)
        if e["ph"] == "i":
            must(e["s"] in "gpt", e)
        elif e["ph"] == "C":
            must(e["args"] and all(number(v) for v in e["args"].values()), e)
        elif e["ph"] == "B":
            stacks.setdefault((e["pid"], e["tid"]), []).append(e)
        elif e["ph"] == "E":
            begun = stacks.get((e["pid"], e["tid"]))
            must(begun, "an end of nothing", e)
            last = begun.pop()
            must(last["ts"] <= e["ts"] and e.get("name", last["name"]) == last["name"], e)
    must(not any(stacks.values()), "calls that do not end")
    return doc["traceEvents"], named


# speedscope: src/lib/file-format-spec.ts, and the JSON schema made of it.

UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def speedscope(text):
    doc = json.loads(text)
    must(doc["$schema"] == "https://www.speedscope.app/file-format-schema.json", doc["$schema"])
    must(set(doc) <= {"$schema", "profiles", "shared", "name", "activeProfileIndex", "exporter"}, set(doc))
    frames = doc["shared"]["frames"]
    for f in frames:
        must(isinstance(f["name"], str) and set(f) <= {"name", "file", "line", "col"}, f)
        must(all(isinstance(f[k], str) for k in ("name", "file") if k in f), f)
        must(all(number(f[k]) for k in ("line", "col") if k in f), f)
    for p in doc["profiles"]:
        must(isinstance(p["name"], str) and p["unit"] in UNITS, p["name"])
        must(number(p["startValue"]) and p["endValue"] >= p["startValue"], p["name"])
        if p["type"] == "sampled":
            must(len(p["samples"]) == len(p["weights"]), p["name"])
            must(all(number(w) for w in p["weights"]), p["name"])
            must(all(0 <= i < len(frames) for s in p["samples"] for i in s), p["name"])
            must(sum(p["weights"]) == p["endValue"] - p["startValue"], p["name"])
        else:
            must(p["type"] == "evented", p["type"])
            last, open_frames = p["startValue"], []
            for e in p["events"]:
                must(set(e) == {"type", "at", "frame"} and 0 <= e["frame"] < len(frames), e)
                must(last <= e["at"] <= p["endValue"], e)
                last = e["at"]
                if e["type"] == "O":
                    open_frames.append(e["frame"])
                else:
                    must(e["type"] == "C" and open_frames and open_frames.pop() == e["frame"], e)
            must(not open_frames, "frames that are not closed")
    return doc


def speedscope_stacks(doc):
    """(profile, outer;inner) -> weight"""
    counts = Counter()
    for p in doc["profiles"]:
        if p["type"] == "sampled":
            for s, w in zip(p["samples"], p["weights"]):
                counts[p["name"], tuple(doc["shared"]["frames"][i]["name"] for i in s)] += w
    return counts


# Folded stacks: FlameGraph's README: frames separated by ';', then a blank and a count.

def folded(text):
    counts = Counter()
    for line in text.split("\n")[:-1]:
        m = re.fullmatch(r"(\S+) (\d+)", line, re.ASCII)
        must(m and all(m.group(1).split(";")), line)
        must(m.group(1) not in counts, "twice", line)
        counts[m.group(1)] = int(m.group(2))
    must(text == "" or text.endswith("\n"), text[-80:])
    return counts


# `perf script`: perf-script(1) and builtin-script.c: "comm pid/tid sec.nsec: event: ...", "\taddr symbol (dso)",
# and a blank line. The patterns are as strict as those of the tools that read it (stackcollapse-perf.pl,
# speedscope, the Firefox profiler, gprof2dot) taken together.

HEAD = re.compile(r"(\S+)\s+(\d+)/(\d+)\s+(\d+\.\d+):\s+(\S+):(.*)", re.ASCII)
FRAME = re.compile(r"\s+([0-9a-f]+)\s+([^(].*) \((\S+)\)", re.ASCII)


def perf_script(text):
    events, event = [], None
    for line in text.split("\n"):
        if line == "":
            event = None
        elif event is None:
            m = HEAD.fullmatch(line)
            must(m and not line.startswith("#"), line)
            fields = dict(f.split("=", 1) for f in m.group(6).split(" ") if f)
            event = {"comm": m.group(1), "pid": int(m.group(2)), "tid": int(m.group(3)),
                     "ns": int(m.group(4).replace(".", "")), "event": m.group(5), "fields": fields, "stack": []}
            must(len(m.group(4).split(".")[1]) == 9, line)
            events.append(event)
        else:
            m = FRAME.fullmatch(line)
            must(m, line)
            event["stack"].append((int(m.group(1), 16), re.sub(r"\+0x[0-9a-f]+$", "", m.group(2)), m.group(3)))
    return events


# Callgrind: "Callgrind Format Specification" in Valgrind's manual, with one event and positions by line.

NAMED = re.compile(r"(ob|fl|fn|cob|cfi|cfn)=\((\d+)\)(?: (.+))?", re.ASCII)


def callgrind(text):
    """(file, function, object) -> own time, and a pair of these -> [calls, time]; all of it in the sum of the head."""
    lines = text.split("\n")
    must(lines[:2] == ["# callgrind format", "version: 1"] and lines.pop() == "", lines[:2])
    head = dict(line.split(": ", 1) for line in lines[1:lines.index("")])
    must(head["positions"] == "line" and head["events"] == "Nanoseconds" and head["cmd"], head)
    names, at, own, pairs, calls = {}, {}, {}, {}, None
    for line in lines[lines.index("") + 1:-1]:
        if m := NAMED.fullmatch(line):
            what, number, name = m.groups()
            kind = {"cfi": "fl"}.get(what, what[-2:])
            must((name is None) == ((kind, number) in names), "a name, once and first", line)
            names.setdefault((kind, number), name)
            at[what] = names[kind, number]
        elif m := re.fullmatch(r"calls=(\d+) \d+", line, re.ASCII):
            must(calls is None and int(m[1]), line)
            calls = int(m[1])
        elif line:
            m = re.fullmatch(r"\d+ (\d+)", line, re.ASCII)
            must(m, line)
            here, there = (at["fl"], at["fn"], at["ob"]), (at.get("cfi"), at.get("cfn"), at.get("cob"))
            must((here, there) not in pairs and (calls or here not in own), line)
            if calls:
                pairs[here, there] = [calls, int(m[1])]
            else:
                own[here] = int(m[1])
            calls = None
    must(calls is None and all(end in own for pair in pairs for end in pair), "pairs of functions that are there")
    must(lines[-1] == f"totals: {sum(own.values())}" and head["summary"] == str(sum(own.values())), lines[-1])
    return own, pairs


# Perfetto: protobuf's encoding ("Encoding" in its documentation), and the messages of protos/perfetto/trace in Perfetto's
# source: the numbers of fields, and the rules in the comments beside them.

def varint(data, at):
    value = shift = 0
    while True:
        must(at < len(data) and shift < 70, "a number that does not end", at)
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value & (1 << 64) - 1, at


def fields(data):
    """(number, value): an int of a varint, 8 or 4 bytes as they are in a bytearray, bytes of what has a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        must(tag >> 3 and kind in (0, 1, 2, 5), tag)
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            must(at + size <= len(data), "cut off", size)
            value, at = (bytes if kind == 2 else bytearray)(data[at:at + size]), at + size
        yield tag >> 3, value


def signed(v):
    return v - (1 << 64) if v >> 63 else v


def text(v):
    s = v.decode()
    must(s and not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", s), s)
    return s


def message(data, **known):
    """name=(number, read): each at most once; [read]: a list. All of its fields are known."""
    found = {name: [] for name, (_, read) in known.items() if isinstance(read, list)}
    by_number = {number: (name, read) for name, (number, read) in known.items()}
    for number, value in fields(data):
        must(number in by_number, number)
        name, read = by_number[number]
        if isinstance(read, list):
            found[name].append(read[0](value))
        else:
            must(name not in found, name)
            found[name] = read(value)
    return found


def reader(**known):
    return lambda data: message(data, **known)


NAME = reader(iid=(1, int), name=(2, text))
ANNOTATION = reader(iid=(1, int), bool=(2, bool), uint=(3, int), int=(4, signed), string=(6, text))
PACKET = reader(
    clocks=(6, reader(clocks=(1, [reader(id=(1, int), ns=(2, int))]), primary=(2, int))), ns=(8, int), sequence=(10, int),
    event=(11, reader(categories=(3, [int]), annotations=(4, [ANNOTATION]), type=(9, int), iid=(10, int), track=(11, int),
                      name=(23, text), value=(30, signed), double=(44, lambda v: struct.unpack("<d", v)[0]))),
    names=(12, reader(categories=(1, [NAME]), events=(2, [NAME]), annotations=(3, [NAME]))), flags=(13, int), clock=(58, int),
    track=(60, reader(uuid=(1, int), name=(2, text), parent=(5, int), counter=(8, reader()),
                      process=(3, reader(pid=(1, signed), name=(6, text))),
                      thread=(4, reader(pid=(1, signed), tid=(2, signed), name=(5, text))))))


def perfetto(data):
    """
    (events, tracks by uuid, clocks). Events have ns, type (begin, end, instant, counter), track, and what they have of
    name, category, args, value; each has its track and its names before it, slices of a track are nested.
    """
    events, tracks, names, clocks, slices = [], {}, {"categories": {}, "events": {}, "annotations": {}}, None, {}
    for number, packet in fields(data):
        must(number == 1, number)
        p = PACKET(packet)
        must(p["sequence"] == 1 and p["flags"] == (1 if clocks is None else 2), p)
        for kind, entries in p.get("names", {}).items():
            for n in entries:
                must(n["iid"] and n["iid"] not in names[kind], n)
                must(n["name"] not in names[kind].values(), "two numbers of a name", n)
                names[kind][n["iid"]] = n["name"]
        if clocks is None:
            clocks = {c["id"]: c["ns"] for c in p["clocks"]["clocks"]}
            must(p["clocks"]["primary"] == 3 and 3 in clocks, p)
        elif "track" in p:
            t = p["track"]
            must(t["uuid"] and t.get("parent", t["uuid"]) in [t["uuid"], *tracks], t)
            before = tracks.get(t["uuid"], t)
            must(all(before.get(k, {}).get(n) == t.get(k, {}).get(n) for k in ("process", "thread") for n in ("pid", "tid")), t)
            tracks[t["uuid"]] = t
        else:
            e = p["event"]
            must(p["clock"] == 3 and e["track"] in tracks, p)
            kind = {1: "begin", 2: "end", 3: "instant", 4: "counter"}[e["type"]]
            event = {"ns": p["ns"], "type": kind, "track": tracks[e["track"]], "args": {}}
            for a in e["annotations"]:
                value, = (v for k, v in a.items() if k != "iid")
                must(names["annotations"][a["iid"]] not in event["args"], "twice", a)
                event["args"][names["annotations"][a["iid"]]] = value
            must(("iid" in e) + ("name" in e) == len(e["categories"]) == (kind in ("begin", "instant")), e)
            if e["categories"]:
                event["category"] = names["categories"][e["categories"][0]]
                event["name"] = e["name"] if "name" in e else names["events"][e["iid"]]
            must((kind == "counter") == ("counter" in event["track"]) == (("value" in e) + ("double" in e)), e)
            if kind == "counter":
                event["value"] = e.get("value", e.get("double"))
            stack = slices.setdefault(e["track"], [])
            if kind == "begin":
                must(not stack or stack[-1]["ns"] <= p["ns"], "goes back", p)
                stack.append(event)
            elif kind == "end":
                must(stack and stack[-1]["ns"] <= p["ns"], "an end of nothing, or before its beginning", p)
                event["begin"] = stack.pop()
            events.append(event)
    must(clocks is not None and not any(slices.values()), "slices that do not end")
    return events, tracks, clocks
