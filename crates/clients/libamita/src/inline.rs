//! Clients whose core runs in the thread that connected them: they live in that thread and are found by no other.

use crate::failure::{Failure, Result};
use crate::handles::{Handle, Kind, Places};
use crate::port::Port;
use crate::threaded;
use amita_client::{Config, Local, MAX_REQUESTS};
use std::cell::RefCell;

struct Inline {
    /// Empty while it is in use: what comes from within (it cannot), or after a panic, finds nothing.
    port: Option<Port<Local>>,
    has_queue: bool,
}

thread_local! {
    static CLIENTS: RefCell<Places<Inline>> = const { RefCell::new(Places::new(Kind::Client, true)) };
}

fn bad(what: &str) -> Failure {
    Failure::other_thread(what)
}

pub(crate) fn connect(config: &Config) -> Result<Handle> {
    let local = Local::connect(config)?;
    let pool = local.pool().clone();
    CLIENTS.with_borrow_mut(|clients| {
        let handle = clients.insert(Inline {
            port: None,
            has_queue: false,
        });
        if let Some(inline) = clients.get(handle) {
            inline.port = Some(Port::new(handle, local, pool, 0));
        }
        Ok(handle)
    })
}

pub(crate) fn close(handle: Handle) -> Result<()> {
    let taken = CLIENTS.with_borrow_mut(|clients| clients.take(handle));
    let inline = taken.ok_or_else(|| bad("client"))?;
    threaded::forget_volumes(handle);
    if let Some(port) = inline.port {
        port.engine.close();
    }
    Ok(())
}

/// Runs something on a client.
pub(crate) fn with_client<R>(handle: Handle, act: impl FnOnce(&mut Port<Local>) -> Result<R>) -> Result<R> {
    with(handle, "client", |inline| act_on(inline, act))
}

fn with<R>(handle: Handle, what: &str, act: impl FnOnce(&mut Inline) -> Result<R>) -> Result<R> {
    CLIENTS.with_borrow_mut(|clients| act(clients.get(handle).ok_or_else(|| bad(what))?))
}

fn act_on<R>(inline: &mut Inline, act: impl FnOnce(&mut Port<Local>) -> Result<R>) -> Result<R> {
    let broken = || {
        let text = "a fault of the library has happened to this client; close it and connect again";
        Failure::new(libc::ENOTRECOVERABLE, text)
    };
    let port = inline.port.as_mut().ok_or_else(broken)?;
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(port))) {
        Ok(result) => result,
        Err(_) => {
            // What it was about is not known any more: it is not touched again, not even to end it.
            std::mem::forget(inline.port.take());
            Err(broken())
        }
    }
}

pub(crate) fn create_queue(handle: Handle, depth: usize) -> Result<Handle> {
    if !(1..=MAX_REQUESTS).contains(&depth) {
        let text = format!("a queue of {depth} requests; 1 to {MAX_REQUESTS} are allowed");
        return Err(Failure::new(libc::EINVAL, text));
    }
    with(handle, "client", |inline| {
        if inline.has_queue {
            return Err(Failure::new(
                libc::EBUSY,
                "a client that is AMITA_INLINE has one queue, and this one has it already",
            ));
        }
        act_on(inline, |port| {
            port.set_depth(depth);
            Ok(())
        })?;
        inline.has_queue = true;
        Ok(handle.of_kind(Kind::Queue))
    })
}

pub(crate) fn destroy_queue(handle: Handle) -> Result<()> {
    with(client_of(handle)?, "queue", |inline| {
        if !inline.has_queue {
            return Err(bad("queue"));
        }
        act_on(inline, |port| match port.under_way() {
            0 => {
                port.set_depth(0);
                Ok(())
            }
            count => Err(Failure::new(
                libc::EBUSY,
                format!("{count} requests of this queue are under way: take their completions first"),
            )),
        })?;
        inline.has_queue = false;
        Ok(())
    })
}

/// The client whose one queue this is.
fn client_of(queue: Handle) -> Result<Handle> {
    let known = queue.is(Kind::Queue);
    known.then(|| queue.of_kind(Kind::Client)).ok_or_else(|| bad("queue"))
}

/// Runs something on a queue.
pub(crate) fn with_queue<R>(handle: Handle, act: impl FnOnce(&mut Port<Local>) -> Result<R>) -> Result<R> {
    with(client_of(handle)?, "queue", |inline| {
        if !inline.has_queue {
            return Err(bad("queue"));
        }
        act_on(inline, act)
    })
}
