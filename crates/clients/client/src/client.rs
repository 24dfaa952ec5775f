//! A client whose core runs on a thread of its own.

mod thread;

use crate::config::Config;
use crate::error::Error;
use crate::queue::{Queue, check_depth};
use crate::session::Volume;
use amita_node::serve::ServeError;
use amita_reactor::mailbox::channel as ring;
use amita_reactor::{Doorbell, Pool, Waker};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use thread::{QueueEnd, Tell};

/// A client whose core runs on a thread of its own: its volumes may be used from any thread, each by a [`Queue`].
///
/// Dropped, it leaves the cluster; what is under way then ends as lost.
pub struct Client {
    tell: Sender<Tell>,
    waker: Waker,
    pool: Pool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Client {
    /// Joins the cluster. Blocks until the lease is held, and the stores, if there are any, serve.
    ///
    /// # Errors
    /// As [`Local::connect`](crate::Local::connect); or there is no thread to be had.
    pub fn connect(config: &Config) -> Result<Client, Error> {
        let (tell, told) = channel();
        let (word, heard) = channel();
        let config = config.clone();
        let thread = std::thread::Builder::new()
            .name("amita-client".to_owned())
            .spawn(move || thread::run(&config, &told, &word))
            .map_err(|why| Error::Join(ServeError::Thread(why)))?;
        // A thread that panicked has dropped its end.
        let (waker, pool) = heard.recv().unwrap_or(Err(Error::Ended))?;
        Ok(Client {
            tell,
            waker,
            pool,
            thread: Mutex::new(Some(thread)),
        })
    }

    fn ask<T>(&self, make: impl FnOnce(Sender<T>) -> Tell) -> Result<T, Error> {
        let (answer, answered) = channel();
        self.tell.send(make(answer)).map_err(|_| Error::Ended)?;
        self.waker.wake();
        answered.recv().map_err(|_| Error::Ended)
    }

    /// Opens a volume, as [`Local::open`](crate::Local::open). Any queue of this client may use it.
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, volume: &str) -> Result<Volume, Error> {
        self.open_as(volume, None)
    }

    /// Opens a volume, or a snapshot of it, to be compared with an older snapshot, as
    /// [`Local::open_since`](crate::Local::open_since).
    ///
    /// # Errors
    /// As there.
    pub fn open_since(&self, volume: &str, snapshot: &str) -> Result<Volume, Error> {
        self.open_as(volume, Some(snapshot))
    }

    fn open_as(&self, volume: &str, since: Option<&str>) -> Result<Volume, Error> {
        let (volume, since) = (volume.to_owned(), since.map(str::to_owned));
        self.ask(|answer| Tell::Open { volume, since, answer })?
    }

    /// Uses a volume no longer, as [`Local::close_volume`](crate::Local::close_volume).
    ///
    /// # Errors
    /// It is not open here.
    pub fn close_volume(&self, volume: &Volume) -> Result<(), Error> {
        let volume = *volume;
        self.ask(|answer| Tell::CloseVolume { volume, answer })?
    }

    /// A queue for at most `depth` requests under way.
    ///
    /// # Errors
    /// A depth that cannot be; the process may not open more files; the client has ended.
    pub fn queue(&self, depth: usize) -> Result<Queue, Error> {
        check_depth(depth)?;
        let bell = Doorbell::new().map_err(|why| Error::Setting {
            setting: "queue",
            why: format!("no event file: {why}"),
        })?;
        let (commands, taken) = ring(depth, self.waker.clone());
        let (given, ended) = ring(depth, bell.waker());
        let end = QueueEnd::new(taken, given, bell.waker());
        let queue = Queue::new(commands, ended, bell, self.pool.clone(), depth);
        self.ask(|answer| Tell::AddQueue { end, answer })?;
        Ok(queue)
    }

    /// The memory that buffers and payloads are of.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Lets what is under way end (for some seconds at most), and leaves the cluster.
    pub fn close(self) {
        self.leave();
    }

    /// As [`Client::close`], for those who share it: from then on every call is refused.
    pub fn leave(&self) {
        let _ = self.tell.send(Tell::Stop);
        self.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}
