#ifndef TESTS_BENCH_CAPTURES_H
#define TESTS_BENCH_CAPTURES_H

#define BENCH_FRAMES 16

struct burst {
	unsigned long n;
};

void run_capture_fp(struct burst *b);
void run_capture_nofp(struct burst *b);
void run_loop_fp(struct burst *b);
void run_loop_nofp(struct burst *b);
void run_bare(struct burst *b);

#endif
