/*
 * library_find - /etc/ld.so.cache as glibc writes it since 2.2 (sysdeps/generic/dl-cache.h names the parts):
 *
 *	0	"glibc-ld.so.cache1.1"
 *	20	number of entries, 4 bytes; length of the texts, 4 bytes; 20 bytes of no interest here
 *	48	entries of 24 bytes: flags, offset of the name, offset of the path, 4 bytes; 8 bytes that say which processor it is for
 *
 * Offsets are from the beginning of the file. Older caches have another part in front of it, which is not read.
 */
#include "watchctl/patch/library/library_find.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/patch/plan/near_name.h"

#define CACHE "/etc/ld.so.cache"
#define CACHE_MAX (64u << 20)
#define MAGIC "glibc-ld.so.cache1.1"
#define FLAGS_X86_64 0x0303 /* of glibc's, for x86-64 */

struct cache_head {
	char magic[20];
	uint32_t nentries, texts;
	uint32_t unused[5];
};

struct cache_entry {
	uint32_t flags, name, path, unused;
	uint64_t processor;
};

_Static_assert(sizeof(struct cache_head) == 48 && sizeof(struct cache_entry) == 24, "as the file has them");

struct cache {
	const uint8_t *bytes;
	size_t size, n;
};

static bool open_cache(const uint8_t *bytes, size_t size, struct cache *ret)
{
	struct cache_head h;

	if (size < sizeof(h))
		return false;
	memcpy(&h, bytes, sizeof(h));
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 || bytes[size - 1])
		return false;
	if (h.nentries > (size - sizeof(h)) / sizeof(struct cache_entry))
		return false;
	*ret = (struct cache){ bytes, size, h.nentries };
	return true;
}

static const char *text_at(const struct cache *c, uint32_t at)
{
	return at < c->size ? (const char *)c->bytes + at : "";
}

/* False: it is for another architecture, or for some processors only. */
static bool read_entry(const struct cache *c, size_t i, struct cache_entry *ret)
{
	memcpy(ret, c->bytes + sizeof(struct cache_head) + i * sizeof(*ret), sizeof(*ret));
	return ret->flags == FLAGS_X86_64 && !ret->processor;
}

static const char *find_entry(const struct cache *c, const char *name)
{
	struct cache_entry e;

	for (size_t i = 0; i < c->n; i++)
		if (read_entry(c, i, &e) && !strcmp(text_at(c, e.name), name))
			return text_at(c, e.path);
	return NULL;
}

const char *library_find_in_cache(const uint8_t *bytes, size_t size, const char *name)
{
	struct cache c;

	return open_cache(bytes, size, &c) ? find_entry(&c, name) : NULL;
}

static bool read_cache(uint8_t **bytes, size_t *size)
{
	scoped(closep) int fd = open(CACHE, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0 || st.st_size > (off_t)CACHE_MAX)
		return false;
	*bytes = malloc((size_t)st.st_size);
	*size = *bytes ? (size_t)st.st_size : 0;
	return *bytes && pread(fd, *bytes, *size, 0) == (ssize_t)*size;
}

/* Where the loader looks last. */
static char *find_in_folders(const char *name)
{
	static const char *const folder[] = { "/lib/x86_64-linux-gnu",
					      "/usr/lib/x86_64-linux-gnu",
					      "/lib64",
					      "/usr/lib64",
					      "/lib",
					      "/usr/lib" };
	char *path;

	for (size_t i = 0; i < sizeof(folder) / sizeof(folder[0]); i++) {
		if (asprintf(&path, "%s/%s", folder[i], name) < 0)
			return NULL;
		if (!access(path, R_OK))
			return path;
		free(path);
	}
	return NULL;
}

static struct wc_error *not_found(const struct cache *c, const char *name)
{
	struct near_names near = { .query = name };
	struct cache_entry e;
	char text[256];

	for (size_t i = 0; i < c->n; i++)
		if (read_entry(c, i, &e))
			near_names_offer(&near, text_at(c, e.name));
	near_names_text(&near, text, sizeof(text));
	return wc_error_new(
		WC_ENAME,
		"the dynamic loader knows no library \"%s\": give its whole SONAME, like libz.so.1, or a path with "
		"a slash in it%s",
		name, text);
}

struct wc_error *library_find(const char *name, char **ret)
{
	scoped(freep) uint8_t *bytes = NULL;
	struct cache c = { 0 };
	const char *path = NULL;
	size_t size = 0;

	if (read_cache(&bytes, &size) && open_cache(bytes, size, &c))
		path = find_entry(&c, name);
	*ret = path ? strdup(path) : find_in_folders(name);
	return *ret ? NULL : not_found(&c, name);
}
