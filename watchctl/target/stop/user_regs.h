/* user_regs - converts registers from the layout of ptrace to the one used everywhere else. */
#ifndef WATCHCTL_TARGET_STOP_USER_REGS_H
#define WATCHCTL_TARGET_STOP_USER_REGS_H

#include <sys/user.h>

#include "watchctl/code/regs.h"

static inline void user_regs_read(const struct user_regs_struct *u, struct regs *ret)
{
	*ret = (struct regs){ .r = {
				      [WREG_RAX] = u->rax,	   [WREG_RDX] = u->rdx,
				      [WREG_RCX] = u->rcx,	   [WREG_RBX] = u->rbx,
				      [WREG_RSI] = u->rsi,	   [WREG_RDI] = u->rdi,
				      [WREG_RBP] = u->rbp,	   [WREG_RSP] = u->rsp,
				      [WREG_R8] = u->r8,	   [WREG_R9] = u->r9,
				      [WREG_R10] = u->r10,	   [WREG_R11] = u->r11,
				      [WREG_R12] = u->r12,	   [WREG_R13] = u->r13,
				      [WREG_R14] = u->r14,	   [WREG_R15] = u->r15,
				      [WREG_RIP] = u->rip,	   [WREG_RFLAGS] = u->eflags,
				      [WREG_FS_BASE] = u->fs_base,
			      } };
}

#endif
