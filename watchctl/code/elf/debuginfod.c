#include "watchctl/code/elf/debuginfod.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/module.h"

struct client;

/* Of libdebuginfod.so.1, see debuginfod_find_debuginfo(3). */
struct library {
	struct client *(*begin)(void);
	void (*end)(struct client *client);
	int (*find)(struct client *client, const unsigned char *id, int id_len, char **path);
};

bool debuginfod_is_configured(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && urls[strspn(urls, " ")];
}

/* As the client finds it, malloc'd; NULL: there is none. */
static char *cache_dir(void)
{
	const char *dir = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME"),
		   *xdg = getenv("XDG_CACHE_HOME");
	struct stat st;
	char *ret;

	if (dir && dir[0])
		return strdup(dir);
	if (home && asprintf(&ret, "%s/.debuginfod_client_cache", home) >= 0) {
		if (stat(ret, &st) == 0)
			return ret;
		free(ret);
	}
	if (xdg && xdg[0])
		return asprintf(&ret, "%s/debuginfod_client", xdg) < 0 ? NULL : ret;
	return home && asprintf(&ret, "%s/.cache/debuginfod_client", home) >= 0 ? ret : NULL;
}

int debuginfod_open_cached(const uint8_t *id, size_t id_len, char **path)
{
	scoped(freep) char *dir = debuginfod_is_configured() ? cache_dir() : NULL;
	scoped(freep) char *file = NULL;
	char hex[2 * BUILD_ID_MAX + 1];
	struct stat st;
	int fd;

	if (!dir || id_len > BUILD_ID_MAX)
		return -1;
	for (size_t i = 0; i < id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	if (asprintf(&file, "%s/%s/debuginfo", dir, hex) < 0) {
		file = NULL;
		return -1;
	}
	/* An empty file stands for the servers' answer that they have none. */
	if (stat(file, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return -1;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		*path = take_ptr(file);
	return fd;
}

static bool debuginfod_load(struct library *l)
{
	/* Never unloaded: its TLS libraries do not bear that. */
	void *so = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_NODELETE);

	if (!so)
		return false;
	*(void **)&l->begin = dlsym(so, "debuginfod_begin");
	*(void **)&l->end = dlsym(so, "debuginfod_end");
	*(void **)&l->find = dlsym(so, "debuginfod_find_debuginfo");
	return l->begin && l->end && l->find;
}

int debuginfod_fetch(const uint8_t *id, size_t id_len, char **path)
{
	struct client *client;
	struct library l = { 0 };
	char *found = NULL;
	int fd;

	if (!debuginfod_load(&l) || !(client = l.begin()))
		return -1;
	fd = l.find(client, id, (int)id_len, &found);
	l.end(client);
	if (fd < 0) {
		free(found);
		return -1;
	}
	*path = found;
	return fd;
}
