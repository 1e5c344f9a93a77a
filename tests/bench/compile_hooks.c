/* The way of tracers that take -finstrument-functions: two hooks, rdtsc, 16 bytes, a ring a thread. */
#include <stdint.h>
#include <x86intrin.h>

#define ROOM 65536
#define ENTRY (1ull << 63)

struct ring {
	char room[2 * ROOM] __attribute__((aligned(ROOM)));
	uint64_t at;
};

static __thread struct ring ring;

static inline void put(uint64_t what)
{
	uint64_t *slot = (uint64_t *)(ring.room + ring.at);

	slot[0] = __rdtsc();
	slot[1] = what;
	ring.at = (ring.at + 16) & (ROOM - 1);
}

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	put((uint64_t)(uintptr_t)function | ENTRY);
}

void __cyg_profile_func_exit(void *function, void *from)
{
	put((uint64_t)(uintptr_t)function);
}
