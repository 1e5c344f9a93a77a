/*
 * Real instructions that access a watched place, for test_access.c. Each case is a function
 *
 *	void case_NAME(void *slot, uint64_t five)
 *
 * in which the label insn_NAME names the one instruction that accesses slot. Where rip then is a destination,
 * back_NAME names the return address on the stack. CASE(name, kind, flags) lists them. slot lies 8 bytes
 * above a multiple of 64 and holds 0x202, a harmless value for rflags too.
 */
#ifndef TESTS_UNIT_ACCESS_CASES_H
#define TESTS_UNIT_ACCESS_CASES_H

enum case_flags {
	IN_CALLER = 1,	  /* the accessor is a call, rip in its callee */
	NO_INSN = 2,	  /* the accessor cannot be known, its kind can */
	NO_TRAP = 4,	  /* names the slot without touching it */
	UNCONFIRMED = 8,  /* the operand cannot be recomputed */
	KERNEL = 16,	  /* needs an event that sees the kernel too */
	NEEDS_VALUE = 32, /* known only where the value is known */
	AVX2 = 64,
	AVX512 = 128,
	CLZERO = 256,
	HOLDS_SELF = 512,    /* slot holds its own address */
	HOLDS_CALLEE = 1024, /* slot holds the address of callee */
	FIRST_HIT = 2048,    /* later hits are not the case's */
	LAST_HIT = 4096,     /* earlier ones are not */
	MAY_TRAP = 8192,     /* depends on the processor */
	UNCHECKED = 16384,   /* without the value it cannot be confirmed */
};

#define R ACCESS_READ
#define W ACCESS_WRITE
#define RW ACCESS_READWRITE

#define CASES(CASE)                                                    \
	CASE(mov_store, W, 0)                                          \
	CASE(mov_load, R, 0)                                           \
	CASE(mov_self, R, UNCONFIRMED)                                 \
	CASE(mov_rip, R, 0)                                            \
	CASE(mov_fs, W, 0)                                             \
	CASE(add, RW, 0)                                               \
	CASE(or_zero, RW, 0)                                           \
	CASE(cmp, R, 0)                                                \
	CASE(test, R, 0)                                               \
	CASE(xchg, RW, 0)                                              \
	CASE(xchg_self, RW, UNCONFIRMED)                               \
	CASE(cmpxchg_fails, RW, 0)                                     \
	CASE(cmpxchg_works, RW, HOLDS_SELF)                            \
	CASE(cmpxchg16b, RW, 0)                                        \
	CASE(xadd, RW, 0)                                              \
	CASE(bts_near, RW, 0)                                          \
	CASE(bts_far, RW, 0)                                           \
	CASE(bt_back, R, 0)                                            \
	CASE(cmov_not_taken, R, 0)                                     \
	CASE(setcc, W, 0)                                              \
	CASE(straddle, W, 0)                                           \
	CASE(push_reg, W, 0)                                           \
	CASE(push_mem, R, 0)                                           \
	CASE(push_mem_stack, W, 0)                                     \
	CASE(pop_reg, R, 0)                                            \
	CASE(pop_mem, W, 0)                                            \
	CASE(pop_mem_rsp, W, 0)                                        \
	CASE(pop_rsp, R, UNCONFIRMED)                                  \
	CASE(pushf, W, 0)                                              \
	CASE(popf, R, 0)                                               \
	CASE(enter, W, 0)                                              \
	CASE(enter_nested, W, 0)                                       \
	CASE(leave, R, 0)                                              \
	CASE(xlat, R, UNCONFIRMED)                                     \
	CASE(call_rel, W, IN_CALLER | FIRST_HIT)                       \
	CASE(call_reg, W, IN_CALLER | FIRST_HIT)                       \
	CASE(call_mem_target, R, IN_CALLER | HOLDS_CALLEE | UNCHECKED) \
	CASE(call_mem_slot, W, IN_CALLER | FIRST_HIT | UNCHECKED)      \
	CASE(call_next, W, 0)                                          \
	CASE(ret, R, NO_INSN | LAST_HIT)                               \
	CASE(ret_imm, R, NO_INSN | NEEDS_VALUE | LAST_HIT)             \
	CASE(ret_push, R, NO_INSN | NEEDS_VALUE | LAST_HIT)            \
	CASE(jmp_mem, R, NO_INSN | NEEDS_VALUE | HOLDS_CALLEE)         \
	CASE(movs_to, W, 0)                                            \
	CASE(movs_from, R, 0)                                          \
	CASE(movs_down, W, 0)                                          \
	CASE(stos, W, 0)                                               \
	CASE(lods, R, 0)                                               \
	CASE(scas, R, 0)                                               \
	CASE(cmps, R, 0)                                               \
	CASE(rep_movs, W, 0)                                           \
	CASE(rep_movs_from, R, 0)                                      \
	CASE(rep_movsq_last, W, 0)                                     \
	CASE(rep_stos, W, 0)                                           \
	CASE(rep_stos_down, W, 0)                                      \
	CASE(store_before_rep, W, 0)                                   \
	CASE(repne_scas, R, 0)                                         \
	CASE(repe_cmps, R, 0)                                          \
	CASE(movaps_store, W, 0)                                       \
	CASE(movups_load, R, 0)                                        \
	CASE(movq_store, W, 0)                                         \
	CASE(movhps_store, W, 0)                                       \
	CASE(movnti, W, 0)                                             \
	CASE(addps, R, 0)                                              \
	CASE(fild, R, 0)                                               \
	CASE(fstp, W, 0)                                               \
	CASE(stmxcsr, W, 0)                                            \
	CASE(fxsave, W, 0)                                             \
	CASE(maskmovdqu, W, 0)                                         \
	CASE(lea, R, NO_TRAP)                                          \
	CASE(nop, R, NO_TRAP)                                          \
	CASE(prefetchw, R, NO_TRAP)                                    \
	CASE(prefetcht0, R, NO_TRAP)                                   \
	CASE(clflush, R, MAY_TRAP)                                     \
	CASE(clflushopt, R, MAY_TRAP)                                  \
	CASE(clwb, R, MAY_TRAP)                                        \
	CASE(cldemote, R, NO_TRAP)                                     \
	CASE(clzero, W, CLZERO)                                        \
	CASE(vmovdqu, W, AVX2)                                         \
	CASE(vpmaskmov, W, AVX2)                                       \
	CASE(vpmaskmov_none, W, AVX2 | MAY_TRAP)                       \
	CASE(vpgather, R, AVX2 | UNCONFIRMED)                          \
	CASE(vmovdqu32_masked, W, AVX512)                              \
	CASE(vpaddd_broadcast, R, AVX512)                              \
	CASE(vpcompress, W, AVX512)                                    \
	CASE(vpscatter, W, AVX512 | UNCONFIRMED)                       \
	CASE(kmovq, W, AVX512)                                         \
	CASE(syscall_read, W, KERNEL)

/* clang-format off */

/* BEGIN(x) ... INSN(x) ... END: the accessing instruction is the one right after INSN. */
#define BEGIN(name) ".globl case_" #name "\n.type case_" #name ", @function\ncase_" #name ":\n"
#define INSN(name) ".weak insn_" #name "\ninsn_" #name ":\n"
#define BACK(name) ".weak back_" #name "\nback_" #name ":\n"
#define END "ret\nint3\n.balign 16\n"

/* With a stack of its own that ends at rdi + @above; rbx holds the real one. */
#define STACK(above) "push rbx\nmov rbx, rsp\nlea rsp, [rdi + " #above "]\n"
#define UNSTACK "mov rsp, rbx\npop rbx\n"

__asm__(".intel_syntax noprefix\n"
	".text\n.balign 16\n"
	/* The way into every case: its return address is the innermost one of the others. */
	".globl invoke\n.type invoke, @function\ninvoke:\n"
	"push rbp\nmov rbp, rsp\ncall rdx\n" BACK(invoke) "pop rbp\nret\n.balign 16\n"

	BEGIN(mov_store) INSN(mov_store) "mov dword ptr [rdi], esi\n" END
	BEGIN(mov_load) INSN(mov_load) "mov al, byte ptr [rdi + 3]\n" END
	BEGIN(mov_self) INSN(mov_self) "mov rdi, qword ptr [rdi]\n" END
	BEGIN(mov_rip) INSN(mov_rip) "mov rax, qword ptr [rip + arena + 8200]\n" END
	BEGIN(mov_fs) "sub rdi, fs:[0]\n" INSN(mov_fs) "mov dword ptr fs:[rdi], 7\n" END
	BEGIN(add) INSN(add) "add qword ptr [rdi], rsi\n" END
	BEGIN(or_zero) INSN(or_zero) "or dword ptr [rdi], 0\n" END
	BEGIN(cmp) INSN(cmp) "cmp dword ptr [rdi + rsi * 4 - 20], 3\n" END
	BEGIN(test) INSN(test) "test dword ptr [rdi], esi\n" END
	BEGIN(xchg) INSN(xchg) "xchg dword ptr [rdi], esi\n" END
	BEGIN(xchg_self) INSN(xchg_self) "xchg qword ptr [rdi], rdi\n" END
	BEGIN(cmpxchg_fails) "mov rax, -1\n" INSN(cmpxchg_fails) "lock cmpxchg qword ptr [rdi], rsi\n" END
	BEGIN(cmpxchg_works) "mov rax, rdi\n"
	INSN(cmpxchg_works) "lock cmpxchg qword ptr [rax], rsi\n" END
	BEGIN(cmpxchg16b) "push rbx\nxor eax, eax\nxor edx, edx\nxor ebx, ebx\nxor ecx, ecx\n"
	INSN(cmpxchg16b) "lock cmpxchg16b [rdi - 8]\n" "pop rbx\n" END
	BEGIN(xadd) INSN(xadd) "lock xadd dword ptr [rdi], esi\n" END
	BEGIN(bts_near) INSN(bts_near) "lock bts qword ptr [rdi], 3\n" END
	BEGIN(bts_far) "mov eax, 1003\nsub rdi, 124\n" INSN(bts_far) "bts dword ptr [rdi], eax\n" END
	BEGIN(bt_back) "mov rax, -1\nadd rdi, 8\n" INSN(bt_back) "bt qword ptr [rdi], rax\n" END
	BEGIN(cmov_not_taken) "xor eax, eax\n" INSN(cmov_not_taken) "cmovne rax, qword ptr [rdi]\n" END
	BEGIN(setcc) INSN(setcc) "setne byte ptr [rdi + 1]\n" END
	BEGIN(straddle) INSN(straddle) "mov qword ptr [rdi - 5], rsi\n" END

	BEGIN(push_reg) STACK(8) INSN(push_reg) "push rsi\n" UNSTACK END
	BEGIN(push_mem) INSN(push_mem) "push qword ptr [rdi]\n" "pop rax\n" END
	BEGIN(push_mem_stack) STACK(8) INSN(push_mem_stack) "push qword ptr [rsp + 56]\n" UNSTACK END
	BEGIN(pop_reg) STACK(0) INSN(pop_reg) "pop rsi\n" UNSTACK END
	BEGIN(pop_mem) "push rsi\n" INSN(pop_mem) "pop qword ptr [rdi]\n" END
	BEGIN(pop_mem_rsp) STACK(-16) INSN(pop_mem_rsp) "pop qword ptr [rsp + 8]\n" UNSTACK END
	BEGIN(pop_rsp) STACK(0) INSN(pop_rsp) "pop rsp\n" UNSTACK END
	BEGIN(pushf) STACK(8) INSN(pushf) "pushfq\n" UNSTACK END
	BEGIN(popf) STACK(0) INSN(popf) "popfq\n" UNSTACK END
	BEGIN(enter) STACK(8) "mov rcx, rbp\n"
	INSN(enter) "enter 32, 0\n" "mov rbp, rcx\n" UNSTACK END
	BEGIN(enter_nested) STACK(24) "mov rcx, rbp\n" "lea rbp, [rdi + 128]\n"
	INSN(enter_nested) "enter 32, 2\n" "mov rbp, rcx\n" UNSTACK END
	BEGIN(leave) "push rbx\nmov rbx, rsp\nmov rcx, rbp\nmov rbp, rdi\n"
	INSN(leave) "leave\n" "mov rbp, rcx\n" UNSTACK END
	BEGIN(xlat) "push rbx\nmov rbx, rdi\nmov al, 2\n" INSN(xlat) "xlatb\n" "pop rbx\n" END

	BEGIN(call_rel) STACK(8) INSN(call_rel) "call callee\n" BACK(call_rel) UNSTACK END
	BEGIN(call_reg) STACK(8) "lea rax, [rip + callee]\n" INSN(call_reg) "call rax\n" BACK(call_reg) UNSTACK END
	BEGIN(call_mem_target) "sub rsp, 8\n" INSN(call_mem_target) "call qword ptr [rdi]\n" BACK(call_mem_target)
	"add rsp, 8\n" END
	BEGIN(call_mem_slot) STACK(8) INSN(call_mem_slot) "call qword ptr [rip + callee_pointer]\n"
	BACK(call_mem_slot) UNSTACK END
	BEGIN(call_next) STACK(8) INSN(call_next) "call back_call_next\n" BACK(call_next) UNSTACK END
	BEGIN(ret) STACK(8) "call callee\n" BACK(ret) UNSTACK END
	BEGIN(ret_imm) STACK(8) "call callee_ret16\n" BACK(ret_imm) UNSTACK END
	BEGIN(ret_push) STACK(8) "lea rax, [rip + 1f]\n" "push rax\n" "ret\n" "1:\n" UNSTACK END
	BEGIN(jmp_mem) "jmp qword ptr [rdi]\n" END
	".globl callee\n.type callee, @function\ncallee:\n" "nop\n" END
	".globl callee_ret16\n.type callee_ret16, @function\ncallee_ret16:\n" "nop\n" "ret 16\n" ".balign 16\n"

	BEGIN(movs_to) "lea rsi, [rdi + 64]\n" INSN(movs_to) "movsq\n" END
	BEGIN(movs_from) "mov rsi, rdi\nadd rdi, 64\n" INSN(movs_from) "movsd\n" END
	BEGIN(movs_down) "lea rsi, [rdi + 64]\nstd\n" INSN(movs_down) "movsq\n" "cld\n" END
	BEGIN(stos) INSN(stos) "stosb\n" END
	BEGIN(lods) "mov rsi, rdi\n" INSN(lods) "lodsq\n" END
	BEGIN(scas) INSN(scas) "scasw\n" END
	BEGIN(cmps) "lea rsi, [rdi + 64]\n" INSN(cmps) "cmpsb\n" END
	BEGIN(rep_movs) "mov rsi, rdi\nadd rsi, 2048\nsub rdi, 700\nmov ecx, 1500\n" INSN(rep_movs) "rep movsb\n" END
	BEGIN(rep_movs_from) "lea rsi, [rdi - 701]\nadd rdi, 1200\nmov ecx, 1500\n"
	INSN(rep_movs_from) "rep movsb\n" END
	BEGIN(rep_movsq_last) "mov rsi, rdi\nadd rsi, 2048\nsub rdi, 800\nmov ecx, 101\n"
	INSN(rep_movsq_last) "rep movsq\n" END
	BEGIN(rep_stos) "sub rdi, 256\nmov eax, 5\nmov ecx, 300\n" INSN(rep_stos) "rep stosd\n" END
	BEGIN(rep_stos_down) "add rdi, 256\nmov eax, 5\nmov ecx, 70\nstd\n"
	INSN(rep_stos_down) "rep stosd\n" "cld\n" END
	BEGIN(store_before_rep) "mov r8, rdi\nadd rdi, 512\nmov ecx, 64\n"
	INSN(store_before_rep) "mov dword ptr [r8], eax\n" "rep stosb\n" END
	BEGIN(repne_scas) "sub rdi, 100\nmov eax, 0xee\nmov ecx, 300\n" INSN(repne_scas) "repne scasb\n" END
	BEGIN(repe_cmps) "lea rsi, [rdi - 100]\nadd rdi, 1024\nmov ecx, 300\n" INSN(repe_cmps) "repe cmpsb\n" END

	BEGIN(movaps_store) INSN(movaps_store) "movaps xmmword ptr [rdi - 8], xmm0\n" END
	BEGIN(movups_load) INSN(movups_load) "movups xmm0, xmmword ptr [rdi - 3]\n" END
	BEGIN(movq_store) INSN(movq_store) "movq qword ptr [rdi], xmm0\n" END
	BEGIN(movhps_store) INSN(movhps_store) "movhps qword ptr [rdi], xmm0\n" END
	BEGIN(movnti) INSN(movnti) "movnti qword ptr [rdi], rsi\n" "sfence\n" END
	BEGIN(addps) INSN(addps) "addps xmm0, xmmword ptr [rdi - 8]\n" END
	BEGIN(fild) INSN(fild) "fild qword ptr [rdi]\n" "fstp st(0)\n" END
	BEGIN(fstp) "fld1\n" INSN(fstp) "fstp tbyte ptr [rdi - 8]\n" END
	BEGIN(stmxcsr) INSN(stmxcsr) "stmxcsr dword ptr [rdi]\n" END
	BEGIN(fxsave) INSN(fxsave) "fxsave [rdi - 40]\n" END
	BEGIN(maskmovdqu) "pcmpeqb xmm1, xmm1\n" INSN(maskmovdqu) "maskmovdqu xmm0, xmm1\n" "sfence\n" END
	BEGIN(lea) INSN(lea) "lea rax, [rdi]\n" END
	BEGIN(nop) INSN(nop) "nop qword ptr [rdi]\n" END
	BEGIN(prefetchw) INSN(prefetchw) "prefetchw [rdi]\n" END
	BEGIN(prefetcht0) INSN(prefetcht0) "prefetcht0 [rdi]\n" END
	BEGIN(clflush) INSN(clflush) "clflush [rdi]\n" END
	BEGIN(clflushopt) INSN(clflushopt) "clflushopt [rdi]\n" END
	BEGIN(clwb) INSN(clwb) "clwb [rdi]\n" END
	BEGIN(cldemote) INSN(cldemote) "cldemote [rdi]\n" END
	BEGIN(clzero) "mov rax, rdi\n" INSN(clzero) "clzero\n" "sfence\n" END

	BEGIN(vmovdqu) INSN(vmovdqu) "vmovdqu ymmword ptr [rdi - 24], ymm0\n" "vzeroupper\n" END
	BEGIN(vpmaskmov) "vpcmpeqd ymm1, ymm1, ymm1\n"
	INSN(vpmaskmov) "vpmaskmovd ymmword ptr [rdi - 8], ymm1, ymm0\n" "vzeroupper\n" END
	BEGIN(vpmaskmov_none) "vpxor ymm1, ymm1, ymm1\n"
	INSN(vpmaskmov_none) "vpmaskmovd ymmword ptr [rdi - 8], ymm1, ymm0\n" "vzeroupper\n" END
	BEGIN(vpgather) "vpcmpeqd ymm2, ymm2, ymm2\n" "vpxor ymm1, ymm1, ymm1\n"
	INSN(vpgather) "vpgatherdd ymm0, [rdi + ymm1 * 4], ymm2\n" "vzeroupper\n" END
	BEGIN(vmovdqu32_masked) "mov eax, 4\nkmovw k1, eax\n"
	INSN(vmovdqu32_masked) "vmovdqu32 zmmword ptr [rdi - 8]{k1}, zmm0\n" "vzeroupper\n" END
	BEGIN(vpaddd_broadcast)
	INSN(vpaddd_broadcast) "vpaddd zmm0, zmm0, dword ptr [rdi]{1to16}\n" "vzeroupper\n" END
	BEGIN(vpcompress) "mov eax, 0xff\nkmovw k1, eax\n"
	INSN(vpcompress) "vpcompressd zmmword ptr [rdi]{k1}, zmm0\n" "vzeroupper\n" END
	BEGIN(vpscatter) "mov eax, 1\nkmovw k1, eax\n" "vpxord zmm1, zmm1, zmm1\n"
	INSN(vpscatter) "vpscatterdd [rdi + zmm1 * 4]{k1}, zmm0\n" "vzeroupper\n" END
	BEGIN(kmovq) INSN(kmovq) "kmovq qword ptr [rdi], k1\n" END
	/* read(other, slot, 8) */
	BEGIN(syscall_read) "xor eax, eax\n" "xchg rdi, rsi\n" "mov edx, 8\n" INSN(syscall_read) "syscall\n" END
	".globl cases_end\ncases_end:\n"
	".att_syntax\n");

/* clang-format on */

#endif
