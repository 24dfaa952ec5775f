/* Many requests under way, with an event loop: the program sleeps in epoll, together with whatever else it waits for.
 *
 *     cc events.c -o events $(pkg-config --cflags --libs amita)
 *     AMITA_METADATA=127.0.0.1:2379 ./events VOLUME
 *
 * It writes a pattern to the first blocks of the volume, 64 at a time, reads all of it back, and compares. */
#include <amita.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { BLOCK = 4096, DEPTH = 64, BLOCKS = 4096, BATCH = 16 };

struct request {
	unsigned char data[BLOCK];
	unsigned block;
	int busy, reading;
};

static struct request requests[DEPTH];
static amita_queue queue;
static amita_volume volume;
static unsigned next, ended, wrong;

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, amita_error());
		exit(1);
	}
}

static void fill(unsigned char *data, unsigned block)
{
	for (unsigned at = 0; at < BLOCK; at++)
		data[at] = (unsigned char)(block * 31 + at * 7 + at / 256);
}

/* Starts requests until as many are under way as the queue takes. */
static void start(int reading)
{
	for (unsigned at = 0; at < DEPTH && next < BLOCKS; at++) {
		struct request *request = &requests[at];

		if (request->busy)
			continue;
		request->busy = 1;
		request->reading = reading;
		request->block = next++;
		uint64_t offset = (uint64_t)request->block * BLOCK;
		if (reading) {
			check(amita_aio_read(queue, volume, request->data, BLOCK, offset, request), "read");
		} else {
			fill(request->data, request->block);
			check(amita_aio_write(queue, volume, request->data, BLOCK, offset, request), "write");
		}
	}
}

/* Takes what has ended: until fewer come than there is room for. */
static void reap(void)
{
	amita_completion done[BATCH];
	int count;

	do {
		count = amita_poll(queue, done, BATCH);
		check(count, "poll");
		for (int at = 0; at < count; at++) {
			struct request *request = done[at].user;

			if (done[at].error) {
				fprintf(stderr, "block %u: %s\n", request->block, amita_strerror(done[at].error));
				exit(1);
			}
			if (request->reading) {
				unsigned char expected[BLOCK];

				fill(expected, request->block);
				wrong += memcmp(expected, request->data, BLOCK) != 0;
			}
			request->busy = 0;
			ended++;
		}
	} while (count == BATCH);
}

static void run(int epoll, int reading)
{
	next = ended = 0;
	while (ended < BLOCKS) {
		struct epoll_event event;

		start(reading);
		reap();
		if (ended < BLOCKS && amita_under_way(queue) > 0 && epoll_wait(epoll, &event, 1, -1) < 0) {
			perror("epoll_wait");
			exit(1);
		}
		reap();
	}
}

int main(int count, char **arguments)
{
	amita_options options;
	amita_client client;
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	if (count != 2) {
		fprintf(stderr, "usage: %s VOLUME\n", arguments[0]);
		return 2;
	}
	amita_options_init(&options);
	check(amita_connect(&options, &client), "connect");
	check(amita_open(client, arguments[1], &volume), "open");
	check(amita_queue_create(client, DEPTH, &queue), "queue");
	int file = amita_event_fd(queue);
	check(file, "event file");
	epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event);
	run(epoll, 0);
	run(epoll, 1);
	printf("%u blocks written and read, %u differ\n", (unsigned)BLOCKS, wrong);
	check(amita_close(client), "close");
	return wrong != 0;
}
