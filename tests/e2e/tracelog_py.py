"""A second writer and a second reader of logs, made from watchctl-log(5) alone: watchctl must read what the one writes,
and see what the other sees."""

import os
import re
import struct
import subprocess

from waiting import WAIT

UUID = bytes(range(16))
METADATA = """/* CTF 1.8 */
trace { major = 1; minor = 8; uuid = "%s"; byte_order = le; };
env { tracer_name = "%s"; format_major = %d; format_minor = %d; };
"""

PROCESS, THREAD, MODULE, MODULE_GONE, WATCH, CODE, ACCESS, LOST, NOTE, SUMMARY = range(1, 11)
TAG, CAPTURE = 11, 12
STACK, CAPTURE_VALUE, THREAD_PROCESS = 256, 257, 258
HIT, CHECKSUM, RETOLD, THREAD_AGAIN, CODE_AGAIN, TAG_AGAIN = 260, 261, 262, 263, 264, 265


def text(value):
    return value.encode() + b"\0"


def event(kind, time_ns, fields):
    return struct.pack("<HQI", kind, time_ns, 14 + len(fields)) + fields


def process(time_ns, pid, comm, realtime_ns):
    return event(PROCESS, time_ns, struct.pack("<iQ", pid, realtime_ns) + text(comm) + text("/usr/bin/" + comm)
                 + text(comm) + text("box"))


def watch(time_ns, number, name, addr, access=3):
    numbers = struct.pack("<IQIBIIBBBQiBBBB", number, addr, 4, access, 1, 1, 1, 0, 0, 0, -1, 1, 0, 0, 0)
    return event(WATCH, time_ns, numbers + text(name) + text(name) + text("handler") + text("") + text("int")
                 + text(""))


def code(time_ns, pc, before):
    return event(CODE, time_ns, struct.pack("<QQB", pc, 0, len(before)) + before + b"\0")


def stack(time_ns, number, frames):
    return event(STACK, time_ns, struct.pack("<IBI", number, 0, len(frames)) + struct.pack("<%dQ" % len(frames), *frames))


def access(time_ns, number, tid, addr, old, new, stack_number, rip):
    regs = [0] * 19
    regs[0], regs[5], regs[16] = new, addr, rip  # rax, rdi, rip
    return event(ACCESS, time_ns, struct.pack("<QIiiQIBBBQQI", time_ns, number, 77, tid, addr, 4, 1, 1, 0, old, new,
                                              stack_number) + struct.pack("<19Q", *regs))


def thread(time_ns, pid, tid, comm):
    return event(THREAD, time_ns, struct.pack("<ii", pid, tid) + text(comm))


def tag(time_ns, number, name=None, value=0):
    return event(TAG, time_ns, struct.pack("<IBQ", number, name is not None, value)
                 + text(str(value) if name is None else name))


def capture(time_ns, tag_number, tid, stack_number, before_ns=0, value=None):
    fields = struct.pack("<IiI", tag_number, tid, stack_number) + before_ns.to_bytes(6, "little")
    if value is None:
        return event(CAPTURE, time_ns, fields)
    return event(CAPTURE_VALUE, time_ns, fields + struct.pack("<Q", value))


def summary(time_ns, number, counted, recorded, lost=0, filtered=0):
    return event(SUMMARY, time_ns, struct.pack("<IBQQQQQ", number, 1, counted, recorded, lost, filtered, 10**9))


def packet(events):
    body = b"".join(events)
    bits = (64 + len(body)) * 8
    return struct.pack("<I16sIQQQQQ", 0xC1FC1FC1, UUID, 0, 0, 2**62, bits, bits, 0) + body


def crc_row(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


CRC_ROWS = [crc_row(i) for i in range(256)]


def crc32c(data):
    """As RFC 3720 has it, a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_ROWS[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def hit(time_ns, number, tid, offset, old, new, stack_number, rip, size=4, before_ns=0):
    regs = [0] * 19
    regs[0], regs[16] = new, rip
    return event(HIT, time_ns, struct.pack("<BBBiIIQQ", number, 3 | offset << 3, size, tid, stack_number, before_ns,
                                           old, new) + struct.pack("<19Q", *regs))


def retold(time_ns, what):
    return event(RETOLD, time_ns, bytes([what]))


def packet2(events, begin=0, end=2**62):
    """As packet(), of version 2: its first event is the checksum."""
    body = b"".join(events)
    bits = (64 + 18 + len(body)) * 8
    head = struct.pack("<I16sIQQQQQ", 0xC1FC1FC1, UUID, 0, begin, end, bits, bits, 0)
    head += struct.pack("<HQI", CHECKSUM, begin, 18)
    return head + struct.pack("<I", crc32c(head + body)) + body


def write_ring(path, files, major=2):
    """@files: number -> packets."""
    os.mkdir(path)
    with open(os.path.join(path, "metadata"), "w") as f:
        f.write(METADATA % (UUID.hex(), "watchctl", major, 0))
    for number, packets in files.items():
        with open(os.path.join(path, "events.%010d" % number), "wb") as f:
            f.write(b"".join(packets))
    return str(path)


def write_log(path, packets, tracer="watchctl", major=1, minor=0):
    os.mkdir(path)
    with open(os.path.join(path, "metadata"), "w") as f:
        f.write(METADATA % (UUID.hex(), tracer, major, minor))
    with open(os.path.join(path, "events"), "wb") as f:
        f.write(b"".join(packets))
    return str(path)


# Reading. A field is "name:type", where the type is a letter of the struct module, "s" a string, "48" six bytes, or
# a group of fields "{...}"; "*name" after it: so many of them as that field says. "?" stands before what logs of an
# older minor version do not have.

REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip rflags fs_base".split()
REGS = " ".join(name + ":Q" for name in REGISTERS)
IN_THREAD = "pid:i tid:i comm:s ? creator:i creating_call:Q stack_start:Q stack_end:Q"
IN_MODULE = "start:Q end:Q bias:Q deleted:B path:s build_id:s ? pid:i"
IN_CODE = "pc:Q function_start:Q before_len:B before:B*before_len at_len:B at:B*at_len"
IN_TAG = "tag:I has_name:B number:Q name:s"
IN_CAPTURE = "tag:I tid:i stack:I before_ns:48"
FIELDS = {
    PROCESS: ("process", "pid:i realtime_ns:Q comm:s exe:s cmdline:s host:s ? parent:i"),
    THREAD: ("thread", IN_THREAD),
    MODULE: ("module", IN_MODULE),
    MODULE_GONE: ("module_gone", IN_MODULE),
    WATCH: ("watch", "watch:I addr:Q size:I access:B threads:I threads_armed:I verified:B kernel:B has_value:B value:Q slot:i "
            "type_kind:B enum_signed:B bit_offset:B bit_size:B name:s full_name:s engine:s module:s type_name:s enumerators:s "
            "? per_thread:B filter:s why:s steps_trap:B ? withheld:B"),
    CODE: ("code", IN_CODE),
    ACCESS: ("access", "time:Q watch:I pid:i tid:i addr:Q size:I has_old:B has_new:B displaced:B old_value:Q new_value:Q "
             "stack:I " + REGS + " ? in_kernel:B kernel_kind:B syscall:i kernel_function:s "
             "? withheld:B known_kind:B known_in_caller:B known_insn:Q"),
    LOST: ("lost", "watch:I count:Q why:s"),
    NOTE: ("note", "text:s"),
    SUMMARY: ("summary", "watch:I has_counted:B counted:Q recorded:Q lost:Q filtered:Q duration_ns:Q"),
    TAG: ("tag", IN_TAG),
    CAPTURE: ("capture", IN_CAPTURE),
    13: ("symbol", "address:Q start:Q path:s build_id:s nfunctions:I function:{line:I name:s file:s}*nfunctions"),
    14: ("recording", "instructions:B mover:s planner:s range:s filters:s ? withheld:B ? inputs:B ? changes:B"),
    15: ("type", "type:I kind:B is_signed:B size:I target:I name:s nmembers:I "
         "member:{type:I offset:I bit_offset:B bit_size:B name:s}*nmembers nenumerators:I "
         "enumerator:{value:q name:s}*nenumerators"),
    16: ("function", "function:I flags:I address:Q function_size:Q line:I return_type:I name:s module:s build_id:s file:s "
         "nparams:I param:{type:I name:s}*nparams"),
    17: ("region", "pid:i kind:B start:Q end:Q name:s"),
    18: ("range", "occurrence:I what:B pid:i tid:i"),
    19: ("call", "call:Q parent:Q tid:i function:I depth:H flags:B sp:Q stack:I nvalues:H values:B*nvalues"),
    20: ("return", "call:Q tid:i function:I how:B nvalues:H values:B*nvalues"),
    21: ("step", "call:Q tid:i ip:Q"),
    22: ("signal", "call:Q tid:i number:i code:i ip:Q"),
    23: ("stood", "call:Q tid:i syscall:i stack:I"),
    24: ("input", "call:Q pid:i tid:i kind:B withheld:B syscall:i fd:i result:q offset:Q input_size:Q hashed:I hash:Q name:s "
         "nbytes:I bytes:B*nbytes"),
    25: ("probe_site", "site:I pid:i ip:Q when:B tactic:B probe:s pattern:s why:s ninsn:B insn:B*ninsn"),
    26: ("probe", "site:I tid:i stack:I before_ns:48 kind:B withheld:B strings:B unread:B format:s nargs:B arg:Q*nargs "
         "nstrings:B text:s*nstrings"),
    27: ("probe_total", "site:I count:Q lost:Q"),
    STACK: ("stack", "stack:I walk_end:B nframes:I frame:Q*nframes"),
    CAPTURE_VALUE: ("capture_value", IN_CAPTURE + " value:Q"),
    THREAD_PROCESS: ("thread_process", "pid:i tid:i"),
    259: ("return_error", "call:Q tid:i function:I how:B error:i nvalues:H values:B*nvalues"),
    HIT: ("hit", "watch:B flags:B size:B tid:i stack:I before_ns:I old_value:Q new_value:Q " + REGS),
    CHECKSUM: ("checksum", "crc32c:I"),
    RETOLD: ("retold", "what:B"),
    THREAD_AGAIN: ("thread_again", IN_THREAD),
    CODE_AGAIN: ("code_again", IN_CODE),
    TAG_AGAIN: ("tag_again", IN_TAG),
    266: ("capture_withheld", IN_CAPTURE),
}


def words_of(fields):
    """The words of a list of fields; a group is one."""
    return re.findall(r"\?|\w+:(?:\{[^}]*\}|\w+)(?:\*\w+)?", fields)


class Event:
    def __init__(self, name, time_ns, fields):
        self.name, self.time_ns, self.fields = name, time_ns, fields

    def __getitem__(self, field):
        return self.fields[field]

    def leaves(self):
        """Its numbers and texts, in order."""
        return list(leaves_of(self.fields))


def leaves_of(value):
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        if isinstance(part, (dict, list)):
            yield from leaves_of(part)
        else:
            yield part


def take(fields, data, at):
    """The fields that begin at @at of an event's bytes, and where they end."""
    found = {}
    for word in words_of(fields):
        if word == "?":
            if at == len(data):
                break
            continue
        name, kind = word.split(":", 1)
        kind, _, count = kind.partition("*") if not kind.startswith("{") else kind[1:].partition("}*")
        values = []
        for _ in range(found[count] if count else 1):
            if ":" in kind:
                value, at = take(kind, data, at)
            elif kind == "s":
                end = data.index(b"\0", at)
                value, at = data[at:end].decode(), end + 1
            elif kind == "48":
                value, at = int.from_bytes(data[at:at + 6], "little"), at + 6
            else:
                value, = struct.unpack_from("<" + kind, data, at)
                at += struct.calcsize("<" + kind)
            values.append(value)
        found[name] = values if count else values[0]
    return found, at


def events_of_packet(data):
    at = 0
    while at < len(data):
        kind, time_ns, size = struct.unpack_from("<HQI", data, at)
        name, fields = FIELDS[kind]
        found, end = take(fields, data[at:at + size], 14)
        assert end == size, (name, end, size)
        yield Event(name, time_ns, found)
        at += size


def read_file(path, uuid):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        magic, its, stream, begin, end, content, size, _ = struct.unpack_from("<I16sIQQQQQ", data, at)
        assert (magic, its, stream) == (0xC1FC1FC1, uuid, 0) and content <= size
        packet_bytes = data[at:at + content // 8]
        events = list(events_of_packet(packet_bytes[64:]))
        assert events[0].name == "checksum"
        assert events[0]["crc32c"] == crc32c(packet_bytes[:78] + packet_bytes[82:])
        assert (events[0].time_ns, events[-1].time_ns) == (begin, end)
        yield from events
        at += size // 8


def read_log(path):
    """All events of a log of version 2, checked; its files in order."""
    with open(os.path.join(path, "metadata")) as f:
        metadata = f.read()
    assert 'tracer_name = "watchctl"' in metadata and "format_major = 2;" in metadata
    uuid = bytes.fromhex(re.search(r'uuid = "([-0-9a-f]+)"', metadata)[1].replace("-", ""))
    last = 0
    for name in sorted(n for n in os.listdir(path) if n.startswith("events")):
        for i, e in enumerate(read_file(os.path.join(path, name), uuid)):
            assert e.time_ns > last if i == 0 else e.time_ns >= last
            last = e.time_ns
            yield e


# Against babeltrace2

NUMBER_OR_TEXT = re.compile(r'container = (-?\d+)|= (0x[0-9A-F]+|-?\d+)|= "((?:[^"\\]|\\.)*)"')


def babeltrace_events(path):
    """What babeltrace2 prints of a log: of each event its name, its timestamp, its numbers and texts in order."""
    r = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", "--names", "payload", path], capture_output=True,
                       text=True, timeout=2 * WAIT)
    assert r.returncode == 0 and not r.stderr, r.stderr
    for line in r.stdout.splitlines():
        time_ns, name, fields = re.match(r"\[(\d+)\] (?:\S+ )?(\w+): \{ \d+ \}, \{(.*)\}$", line).groups()
        leaves = []
        for label, number, string in NUMBER_OR_TEXT.findall(fields):
            if label or number:
                leaves.append(int(label or number, 16 if number.startswith("0x") else 10))
            else:
                leaves.append(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], string))
        yield name, int(time_ns), leaves


def as_described(event):
    """The numbers and texts of an event as the metadata has them, where the flags of a hit are fields of some bits."""
    leaves = event.leaves()
    if event.name == "hit":
        flags = event["flags"]
        leaves[1:2] = [flags & 1, flags >> 1 & 1, flags >> 2 & 1, flags >> 3]
    return leaves


def check_against_babeltrace(path):
    """Both readers see the same; returns what that is. For an empty text babeltrace2 may print the one before."""
    ours, theirs = list(read_log(path)), list(babeltrace_events(path))
    assert [(e.name, e.time_ns) for e in ours] == [(name, time_ns) for name, time_ns, _ in theirs]
    for event, (_, _, leaves) in zip(ours, theirs):
        want = as_described(event)
        assert len(want) == len(leaves), (event.name, want, leaves)
        assert all(a == b or a == "" for a, b in zip(want, leaves)), (event.name, want, leaves)
    return ours
