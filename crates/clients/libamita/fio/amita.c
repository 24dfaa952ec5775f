/* fio's engine for volumes of an Amita cluster, over libamita: no protocol and no socket between fio and the volume.
 *
 *     fio --name=job --ioengine=external:/PATH/amita-fio.so --metadata=127.0.0.1:2379 --volume=disk0 --rw=randwrite
 *
 * scripts/build-fio-engine builds it against the source of the very fio that is installed. A job runs the client's core in
 * its own thread (inline=1), and is its volume's one owner: give each job a volume of its own. With inline=0 the jobs of one
 * volume share a client, whose core has a thread of its own. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

#include <amita.h>

/* ---- options ---- */

struct amita_job_options {
	void *pad; /* fio's own */
	char *metadata;
	char *volume;
	char *stores;
	char *name;
	unsigned int inline_core;
	unsigned int buffers;
};

static struct fio_option options[] = {
	{
		.name = "metadata",
		.lname = "Amita metadata",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct amita_job_options, metadata),
		.help = "Endpoints of the metadata, HOST:PORT[,HOST:PORT...] (default: the variable AMITA_METADATA)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "volume",
		.lname = "Amita volume",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct amita_job_options, volume),
		.help = "The volume's name (default: filename)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "inline",
		.lname = "Core in the job's thread",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct amita_job_options, inline_core),
		.help = "1: the core runs in the job's thread; 0: jobs of one volume share a core with a thread of its own",
		.def = "1",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "buffers",
		.lname = "Memory for I/O",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct amita_job_options, buffers),
		.help = "Bytes of memory for I/O of each client",
		.def = "256m",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "stores",
		.lname = "Stores in this process",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct amita_job_options, stores),
		.help = "Paths of formatted stores that fio itself holds, divided by commas (needs amita_name)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "amita_name",
		.lname = "The node's name",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct amita_job_options, name),
		.help = "The name of this node of the cluster (default: one made up)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = NULL,
	},
};

/* ---- clients ---- */

/* A client with a volume. Shared ones are in the list. */
struct owner {
	struct owner *next;
	char *volume_name;
	unsigned int jobs;
	amita_client client;
	amita_volume volume;
};

struct job {
	struct owner *owner;
	amita_queue queue;
	amita_completion *completions;
	struct io_u **events;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct owner *shared;

static const char *volume_of(struct thread_data *td)
{
	struct amita_job_options *o = td->eo;

	return o->volume ? o->volume : td->o.filename;
}

static void say(const char *what, struct thread_data *td)
{
	log_err("amita: job %s: %s: %s\n", td->o.name ? td->o.name : "?", what, amita_error());
}

/* Connects and opens; NULL: it was said why not. */
static struct owner *make_owner(struct thread_data *td, unsigned int flags, int with_stores)
{
	struct amita_job_options *o = td->eo;
	struct owner *owner = calloc(1, sizeof(*owner));
	amita_options options;

	if (!owner)
		return NULL;
	amita_options_init(&options);
	options.metadata = o->metadata;
	options.flags = flags;
	if (o->buffers)
		options.buffer_bytes = o->buffers;
	if (with_stores) {
		options.name = o->name;
		options.stores = o->stores;
	}
	if (amita_connect(&options, &owner->client) < 0) {
		say("connect", td);
		free(owner);
		return NULL;
	}
	if (amita_open(owner->client, volume_of(td), &owner->volume) < 0) {
		say("open", td);
		amita_close(owner->client);
		free(owner);
		return NULL;
	}
	owner->jobs = 1;
	return owner;
}

/* The client of all jobs of the volume. */
static struct owner *share_owner(struct thread_data *td)
{
	const char *name = volume_of(td);
	struct owner *owner;

	pthread_mutex_lock(&lock);
	for (owner = shared; owner && strcmp(owner->volume_name, name); owner = owner->next)
		;
	if (owner) {
		owner->jobs++;
	} else {
		owner = make_owner(td, 0, 1);
		if (owner) {
			owner->volume_name = strdup(name);
			owner->next = shared;
			shared = owner;
		}
	}
	pthread_mutex_unlock(&lock);
	return owner;
}

static void drop_owner(struct owner *owner)
{
	struct owner **place;

	pthread_mutex_lock(&lock);
	if (--owner->jobs == 0) {
		for (place = &shared; *place; place = &(*place)->next) {
			if (*place == owner) {
				*place = owner->next;
				break;
			}
		}
		amita_close(owner->client);
		free(owner->volume_name);
		free(owner);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- what fio calls ---- */

/* In the main thread, for each job: how large is the volume? */
static int fio_amita_setup(struct thread_data *td)
{
	struct owner *owner;
	struct fio_file *f;

	if (!volume_of(td)) {
		log_err("amita: job %s: name the volume (volume=NAME)\n", td->o.name ? td->o.name : "?");
		return 1;
	}
	/* A client does not survive a fork. */
	td->o.use_thread = 1;
	if (!td->files_index) {
		add_file(td, volume_of(td), 0, 0);
		td->o.nr_files = td->o.nr_files ? td->o.nr_files : 1;
		td->o.open_files++;
	}
	f = td->files[0];
	if (fio_file_size_known(f))
		return 0;
	owner = make_owner(td, AMITA_INLINE, 0);
	if (!owner)
		return 1;
	f->real_file_size = amita_size(owner->volume);
	fio_file_set_size_known(f);
	drop_owner(owner);
	return 0;
}

static int fio_amita_get_file_size(struct thread_data *td, struct fio_file *f)
{
	return fio_file_size_known(f) ? 0 : 1;
}

/* In the job's thread. */
static int fio_amita_init(struct thread_data *td)
{
	struct amita_job_options *o = td->eo;
	struct job *job = calloc(1, sizeof(*job));
	unsigned int depth = td->o.iodepth;

	if (!job)
		return 1;
	td->io_ops_data = job;
	job->completions = calloc(depth, sizeof(*job->completions));
	job->events = calloc(depth, sizeof(*job->events));
	if (!job->completions || !job->events)
		return 1;
	job->owner = o->inline_core ? make_owner(td, AMITA_INLINE, 1) : share_owner(td);
	if (!job->owner)
		return 1;
	if (amita_queue_create(job->owner->client, depth, &job->queue) < 0) {
		say("queue", td);
		return 1;
	}
	return 0;
}

static void fio_amita_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	if (job->queue)
		amita_queue_destroy(job->queue);
	if (job->owner)
		drop_owner(job->owner);
	free(job->completions);
	free(job->events);
	free(job);
	td->io_ops_data = NULL;
}

static enum fio_q_status fio_amita_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	amita_volume volume = job->owner->volume;
	int result;

	fio_ro_check(td, io_u);
	switch (io_u->ddir) {
	case DDIR_READ:
		result = amita_aio_read(job->queue, volume, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, io_u);
		break;
	case DDIR_WRITE:
		result = amita_aio_write(job->queue, volume, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, io_u);
		break;
	case DDIR_TRIM:
		result = amita_aio_discard(job->queue, volume, io_u->xfer_buflen, io_u->offset, io_u);
		break;
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		result = amita_aio_flush(job->queue, volume, io_u);
		break;
	default:
		result = -EINVAL;
	}
	if (result == 0)
		return FIO_Q_QUEUED;
	if (result == -EAGAIN)
		return FIO_Q_BUSY;
	say("request", td);
	io_u->error = -result;
	td_verror(td, io_u->error, "amita");
	return FIO_Q_COMPLETED;
}

static int fio_amita_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *t)
{
	struct job *job = td->io_ops_data;
	unsigned int count = 0;

	if (max > td->o.iodepth)
		max = td->o.iodepth;
	do {
		int limit = t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1;
		int got = min > count ? amita_wait(job->queue, job->completions, max - count, limit) :
					amita_poll(job->queue, job->completions, max - count);

		if (got < 0) {
			say("wait", td);
			return got;
		}
		for (int at = 0; at < got; at++) {
			struct io_u *io_u = job->completions[at].user;

			io_u->error = job->completions[at].error;
			if (io_u->error)
				log_err("amita: %s at %llu: %s\n", io_ddir_name(io_u->ddir),
					(unsigned long long)io_u->offset, amita_strerror(io_u->error));
			job->events[count++] = io_u;
		}
		if (got == 0 && t)
			break;
	} while (count < min);
	return count;
}

static struct io_u *fio_amita_event(struct thread_data *td, int event)
{
	struct job *job = td->io_ops_data;

	return job->events[event];
}

static int fio_amita_nothing(struct thread_data *td, struct fio_file *f)
{
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "amita",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_NOEXTEND | FIO_NODISKUTIL,
	.setup = fio_amita_setup,
	.init = fio_amita_init,
	.queue = fio_amita_queue,
	.getevents = fio_amita_getevents,
	.event = fio_amita_event,
	.cleanup = fio_amita_cleanup,
	.open_file = fio_amita_nothing,
	.close_file = fio_amita_nothing,
	.invalidate = fio_amita_nothing,
	.get_file_size = fio_amita_get_file_size,
	.options = options,
	.option_struct_size = sizeof(struct amita_job_options),
};
