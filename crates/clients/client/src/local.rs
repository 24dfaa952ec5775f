//! A client whose core runs in the caller's thread.

use crate::config::Config;
use crate::error::Error;
use crate::payload::{Done, Payload};
use crate::remote::{self, Remote};
use crate::session::{Session, Volume};
use amita_frontend::{Event, Flow, Front, OpenError, StorageService};
use amita_node::embed::Embedded;
use amita_reactor::driver::Time;
use amita_reactor::{BufMut, Inbox, Outbox, Pool, Slice, Waker, core};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of the pool, the part that reads may bring at one time: what they bring lies in the receive blocks, which are three
/// eighths of it, and may fill them badly.
const READING_SHARE: usize = 8;
/// While it waits to be told that nothing is under way any more.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

static SERIALS: AtomicU64 = AtomicU64::new(1);

/// A client of one core that runs in the caller's thread: nothing happens but in [`Local::poll`], [`Local::wait`] and
/// the calls that say that they block.
///
/// While volumes are open, call one of them at least every 100 ms. After a quarter of a second without a call the
/// stores' leases have run out: reads take one more round trip, and another gateway that asks for the volume gets it.
/// After about two seconds peers take the process for frozen and close its connections; I/O goes on at the next call,
/// once they are there again. The process's own lease, in the metadata, is renewed by a thread of its own and does not
/// depend on calls.
///
/// Where a request is started, an error says that it was not. Once started it ends in exactly one [`Done`].
pub struct Local {
    session: Rc<RefCell<Session>>,
    core: Core,
    open_patience: Duration,
}

/// What carries out what is asked for.
enum Core {
    /// A gateway, in here.
    Gateway(Box<Embedded>),
    /// Nodes.
    Nodes(Box<Remote>),
}

impl Core {
    fn service(&mut self) -> &mut dyn StorageService {
        match self {
            Core::Gateway(embedded) => &mut embedded.fronts().requests,
            Core::Nodes(remote) => remote.service(),
        }
    }

    fn pool(&self) -> &Pool {
        match self {
            Core::Gateway(embedded) => embedded.pool(),
            Core::Nodes(remote) => remote.pool(),
        }
    }

    fn now(&self) -> Time {
        match self {
            Core::Gateway(embedded) => embedded.now(),
            Core::Nodes(remote) => remote.now(),
        }
    }

    fn waker(&self) -> Waker {
        match self {
            Core::Gateway(embedded) => embedded.waker(),
            Core::Nodes(remote) => remote.waker(),
        }
    }

    fn poll(&mut self) {
        match self {
            Core::Gateway(embedded) => embedded.poll(),
            Core::Nodes(remote) => remote.poll(),
        }
    }

    fn start_asked(&mut self) {
        match self {
            Core::Gateway(embedded) => embedded.start_asked(),
            Core::Nodes(remote) => remote.start_asked(),
        }
    }

    fn wait(&mut self, until: Time) {
        match self {
            Core::Gateway(embedded) => embedded.wait(until),
            Core::Nodes(remote) => remote.wait(until),
        }
    }
}

/// A volume that was asked for.
pub(crate) struct Opening {
    volume: String,
    until: Time,
}

/// The session, as a front of the core.
struct Shared(Rc<RefCell<Session>>);

impl Front for Shared {
    fn received(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        // It has no connection that anything could come by.
        Flow::Go
    }

    fn event(&mut self, _: Time, event: Event, _: &mut Outbox, _: &Pool, service: &mut dyn StorageService) -> Flow {
        self.0.borrow_mut().event(service, event);
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, _: &mut dyn StorageService) {}
}

impl Local {
    /// Joins the cluster. Blocks until the lease is held, and the stores, if there are any, serve. With a client's identity it
    /// joins nothing, and asks nobody yet.
    ///
    /// # Errors
    /// A setting that cannot be; the metadata is away; the name is taken; an address cannot be bound.
    pub fn connect(config: &Config) -> Result<Local, Error> {
        let identity = remote::identity(config)?;
        let pin = || {
            config.cpu.map_or(Ok(()), |cpu| {
                core::pin(cpu).map_err(|why| Error::Setting {
                    setting: "cpu",
                    why: format!("processor {cpu}: {why}"),
                })
            })
        };
        let reading = config.buffer_bytes / READING_SHARE;
        let open_patience = config.open_patience;
        if Remote::is_wanted(config, identity.as_ref()) {
            config.check_buffers()?;
            let remote = Remote::start(config, identity, |pool| Session::new(remote::FRONT, pool, reading))?;
            pin()?;
            return Ok(Local {
                session: remote.session(),
                core: Core::Nodes(Box::new(remote)),
                open_patience,
            });
        }
        let mut embedded = Embedded::start(&config.node(identity)?, &config.log())?;
        // Only now: the threads of the control plane are to stay out of its way.
        pin()?;
        let pool = embedded.pool().clone();
        let mut session = None;
        embedded.fronts().attach(|front| {
            let shared = Rc::new(RefCell::new(Session::new(front, pool, reading)));
            session = Some(shared.clone());
            Box::new(Shared(shared))
        });
        Ok(Local {
            session: session.expect("attach makes the front at once"),
            core: Core::Gateway(Box::new(embedded)),
            open_patience,
        })
    }

    /// Opens a volume, to be the one owner of it: another gateway that uses it keeps it, and this is an error. Blocks.
    /// `VOLUME@SNAPSHOT` is a snapshot of it, to be read only: its owner goes on with the volume.
    ///
    /// # Errors
    /// There is none of that name; somebody else uses it; the metadata is away.
    pub fn open(&mut self, volume: &str) -> Result<Volume, Error> {
        self.open_as(volume, None)
    }

    /// Opens a volume, or a snapshot of it (`VOLUME@SNAPSHOT`), to learn what was changed in it since an older snapshot
    /// ([`Local::changed`]). A program that opens a snapshot opens nothing else.
    ///
    /// # Errors
    /// As [`Local::open`]; or there is no such snapshot, or no older one.
    pub fn open_since(&mut self, volume: &str, snapshot: &str) -> Result<Volume, Error> {
        self.open_as(volume, Some(snapshot))
    }

    fn open_as(&mut self, volume: &str, since: Option<&str>) -> Result<Volume, Error> {
        let opening = self.begin_open(volume, since);
        loop {
            if let Some(opened) = self.opened(&opening) {
                return opened;
            }
            self.core.wait(opening.until);
        }
    }

    /// Asks for a volume; one at a time.
    pub(crate) fn begin_open(&mut self, volume: &str, since: Option<&str>) -> Opening {
        // Brings the time up to date, and what came since the last pass.
        self.core.poll();
        let requests = self.core.service();
        self.session.borrow_mut().open(requests, volume, since);
        let opening = Opening {
            volume: volume.to_owned(),
            until: self.core.now().plus(self.open_patience),
        };
        self.core.start_asked();
        opening
    }

    /// What has become of the volume that was asked for; None: nothing yet.
    pub(crate) fn opened(&mut self, opening: &Opening) -> Option<Result<Volume, Error>> {
        let mut session = self.session.borrow_mut();
        let volume = || opening.volume.clone();
        match session.opened.take() {
            Some(Ok(info)) => Some(Ok(session.add(info, SERIALS.fetch_add(1, Ordering::Relaxed)))),
            Some(Err(why)) => Some(Err(match session.lacks_base() {
                Some(snapshot) => Error::NoBase {
                    volume: volume(),
                    snapshot: snapshot.to_owned(),
                },
                None => match (&self.core, why) {
                    (Core::Nodes(_), OpenError::Refused(why)) if session.is_to_compare() => Error::Setting {
                        setting: "identity",
                        why,
                    },
                    (_, why) => Error::Open { volume: volume(), why },
                },
            })),
            None if self.core.now() >= opening.until => {
                session.give_up_opening();
                let trouble = match &self.core {
                    Core::Gateway(_) => None,
                    Core::Nodes(remote) => remote.trouble(),
                };
                Some(Err(match trouble {
                    Some(why) => Error::Open {
                        volume: volume(),
                        why: OpenError::Unavailable(why),
                    },
                    None => Error::OpenTimeout {
                        volume: volume(),
                        waited: self.open_patience,
                    },
                }))
            }
            None => None,
        }
    }

    /// Uses a volume no longer: another gateway that asks for it gets it. Requests that are under way still end.
    ///
    /// # Errors
    /// It is not open here.
    pub fn close_volume(&mut self, volume: &Volume) -> Result<(), Error> {
        self.session.borrow_mut().close(self.core.service(), volume)
    }

    /// Memory for a write, of the core's pool: exactly `bytes` long, at a multiple of 4 KiB; what it holds is what was
    /// there before. Fill it and freeze it. None when nothing that large is free: let requests end, and payloads go.
    pub fn buffer(&mut self, bytes: usize) -> Option<BufMut> {
        self.core.pool().take(bytes)
    }

    /// The memory that buffers and payloads are of.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.core.pool()
    }

    /// Starts a write of 1 to [`MAX_READ_WRITE_BYTES`](crate::MAX_READ_WRITE_BYTES) bytes, at any offset. What is not
    /// of whole blocks costs a read at each store.
    ///
    /// # Errors
    /// It is not begun: a bad range or length, a volume that is not open, or too much under way.
    pub fn write(&mut self, volume: &Volume, offset: u64, data: Slice, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().write(requests, volume, offset, data, tag)
    }

    /// Starts a read of 1 to [`MAX_READ_WRITE_BYTES`](crate::MAX_READ_WRITE_BYTES) bytes, at any offset.
    ///
    /// # Errors
    /// As [`Local::write`].
    pub fn read(&mut self, volume: &Volume, offset: u64, bytes: u32, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().read(requests, volume, offset, bytes, tag)
    }

    /// Starts a flush: it ends once all writes that have ended before are durable. They are, so it ends at once.
    ///
    /// # Errors
    /// As [`Local::write`].
    pub fn flush(&mut self, volume: &Volume, tag: u64) -> Result<(), Error> {
        self.session.borrow_mut().flush(volume, tag)
    }

    /// Starts to discard a range of any length: its whole blocks read as zeros and take no space from then on; parts of
    /// blocks at its ends are left alone.
    ///
    /// # Errors
    /// As [`Local::write`].
    pub fn discard(&mut self, volume: &Volume, offset: u64, bytes: u64, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().discard(requests, volume, offset, bytes, tag)
    }

    /// Starts to have a range of any length read as zeros; its whole blocks take no space from then on.
    ///
    /// # Errors
    /// As [`Local::write`].
    pub fn write_zeroes(&mut self, volume: &Volume, offset: u64, bytes: u64, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session
            .borrow_mut()
            .write_zeroes(requests, volume, offset, bytes, tag)
    }

    /// Asks which blocks of the chunk that holds the byte were changed since the snapshot that the volume was opened with
    /// ([`Local::open_since`]); [`Volume::extents`] reads what comes.
    ///
    /// # Errors
    /// As [`Local::write`]; or it was not opened so.
    pub fn changed(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().changed(requests, volume, offset, tag)
    }

    /// Asks which blocks of the chunk that holds the byte have data; [`Volume::extents`] reads what comes. All others read as zeros. To a client's
    /// identity that is told by NBD alone: it ends in [`IoError::Invalid`](crate::IoError::Invalid).
    ///
    /// # Errors
    /// As [`Local::write`].
    pub fn allocated(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().allocated(requests, volume, offset, tag)
    }

    /// Asks which chunks may have been changed since the snapshot that the volume was opened with, of those in one window with the chunk that holds the
    /// byte ([`ChangedChunks`](crate::ChangedChunks)); [`Payload::changed_chunks`](crate::Payload::changed_chunks) reads what comes. The core of the
    /// owner that has that chunk answers for its own chunks: [`ChangedSearch`](crate::ChangedSearch) asks all of them. It ends in
    /// [`IoError::Invalid`](crate::IoError::Invalid) where the volume itself was opened and not a snapshot of it, and at an owner whose version does
    /// not know the question.
    ///
    /// # Errors
    /// As [`Local::changed`].
    pub fn changed_chunks(&mut self, volume: &Volume, offset: u64, tag: u64) -> Result<(), Error> {
        let requests = self.core.service();
        self.session.borrow_mut().changed_chunks(requests, volume, offset, tag)
    }

    /// One pass, which does not block; what has ended is appended to `done`. Requests that were started since the last
    /// call leave with the next one at the latest: who polls without pause has one system call for all that a pass
    /// starts.
    pub fn poll(&mut self, done: &mut Vec<Done>) {
        self.core.poll();
        self.hand_out(done);
    }

    /// Passes until something has ended, which is appended to `done`, or until the limit. All that was started is under
    /// way afterwards. Before it blocks, it gives way to others for as long as that pays.
    pub fn wait(&mut self, limit: Duration, done: &mut Vec<Done>) {
        self.core.start_asked();
        if self.hand_out(done) {
            return;
        }
        if limit.is_zero() {
            return self.poll(done);
        }
        let until = self.core.now().plus(limit);
        loop {
            self.core.wait(until);
            if self.hand_out(done) || self.core.now() >= until {
                return;
            }
        }
    }

    /// What was asked for, and one pass that may block: until something completes, but no longer than the limit.
    pub(crate) fn turn(&mut self, limit: Duration, done: &mut Vec<Done>) {
        self.core.start_asked();
        if !self.hand_out(done) {
            let until = self.core.now().plus(limit);
            self.core.wait(until);
            self.hand_out(done);
        }
    }

    /// Moves what has ended to the caller; was there anything?
    fn hand_out(&mut self, done: &mut Vec<Done>) -> bool {
        let ended = &mut self.session.borrow_mut().ended;
        let any = !ended.is_empty();
        done.append(ended);
        any
    }

    /// Takes the memory of a payload back, so that reads of more than 128 KiB allocate nothing either.
    pub fn recycle(&mut self, payload: Payload) {
        self.session.borrow_mut().recycle(payload);
    }

    /// How many requests have been started and not been handed out as ended.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.session.borrow().under_way()
    }

    /// Has the core run a pass while it waits, from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.core.waker()
    }

    /// How many of its stores serve.
    #[must_use]
    pub fn stores(&self) -> usize {
        match &self.core {
            Core::Gateway(embedded) => embedded.stores,
            Core::Nodes(_) => 0,
        }
    }

    /// Lets what is under way end (for some seconds at most), and leaves the cluster. Dropped, it leaves at once.
    pub fn close(mut self) {
        let mut ended = Vec::new();
        self.core.poll();
        let until = self.core.now().plus(CLOSE_PATIENCE);
        self.core.start_asked();
        while self.hand_out(&mut ended) || (self.under_way() > 0 && self.core.now() < until) {
            ended.clear();
            self.core.wait(until);
        }
        match self.core {
            Core::Gateway(embedded) => embedded.stop(),
            Core::Nodes(mut remote) => remote.stop(),
        }
    }
}
