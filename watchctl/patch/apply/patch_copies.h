/*
 * patch_copies - what patches have done to the code of a process: which of its instructions run elsewhere, and what its bytes were.
 * For who looks at a process in which probes are, whoever put them there.
 */
#ifndef WATCHCTL_PATCH_APPLY_PATCH_COPIES_H
#define WATCHCTL_PATCH_APPLY_PATCH_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct patch_copies;

/* Nothing is known before the first look. NULL: no memory. */
struct patch_copies *patch_copies_new(pid_t pid);
void patch_copies_free(struct patch_copies *c); /* accepts NULL */

/* Looks at the process anew. Of one that has ended, what was known stays. False: no memory, and what was known stays. */
bool patch_copies_look(struct patch_copies *c);

/*
 * @pc: just behind the copy of an instruction. Returns the address behind the instruction in the program's own code; 0: there is no
 * such copy.
 */
uint64_t patch_copies_original(const struct patch_copies *c, uint64_t pc);

/* The @len bytes of @code are those at @addr: puts back what patches have written over. */
void patch_copies_restore(const struct patch_copies *c, uint64_t addr, uint8_t *code, size_t len);

#endif
