/*
 * patch_work - what C programs use of the C library, in one thread and in four: says the same in every run, also of addresses that are
 * randomized. "patch_work" alone makes all of it; "patch_work one" has no threads and no children.
 */
#include <ctype.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static uint64_t state = 88172645463325252u;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared;
static volatile sig_atomic_t got;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t sum_of(const void *data, size_t n, uint64_t sum)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ ((const unsigned char *)data)[i]) * 1099511628211u;
	return sum;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void memory(void)
{
	void *block[256] = { 0 };
	uint64_t sum = 0;

	for (int i = 0; i < 40000; i++) {
		unsigned int k = next() % 256, n = next() % 5000 + 1;

		free(block[k]);
		block[k] = i % 3 ? malloc(n) : calloc(n, 1);
		memset(block[k], (int)n, n);
		if (i % 5 == 0)
			block[k] = realloc(block[k], n + 300), memset((char *)block[k] + n, 7, 300);
		sum = sum_of(block[k], 16 < n ? 16 : n, sum);
	}
	for (int i = 0; i < 256; i++)
		free(block[i]);
	printf("memory %016llx\n", (unsigned long long)sum);
}

static void text(void)
{
	static uint64_t number[5000];
	char line[200];
	uint64_t sum = 0;
	regex_t re;

	for (int i = 0; i < 5000; i++)
		number[i] = next();
	qsort(number, 5000, sizeof(number[0]), by_value);
	for (int i = 0; i < 5000; i++) {
		int n = snprintf(line, sizeof(line), "%d %llx %.6g %s", i, (unsigned long long)number[i],
				 (double)number[i] / 3, i % 2 ? "odd" : "even");
		char *end;

		sum = sum_of(line, (size_t)n, sum) + strtoull(strchr(line, ' ') + 1, &end, 16) +
		      (uint64_t)strtod(end, NULL);
		sum += strlen(strstr(line, i % 2 ? "odd" : "even")) + (size_t) !!strpbrk(line, "xyz");
	}
	regcomp(&re, "^([0-9]+) [0-9a-f]*(dead|beef|cafe|f00)", REG_EXTENDED);
	for (int i = 0; i < 500; i++) {
		snprintf(line, sizeof(line), "%d %llx", i, (unsigned long long)number[i]);
		sum += !regexec(&re, line, 0, NULL, 0);
	}
	regfree(&re);
	printf("text %016llx\n", (unsigned long long)sum);
}

static void files(void)
{
	FILE *f = tmpfile();
	char line[64];
	uint64_t sum = 0;
	struct tm tm;

	for (int i = 0; i < 3000; i++)
		fprintf(f, "%d,%llu\n", i, (unsigned long long)next());
	rewind(f);
	while (fgets(line, sizeof(line), f))
		sum = sum_of(line, strlen(line), sum);
	fclose(f);
	for (int i = 0; i < 300; i++) {
		time_t t = (time_t)(next() % 4000000000u);
		void *p = mmap(NULL, 4096 * (1 + (size_t)i % 9), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(p, i, 100);
		munmap(p, 4096 * (1 + (size_t)i % 9));
		gmtime_r(&t, &tm);
		strftime(line, sizeof(line), "%A %d %B %Y %T", &tm);
		sum = sum_of(line, strlen(line), sum);
	}
	printf("files %016llx\n", (unsigned long long)sum);
}

static void on_signal(int s)
{
	got += s;
}

static void jumps(void)
{
	volatile int n = 0;
	sigjmp_buf place;

	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 200; i++)
		raise(SIGUSR1);
	if (sigsetjmp(place, 1) < 500) {
		n++;
		siglongjmp(place, n);
	}
	printf("jumps %d %d\n", (int)got, n);
}

static void *add(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		void *p = malloc((size_t)i % 700 + 1);

		pthread_mutex_lock(&lock);
		shared += (uintptr_t)arg;
		pthread_mutex_unlock(&lock);
		free(p);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];
	int status, pipes[2];
	char said[8] = "";

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, add, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 20; i++) {
		if (pipe(pipes) < 0)
			exit(1);
		fflush(stdout);
		if (fork() == 0) {
			snprintf(said, sizeof(said), "%d", i * i);
			_exit(write(pipes[1], said, sizeof(said)) == sizeof(said) ? i : 99);
		}
		wait(&status);
		if (read(pipes[0], said, sizeof(said)) != sizeof(said) || atoi(said) != i * i ||
		    WEXITSTATUS(status) != i)
			exit(2);
		close(pipes[0]);
		close(pipes[1]);
	}
	printf("threads %llu\n", (unsigned long long)shared);
}

int main(int argc, char **argv)
{
	memory();
	text();
	files();
	jumps();
	if (argc < 2 || strcmp(argv[1], "one") != 0)
		threads();
	return 3;
}
