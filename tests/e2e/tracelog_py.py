"""A second writer of logs, made from watchctl-log(5) alone: what it writes, watchctl must read."""

import os
import struct

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


def crc32c(data):
    """As RFC 3720 has it, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
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
