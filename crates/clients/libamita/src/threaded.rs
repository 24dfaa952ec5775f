//! Clients with a thread of their own, their queues, and the volumes of all clients: tables for all threads.
//!
//! Looking a queue up is not on the path of an I/O: each thread remembers the one that it used last.

use crate::failure::{Failure, Result};
use crate::handles::{Handle, Kind, Table};
use crate::port::Port;
use amita_client::{Client, Config, Queue, Volume};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// A queue, until it is destroyed.
type Shared = Arc<Mutex<Option<Port<Queue>>>>;

static CLIENTS: Table<Arc<Client>> = Table::new(Kind::Client);
static QUEUES: Table<(Handle, Shared)> = Table::new(Kind::Queue);
static VOLUMES: Table<(Handle, Volume)> = Table::new(Kind::Volume);

thread_local! {
    static LAST_USED: RefCell<Option<(Handle, Shared)>> = const { RefCell::new(None) };
}

pub(crate) fn connect(config: &Config) -> Result<Handle> {
    let client = Client::connect(config)?;
    Ok(CLIENTS.lock().insert(Arc::new(client)))
}

/// The client of a handle.
pub(crate) fn client(handle: Handle) -> Result<Arc<Client>> {
    let found = CLIENTS.lock().get(handle).cloned();
    found.ok_or_else(|| Failure::bad_handle("client"))
}

pub(crate) fn close(handle: Handle) -> Result<()> {
    let client = CLIENTS
        .lock()
        .take(handle)
        .ok_or_else(|| Failure::bad_handle("client"))?;
    client.leave();
    let queues = QUEUES.lock().select(|(of, _)| *of == handle);
    for queue in queues {
        let taken = QUEUES.lock().take(queue);
        if let Some((_, shared)) = taken {
            // A thread that waits on it is told by its completions.
            shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
    forget_volumes(handle);
    Ok(())
}

/// Takes the volumes of a client out.
pub(crate) fn forget_volumes(client: Handle) {
    let mut volumes = VOLUMES.lock();
    for volume in volumes.select(|(of, _)| *of == client) {
        volumes.take(volume);
    }
}

/// A handle for a volume of a client.
pub(crate) fn add_volume(client: Handle, volume: Volume) -> Handle {
    VOLUMES.lock().insert((client, volume))
}

/// A volume, and its client.
pub(crate) fn volume(handle: Handle) -> Result<(Handle, Volume)> {
    let found = VOLUMES.lock().get(handle).copied();
    found.ok_or_else(|| Failure::bad_handle("volume"))
}

/// A volume of that client.
pub(crate) fn volume_of(handle: Handle, client: Handle) -> Result<Volume> {
    let (of, volume) = volume(handle)?;
    if of == client {
        return Ok(volume);
    }
    let text = "the volume was opened by another client than the queue's";
    Err(Failure::new(libc::EINVAL, text))
}

/// Takes a volume's handle back.
pub(crate) fn take_volume(handle: Handle) -> Result<(Handle, Volume)> {
    let taken = VOLUMES.lock().take(handle);
    taken.ok_or_else(|| Failure::bad_handle("volume"))
}

pub(crate) fn create_queue(handle: Handle, depth: usize) -> Result<Handle> {
    let client = client(handle)?;
    let port = Port::new(handle, client.queue(depth)?, client.pool().clone(), depth);
    Ok(QUEUES.lock().insert((handle, Arc::new(Mutex::new(Some(port))))))
}

fn bad() -> Failure {
    Failure::bad_handle("queue")
}

pub(crate) fn destroy_queue(handle: Handle) -> Result<()> {
    with_queue(handle, |_| Ok(()))?;
    let (_, shared) = QUEUES.lock().take(handle).ok_or_else(bad)?;
    shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    let _ = LAST_USED.try_with(|last| last.borrow_mut().take());
    Ok(())
}

/// Runs something on a queue, alone.
pub(crate) fn with_queue<R>(handle: Handle, act: impl FnOnce(&mut Port<Queue>) -> Result<R>) -> Result<R> {
    LAST_USED.with_borrow_mut(|last| {
        if last.as_ref().is_none_or(|(known, _)| *known != handle) {
            let found = QUEUES.lock().get(handle).map(|(_, shared)| shared.clone());
            *last = Some((handle, found.ok_or_else(bad)?));
        }
        let Some((_, shared)) = last else { return Err(bad()) };
        let outcome = match shared.try_lock() {
            Ok(mut held) => match held.as_mut() {
                Some(port) => return act(port),
                None => Err(bad()),
            },
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                libc::EBUSY,
                "another thread uses this queue at this moment: give each thread a queue of its own",
            )),
            Err(TryLockError::Poisoned(_)) => Err(Failure::new(
                libc::ENOTRECOVERABLE,
                "a fault of the library has happened on this queue; close the client and connect again",
            )),
        };
        *last = None;
        outcome
    })
}
