/*
 * Any bytes are a log: the reader must come to an end, and whatever it yields must be fit for the
 * views. The first byte chooses what the rest is: the metadata; the packets; the events of one
 * packet whose header and checksum are made here, so that the fuzzer need not find them; or the files of a
 * flight recorder, of such packets and of any bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/log/tracelog_reader.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/event/event_choice.h"
#include "watchctl/view/print/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t uuid[16];
static char *metadata, *metadata1; /* of the version that is written, and of version 1 */
static FILE *nowhere;

/* Files named by a hostile log are not opened here: modules are left out. */
static void consume(struct tracelog_reader *r, bool json)
{
	struct print_options print = {
		.regs = true, .utc = true, .before = "cache-miss", .width = json ? 0 : 80
	};
	struct report_options what = {
		.stacks = true, .inverted = json, .calls = true, .instructions = true
	};
	const struct event_choice choice = { .before = "cache-miss", .function = json ? "[a-p]*" : NULL };
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_CALLS);
	struct printer *p = json ? print_json_new(nowhere, &print) : print_text_new(nowhere, &print);
	struct report *report = report_new(a, p, &what);
	struct event_chooser *chooser = event_chooser_new(&choice, report_view(report));
	struct reorder *order = reorder_new(annotate_sink(a));
	struct event_sink sink = reorder_sink(order);
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;

	annotate_add_view(a, event_chooser_view(chooser));
	while (!tracelog_next(r, &e, &outcome) && outcome == LOG_EVENT)
		if (e.type != EVENT_MODULE)
			wc_error_free(sink.put(sink.ctx, &e));
	if (outcome == LOG_EVENT)
		abort();
	wc_error_free(reorder_flush(order));
	report_finish(report);
	report_free(report);
	wc_error_free(event_chooser_check(chooser, "a log"));
	event_chooser_free(chooser);
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

static void read_events(const char *text, const uint8_t *events, size_t len, bool json)
{
	struct tracelog_reader *r;
	struct wc_error *err = tracelog_reader_open_memory(text, strlen(text), events, len, &r);

	if (err)
		abort();
	consume(r, json);
	tracelog_reader_close(r);
}

/* The packet of the @len bytes at @events, malloced. */
static uint8_t *make_packet(const uint8_t *events, size_t len)
{
	const uint32_t magic = TRACELOG_MAGIC, size = TRACELOG_PACKET_START - TRACELOG_PACKET_HEAD;
	const uint64_t bits = (TRACELOG_PACKET_START + len) * 8;
	const uint16_t id = TRACELOG_ID_CHECKSUM;
	uint8_t *packet = calloc(1, TRACELOG_PACKET_START + len);
	uint32_t sum;

	if (!packet)
		abort();
	memcpy(packet, &magic, sizeof(magic));
	memcpy(packet + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_PACKET_HEAD, &id, sizeof(id));
	memcpy(packet + TRACELOG_PACKET_HEAD + TRACELOG_OFF_SIZE, &size, sizeof(size));
	memcpy(packet + TRACELOG_PACKET_START, events, len);
	sum = tracelog_packet_checksum(packet, TRACELOG_PACKET_START + len);
	memcpy(packet + TRACELOG_OFF_CHECKSUM, &sum, sizeof(sum));
	return packet;
}

static void read_one_packet(const uint8_t *events, size_t len, bool json)
{
	uint8_t *packet = make_packet(events, len);

	read_events(metadata, packet, TRACELOG_PACKET_START + len, json);
	free(packet);
}

#define FILES_MAX 4

/*
 * Each file is two bytes, its length and how it comes: as it is, or as the events of a packet; whether a
 * number is left out before it; whether its packet is damaged.
 */
static void read_ring(const uint8_t *data, size_t size, bool json)
{
	struct log_file file[FILES_MAX];
	struct tracelog_reader *r;
	struct wc_error *err;
	uint64_t number = 0;
	size_t n = 0, len;

	while (n < FILES_MAX && size >= 2) {
		const uint8_t how = data[1];

		len = (size_t)data[0] * 16;
		len = len < size - 2 ? len : size - 2;
		file[n] = (struct log_file){ .number = number, .fd = -1 };
		if (how & 1) {
			file[n].mem = make_packet(data + 2, len);
			file[n].size = TRACELOG_PACKET_START + len;
			((uint8_t *)file[n].mem)[TRACELOG_PACKET_HEAD] ^= (how & 4) != 0;
		} else {
			file[n].mem = memcpy(malloc(len + 1), data + 2, len);
			file[n].size = len;
		}
		number += how & 2 ? 2 : 1;
		data += 2 + len;
		size -= 2 + len;
		n++;
	}
	if (!n)
		return;
	err = tracelog_reader_open_memory_ring(metadata, strlen(metadata), file, n, &r);
	if (err)
		abort();
	consume(r, json);
	tracelog_reader_close(r);
	while (n--)
		free((void *)file[n].mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!metadata) {
		metadata = tracelog_metadata_text(uuid, 0, "fuzz");
		metadata1 = tracelog_metadata_text(uuid, 0, "fuzz");
		nowhere = fopen("/dev/null", "w");
		if (!metadata || !metadata1 || !nowhere)
			abort();
		strstr(metadata1, "format_major = ")[strlen("format_major = ")] = '1';
	}
	if (!size)
		return 0;
	switch (data[0] % 8) {
	case 0:
		read_metadata((const char *)data + 1, size - 1);
		break;
	case 1:
	case 2:
		read_events(data[0] & 8 ? metadata : metadata1, data + 1, size - 1, data[0] % 2);
		break;
	case 5:
	case 6:
	case 7:
		read_ring(data + 1, size - 1, data[0] & 8);
		break;
	default:
		read_one_packet(data + 1, size - 1, data[0] % 2);
		break;
	}
	return 0;
}
