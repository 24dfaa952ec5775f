//! One queue, as C sees it: requests that wait, where reads go, and completions. The same over a core in this thread and
//! over one with a thread of its own.

use crate::failure::{Failure, Result, errno};
use crate::handles::Handle;
use crate::memory::{Target, fill};
use crate::{buffers, threaded};
use amita_client::{Done, Local, Pool, Queue, Slice, Volume};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// A completion, as the header has it.
#[repr(C)]
pub struct Completion {
    user: *mut c_void,
    buffer: Handle,
    error: c_int,
    reserved: u32,
}

/// What to do.
pub(crate) enum IoRequest {
    Read { offset: u64, bytes: usize },
    Write { offset: u64, data: Slice },
    Flush,
    Discard { offset: u64, bytes: u64 },
    WriteZeroes { offset: u64, bytes: u64 },
    Changed { offset: u64 },
}

/// What carries requests out.
pub(crate) trait Engine {
    fn start(&mut self, volume: &Volume, request: IoRequest, tag: u64) -> std::result::Result<(), amita_client::Error>;
    fn poll(&mut self, done: &mut Vec<Done>);
    fn wait(&mut self, limit: Duration, done: &mut Vec<Done>);
    fn recycle(&mut self, done: Done);
}

/// A length that does not fit is refused as too long by whoever checks it.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Engine for Local {
    fn start(&mut self, volume: &Volume, request: IoRequest, tag: u64) -> std::result::Result<(), amita_client::Error> {
        match request {
            IoRequest::Read { offset, bytes } => self.read(volume, offset, length(bytes), tag),
            IoRequest::Write { offset, data } => self.write(volume, offset, data, tag),
            IoRequest::Flush => self.flush(volume, tag),
            IoRequest::Discard { offset, bytes } => self.discard(volume, offset, bytes, tag),
            IoRequest::WriteZeroes { offset, bytes } => self.write_zeroes(volume, offset, bytes, tag),
            IoRequest::Changed { offset } => self.changed(volume, offset, tag),
        }
    }

    fn poll(&mut self, done: &mut Vec<Done>) {
        Local::poll(self, done);
    }

    fn wait(&mut self, limit: Duration, done: &mut Vec<Done>) {
        Local::wait(self, limit, done);
    }

    fn recycle(&mut self, done: Done) {
        Local::recycle(self, done.payload);
    }
}

impl Engine for Queue {
    fn start(&mut self, volume: &Volume, request: IoRequest, tag: u64) -> std::result::Result<(), amita_client::Error> {
        match request {
            IoRequest::Read { offset, bytes } => self.read(volume, offset, length(bytes), tag),
            IoRequest::Write { offset, data } => self.write(volume, offset, data, tag),
            IoRequest::Flush => self.flush(volume, tag),
            IoRequest::Discard { offset, bytes } => self.discard(volume, offset, bytes, tag),
            IoRequest::WriteZeroes { offset, bytes } => self.write_zeroes(volume, offset, bytes, tag),
            IoRequest::Changed { offset } => self.changed(volume, offset, tag),
        }
    }

    fn poll(&mut self, done: &mut Vec<Done>) {
        Queue::poll(self, done);
    }

    fn wait(&mut self, limit: Duration, done: &mut Vec<Done>) {
        Queue::wait(self, limit, done);
    }

    fn recycle(&mut self, _: Done) {}
}

/// What becomes of a read's bytes.
enum Into {
    Nothing,
    Targets,
    Buffer,
    /// What was changed in the volume's chunk that holds the byte.
    Extents(Volume, u64),
}

struct Request {
    user: usize,
    into: Into,
    /// Kept with its memory when the request has ended.
    targets: Vec<Target>,
}

/// A queue.
pub(crate) struct Port<E> {
    pub(crate) client: Handle,
    pub(crate) engine: E,
    pool: Pool,
    requests: Vec<Request>,
    free: Vec<u32>,
    /// Volumes that were used here: what is not open any more is found out by the client.
    volumes: Vec<(Handle, Volume)>,
    done: Vec<Done>,
    /// Of those, what was handed out.
    handed: usize,
}

impl<E: Engine> Port<E> {
    pub(crate) fn new(client: Handle, engine: E, pool: Pool, depth: usize) -> Port<E> {
        let mut port = Port {
            client,
            engine,
            pool,
            requests: Vec::new(),
            free: Vec::new(),
            volumes: Vec::new(),
            done: Vec::new(),
            handed: 0,
        };
        port.set_depth(depth);
        port
    }

    pub(crate) fn set_depth(&mut self, depth: usize) {
        let request = || Request {
            user: 0,
            into: Into::Nothing,
            targets: Vec::new(),
        };
        self.requests = (0..depth).map(|_| request()).collect();
        self.free = (0..depth as u32).rev().collect();
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn under_way(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    fn volume(&mut self, handle: Handle) -> Result<Volume> {
        if let Some((_, volume)) = self.volumes.iter().find(|(known, _)| *known == handle) {
            return Ok(*volume);
        }
        let volume = threaded::volume_of(handle, self.client)?;
        // Those of closed ones go when there are many.
        if self.volumes.len() >= 64 {
            self.volumes.clear();
        }
        self.volumes.push((handle, volume));
        Ok(volume)
    }

    fn begin(&mut self, volume: Handle, request: IoRequest, user: *mut c_void, into: Into) -> Result<u32> {
        let volume = self.volume(volume)?;
        let Some(&slot) = self.free.last() else {
            let text = format!(
                "{} requests of this queue are under way: take completions first",
                self.requests.len()
            );
            return Err(Failure::new(libc::EAGAIN, text));
        };
        self.engine.start(&volume, request, slot.into())?;
        self.free.pop();
        let request = &mut self.requests[slot as usize];
        request.user = user.expose_provenance();
        request.into = into;
        Ok(slot)
    }

    /// Starts what brings no bytes.
    pub(crate) fn start(&mut self, volume: Handle, request: IoRequest, user: *mut c_void) -> Result<()> {
        self.begin(volume, request, user, Into::Nothing).map(drop)
    }

    /// Starts a read into memory of the application.
    pub(crate) fn read_into(
        &mut self,
        volume: Handle,
        offset: u64,
        targets: impl Iterator<Item = Target>,
        bytes: usize,
        user: *mut c_void,
    ) -> Result<()> {
        let slot = self.begin(volume, IoRequest::Read { offset, bytes }, user, Into::Targets)?;
        let own = &mut self.requests[slot as usize].targets;
        own.clear();
        own.extend(targets);
        Ok(())
    }

    /// Starts a read whose completion brings a buffer.
    pub(crate) fn read_buffer(&mut self, volume: Handle, offset: u64, bytes: usize, user: *mut c_void) -> Result<()> {
        let request = IoRequest::Read { offset, bytes };
        self.begin(volume, request, user, Into::Buffer).map(drop)
    }

    /// Starts a question whose completion brings extents.
    pub(crate) fn changed(&mut self, handle: Handle, offset: u64, user: *mut c_void) -> Result<()> {
        let volume = self.volume(handle)?;
        let into = Into::Extents(volume, offset);
        self.begin(handle, IoRequest::Changed { offset }, user, into).map(drop)
    }

    /// A buffer that the bytes of a write are copied to.
    pub(crate) fn copy_of(&self, bytes: usize, copy: impl FnOnce(&mut [u8])) -> Slice {
        match self.pool.take(bytes) {
            Some(mut buffer) => {
                copy(&mut buffer);
                buffer.freeze()
            }
            // The pool is used up: from the heap it is slower, and still right.
            None => {
                let mut bytes = vec![0; bytes];
                copy(&mut bytes);
                Slice::copy_from(&bytes)
            }
        }
    }

    /// Hands completions out; waits for the first for so long.
    pub(crate) fn reap(&mut self, limit: Option<Duration>, out: &mut [std::mem::MaybeUninit<Completion>]) -> usize {
        if self.handed == self.done.len() {
            self.done.clear();
            self.handed = 0;
            match limit {
                Some(limit) if self.under_way() > 0 => self.engine.wait(limit, &mut self.done),
                _ => self.engine.poll(&mut self.done),
            }
        }
        let mut count = 0;
        while count < out.len() && self.handed < self.done.len() {
            let empty = Done {
                tag: 0,
                result: Ok(()),
                payload: amita_client::Payload::default(),
            };
            let done = std::mem::replace(&mut self.done[self.handed], empty);
            self.handed += 1;
            out[count].write(self.complete(done));
            count += 1;
        }
        count
    }

    fn complete(&mut self, done: Done) -> Completion {
        let slot = done.tag as u32;
        self.free.push(slot);
        let request = &mut self.requests[slot as usize];
        let mut buffer = Handle::NULL;
        if done.result.is_ok() {
            match &request.into {
                Into::Nothing => {}
                Into::Targets => fill(&mut request.targets, &done.payload),
                Into::Buffer => buffer = buffers::keep(&self.pool, &done.payload),
                Into::Extents(volume, offset) => {
                    buffer = buffers::keep_changes(volume.extents(*offset, &done.payload));
                }
            }
        }
        let completion = Completion {
            user: std::ptr::with_exposed_provenance_mut(request.user),
            buffer,
            error: done.result.map_or_else(errno, |()| 0),
            reserved: 0,
        };
        self.engine.recycle(done);
        completion
    }
}
