/* Writes a line to a volume and reads it back: the least that a program does.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs amita)
 *     AMITA_METADATA=127.0.0.1:2379 ./hello VOLUME
 */
#include <amita.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, amita_error());
		exit(1);
	}
}

/* Waits for the one request that is under way. */
static void finish(amita_queue queue, const char *what)
{
	amita_completion done;

	check(amita_wait(queue, &done, 1, -1), what);
	if (done.error) {
		fprintf(stderr, "%s: %s\n", what, amita_strerror(done.error));
		exit(1);
	}
}

int main(int count, char **arguments)
{
	static char block[4096], back[4096];
	amita_options options;
	amita_client client;
	amita_volume volume;
	amita_queue queue;

	if (count != 2) {
		fprintf(stderr, "usage: %s VOLUME\n", arguments[0]);
		return 2;
	}
	amita_options_init(&options);
	check(amita_connect(&options, &client), "connect");
	check(amita_open(client, arguments[1], &volume), "open");
	check(amita_queue_create(client, 32, &queue), "queue");
	printf("%s has %llu bytes\n", arguments[1], (unsigned long long)amita_size(volume));

	strcpy(block, "three copies of this are durable");
	check(amita_aio_write(queue, volume, block, sizeof(block), 8192, NULL), "write");
	finish(queue, "write");
	check(amita_aio_read(queue, volume, back, sizeof(back), 8192, NULL), "read");
	finish(queue, "read");
	printf("read: %s\n", back);

	check(amita_close(client), "close");
	return strcmp(block, back) != 0;
}
