/* A serial protocol: frames with escapes and a checksum, written and read by a machine of states. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define START 0x7e
#define ESCAPE 0x7d
#define FLIP 0x20
#define PAYLOAD 32

enum state { IDLE, LENGTH, BODY, CHECK };

struct decoder {
	enum state state;
	int escaped;
	uint8_t length, at, sum;
	uint8_t payload[PAYLOAD];
	int good, bad;
};

struct writer {
	uint8_t bytes[256];
	int n;
};

static uint8_t add_sum(uint8_t sum, uint8_t byte)
{
	return (uint8_t)(((sum << 1) | (sum >> 7)) ^ byte);
}

static int needs_escape(uint8_t byte)
{
	return byte == START || byte == ESCAPE;
}

static void put_raw(struct writer *w, uint8_t byte)
{
	if (w->n < (int)sizeof(w->bytes))
		w->bytes[w->n++] = byte;
}

static void put_byte(struct writer *w, uint8_t byte)
{
	if (needs_escape(byte)) {
		put_raw(w, ESCAPE);
		byte ^= FLIP;
	}
	put_raw(w, byte);
}

static void put_frame(struct writer *w, const char *text)
{
	uint8_t sum = 0x55, length = (uint8_t)strlen(text);

	put_raw(w, START);
	put_byte(w, length);
	for (uint8_t i = 0; i < length; i++) {
		put_byte(w, (uint8_t)text[i]);
		sum = add_sum(sum, (uint8_t)text[i]);
	}
	put_byte(w, sum);
}

static void accept(struct decoder *d)
{
	d->good++;
	printf("frame of %d: %.*s\n", d->length, d->length, (const char *)d->payload);
}

static void reject(struct decoder *d, const char *why)
{
	d->bad++;
	printf("bad frame: %s\n", why);
}

static enum state take_length(struct decoder *d, uint8_t byte)
{
	d->length = byte;
	d->at = 0;
	d->sum = 0x55;
	if (byte > PAYLOAD) {
		reject(d, "too long");
		return IDLE;
	}
	return byte ? BODY : CHECK;
}

static enum state take_body(struct decoder *d, uint8_t byte)
{
	d->payload[d->at++] = byte;
	d->sum = add_sum(d->sum, byte);
	return d->at < d->length ? BODY : CHECK;
}

static enum state take_check(struct decoder *d, uint8_t byte)
{
	if (byte == d->sum)
		accept(d);
	else
		reject(d, "checksum");
	return IDLE;
}

static enum state take(struct decoder *d, uint8_t byte)
{
	switch (d->state) {
	case LENGTH:
		return take_length(d, byte);
	case BODY:
		return take_body(d, byte);
	case CHECK:
		return take_check(d, byte);
	default:
		return IDLE;
	}
}

static void decode(struct decoder *d, uint8_t byte)
{
	if (byte == START) {
		if (d->state != IDLE)
			reject(d, "cut short");
		d->state = LENGTH;
		d->escaped = 0;
		return;
	}
	if (byte == ESCAPE) {
		d->escaped = 1;
		return;
	}
	if (d->escaped) {
		byte ^= FLIP;
		d->escaped = 0;
	}
	d->state = take(d, byte);
}

static void damage(struct writer *w, int at)
{
	w->bytes[at] ^= 1;
}

int main(void)
{
	struct writer w = { .n = 0 };
	struct decoder d = { .state = IDLE };
	int second;

	put_frame(&w, "hello");
	second = w.n;
	put_frame(&w, "world");
	damage(&w, second + 3);
	put_frame(&w, "a~b}c");
	put_frame(&w, "");
	put_frame(&w, "this payload has too many bytes for us");
	put_frame(&w, "end");
	for (int i = 0; i < w.n; i++)
		decode(&d, w.bytes[i]);
	printf("%d good, %d bad, %d bytes\n", d.good, d.bad, w.n);
	return 0;
}
