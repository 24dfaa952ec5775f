/* Everything that a program may do wrong: each is an error with words, and none is a crash. */
#include <amita.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int failed;

#define EXPECT(condition)                                                                                  \
	do {                                                                                               \
		if (!(condition)) {                                                                        \
			fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, amita_error()); \
			failed = 1;                                                                        \
		}                                                                                          \
	} while (0)

/* The call fails so, and says something that names `word`. */
#define REFUSED(call, error, word)                                                                         \
	do {                                                                                               \
		int result_ = (call);                                                                      \
		if (result_ != -(error) || !strstr(amita_error(), (word))) {                               \
			fprintf(stderr, "line %d: %s is %d, expected %d (%s)\n", __LINE__, #call, result_, \
				-(error), amita_error());                                                  \
			failed = 1;                                                                        \
		}                                                                                          \
	} while (0)

static unsigned char data[AMITA_MAX_IO_BYTES + 4096];

static amita_client connect_to(unsigned flags)
{
	amita_options options;
	amita_client client;

	amita_options_init(&options);
	options.flags = flags;
	options.buffer_bytes = 64 << 20;
	EXPECT(amita_connect(&options, &client) == 0);
	return client;
}

static amita_completion one(amita_queue queue)
{
	amita_completion done;

	memset(&done, 0xff, sizeof(done));
	EXPECT(amita_wait(queue, &done, 1, 30000) == 1);
	return done;
}

static void bad_options(void)
{
	amita_options options;
	amita_client client = (amita_client)1;

	REFUSED(amita_connect(NULL, &client), EINVAL, "options");
	EXPECT(client == NULL);
	amita_options_init(&options);
	REFUSED(amita_connect(&options, NULL), EINVAL, "client");
	options.size = 8;
	REFUSED(amita_connect(&options, &client), EINVAL, "amita_options_init");
	amita_options_init(&options);
	options.flags = 0x80;
	REFUSED(amita_connect(&options, &client), EINVAL, "0x80");
	amita_options_init(&options);
	options.fabric = "nowhere";
	REFUSED(amita_connect(&options, &client), EINVAL, "nowhere");
	amita_options_init(&options);
	options.name = "\xff\xfe";
	REFUSED(amita_connect(&options, &client), EINVAL, "UTF-8");
	amita_options_init(&options);
	options.metadata = "127.0.0.1:1";
	options.metadata_timeout_ms = 10;
	REFUSED(amita_connect(&options, &client), ENOTCONN, "127.0.0.1:1");
	amita_options_init(&options);
	options.stores = "/nowhere/store";
	REFUSED(amita_connect(&options, &client), EINVAL, "name");
	amita_options_init_sized(NULL, sizeof(options));
	amita_options_init_sized(NULL, 8);
}

/* A program that was built with another version of the header. */
static void other_options(void)
{
	unsigned char room[sizeof(amita_options) + 64];
	amita_options *options = (amita_options *)room;
	amita_client client = (amita_client)1;
	size_t size;

	for (size = 0; size <= sizeof(room); size += 8) {
		size_t at;

		memset(room, 0xee, sizeof(room));
		amita_options_init_sized(options, size);
		for (at = size; at < sizeof(room); at++)
			EXPECT(room[at] == 0xee);
		if (size >= sizeof(options->size))
			EXPECT(options->size == size);
		if (size >= sizeof(options->size) && size != sizeof(amita_options))
			REFUSED(amita_connect(options, &client), EINVAL, "its own header");
	}
}

static void bad_handles(amita_client client)
{
	amita_volume volume;
	amita_queue queue, other;
	amita_buffer buffer;
	amita_completion done;
	const amita_extent *extents;
	int on_the_stack = 0, result;

	REFUSED(amita_close(NULL), EBADF, "client");
	REFUSED(amita_close((amita_client)&on_the_stack), EBADF, "client");
	REFUSED(amita_open(NULL, "v", &volume), EBADF, "client");
	REFUSED(amita_open(client, NULL, &volume), EINVAL, "name");
	REFUSED(amita_open(client, "v", NULL), EINVAL, "volume");
	REFUSED(amita_open(client, "nothing", &volume), ENOENT, "nothing");
	EXPECT(volume == NULL);
	EXPECT(amita_open(client, "v", &volume) == 0);
	EXPECT(amita_size(volume) == 64 << 20 && amita_chunk_bytes(volume) > 0);
	EXPECT(amita_size(NULL) == 0 && amita_size((amita_volume)client) == 0);
	REFUSED(amita_queue_create(client, 0, &queue), EINVAL, "0");
	REFUSED(amita_queue_create(client, AMITA_MAX_DEPTH + 1, &queue), EINVAL, "4096");
	EXPECT(amita_queue_create(client, 2, &queue) == 0);
	/* Of another kind. */
	REFUSED(amita_queue_destroy((amita_queue)volume), EBADF, "queue");
	REFUSED(amita_queue_destroy((amita_queue)client), EBADF, "queue");
	REFUSED(amita_aio_read(NULL, volume, data, 4096, 0, NULL), EBADF, "queue");
	REFUSED(amita_aio_read((amita_queue)client, volume, data, 4096, 0, NULL), EBADF, "queue");
	REFUSED(amita_aio_read(queue, (amita_volume)queue, data, 4096, 0, NULL), EBADF, "volume");
	REFUSED(amita_poll(queue, NULL, 1), EINVAL, "room");
	REFUSED(amita_poll(queue, &done, 0), EINVAL, "room");
	/* Ranges. */
	REFUSED(amita_aio_read(queue, volume, NULL, 4096, 0, NULL), EINVAL, "NULL");
	REFUSED(amita_aio_write(queue, volume, NULL, 4096, 0, NULL), EINVAL, "NULL");
	REFUSED(amita_aio_read(queue, volume, data, 0, 0, NULL), EINVAL, "0 bytes");
	REFUSED(amita_aio_read(queue, volume, data, sizeof(data), 0, NULL), EINVAL, "1048576");
	REFUSED(amita_aio_write(queue, volume, data, sizeof(data), 0, NULL), EINVAL, "1048576");
	REFUSED(amita_aio_read(queue, volume, data, (size_t)5 << 32, 0, NULL), EINVAL, "1048576");
	REFUSED(amita_aio_write(queue, volume, data, 4096, amita_size(volume) - 1, NULL), EINVAL, "67108864");
	REFUSED(amita_aio_write(queue, volume, data, 4096, UINT64_MAX - 100, NULL), EINVAL, "67108864");
	REFUSED(amita_aio_discard(queue, volume, UINT64_MAX, 1, NULL), EINVAL, "67108864");
	REFUSED(amita_aio_readv(queue, volume, NULL, 1, 0, NULL), EINVAL, "vectors");
	struct iovec vectors[2] = { { data, 100 }, { NULL, 100 } };
	REFUSED(amita_aio_writev(queue, volume, vectors, 2, 0, NULL), EINVAL, "NULL");
	REFUSED(amita_aio_writev(queue, volume, vectors, -1, 0, NULL), EINVAL, "vectors");
	EXPECT(amita_under_way(queue) == 0);
	EXPECT(amita_wait(queue, &done, 1, -1) == 0);
	/* Too much at once. */
	EXPECT(amita_aio_read(queue, volume, data, 4096, 0, (void *)1) == 0);
	EXPECT(amita_aio_read(queue, volume, data, 4096, 0, (void *)2) == 0);
	REFUSED(amita_aio_flush(queue, volume, NULL), EAGAIN, "under way");
	EXPECT(one(queue).error == 0);
	EXPECT(one(queue).error == 0);
	/* Buffers. */
	EXPECT(amita_alloc(client, 0) == NULL && amita_alloc(client, sizeof(data)) == NULL && amita_alloc(NULL, 1) == NULL);
	buffer = amita_alloc(client, 4096);
	EXPECT(buffer && amita_length(buffer) == 4096 && ((uintptr_t)amita_data(buffer) & 4095) == 0);
	strcpy(amita_data(buffer), "given away");
	REFUSED(amita_aio_write_buffer(queue, volume, buffer, amita_size(volume), NULL), EINVAL, "67108864");
	EXPECT(amita_length(buffer) == 4096);
	EXPECT(amita_aio_write_buffer(queue, volume, buffer, 4096, NULL) == 0);
	EXPECT(one(queue).error == 0);
	REFUSED(amita_free(buffer), EBADF, "buffer");
	EXPECT(amita_data(buffer) == NULL && amita_length(buffer) == 0);
	REFUSED(amita_aio_write_buffer(queue, volume, buffer, 0, NULL), EBADF, "buffer");
	EXPECT(amita_aio_read_buffer(queue, volume, 4096, 4096, (void *)7) == 0);
	done = one(queue);
	EXPECT(done.user == (void *)7 && done.error == 0 && strcmp(amita_data(done.buffer), "given away") == 0);
	EXPECT(amita_free(done.buffer) == 0);
	REFUSED(amita_free(done.buffer), EBADF, "buffer");
	/* Vectors, over several chunks' worth of pieces. */
	for (unsigned at = 0; at < sizeof(data); at++)
		data[at] = (unsigned char)(at * 13 + at / 4096);
	static unsigned char front[300001], back[400000];
	struct iovec out[] = { { data, 300001 }, { data, 0 }, { data + 300001, 399999 } };
	struct iovec in[] = { { front, 300001 }, { NULL, 0 }, { back, 399999 } };
	EXPECT(amita_aio_writev(queue, volume, out, 3, 4000001, NULL) == 0);
	EXPECT(one(queue).error == 0);
	EXPECT(amita_aio_readv(queue, volume, in, 3, 4000001, NULL) == 0);
	EXPECT(one(queue).error == 0);
	EXPECT(memcmp(front, data, 300001) == 0 && memcmp(back, data + 300001, 399999) == 0 && back[399999] == 0);
	/* A volume of another client. */
	amita_client stranger = connect_to(0);
	EXPECT(amita_queue_create(stranger, 1, &other) == 0);
	REFUSED(amita_aio_flush(other, volume, NULL), EINVAL, "another client");
	EXPECT(amita_close(stranger) == 0);
	REFUSED(amita_aio_flush(other, volume, NULL), EBADF, "queue");
	/* What was changed: of a volume that was not opened for that, and of one that was. */
	result = amita_aio_changed(queue, volume, 0, NULL);
	EXPECT(result == -EINVAL || (result == 0 && one(queue).error == EINVAL));
	EXPECT(amita_close_volume(volume) == 0);
	REFUSED(amita_open_since(client, NULL, "was", &volume), EINVAL, "name");
	REFUSED(amita_open_since(client, "v", NULL, &volume), EINVAL, "snapshot");
	REFUSED(amita_open_since(client, "v", "was", NULL), EINVAL, "volume");
	REFUSED(amita_open_since(client, "nothing", "was", &volume), ENOENT, "nothing");
	REFUSED(amita_open_since(client, "v", "nothing", &volume), ENOENT, "nothing");
	REFUSED(amita_open_since(client, "v@was", "was", &volume), ENOENT, "older");
	REFUSED(amita_open_since(NULL, "v", "was", &volume), EBADF, "client");
	EXPECT(volume == NULL);
	EXPECT(amita_open_since(client, "v", "was", &volume) == 0);
	REFUSED(amita_aio_changed(queue, volume, amita_size(volume), NULL), EINVAL, "67108864");
	REFUSED(amita_aio_changed(NULL, volume, 0, NULL), EBADF, "queue");
	EXPECT(amita_aio_changed(queue, volume, 4096, (void *)8) == 0);
	done = one(queue);
	EXPECT(done.user == (void *)8 && done.error == 0 && amita_changes(done.buffer, &extents) == 2);
	EXPECT(extents[0].offset == 4096 && extents[0].length == 4096 && extents[0].is_zero == 0);
	EXPECT(extents[1].offset == 3997696 && extents[1].length == 196608 && extents[1].is_zero == 0);
	REFUSED(amita_changes(done.buffer, NULL), EINVAL, "extents");
	EXPECT(amita_data(done.buffer) == NULL && amita_length(done.buffer) == 0);
	REFUSED(amita_aio_write_buffer(queue, volume, done.buffer, 0, NULL), EINVAL, "extents");
	EXPECT(amita_changes(done.buffer, &extents) == 2 && amita_free(done.buffer) == 0);
	REFUSED(amita_changes(done.buffer, &extents), EBADF, "buffer");
	EXPECT(extents == NULL);
	EXPECT(amita_aio_changed(queue, volume, 32 << 20, NULL) == 0);
	done = one(queue);
	EXPECT(done.error == 0 && done.buffer && amita_changes(done.buffer, &extents) == 0 && amita_free(done.buffer) == 0);
	EXPECT(amita_aio_read_buffer(queue, volume, 1, 0, NULL) == 0);
	done = one(queue);
	REFUSED(amita_changes(done.buffer, &extents), EINVAL, "no extents");
	EXPECT(amita_free(done.buffer) == 0);
	/* Closed, twice, and used again. */
	EXPECT(amita_close_volume(volume) == 0);
	REFUSED(amita_close_volume(volume), EBADF, "volume");
	EXPECT(amita_size(volume) == 0);
	result = amita_aio_flush(queue, volume, NULL);
	/* The queue may still know it: then the request's end tells. */
	EXPECT(result == -EBADF || (result == 0 && one(queue).error == ESTALE));
	EXPECT(amita_queue_destroy(queue) == 0);
	REFUSED(amita_queue_destroy(queue), EBADF, "queue");
	REFUSED(amita_aio_flush(queue, volume, NULL), EBADF, "queue");
	EXPECT(amita_close(client) == 0);
	REFUSED(amita_close(client), EBADF, "client");
	REFUSED(amita_open(client, "v", &volume), EBADF, "client");
}

static amita_client of_main;
static amita_queue queue_of_main;

static void *elsewhere(void *unused)
{
	amita_completion done;
	amita_volume volume;

	REFUSED(amita_poll(queue_of_main, &done, 1), EBADF, "thread");
	REFUSED(amita_open(of_main, "v", &volume), EBADF, "thread");
	REFUSED(amita_close(of_main), EBADF, "thread");
	return unused;
}

static void inline_only(void)
{
	amita_queue second;
	amita_volume volume;
	pthread_t thread;

	of_main = connect_to(AMITA_INLINE);
	EXPECT(amita_queue_create(of_main, 4, &queue_of_main) == 0);
	REFUSED(amita_queue_create(of_main, 4, &second), EBUSY, "one queue");
	REFUSED(amita_event_fd(queue_of_main), ENOTSUP, "AMITA_INLINE");
	EXPECT(pthread_create(&thread, NULL, elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
	EXPECT(amita_open(of_main, "v", &volume) == 0);
	EXPECT(amita_aio_flush(queue_of_main, volume, NULL) == 0);
	REFUSED(amita_queue_destroy(queue_of_main), EBUSY, "under way");
	EXPECT(one(queue_of_main).error == 0);
	EXPECT(amita_queue_destroy(queue_of_main) == 0);
	EXPECT(amita_close(of_main) == 0);
}

int main(void)
{
	setvbuf(stderr, NULL, _IONBF, 0);
	EXPECT(strcmp(amita_strerror(-ESTALE), amita_strerror(ESTALE)) == 0 && amita_strerror(12345)[0]);
	EXPECT(strncmp(amita_version(), "0.1", 3) == 0);
	bad_options();
	other_options();
	bad_handles(connect_to(0));
	bad_handles(connect_to(AMITA_INLINE));
	inline_only();
	puts(failed ? "failed" : "every misuse is an error");
	return failed;
}
