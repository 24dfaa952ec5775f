//! The ring itself: the leaf that speaks to the kernel's `io_uring`, and owns every piece of memory that the kernel
//! may look at.
//!
//! An operation lives in a [`Slot`] with its payload, its vectors and its address. The slot is boxed, so none of that
//! moves, and it is emptied only after the kernel has posted the operation's last completion: a buffer can neither be
//! freed nor be seen by anybody else while the kernel has it. What is still under way when the ring is dropped is
//! cancelled and waited for; what does not end then is leaked.

use crate::buf::{BufMut, Pool, Segments};
use io_uring::squeue::{self, Flags};
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

/// Submission entries: more than a pass starts; beyond it the ring submits in between.
const SUBMISSION_ENTRIES: u32 = 512;

/// Completion entries: more than are usually under way; beyond it the kernel keeps them until there is room.
const COMPLETION_ENTRIES: u32 = 4096;

/// Registered files: slots of the table; descriptors beyond it are used unregistered.
const FILE_SLOTS: u32 = 1024;

/// The kernel registers at most this many bytes as one buffer.
const REGISTERED_BYTES: usize = 1 << 30;

/// How long a drop waits for cancelled operations to end.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// `IORING_RECVSEND_POLL_FIRST`.
const POLL_FIRST: u16 = 1;

/// A descriptor, by its slot in the registered table where it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub descriptor: RawFd,
    pub registered: Option<u32>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Receive {
        /// There is probably nothing yet: wait before trying.
        poll_first: bool,
    },
    Send {
        zero_copy: bool,
    },
    Read {
        offset: u64,
    },
    Write {
        offset: u64,
    },
    Flush,
    /// Punches a hole into a file.
    Punch {
        offset: u64,
        bytes: u64,
    },
    Connect,
    Accept,
    /// Reads the event file that wakes this core.
    Wake,
}

/// The memory of an operation.
#[derive(Debug)]
pub(super) enum Payload {
    None,
    Buffer(BufMut),
    Data(Segments),
}

struct Slot<T> {
    generation: u32,
    /// The kernel has it: no last completion yet.
    busy: bool,
    verb: Verb,
    payload: Payload,
    meta: Option<T>,
    vectors: Vec<libc::iovec>,
    message: libc::msghdr,
    address: libc::sockaddr_storage,
    address_bytes: libc::socklen_t,
    word: u64,
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    pub slot: u32,
    /// As of the system call: a count or a descriptor, or an error number below zero.
    pub result: i32,
    /// More completions of this operation follow; the payload stays with the kernel.
    pub more: bool,
    /// Only says that the kernel no longer looks at the payload.
    pub notification: bool,
    /// The socket has more to receive.
    pub nonempty: bool,
}

/// How the ring was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSettings {
    pub defer_taskrun: bool,
}

/// A ring whose operations carry a `T` for whoever started them.
pub(super) struct Ring<T> {
    io: IoUring,
    slots: Vec<Box<Slot<T>>>,
    free: Vec<u32>,
    /// The thread that polls first owns the ring from then on.
    enabled: bool,
    /// Start and end of the registered arena; both 0 when there is none.
    arena: (usize, usize),
    free_files: Vec<u32>,
    /// Calls of `io_uring_enter` for operations.
    enters: u64,
}

// SAFETY: the pointers in the slots point into the slots themselves or into their payloads, all of which moves along.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// Sets a ring up. It starts disabled, so that it may be made on one thread and used on another.
    pub fn new(settings: RingSettings) -> io::Result<Ring<T>> {
        let build = |single: bool, defer: bool| {
            let mut builder = IoUring::builder();
            builder
                .setup_clamp()
                .setup_cqsize(COMPLETION_ENTRIES)
                .setup_r_disabled()
                .dontfork();
            if single {
                builder.setup_single_issuer().setup_submit_all().setup_taskrun_flag();
                if defer {
                    builder.setup_defer_taskrun();
                } else {
                    builder.setup_coop_taskrun();
                }
            }
            builder.build(SUBMISSION_ENTRIES)
        };
        // Kernels before 6.1 do not know all of these flags.
        let attempts = [(true, settings.defer_taskrun), (true, false), (false, false)];
        let mut built = build(attempts[0].0, attempts[0].1);
        for (single, defer) in &attempts[1..] {
            if built
                .as_ref()
                .is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
            {
                built = build(*single, *defer);
            }
        }
        let io = built.map_err(|error| {
            let advice = match error.raw_os_error() {
                Some(libc::EPERM) => "; see the sysctl kernel.io_uring_disabled and the container's seccomp profile",
                Some(libc::ENOSYS) => "; Linux 5.19 or newer is needed",
                _ => "",
            };
            io::Error::new(error.kind(), format!("io_uring: {error}{advice}"))
        })?;
        let files_registered = io.submitter().register_files_sparse(FILE_SLOTS).is_ok();
        Ok(Ring {
            io,
            slots: Vec::new(),
            free: Vec::new(),
            enabled: false,
            arena: (0, 0),
            free_files: if files_registered {
                (0..FILE_SLOTS).rev().collect()
            } else {
                Vec::new()
            },
            enters: 0,
        })
    }

    /// Registers the pool's memory, so that the kernel need not pin it for every direct I/O; false where the kernel
    /// (or the limit on locked memory) refuses: then everything works without.
    pub fn register_arena(&mut self, pool: &Pool) -> bool {
        let Some((start, bytes)) = pool.mapping() else {
            return false;
        };
        if self.arena.0 != 0 {
            return true;
        }
        let pieces: Vec<libc::iovec> = (0..bytes)
            .step_by(REGISTERED_BYTES)
            .map(|at| libc::iovec {
                iov_base: (start + at) as *mut libc::c_void,
                iov_len: REGISTERED_BYTES.min(bytes - at),
            })
            .collect();
        // SAFETY: the mapping outlives the ring: the driver holds the pool and drops the ring first.
        let registered = unsafe { self.io.submitter().register_buffers(&pieces) }.is_ok();
        if registered {
            self.arena = (start, start + bytes);
        }
        registered
    }

    /// Puts a descriptor into the registered table, if there is room.
    pub fn register_file(&mut self, descriptor: RawFd) -> Target {
        let registered = self.free_files.pop().filter(|slot| {
            let updated = self.io.submitter().register_files_update(*slot, &[descriptor]);
            updated.is_ok_and(|count| count == 1)
        });
        Target { descriptor, registered }
    }

    /// Takes a descriptor out of the table again; before it is closed.
    pub fn unregister_file(&mut self, target: Target) {
        if let Some(slot) = target.registered
            && self.io.submitter().register_files_update(slot, &[-1]).is_ok()
        {
            self.free_files.push(slot);
        }
    }

    /// Starts an operation. It goes to the kernel with the next [`Ring::submit`].
    pub fn start(&mut self, verb: Verb, target: Target, payload: Payload, meta: T) -> u32 {
        let index = self.empty_slot();
        let slot = &mut self.slots[index as usize];
        slot.verb = verb;
        slot.payload = payload;
        slot.meta = Some(meta);
        self.push(index, target, 0);
        index
    }

    /// Starts a connect.
    pub fn connect(&mut self, target: Target, address: SocketAddr, meta: T) -> u32 {
        let index = self.empty_slot();
        let slot = &mut self.slots[index as usize];
        slot.address_bytes = super::sys::write_address(address, &mut slot.address);
        slot.verb = Verb::Connect;
        slot.payload = Payload::None;
        slot.meta = Some(meta);
        self.push(index, target, 0);
        index
    }

    /// Asks the kernel to end an operation. It completes as all do, with `ECANCELED` where nothing has happened. Nothing comes of
    /// it where the operation has ended, was not handed over yet, or the kernel (before 6.0) cannot.
    pub fn cancel(&self, slot: u32) {
        let this = &self.slots[slot as usize];
        if this.busy {
            let which = CancelBuilder::user_data(u64::from(this.generation) << 32 | u64::from(slot));
            let at_once = Timespec::new();
            let _ = self.io.submitter().register_sync_cancel(Some(at_once), which);
        }
    }

    /// Starts the operation of a slot again, past its first `done` bytes.
    pub fn restart(&mut self, slot: u32, target: Target, done: usize) {
        assert!(!self.slots[slot as usize].busy, "the kernel still has this operation");
        self.push(slot, target, done);
    }

    /// What the starter of an operation gave along.
    pub fn meta(&mut self, slot: u32) -> Option<&mut T> {
        self.slots[slot as usize].meta.as_mut()
    }

    /// Changes how a restart goes.
    pub fn set_verb(&mut self, slot: u32, verb: Verb) {
        assert!(!self.slots[slot as usize].busy, "the kernel still has this operation");
        self.slots[slot as usize].verb = verb;
    }

    /// Empties the slot of an operation whose last completion has come.
    pub fn take(&mut self, slot: u32) -> Option<(T, Payload)> {
        let this = &mut self.slots[slot as usize];
        assert!(!this.busy, "the kernel still has this operation");
        let meta = this.meta.take()?;
        let payload = mem::replace(&mut this.payload, Payload::None);
        this.generation = this.generation.wrapping_add(1);
        self.free.push(slot);
        Some((meta, payload))
    }

    fn empty_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        // SAFETY: these are plain structures of integers and pointers, for which zero is a value.
        let (message, address) = unsafe { (mem::zeroed(), mem::zeroed()) };
        self.slots.push(Box::new(Slot {
            generation: 0,
            busy: false,
            verb: Verb::Wake,
            payload: Payload::None,
            meta: None,
            vectors: Vec::new(),
            message,
            address,
            address_bytes: 0,
            word: 0,
        }));
        (self.slots.len() - 1) as u32
    }

    fn push(&mut self, index: u32, target: Target, done: usize) {
        let slot = &mut *self.slots[index as usize];
        let entry = match target.registered {
            Some(registered) => slot
                .entry(Fd(registered as RawFd), done, self.arena)
                .flags(Flags::FIXED_FILE),
            None => slot.entry(Fd(target.descriptor), done, self.arena),
        };
        let entry = entry.user_data(u64::from(slot.generation) << 32 | u64::from(index));
        slot.busy = true;
        // SAFETY: everything that the entry points to is owned by the boxed slot, which keeps it until the operation's
        // last completion (`busy`).
        while unsafe { self.io.submission().push(&entry) }.is_err() {
            // The queue is full: hand over what is there. An error is met again, and told, at the next submit.
            if self.submit().is_err() {
                std::thread::yield_now();
            }
        }
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.io.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Is anything started and not submitted?
    pub fn has_unsubmitted(&mut self) -> bool {
        !self.io.submission().is_empty()
    }

    /// Hands over what was started; with deferred task work, lets it run.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enable()?;
        self.enters += 1;
        tolerate(self.io.submit())
    }

    /// How often the kernel was entered.
    pub fn enters(&self) -> u64 {
        self.enters
    }

    /// Does the kernel have completions that it delivers only when it is entered?
    pub fn has_deferred(&mut self) -> bool {
        let submission = self.io.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Hands over what was started and blocks until something completes or the time is over (None: no limit).
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        self.enters += 1;
        let result = match limit {
            None => self.io.submit_and_wait(1),
            Some(limit) => {
                let limit = Timespec::from(limit);
                self.io
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        tolerate(result)
    }

    /// Moves all completions to `reaped`.
    pub fn reap(&mut self, reaped: &mut Vec<Reaped>) {
        for entry in self.io.completion() {
            let (index, generation) = (entry.user_data() as u32, (entry.user_data() >> 32) as u32);
            let slot = &mut self.slots[index as usize];
            assert_eq!(
                slot.generation, generation,
                "a completion of an operation that has ended"
            );
            let more = cqueue::more(entry.flags());
            slot.busy = more;
            reaped.push(Reaped {
                slot: index,
                result: entry.result(),
                more,
                notification: cqueue::notif(entry.flags()),
                nonempty: cqueue::sock_nonempty(entry.flags()),
            });
        }
    }

    fn busy(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy).count()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let started = std::time::Instant::now();
        let mut reaped = Vec::new();
        // Operations that wait for a peer or a wake-up end only when they are cancelled.
        while self.busy() > 0 && started.elapsed() < DROP_PATIENCE {
            if self.submit().is_err() {
                break; // another thread than the ring's own: nothing can be cancelled here
            }
            let all = CancelBuilder::any().all();
            let _ = self
                .io
                .submitter()
                .register_sync_cancel(Some(Timespec::new().sec(1)), all);
            let _ = self.wait(Some(Duration::from_millis(20)));
            reaped.clear();
            self.reap(&mut reaped);
        }
        // The kernel empties the table of a closed ring late; sockets shall close and locks end now.
        let _ = self.io.submitter().unregister_files();
        for slot in mem::take(&mut self.slots) {
            if slot.busy {
                mem::forget(slot);
            }
        }
    }
}

/// Waiting may end early; what was not submitted stays in the queue.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

impl<T> Slot<T> {
    /// The submission entry of this slot's operation, past its first `done` bytes.
    fn entry(&mut self, descriptor: Fd, done: usize, arena: (usize, usize)) -> squeue::Entry {
        match self.verb {
            Verb::Receive { poll_first } => {
                let Payload::Buffer(buffer) = &mut self.payload else {
                    unreachable!("a receive has a buffer")
                };
                let length = buffer.len().min(i32::MAX as usize) as u32;
                let receive = opcode::Recv::new(descriptor, buffer.as_mut_ptr(), length);
                receive.ioprio(if poll_first { POLL_FIRST } else { 0 }).build()
            }
            Verb::Send { zero_copy } => {
                self.point_vectors(done);
                self.message.msg_iov = self.vectors.as_mut_ptr();
                self.message.msg_iovlen = self.vectors.len();
                // WAITALL: the kernel goes on by itself after a short send, as far as it can.
                let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
                match zero_copy {
                    true => opcode::SendMsgZc::new(descriptor, &self.message).flags(flags).build(),
                    false => opcode::SendMsg::new(descriptor, &self.message).flags(flags).build(),
                }
            }
            Verb::Read { offset } => {
                let Payload::Buffer(buffer) = &mut self.payload else {
                    unreachable!("a read has a buffer")
                };
                let rest = &mut buffer[done..];
                let (start, length) = (rest.as_mut_ptr(), rest.len() as u32);
                let offset = offset + done as u64;
                match registered_buffer(arena, start.addr(), rest.len()) {
                    Some(index) => opcode::ReadFixed::new(descriptor, start, length, index)
                        .offset(offset)
                        .build(),
                    None => opcode::Read::new(descriptor, start, length).offset(offset).build(),
                }
            }
            Verb::Write { offset } => {
                self.point_vectors(done);
                let offset = offset + done as u64;
                if let [one] = &self.vectors[..] {
                    let (start, length) = (one.iov_base.cast::<u8>(), one.iov_len as u32);
                    return match registered_buffer(arena, start.addr(), one.iov_len) {
                        Some(index) => opcode::WriteFixed::new(descriptor, start, length, index)
                            .offset(offset)
                            .build(),
                        None => opcode::Write::new(descriptor, start, length).offset(offset).build(),
                    };
                }
                opcode::Writev::new(descriptor, self.vectors.as_ptr(), self.vectors.len() as u32)
                    .offset(offset)
                    .build()
            }
            Verb::Flush => opcode::Fsync::new(descriptor).flags(FsyncFlags::DATASYNC).build(),
            Verb::Punch { offset, bytes } => opcode::Fallocate::new(descriptor, bytes)
                .offset(offset)
                .mode(super::sys::PUNCH)
                .build(),
            Verb::Connect => {
                let address = (&raw const self.address).cast();
                opcode::Connect::new(descriptor, address, self.address_bytes).build()
            }
            Verb::Accept => opcode::AcceptMulti::new(descriptor).flags(libc::SOCK_CLOEXEC).build(),
            Verb::Wake => opcode::Read::new(descriptor, (&raw mut self.word).cast(), 8).build(),
        }
    }

    /// Points the vectors to the payload's segments past the first `done` bytes.
    fn point_vectors(&mut self, done: usize) {
        self.vectors.clear();
        match &self.payload {
            Payload::Data(data) => super::sys::vectors(data, done, &mut self.vectors),
            Payload::Buffer(buffer) => self.vectors.push(libc::iovec {
                iov_base: buffer[done..].as_ptr() as *mut libc::c_void,
                iov_len: buffer.len() - done,
            }),
            Payload::None => {}
        }
    }
}

/// The registered buffer that holds a range of memory whole.
fn registered_buffer(arena: (usize, usize), start: usize, bytes: usize) -> Option<u16> {
    if bytes == 0 || start < arena.0 || start + bytes > arena.1 {
        return None;
    }
    let (first, last) = (
        (start - arena.0) / REGISTERED_BYTES,
        (start + bytes - 1 - arena.0) / REGISTERED_BYTES,
    );
    (first == last).then_some(first as u16)
}
