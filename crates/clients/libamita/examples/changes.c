/* Lists what was changed between two snapshots of a volume, or since one: what an incremental backup reads.
 *
 *     cc changes.c -o changes $(pkg-config --cflags --libs amita)
 *     AMITA_METADATA=127.0.0.1:2379 ./changes VOLUME@NEWER OLDER
 */
#include <amita.h>
#include <stdio.h>
#include <stdlib.h>

/* Chunks that are asked about at one time. */
#define DEPTH 16

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, amita_error());
		exit(1);
	}
}

/* Answers come in any order: each is kept in the place of its chunk until those before it are printed. */
static void print(amita_buffer answer)
{
	const amita_extent *extents;
	int count = amita_changes(answer, &extents);

	check(count, "extents");
	for (int at = 0; at < count; at++)
		printf("%llu %llu %s\n", (unsigned long long)extents[at].offset, (unsigned long long)extents[at].length,
		       extents[at].is_zero ? "zero" : "data");
	check(amita_free(answer), "free");
}

int main(int count, char **arguments)
{
	amita_buffer answers[DEPTH] = { NULL };
	amita_options options;
	amita_client client;
	amita_volume volume;
	amita_queue queue;
	uint64_t asked = 0, printed = 0;

	if (count != 3) {
		fprintf(stderr, "usage: %s VOLUME[@SNAPSHOT] OLDER-SNAPSHOT\n", arguments[0]);
		return 2;
	}
	amita_options_init(&options);
	check(amita_connect(&options, &client), "connect");
	check(amita_open_since(client, arguments[1], arguments[2], &volume), "open");
	check(amita_queue_create(client, DEPTH, &queue), "queue");

	uint64_t chunk = amita_chunk_bytes(volume);
	uint64_t chunks = (amita_size(volume) + chunk - 1) / chunk;
	while (printed < chunks) {
		for (; asked < chunks && asked < printed + DEPTH; asked++)
			check(amita_aio_changed(queue, volume, asked * chunk, (void *)(uintptr_t)asked), "ask");
		amita_completion done;
		check(amita_wait(queue, &done, 1, -1), "wait");
		if (done.error) {
			fprintf(stderr, "changes: %s\n", amita_strerror(done.error));
			return 1;
		}
		answers[(uintptr_t)done.user % DEPTH] = done.buffer;
		for (; printed < asked && answers[printed % DEPTH]; printed++) {
			print(answers[printed % DEPTH]);
			answers[printed % DEPTH] = NULL;
		}
	}
	check(amita_close(client), "close");
	return 0;
}
