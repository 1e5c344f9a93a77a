/* Any bytes are an object of probes, or refused; what was read is sound, whatever the file says. */
#include "tests/fuzz/fuzz.h"
#include "watchctl/patch/probe/probe_image_impl.h"

static void check_image(const struct probe_image *i)
{
	const size_t size = i->code_size + i->data_size;
	uint8_t *to = malloc(size);
	struct probe_image_format f;

	require(to && i->code_size && i->code_size % 4096 == 0 && i->data_size % 4096 == 0);
	require(i->code_size <= 1u << 20 && i->data_size <= 16u << 20);
	require(i->entry_at < i->code_size && i->shared_at >= i->code_size && i->shared_at + 8 <= size);
	require(i->nfunctions);
	for (size_t k = 0; k < i->nfunctions; k++) {
		fuzz_read(i->function[k].name);
		require(i->function[k].at < i->code_size);
		require(probe_image_function(i, i->function[k].name));
	}
	for (size_t k = 0; k < i->nrelocations; k++)
		require(i->relocation[k].at >= i->code_size && i->relocation[k].at + 8 <= size);
	probe_image_relocate(i, 0x7f0000000000, to);
	for (uint64_t at = 0; at <= size; at += 8)
		if (probe_image_format(i, at, &f)) {
			fuzz_read(f.text);
			require(f.nargs <= 8 && !(f.strings >> f.nargs) && !(f.doubles >> f.nargs));
		}
	free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe_image i;
	struct wc_error *err;
	uint8_t *bytes = malloc(size ? size : 1); /* aligned, as it is said to be */

	require(bytes);
	if (size)
		memcpy(bytes, data, size);
	err = probe_image_read(bytes, size, "probes.so", &i);
	if (err) {
		require(err == &wc_enomem || (err->kind == WC_EUSAGE && err->text && *err->text));
		wc_error_free(err);
	} else {
		check_image(&i);
		probe_image_deinit(&i);
	}
	free(bytes);
	return 0;
}
