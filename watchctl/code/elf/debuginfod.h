/*
 * debuginfod - debug files from servers, by build id; private to watchctl/code/. Only where the user configured
 * it: DEBUGINFOD_URLS. The client library is loaded when it is first needed, for it brings a whole web
 * client.
 */
#ifndef WATCHCTL_CODE_ELF_DEBUGINFOD_H
#define WATCHCTL_CODE_ELF_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool debuginfod_is_configured(void);

/* A file that was fetched before. -1: none. *@path is malloc'd. */
int debuginfod_open_cached(const uint8_t *id, size_t id_len, char **path);

/* Asks the servers and waits for them, as long as DEBUGINFOD_TIMEOUT lets it. */
int debuginfod_fetch(const uint8_t *id, size_t id_len, char **path);

#endif
