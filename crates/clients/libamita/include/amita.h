/* libamita: volumes of an Amita cluster, without a protocol between.
 *
 * A program joins the cluster with amita_connect(), opens volumes, and starts requests on queues; each request ends in
 * exactly one completion. See docs/libamita.md for the whole story, and examples/ for programs that are compiled and run
 * by the tests.
 *
 * Handles are checked: NULL, a handle that was closed, or one of another kind is an error and never memory that is gone.
 * Functions that return int return 0 or a count, or a negative errno; amita_error() then says in full what happened,
 * where, and what to do, until the next call of the same thread that fails. */
#ifndef AMITA_H
#define AMITA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. amita_version() tells the library's: the same major number is compatible. */
#define AMITA_VERSION_MAJOR 0
#define AMITA_VERSION_MINOR 1

/* The longest read or write, in bytes. */
#define AMITA_MAX_IO_BYTES (1u << 20)
/* The most requests of one queue under way. */
#define AMITA_MAX_DEPTH 4096u

/* They are tokens, not addresses: never look at what they "point to". */
typedef struct amita_opaque_client *amita_client;
typedef struct amita_opaque_volume *amita_volume;
typedef struct amita_opaque_queue *amita_queue;
typedef struct amita_opaque_buffer *amita_buffer;

/* ---- joining the cluster ---- */

/* The client's core runs in the thread that connects, inside amita_poll() and amita_wait(): no other thread is on the path
 * of an I/O, which is what costs least. That thread alone may use the client and what belongs to it, it has one queue, and
 * while volumes are open it must poll or wait at least every 100 ms. Without this flag the core has a thread of its own. */
#define AMITA_INLINE 1u

#define AMITA_LOG_ERROR 0
#define AMITA_LOG_WARN 1
#define AMITA_LOG_INFO 2
/* Called from any thread. `text` is gone when it returns. */
typedef void (*amita_log)(void *argument, int level, const char *text);

typedef struct amita_options {
    size_t size;           /* sizeof(amita_options): set by amita_options_init() */
    const char *metadata;  /* "HOST:PORT[,HOST:PORT...]"; NULL: the variable AMITA_METADATA */
    const char *name;      /* the node's name, unique in the cluster; NULL: one that says host and process */
    const char *fabric;    /* "ADDRESS:PORT" where other nodes reach this one; NULL: as the metadata is reached, any port */
    const char *stores;    /* paths of stores that this process holds itself, divided by commas; NULL: none */
    uint64_t buffer_bytes; /* memory for I/O, taken at the start */
    int32_t cpu;           /* the processor for the core's thread; -1: any */
    uint32_t flags;        /* AMITA_INLINE */
    uint32_t open_timeout_ms;     /* how long amita_open() may take */
    uint32_t metadata_timeout_ms; /* how long amita_connect() waits for a metadata service that is away */
    amita_log log;         /* NULL: errors and warnings go to standard error */
    void *log_argument;
} amita_options;

/* Fills in the defaults. `size` is what the program was built with: a library of another version writes no more, and
 * amita_connect() refuses its options then. */
void amita_options_init_sized(amita_options *options, size_t size);
#define amita_options_init(options) amita_options_init_sized((options), sizeof(*(options)))

/* Joins the cluster. Blocks. */
int amita_connect(const amita_options *options, amita_client *client);
/* Lets what is under way end (for some seconds at most) and leaves. Everything that belongs to the client is closed. */
int amita_close(amita_client client);

/* ---- volumes ---- */

/* Opens a volume. This client is then its one owner: who uses it elsewhere keeps it, and this fails with -EBUSY. Blocks.
 * "VOLUME@SNAPSHOT" opens a snapshot of it, to be read only (writes end with EROFS): the volume stays with its owner. */
int amita_open(amita_client client, const char *name, amita_volume *volume);
/* As amita_open(), to learn what was changed in it since an older snapshot of it (amita_aio_changed()). `name` is a volume, as
 * it is now, or "VOLUME@SNAPSHOT"; `snapshot` is the older one's name alone. -ENOENT: there is no such volume or snapshot, or
 * it is not older. -EINVAL: with a client's identity, which asks by NBD. */
int amita_open_since(amita_client client, const char *name, const char *snapshot, amita_volume *volume);
int amita_close_volume(amita_volume volume);
/* Bytes; 0 for a bad handle. */
uint64_t amita_size(amita_volume volume);
/* Bytes of a chunk: requests that stay inside one, and are at most 128 KiB long, are never cut. 0 for a bad handle. */
uint32_t amita_chunk_bytes(amita_volume volume);

/* ---- queues ---- */

/* A queue for at most `depth` requests under way. One thread uses it at a time; two at once are told -EBUSY. */
int amita_queue_create(amita_client client, uint32_t depth, amita_queue *queue);
/* What is under way on it still happens, and its completions are not returned; memory of reads is not touched any more. The
 * queue of an AMITA_INLINE client must have nothing under way (-EBUSY). */
int amita_queue_destroy(amita_queue queue);

/* Requests. 0: it is under way, and `user` comes back with its completion. Negative: it was not begun.
 * Any offset and length inside the volume; whole blocks of 4096 bytes cost least.
 *
 * Memory of a read belongs to the library until its completion has been returned, and is filled then. Memory of a write is
 * copied at once. */
int amita_aio_read(amita_queue queue, amita_volume volume, void *data, size_t bytes, uint64_t offset, void *user);
int amita_aio_readv(amita_queue queue, amita_volume volume, const struct iovec *vectors, int count, uint64_t offset,
                    void *user);
int amita_aio_write(amita_queue queue, amita_volume volume, const void *data, size_t bytes, uint64_t offset, void *user);
int amita_aio_writev(amita_queue queue, amita_volume volume, const struct iovec *vectors, int count, uint64_t offset,
                     void *user);
/* Every write that has completed is durable on all in-sync copies, so that a flush ends at once. */
int amita_aio_flush(amita_queue queue, amita_volume volume, void *user);
/* Any length. Whole blocks inside the range read as zeros and take no space; parts of blocks are left alone. */
int amita_aio_discard(amita_queue queue, amita_volume volume, uint64_t bytes, uint64_t offset, void *user);
/* Any length. All of the range reads as zeros. */
int amita_aio_write_zeroes(amita_queue queue, amita_volume volume, uint64_t bytes, uint64_t offset, void *user);

/* What was changed in the chunk (see amita_chunk_bytes()) that holds the byte at `offset` of a volume that was opened by
 * amita_open_since(): the blocks of 4096 bytes that were written, also with what they held, or unmapped. It reads no data. The
 * completion brings a buffer that amita_changes() reads. Of one that was opened otherwise: EINVAL, here or by the completion. */
int amita_aio_changed(amita_queue queue, amita_volume volume, uint64_t offset, void *user);

typedef struct amita_extent {
    uint64_t offset; /* the first byte, in the volume */
    uint64_t length; /* bytes */
    uint32_t is_zero; /* 1: it reads as zeros and takes no space. 0: it has data */
    uint32_t reserved;
} amita_extent;

typedef struct amita_completion {
    void *user;
    amita_buffer buffer; /* of amita_aio_read_buffer(): the bytes, of amita_aio_changed(): extents; to be given to
                            amita_free(). Else NULL */
    int32_t error;       /* 0, or a positive errno: see amita_strerror() */
    uint32_t reserved;
} amita_completion;

/* Returns how many completions were written to `completions`, at most `max`; does not block. */
int amita_poll(amita_queue queue, amita_completion *completions, int max);
/* As amita_poll(), but waits until there is one, for at most so many milliseconds; negative: without a limit. Returns 0 at
 * once when nothing is under way. */
int amita_wait(amita_queue queue, amita_completion *completions, int max, int timeout_ms);
/* A file that becomes readable (for poll, epoll, ...) when something has ended. Do not read it: call amita_poll() until it
 * returns less than `max`. The library's; it is closed with the queue. -ENOTSUP for a client that is AMITA_INLINE. */
int amita_event_fd(amita_queue queue);
/* How many requests have been started whose completions were not returned. */
int amita_under_way(amita_queue queue);

/* ---- memory that needs no copy ---- */

/* 1 to AMITA_MAX_IO_BYTES bytes of the client's memory, at a multiple of 4096. NULL: nothing that large is free now (see
 * amita_error()). */
amita_buffer amita_alloc(amita_client client, size_t bytes);
/* Also for buffers that completions bring. */
int amita_free(amita_buffer buffer);
/* NULL for a bad handle. What a read has brought must not be written to. */
void *amita_data(amita_buffer buffer);
size_t amita_length(amita_buffer buffer);
/* The extents that a completion of amita_aio_changed() has brought, ascending; those that touch each other differ in
 * `is_zero`. They are the buffer's, until amita_free(). Returns how many (0: nothing was changed), or a negative errno. */
int amita_changes(amita_buffer buffer, const amita_extent **extents);
/* Writes a buffer of amita_alloc(), all of it, and gives it away: it is free when the write has ended. (When this fails,
 * it is still yours.) */
int amita_aio_write_buffer(amita_queue queue, amita_volume volume, amita_buffer buffer, uint64_t offset, void *user);
/* The completion brings a buffer with the bytes. */
int amita_aio_read_buffer(amita_queue queue, amita_volume volume, size_t bytes, uint64_t offset, void *user);

/* ---- errors ---- */

/* What went wrong in the last call of this thread that failed: what, where, and what to do. Valid until the next one. */
const char *amita_error(void);
/* A sentence for an error of a completion, or of a call (its sign does not matter). Static. */
const char *amita_strerror(int error);
/* "0.1.0" */
const char *amita_version(void);

#ifdef __cplusplus
}
#endif

#endif
