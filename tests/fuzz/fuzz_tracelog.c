/*
 * Any bytes are a log: the reader must come to an end, and whatever it yields must be fit for the
 * views. The first byte chooses what the rest is: the metadata; the packets; or the events of one
 * packet whose header is made here, so that the fuzzer need not find one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/tracelog.h"
#include "watchctl/trace/tracelog_format.h"
#include "watchctl/view/printer.h"
#include "watchctl/view/reorder.h"
#include "watchctl/view/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t uuid[16];
static char *metadata;
static FILE *nowhere;

/* Files named by a hostile log are not opened here: modules are left out. */
static void consume(struct tracelog_reader *r, bool json)
{
	struct print_options print = {
		.regs = true, .utc = true, .before = "cache-miss", .width = json ? 0 : 80
	};
	struct report_options what = { .stacks = true,
				       .inverted = json,
				       .before = "cache-miss",
				       .calls = true,
				       .instructions = true,
				       .function = json ? "[a-p]*" : NULL };
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_CALLS);
	struct printer *p = json ? print_json_new(nowhere, &print) : print_text_new(nowhere, &print);
	struct report *report = report_new(a, p, &what);
	struct reorder *order = reorder_new(annotate_sink(a));
	struct event_sink sink = reorder_sink(order);
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;

	while (!tracelog_next(r, &e, &outcome) && outcome == LOG_EVENT)
		if (e.type != EVENT_MODULE)
			wc_error_free(sink.put(sink.ctx, &e));
	if (outcome == LOG_EVENT)
		abort();
	wc_error_free(reorder_flush(order));
	report_finish(report);
	report_free(report);
	reorder_free(order);
	printer_free(p);
	annotate_free(a);
}

static void read_metadata(const char *text, size_t len)
{
	struct tracelog_reader *r;
	struct wc_error *err = tracelog_reader_open_memory(text, len, NULL, 0, &r);

	if (!err)
		tracelog_reader_close(r);
	wc_error_free(err);
}

static void read_events(const uint8_t *events, size_t len, bool json)
{
	struct tracelog_reader *r;
	struct wc_error *err = tracelog_reader_open_memory(metadata, strlen(metadata), events, len, &r);

	if (err)
		abort();
	consume(r, json);
	tracelog_reader_close(r);
}

static void read_one_packet(const uint8_t *events, size_t len, bool json)
{
	uint64_t bits = (TRACELOG_PACKET_HEAD + len) * 8;
	uint8_t *packet = calloc(1, TRACELOG_PACKET_HEAD + len);
	uint32_t magic = TRACELOG_MAGIC;

	memcpy(packet, &magic, sizeof(magic));
	memcpy(packet + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_PACKET_HEAD, events, len);
	read_events(packet, TRACELOG_PACKET_HEAD + len, json);
	free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!metadata) {
		metadata = tracelog_metadata_text(uuid, 0, "fuzz");
		nowhere = fopen("/dev/null", "w");
		if (!metadata || !nowhere)
			abort();
	}
	if (!size)
		return 0;
	switch (data[0] % 5) {
	case 0:
		read_metadata((const char *)data + 1, size - 1);
		break;
	case 1:
	case 2:
		read_events(data + 1, size - 1, data[0] % 2);
		break;
	default:
		read_one_packet(data + 1, size - 1, data[0] % 2);
		break;
	}
	return 0;
}
