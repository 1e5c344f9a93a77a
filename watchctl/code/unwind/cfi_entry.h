/*
 * cfi_entry - the code in which a process begins, where it has no CFI; private to watchctl/code/.
 *
 * The dynamic loader's and musl's _start are such code. Nobody called it: what lies above it on the stack are
 * the program's arguments, which other unwinders take for return addresses.
 */
#ifndef WATCHCTL_CODE_UNWIND_CFI_ENTRY_H
#define WATCHCTL_CODE_UNWIND_CFI_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code further from the entry point is not looked at. */
#define CFI_ENTRY_MAX 512u

/*
 * @code holds @len bytes from the entry point of an executable on. True when the byte at @offset is of an
 * instruction that is reached from there, along jumps and past calls: then its frame is the outermost one. To
 * be asked only where no CFI holds that address: what it does hold is another function, which others may
 * call.
 */
bool cfi_is_entry_code(const uint8_t *code, size_t len, size_t offset);

/*
 * Whether @code, of @len bytes, is the start of what glibc's makecontext() puts below a coroutine's function as its
 * return address. The function that begins there throws the stack away, and goes on with the next context, or
 * ends the thread. Its table describes a call: what it would take for a caller is that context's address. To be
 * asked only of a return address that no call stands before.
 */
bool cfi_is_context_start(const uint8_t *code, size_t len);

#endif
