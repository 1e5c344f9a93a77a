/* build: gcc -O1 -g */
/*
 * Handles secrets that it is told, and that are nowhere in its code: on the stack, in registers, in arguments
 * and results, in a watched variable. Commands: "store KEY TEXT" (KEY in hex), "count"; answers "ok".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))

volatile unsigned long secret, counter;
char text_of[64];
static unsigned long stored;

KEEP unsigned long copy_text(char *to, const char *text)
{
	strncpy(to, text, sizeof(text_of) - 1);
	return stored;
}

KEEP unsigned long set_secret(unsigned long key, const char *text)
{
	volatile unsigned long on_stack[4] = { key, key, key, key };

	stored = key;
	secret = on_stack[1];
	counter++; /* while the secret is in a register */
	return copy_text(text_of, text) ^ on_stack[2] ^ key;
}

KEEP unsigned int count(unsigned int n)
{
	counter += n;
	return (unsigned int)counter;
}

KEEP unsigned long serve(const char *command, const char *text, unsigned long key)
{
	unsigned int n = count(3);

	if (!strcmp(command, "store"))
		return set_secret(key, text) + n;
	return n;
}

int main(void)
{
	char line[256], command[32], text[64], key[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		text[0] = key[0] = '\0';
		if (sscanf(line, "%31s %31s %63s", command, key, text) < 1)
			continue;
		serve(command, text, strtoul(key, NULL, 16));
		printf("ok\n");
	}
	return 0;
}
