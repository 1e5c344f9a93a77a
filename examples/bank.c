/*
 * bank - two clerks move money between two accounts, in opposite directions. Each locks the account that the money comes from, then
 * the one it goes to. After some transfers the program does nothing any more, and uses no CPU.
 *
 *	cc -g -O1 -o bank bank.c -pthread
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct account {
	pthread_mutex_t lock;
	long balance;
};

static struct account savings = { PTHREAD_MUTEX_INITIALIZER, 1000 };
static struct account current = { PTHREAD_MUTEX_INITIALIZER, 1000 };

static void transfer(struct account *from, struct account *to, long amount)
{
	pthread_mutex_lock(&from->lock);
	usleep(1000); /* the paperwork */
	pthread_mutex_lock(&to->lock);
	from->balance -= amount;
	to->balance += amount;
	pthread_mutex_unlock(&to->lock);
	pthread_mutex_unlock(&from->lock);
}

static void *save(void *arg)
{
	for (int i = 0; i < 100000; i++)
		transfer(&current, &savings, 10);
	return arg;
}

static void *spend(void *arg)
{
	for (int i = 0; i < 100000; i++)
		transfer(&savings, &current, 10);
	return arg;
}

int main(void)
{
	pthread_t clerk[2];

	pthread_create(&clerk[0], NULL, save, NULL);
	pthread_create(&clerk[1], NULL, spend, NULL);
	pthread_join(clerk[0], NULL);
	pthread_join(clerk[1], NULL);
	printf("%ld and %ld\n", savings.balance, current.balance);
	return 0;
}
