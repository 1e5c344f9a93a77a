/*
 * Any bytes are the files calls.N of a log: what is read of them comes to an end, its calls nest, and their values are
 * those of their types. The words of packets come from the input, their heads and checksums are made here, so that the fuzzer
 * need not find them; the first byte chooses whether the last file is the rest of the input as it is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/log.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/log/tracelog_format.h"

#define THREADS 2
#define PACKETS 6
#define FUNCTIONS 4

static char folder[FUZZ_LOG_PATH];

static const struct type_event types[] = {
	{ .id = 0, .kind = TYPE_SIGNED, .size = 4, .name = "int" },
	{ .id = 1, .kind = TYPE_POINTER, .size = 8, .name = "void *", .target = NO_TYPE },
	{ .id = 2, .kind = TYPE_STRING, .size = 8, .name = "char *", .target = NO_TYPE },
	{ .id = 3, .kind = TYPE_UNKNOWN, .size = 0 },
};

static const struct function_param params[] = { { "a", 0 }, { "p", 1 }, { "s", 2 }, { "u", 3 } };

static void write_file(unsigned int n, const uint8_t *bytes, size_t len)
{
	char path[FUZZ_LOG_PATH + 32];
	scoped(closep) int fd = -1;

	snprintf(path, sizeof(path), "%s/calls.%010u", folder, n);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	require(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
}

static void remove_files(void)
{
	char path[FUZZ_LOG_PATH + 32];

	for (unsigned int i = 0; i <= THREADS; i++) {
		snprintf(path, sizeof(path), "%s/calls.%010u", folder, i);
		unlink(path);
	}
}

/* One after the other in @to; returns their length. */
static size_t make_packets(struct fuzz_input *in, int32_t tid, uint8_t *to)
{
	const unsigned int npackets = fuzz_take_byte(in) % PACKETS;
	size_t len = 0;

	for (unsigned int i = 0; i < npackets; i++) {
		const unsigned int n = fuzz_take_byte(in), lost = fuzz_take_byte(in);
		struct call_packet *p = (struct call_packet *)(to + len);
		const size_t bytes = sizeof(*p) + n * sizeof(uint64_t);

		*p = (struct call_packet){ .magic = TRACELOG_MAGIC, .stream_id = CALL_STREAM_ID };
		p->begin_ns = 1000 + i * 100ul;
		p->end_ns = p->begin_ns + fuzz_take_byte(in) * 1ul;
		p->content_bits = p->packet_bits = bytes * 8;
		p->discarded = lost & 1 ? i * 3ul : 0;
		p->pid = 7;
		p->tid = tid;
		p->packet = i + (lost >> 7);
		fuzz_take(in, p->event, n * sizeof(uint64_t));
		p->crc32c = call_packet_checksum(p, bytes);
		len += bytes;
	}
	return len;
}

static void tell(struct call_merge *m)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		require(call_merge_tell(m,
					&(struct trace_event){ .type = EVENT_TYPE, .type_info = types[i] }));
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const struct function_event f = {
			.id = i,
			.name = "f",
			.address = 0x1000 + i,
			.return_type = i % 3 ? i : NO_TYPE,
			.nparams = i ? 4 : 0,
			.param = params,
		};

		require(call_merge_tell(m, &(struct trace_event){ .type = EVENT_FUNCTION, .function = f }));
	}
	require(call_merge_tell(m, &(struct trace_event){ .type = EVENT_PROBE_SITE,
							  .probe_site = { .id = 1,
									  .probe = "own",
									  .pattern = "%lu of %s",
									  .tactic = PROBE_TACTIC_SOURCE } }));
}

/* Of @n types, beginning with @type; all that is there is one of them after the other. */
static void check_values(const uint8_t *values, uint32_t len, const struct type_event *type, size_t n)
{
	struct call_values_reader r = { values, values + len };
	struct call_value v;
	size_t i = 0;

	while (i < n && call_values_next(&r, &type[i], &v)) {
		require(v.state <= VALUE_WITHHELD && v.to_state <= VALUE_WITHHELD);
		require(v.to_len <= CALL_POINTEE_MAX);
		for (uint32_t k = 0; k < v.to_len; k++)
			(void)((const volatile uint8_t *)v.to)[k];
		i++;
	}
	require(!len || (i == n && r.at == r.end));
}

static void check_call(const struct call_event *c)
{
	require(c->function < FUNCTIONS && c->pid == 7);
	if (c->values_len)
		check_values(c->values, c->values_len, types, 4);
}

static void check_return(const struct return_event *r)
{
	require(r->function < FUNCTIONS && r->how >= RETURN_RETURNED && r->how <= RETURN_UNKNOWN);
	if (r->values_len)
		check_values(r->values, r->values_len, &types[r->function], 1);
}

static void check_all(struct call_merge *m)
{
	const struct trace_event *e = NULL;
	struct call_merge_sums sums;
	uint64_t calls = 0, returns = 0;

	tell(m);
	while (true) {
		require(!call_merge_next(m, UINT64_MAX, &e));
		if (!e)
			break;
		if (e->type == EVENT_CALL) {
			require(e->call.call == ++calls && e->call.parent < e->call.call);
			check_call(&e->call);
		} else if (e->type == EVENT_RETURN) {
			require(e->ret.call && e->ret.call <= calls && ++returns <= calls);
			check_return(&e->ret);
		} else if (e->type == EVENT_PROBE) {
			fuzz_read(e->probe.format);
			require(e->probe.nargs == 2 && !e->probe.strings);
		} else if (e->type == EVENT_NOTE) {
			fuzz_read(e->note.text);
		} else {
			require(e->type == EVENT_LOST || e->type == EVENT_MISSING);
		}
	}
	require(calls == returns);
	call_merge_sums(m, &sums);
	require(sums.calls == calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t packets[PACKETS * (sizeof(struct call_packet) + 256 * sizeof(uint64_t))];
	scoped(call_merge_closep) struct call_merge *m = NULL;
	struct fuzz_input in = { data, size };
	const bool has_raw = fuzz_take_byte(&in) & 1;
	struct wc_error *err;

	if (!folder[0]) {
		fuzz_log_make("calls", folder);
		atexit(remove_files);
	}
	remove_files();
	for (unsigned int i = 0; i < THREADS; i++)
		write_file(i, packets, make_packets(&in, 101 + (int32_t)i, packets));
	if (has_raw)
		write_file(THREADS, in.data, in.size);
	err = call_merge_open(folder, &m);
	require(!err || err == &wc_enomem || (err->text && *err->text));
	wc_error_free(err);
	if (m)
		check_all(m);
	return 0;
}
