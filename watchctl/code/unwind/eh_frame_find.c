/*
 * .eh_frame (LSB Core, "Exception Frames"; DWARF 5, 6.4) is a list of entries. A CIE holds what many
 * functions have in common, an FDE describes one function and points back to its CIE:
 *
 *	length  u32, or 0xffffffff and u64; 0 ends the list
 *	id      0: a CIE. Else an FDE: the distance back from here to its CIE.
 *	CIE     version, augmentation string, code and data alignment factor, return address register,
 *		augmentation data, initial instructions
 *	FDE     first address, length, augmentation data, instructions
 *
 * .eh_frame_hdr has a table of the FDEs, sorted by address.
 *
 * .debug_frame is the same list, but that the id of a CIE is all ones, that of an FDE the distance from the
 * section's start to its CIE, and that addresses are written in full.
 */
#include "watchctl/code/unwind/eh_frame_find.h"

struct entry {
	struct cursor body; /* what follows the id */
	uint64_t cie;	    /* of an FDE: where its CIE is */
	bool is_cie;
};

/*
 * Reads the head of the entry at @at and sets *@next to the one after it. False: there is none, or the rest
 * of the section cannot be understood. The id of a 64-bit entry has 64 bits, as in readelf and libdw.
 */
static bool get_entry(const struct eh_image *image, uint64_t at, struct entry *ret, uint64_t *next)
{
	struct cursor c = cursor_at(&image->frames, at);
	unsigned int id_size = 4;
	uint64_t length = get_fixed(&c, 4), place, id;

	if (length == 0xffffffffu) {
		id_size = 8;
		length = get_fixed(&c, 8);
	}
	if (c.bad || length < id_size || length > c.end - c.at)
		return false;
	c.end = c.at + length;
	place = c.at;
	id = get_fixed(&c, id_size);
	if (image->is_debug_frame)
		*ret = (struct entry){ .body = c,
				       .cie = image->frames.start + id,
				       .is_cie = id == (id_size == 8 ? UINT64_MAX : UINT32_MAX) };
	else
		*ret = (struct entry){ .body = c, .cie = place - id, .is_cie = !id };
	*next = c.end;
	return true;
}

/* "zPLRSB" is as long as they get. */
#define AUGMENTATION_MAX 16

static bool get_augmentation(struct cie *cie, struct cursor *string, struct cursor *data)
{
	uint8_t encoding;

	for (;;) {
		switch (get_fixed(string, 1)) {
		case 0:
			return !string->bad && !data->bad;
		case 'R':
			cie->encoding = (uint8_t)get_fixed(data, 1);
			break;
		case 'L':
			cie->lsda = (uint8_t)get_fixed(data, 1);
			break;
		case 'P':
			encoding = (uint8_t)get_fixed(data, 1);
			if (encoding == PE_OMIT)
				break;
			if (!eh_encoded_size(encoding))
				return false;
			skip(data, eh_encoded_size(encoding));
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B':
			break;
		default:
			return false;
		}
	}
}

static bool get_cie(const struct eh_image *image, uint64_t at, struct cie *ret)
{
	struct cie cie = { .encoding = PE_ABSPTR, .lsda = PE_OMIT };
	struct cursor string, data;
	struct entry entry;
	uint64_t next, version, first;
	unsigned int i;

	if (!get_entry(image, at, &entry, &next) || !entry.is_cie)
		return false;
	cie.program = entry.body;
	version = get_fixed(&cie.program, 1);
	if (version != 1 && version != 3 && version != 4)
		return false;
	string = cie.program;
	for (i = 0; get_fixed(&cie.program, 1); i++)
		if (i == AUGMENTATION_MAX)
			return false;
	/* Version 4: the sizes of an address and of a segment selector. */
	if (version == 4 && get_fixed(&cie.program, 2) != 8)
		return false;
	cie.code_align = get_uleb(&cie.program);
	cie.data_align = get_sleb(&cie.program);
	cie.ra = version == 1 ? get_fixed(&cie.program, 1) : get_uleb(&cie.program);
	if (cie.program.bad)
		return false;
	first = get_fixed(&string, 1);
	if (first == 'z') {
		uint64_t size = get_uleb(&cie.program);

		cie.sized = true;
		data = cie.program;
		skip(&cie.program, size);
		if (cie.program.bad)
			return false;
		data.end = cie.program.at;
		if (!get_augmentation(&cie, &string, &data))
			return false;
	} else if (first) {
		return false; /* "eh" and other forms of old: how long their data is, only their maker knows
			       */
	}
	*ret = cie;
	return true;
}

/* The address of the language-specific data that stands at @c; 0: none, or one from the GOT. */
static uint64_t get_lsda(struct cursor c, uint8_t encoding)
{
	struct cursor raw = c;
	uint64_t at = eh_get_encoded(&c, encoding, 0);

	/* Zero means none, whatever it counts from. */
	if (c.bad || encoding & PE_INDIRECT || !get_fixed(&raw, eh_encoded_size(encoding)))
		return 0;
	return at;
}

/* The FDE at @at, if it is one. *@next as get_entry() sets it, 0: nothing can be read there. */
static bool get_fde(const struct eh_image *image, uint64_t at, struct fde *ret, uint64_t *next)
{
	struct cursor *c = &ret->program;
	struct entry entry;
	uint64_t size;

	*next = 0;
	if (!get_entry(image, at, &entry, next) || entry.is_cie || !get_cie(image, entry.cie, &ret->cie))
		return false;
	*c = entry.body;
	ret->start = eh_get_encoded(c, ret->cie.encoding, 0);
	/* The length has the form of an address, and counts from nothing. */
	size = eh_get_encoded(c, ret->cie.encoding & 0x07, 0);
	ret->end = ret->start + size;
	if (ret->cie.encoding & PE_INDIRECT || (ret->cie.encoding & 0x70) == PE_DATAREL)
		return false; /* from the GOT, of which nothing is known here */
	ret->lsda = 0;
	if (ret->cie.sized) {
		uint64_t data = get_uleb(c);

		if (data && ret->cie.lsda != PE_OMIT)
			ret->lsda = get_lsda(*c, ret->cie.lsda);
		skip(c, data);
	}
	return !c->bad;
}

static bool eh_frame_find_holds(const struct fde *f, uint64_t pc)
{
	return pc >= f->start && pc - f->start < f->end - f->start;
}

bool eh_fde_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct fde *ret)
{
	uint64_t next;

	return get_fde(image, entry, ret, &next) && eh_frame_find_holds(ret, pc);
}

/* .eh_frame_hdr: version 1, three encodings, the address of .eh_frame, the number of FDEs, and the table. */
struct header {
	uint64_t frames;
	uint64_t table; /* address of the table: pairs of the function's and the FDE's address */
	uint64_t n;	/* 0: there is none */
	uint8_t encoding;
	unsigned int size; /* of an address in it */
};

static bool eh_get_header(const struct eh_range *hdr, struct header *ret)
{
	struct cursor c = cursor_at(hdr, hdr->start);
	uint8_t version = (uint8_t)get_fixed(&c, 1), frames = (uint8_t)get_fixed(&c, 1),
		count = (uint8_t)get_fixed(&c, 1), table = (uint8_t)get_fixed(&c, 1);

	*ret = (struct header){ .encoding = table, .size = eh_encoded_size(table) };
	if (c.bad || version != 1 || frames == PE_OMIT || frames & PE_INDIRECT)
		return false;
	ret->frames = eh_get_encoded(&c, frames, hdr->start);
	if (c.bad)
		return false;
	if (count == PE_OMIT || table == PE_OMIT || table & PE_INDIRECT || !ret->size)
		return true;
	ret->n = eh_get_encoded(&c, count, hdr->start);
	ret->table = c.at;
	if (c.bad || ret->n > (c.end - c.at) / (2ull * ret->size))
		ret->n = 0;
	return true;
}

bool eh_frame_section(const struct eh_range *hdr, uint64_t *ret)
{
	struct header h;

	if (!eh_get_header(hdr, &h))
		return false;
	*ret = h.frames;
	return true;
}

static uint64_t table_address(const struct eh_range *hdr, const struct header *h, uint64_t index)
{
	struct cursor c = cursor_at(hdr, h->table + index * h->size);

	return eh_get_encoded(&c, h->encoding, hdr->start);
}

bool eh_frame_has_table(const struct eh_range *hdr)
{
	struct header h;

	return eh_get_header(hdr, &h) && h.n;
}

bool eh_frame_next(const struct eh_image *image, struct eh_function *f)
{
	struct fde fde;
	uint64_t at, next;

	for (at = f->next ? f->next : image->frames.start;; at = next) {
		bool is_fde = get_fde(image, at, &fde, &next);

		if (next <= at)
			return false;
		if (is_fde && fde.end > fde.start)
			break;
	}
	*f = (struct eh_function){
		.entry = at, .lsda = fde.lsda, .next = next, .start = fde.start, .end = fde.end
	};
	return true;
}

/* Without a table, which linkers leave out in static programs, and when they cannot make sense of a section.
 */
static bool find_by_scan(const struct eh_image *image, uint64_t pc, struct fde *ret)
{
	uint64_t at, next;

	for (at = image->frames.start;; at = next) {
		if (get_fde(image, at, ret, &next) && eh_frame_find_holds(ret, pc))
			return true;
		if (next <= at)
			return false;
	}
}

bool eh_find_fde(const struct eh_image *image, uint64_t pc, struct fde *ret)
{
	uint64_t low = 0, high;
	struct header h;

	if (!image->hdr.bytes)
		return find_by_scan(image, pc, ret);
	if (!eh_get_header(&image->hdr, &h))
		return false;
	if (!h.n)
		return find_by_scan(image, pc, ret);
	for (high = h.n; low < high;) {
		uint64_t middle = low + (high - low) / 2;

		if (table_address(&image->hdr, &h, 2 * middle) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && eh_fde_at(image, table_address(&image->hdr, &h, 2 * low - 1), pc, ret);
}

bool eh_frame_function(const struct eh_image *image, uint64_t pc, uint64_t *start, uint64_t *end)
{
	struct fde fde;

	if (!eh_find_fde(image, pc, &fde))
		return false;
	*start = fde.start;
	*end = fde.end;
	return true;
}
