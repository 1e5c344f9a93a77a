/*
 * tracelog_rows - what an event has in a log, declared once: a row a field, in the order of its bytes. From these rows
 * come what writes an event (tracelog_encode.c), what reads it (tracelog_decode.c) and what describes it to other
 * readers of CTF (tracelog_event_text.c). `make schema-show` prints what they expand to.
 *
 * A row is R(KIND, ...), with members of struct trace_event:
 *
 *	FIELD, wire, name, member		a member, as the wire says
 *	FIELD_IF, wire, name, member, there, 0	it is 0, or what stands there, unless `there` holds
 *	BYTES, name, length, member, len	bytes inside of the event, behind their number (u8)
 *	POINTED, wire, name, length, member, len, max	bytes that it points to, behind their number, of that wire
 *	BUILD_ID, name, member, len		in hexadecimal; BUILD_ID_OF: that it points to
 *	LIST, name, number, member, n, max, bytes, kept, rows	of as many structs, behind their number (u32): each has
 *						`rows`. No more than @max, and @bytes about; the decoder keeps them in `kept`
 *	STACK, struct				the number of its stack, which is that member's `frame` and `nframes`
 *	BEFORE					by how much it was earlier than its timestamp says
 *	MORE					logs of before these rows were there end here
 *	HAND, wire, name, hook			put_HOOK() and get_HOOK() are written by hand
 *
 * The first row of an event that stays (EVENT_STAYS) is its id, unless tracelog_reemit.c knows better.
 *
 * A new row comes at the end of an event, behind a MORE of its own, and raises TRACELOG_MINOR. A wire is a word of
 * tracelog_wire.h: how a member is stored, and what CTF calls that.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_ROWS_H
#define WATCHCTL_TRACE_LOG_TRACELOG_ROWS_H

/* A row a line. */
/* clang-format off */

#define LOG_PROCESS(R) \
	R(FIELD, i32, pid, process.pid) \
	R(FIELD, u64, realtime_ns, process.realtime_ns) \
	R(FIELD, string, comm, process.comm) \
	R(FIELD, string, exe, process.exe) \
	R(FIELD, string, cmdline, process.cmdline) \
	R(FIELD, string, host, process.host) \
	R(MORE) \
	R(FIELD, i32, parent, process.parent)

#define LOG_THREAD(R) \
	R(FIELD, i32, pid, thread.pid) \
	R(FIELD, i32, tid, thread.tid) \
	R(FIELD, string, comm, thread.comm) \
	R(MORE) \
	R(FIELD, i32, creator, thread.creator) \
	R(FIELD, u64, creating_call, thread.creating_call) \
	R(FIELD, hex64, stack_start, thread.stack_start) \
	R(FIELD, hex64, stack_end, thread.stack_end)

#define LOG_MODULE(R) \
	R(FIELD, hex64, start, module.start) \
	R(FIELD, hex64, end, module.end) \
	R(FIELD, hex64, bias, module.bias) \
	R(FIELD, flag, deleted, module.deleted) \
	R(FIELD, string, path, module.path) \
	R(BUILD_ID, build_id, module.build_id, module.build_id_len) \
	R(MORE) \
	R(FIELD, i32, pid, module_pid)

#define LOG_WATCH(R) \
	R(FIELD, u32, watch, watch.id) \
	R(FIELD, hex64, addr, watch.addr) \
	R(FIELD, u32, size, watch.size) \
	R(FIELD, access_kind, access, watch.access) \
	R(FIELD, u32, threads, watch.threads) \
	R(FIELD, u32, threads_armed, watch.threads_armed) \
	R(FIELD, flag, verified, watch.verified) \
	R(FIELD, flag, kernel, watch.kernel) \
	R(FIELD, flag, has_value, watch.has_value) \
	R(FIELD_IF, hex64, value, watch.value, watch.has_value, 0) \
	R(FIELD, i32, slot, watch.slot) \
	R(FIELD, value_kind, type_kind, watch.type.kind) \
	R(FIELD, flag, enum_signed, watch.type.enum_signed) \
	R(FIELD, u8, bit_offset, watch.type.bit_offset) \
	R(FIELD, u8, bit_size, watch.type.bit_size) \
	R(FIELD, string, name, watch.name) \
	R(FIELD, string, full_name, watch.full_name) \
	R(FIELD, string, engine, watch.engine) \
	R(FIELD, optional, module, watch.module) \
	R(FIELD, optional, type_name, watch.type.name) \
	R(HAND, string, enumerators, watch_enumerators) \
	R(MORE) \
	R(FIELD, flag, per_thread, watch.per_thread) \
	R(FIELD, optional, filter, watch.filter) \
	R(FIELD, optional, why, watch.why) \
	R(FIELD, flag, steps_trap, watch.steps_trap) \
	R(MORE) \
	R(FIELD, flag, withheld, watch.withheld)

#define LOG_CODE(R) \
	R(FIELD, hex64, pc, code.pc) \
	R(FIELD, hex64, function_start, code.function_start) \
	R(BYTES, before, before_len, code.before, code.before_len) \
	R(BYTES, at, at_len, code.at, code.at_len)

#define LOG_ACCESS(R) \
	R(FIELD, u64, time, time_ns) \
	R(FIELD, u32, watch, access.watch) \
	R(FIELD, i32, pid, access.pid) \
	R(FIELD, i32, tid, access.tid) \
	R(FIELD, hex64, addr, access.addr) \
	R(FIELD, u32, size, access.size) \
	R(HAND, u8, has_old, access_has_old) \
	R(FIELD, flag, has_new, access.has_new) \
	R(FIELD, flag, displaced, access.displaced) \
	R(FIELD_IF, hex64, old_value, access.old_value, access.has_old, 0) \
	R(FIELD_IF, hex64, new_value, access.new_value, access.has_new, 0) \
	R(STACK, access) \
	R(FIELD, regs, regs, access.regs) \
	R(MORE) \
	R(FIELD, flag, in_kernel, access.in_kernel) \
	R(FIELD, access_kind, kernel_kind, access.kernel_kind) \
	R(FIELD_IF, i32, syscall, access.syscall, access.in_kernel, -1) \
	R(FIELD, optional, kernel_function, access.kernel_function) \
	R(MORE) \
	R(FIELD, withheld, withheld, access.withheld) \
	R(FIELD, access_kind, known_kind, access.known_kind) \
	R(FIELD, flag, known_in_caller, access.known_in_caller) \
	R(FIELD, hex64, known_insn, access.known_insn)

#define LOG_LOST(R) \
	R(FIELD, u32, watch, lost.watch) \
	R(FIELD, u64, count, lost.count) \
	R(FIELD, string, why, lost.why)

#define LOG_NOTE(R) R(FIELD, string, text, note.text)

#define LOG_SUMMARY(R) \
	R(FIELD, u32, watch, summary.watch) \
	R(FIELD, flag, has_counted, summary.has_counted) \
	R(FIELD_IF, u64, counted, summary.counted, summary.has_counted, 0) \
	R(FIELD, u64, recorded, summary.recorded) \
	R(FIELD, u64, lost, summary.lost) \
	R(FIELD, u64, filtered, summary.filtered) \
	R(FIELD, u64, duration_ns, summary.duration_ns)

#define LOG_TAG(R) \
	R(FIELD, u32, tag, tag.id) \
	R(HAND, u8, has_name, tag_has_name) \
	R(HAND, u64, number, tag_number) \
	R(HAND, string, name, tag_name)

#define LOG_CAPTURE(R) \
	R(FIELD, u32, tag, capture.tag) \
	R(FIELD, i32, tid, capture.tid) \
	R(STACK, capture) \
	R(BEFORE)

#define LOG_CAPTURE_VALUE(R) \
	LOG_CAPTURE(R) \
	R(FIELD, u64, value, capture.value)

/* A stack, before the first event that has its number */
#define LOG_STACK(R) \
	R(HAND, u32, stack) \
	R(HAND, walk_end, walk_end) \
	R(HAND, u32, nframes) \
	R(HAND, hex64, frame[nframes])

#define LOG_THREAD_PROCESS(R) \
	R(HAND, i32, pid) \
	R(HAND, i32, tid)

/* struct tracelog_hit */
#define LOG_HIT(R) \
	R(HAND, u8, watch) \
	R(HAND, u1, has_old) \
	R(HAND, u1, has_new) \
	R(HAND, u1, displaced) \
	R(HAND, u5, offset) \
	R(HAND, u8, size) \
	R(HAND, i32, tid) \
	R(HAND, u32, stack) \
	R(HAND, u32, before_ns) \
	R(HAND, hex64, old_value) \
	R(HAND, hex64, new_value) \
	R(HAND, regs, regs)

#define LOG_CHECKSUM(R) R(HAND, hex32, crc32c)

#define LOG_REEMITTED(R) R(HAND, reemitted, what)

#define LOG_SYMBOL(R) \
	R(FIELD, hex64, address, symbol.address) \
	R(FIELD, hex64, start, symbol.start) \
	R(FIELD, string, path, symbol.path) \
	R(BUILD_ID_OF, build_id, symbol.build_id, symbol.build_id_len) \
	R(LIST, function, nfunctions, symbol.function, symbol.nfunctions, SYMBOL_FUNCTIONS_MAX, \
	  SIZE_MAX, functions, LOG_SYMBOL_FUNCTION)

#define LOG_SYMBOL_FUNCTION(R) \
	R(FIELD, u32, line, line) \
	R(FIELD, optional, name, name) \
	R(FIELD, optional, file, file)

/* Of a step recording */

#define LOG_RECORDING(R) \
	R(FIELD, flag, instructions, recording.instructions) \
	R(FIELD, string, mover, recording.stepper) \
	R(FIELD, string, planner, recording.planner) \
	R(FIELD, string, range, recording.range) \
	R(FIELD, string, filters, recording.filters) \
	R(MORE) \
	R(FIELD, recording_withheld, withheld, recording.withheld) \
	R(MORE) \
	R(FIELD, recording_inputs, inputs, recording.inputs) \
	R(MORE) \
	R(FIELD, u8, changes, recording.changes)

#define LOG_TYPE(R) \
	R(FIELD, u32, type, type_info.id) \
	R(FIELD, type_kind, kind, type_info.kind) \
	R(FIELD, flag, is_signed, type_info.is_signed) \
	R(FIELD, u32, size, type_info.size) \
	R(FIELD, u32, target, type_info.target) \
	R(FIELD, optional_name, name, type_info.name) \
	R(LIST, member, nmembers, type_info.member, type_info.nmembers, TYPE_MEMBERS_MAX, SIZE_MAX, \
	  members, LOG_TYPE_MEMBER) \
	R(LIST, enumerator, nenumerators, type_info.enumerator, type_info.nenumerators, UINT32_MAX, \
	  ENUMERATORS_BYTES, enumerators, LOG_TYPE_ENUMERATOR)

#define LOG_TYPE_MEMBER(R) \
	R(FIELD, u32, type, type) \
	R(FIELD, u32, offset, offset) \
	R(FIELD, u8, bit_offset, bit_offset) \
	R(FIELD, u8, bit_size, bit_size) \
	R(FIELD, name, name, name)

#define LOG_TYPE_ENUMERATOR(R) \
	R(FIELD, i64, value, value) \
	R(FIELD, name, name, name)

#define LOG_FUNCTION(R) \
	R(FIELD, u32, function, function.id) \
	R(FIELD, u32, flags, function.flags) \
	R(FIELD, hex64, address, function.address) \
	R(FIELD, u64, function_size, function.size) \
	R(FIELD, u32, line, function.line) \
	R(FIELD, u32, return_type, function.return_type) \
	R(FIELD, optional, name, function.name) \
	R(FIELD, optional, module, function.module) \
	R(BUILD_ID_OF, build_id, function.build_id, function.build_id_len) \
	R(FIELD, optional, file, function.file) \
	R(LIST, param, nparams, function.param, function.nparams, FUNCTION_PARAMS_MAX, SIZE_MAX, \
	  params, LOG_FUNCTION_PARAM)

#define LOG_FUNCTION_PARAM(R) \
	R(FIELD, u32, type, type) \
	R(FIELD, optional_name, name, name)

#define LOG_REGION(R) \
	R(FIELD, i32, pid, region.pid) \
	R(FIELD, region_kind, kind, region.kind) \
	R(FIELD, hex64, start, region.start) \
	R(FIELD, hex64, end, region.end) \
	R(FIELD, optional, name, region.name)

#define LOG_RANGE(R) \
	R(FIELD, u32, occurrence, range.occurrence) \
	R(FIELD, range_what, what, range.what) \
	R(FIELD, i32, pid, range.pid) \
	R(FIELD, i32, tid, range.tid)

#define LOG_CALL(R) \
	R(FIELD, u64, call, call.call) \
	R(FIELD, u64, parent, call.parent) \
	R(FIELD, i32, tid, call.tid) \
	R(FIELD, u32, function, call.function) \
	R(FIELD, u16, depth, call.depth) \
	R(FIELD, hex8, flags, call.flags) \
	R(FIELD, hex64, sp, call.sp) \
	R(STACK, call) \
	R(POINTED, u16, values, nvalues, call.values, call.values_len, CALL_VALUES_MAX)

#define LOG_RETURN_HEAD(R) \
	R(FIELD, u64, call, ret.call) \
	R(FIELD, i32, tid, ret.tid) \
	R(FIELD, u32, function, ret.function) \
	R(FIELD, return_how, how, ret.how)

#define LOG_RETURN(R) \
	LOG_RETURN_HEAD(R) \
	R(POINTED, u16, values, nvalues, ret.values, ret.values_len, CALL_VALUES_MAX)

#define LOG_RETURN_ERROR(R) \
	LOG_RETURN_HEAD(R) \
	R(FIELD, i32, error, ret.error) \
	R(POINTED, u16, values, nvalues, ret.values, ret.values_len, CALL_VALUES_MAX)

#define LOG_STEP(R) \
	R(FIELD, u64, call, step.call) \
	R(FIELD, i32, tid, step.tid) \
	R(FIELD, hex64, ip, step.ip)

#define LOG_SIGNAL(R) \
	R(FIELD, u64, call, signal.call) \
	R(FIELD, i32, tid, signal.tid) \
	R(FIELD, i32, number, signal.signal) \
	R(FIELD, i32, code, signal.code) \
	R(FIELD, hex64, ip, signal.ip)

#define LOG_BLOCKED(R) \
	R(FIELD, u64, call, blocked.call) \
	R(FIELD, i32, tid, blocked.tid) \
	R(FIELD, i32, syscall, blocked.syscall) \
	R(STACK, blocked)

#define LOG_INPUT(R) \
	R(FIELD, u64, call, input.call) \
	R(FIELD, i32, pid, input.pid) \
	R(FIELD, i32, tid, input.tid) \
	R(FIELD, input_kind, kind, input.kind) \
	R(FIELD, flag, withheld, input.withheld) \
	R(FIELD, i32, syscall, input.syscall) \
	R(FIELD, i32, fd, input.fd) \
	R(FIELD, i64, result, input.result) \
	R(FIELD, u64, offset, input.offset) \
	R(FIELD, u64, input_size, input.size) \
	R(FIELD, u32, hashed, input.hashed) \
	R(FIELD, hex64, hash, input.hash) \
	R(FIELD, optional_name, name, input.name) \
	R(POINTED, u32, bytes, nbytes, input.bytes, input.len, INPUT_BYTES_MAX)

/* Of probes */

#define LOG_PROBE_SITE(R) \
	R(FIELD, u32, site, probe_site.id) \
	R(FIELD, i32, pid, probe_site.pid) \
	R(FIELD, hex64, ip, probe_site.ip) \
	R(FIELD, probe_when, when, probe_site.when) \
	R(FIELD, probe_tactic, tactic, probe_site.tactic) \
	R(FIELD, name, probe, probe_site.probe) \
	R(FIELD, name, pattern, probe_site.pattern) \
	R(FIELD, optional_name, why, probe_site.why) \
	R(BYTES, insn, ninsn, probe_site.insn, probe_site.ninsn)

#define LOG_PROBE(R) \
	R(FIELD, u32, site, probe.site) \
	R(FIELD, i32, tid, probe.tid) \
	R(STACK, probe) \
	R(BEFORE) \
	R(FIELD, probe_kind, kind, probe.kind) \
	R(FIELD, flag, withheld, probe.withheld) \
	R(HAND, hex8, strings) \
	R(HAND, hex8, unread) \
	R(FIELD, name, format, probe.format) \
	R(HAND, u8, nargs) \
	R(HAND, hex64, arg[nargs]) \
	R(HAND, u8, nstrings) \
	R(HAND, string, text[nstrings])

#define LOG_PROBE_TOTAL(R) \
	R(FIELD, u32, site, probe_total.site) \
	R(FIELD, u64, count, probe_total.count) \
	R(FIELD, u64, lost, probe_total.lost)

/*
 * All of them, in the order of the metadata: E is made from its rows; H is written and read by hand, and only described
 * by them; A is another event again, whose rows it has. D declares what CTF needs to know for the rows that follow.
 */
#define LOG_EVENTS(E, H, A, D) \
	D(access_kind) D(withheld) D(walk_end) D(value_kind) D(blank) \
	E(EVENT_PROCESS, 1, process, LOG_PROCESS) \
	E(EVENT_THREAD, 2, thread, LOG_THREAD) \
	E(EVENT_MODULE, 3, module, LOG_MODULE) \
	E(EVENT_MODULE_GONE, 4, module_gone, LOG_MODULE) \
	E(EVENT_WATCH, 5, watch, LOG_WATCH) \
	E(EVENT_CODE, 6, code, LOG_CODE) \
	E(EVENT_ACCESS, 7, access, LOG_ACCESS) \
	E(EVENT_LOST, 8, lost, LOG_LOST) \
	E(EVENT_NOTE, 9, note, LOG_NOTE) \
	E(EVENT_SUMMARY, 10, summary, LOG_SUMMARY) \
	E(EVENT_TAG, 11, tag, LOG_TAG) \
	E(EVENT_CAPTURE, 12, capture, LOG_CAPTURE) \
	H(TRACELOG_ID_STACK, 256, stack, LOG_STACK) \
	E(TRACELOG_ID_CAPTURE_VALUE, 257, capture_value, LOG_CAPTURE_VALUE) \
	A(TRACELOG_ID_CAPTURE_WITHHELD, 266, capture_withheld, LOG_CAPTURE) \
	H(TRACELOG_ID_THREAD_PROCESS, 258, thread_process, LOG_THREAD_PROCESS) \
	H(TRACELOG_ID_HIT, 260, hit, LOG_HIT) \
	H(TRACELOG_ID_CHECKSUM, 261, checksum, LOG_CHECKSUM) \
	H(TRACELOG_ID_REEMITTED, 262, retold, LOG_REEMITTED) \
	A(TRACELOG_ID_THREAD_AGAIN, 263, thread_again, LOG_THREAD) \
	A(TRACELOG_ID_CODE_AGAIN, 264, code_again, LOG_CODE) \
	A(TRACELOG_ID_TAG_AGAIN, 265, tag_again, LOG_TAG) \
	E(EVENT_RECORDING, 14, recording, LOG_RECORDING) \
	D(type_kind) \
	E(EVENT_TYPE, 15, type, LOG_TYPE) \
	E(EVENT_FUNCTION, 16, function, LOG_FUNCTION) \
	D(region_kind) \
	E(EVENT_REGION, 17, region, LOG_REGION) \
	D(range_what) \
	E(EVENT_RANGE, 18, range, LOG_RANGE) \
	E(EVENT_CALL, 19, call, LOG_CALL) \
	D(return_how) \
	E(EVENT_RETURN, 20, return, LOG_RETURN) \
	E(EVENT_STEP, 21, step, LOG_STEP) \
	E(EVENT_SIGNAL, 22, signal, LOG_SIGNAL) \
	E(EVENT_BLOCKED, 23, stood, LOG_BLOCKED) \
	D(input_kind) \
	E(EVENT_INPUT, 24, input, LOG_INPUT) \
	E(TRACELOG_ID_RETURN_ERROR, 259, return_error, LOG_RETURN_ERROR) \
	D(probe_when) D(probe_tactic) \
	E(EVENT_PROBE_SITE, 25, probe_site, LOG_PROBE_SITE) \
	D(probe_kind) \
	H(EVENT_PROBE, 26, probe, LOG_PROBE) \
	E(EVENT_PROBE_TOTAL, 27, probe_total, LOG_PROBE_TOTAL) \
	LOG_SYMBOL_EVENT(E)

/* Logs of minor versions before 2 lack it in their metadata: `watchctl symbolize` adds it. */
#define LOG_SYMBOL_EVENT(E) E(EVENT_SYMBOL, 13, symbol, LOG_SYMBOL)

/* clang-format on */

#endif
