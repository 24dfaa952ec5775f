//! The client of the etcd v3 API, for plain threads.
//!
//! One background thread per client drives one HTTP/2 connection to one of the endpoints; calls block the thread that
//! makes them until the answer, an error or the time-out. An idle client costs nothing: nothing is polled.
//!
//! What an error says is what a data path needs to know ([`Error`]): whether the change was *surely not* made, *may* have
//! been made, or was *refused*. To know the first, the client opens its connections itself and never sends a change
//! twice: only reads, and calls that may be repeated, go to a second endpoint after the first one failed them.

use crate::call::{Call, LeaseId, Op, Reply};
use crate::error::{Error, Refusal};
use crate::wire::convert::{self, signed, unsigned};
use crate::wire::{self, path};
use exchange::{Context, Effect, Shared};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

mod connection;
mod exchange;
mod pause;
mod tls;
mod user;
mod watch;

pub use connection::Line;
pub use exchange::told_no_space;
pub use pause::after_lost;
pub use tls::{SERVER_NAME, Tls};
pub use user::User;
pub use watch::{Waited, Watch, WatchStop};

/// The most endpoints of one client: a metadata cluster has three or five members.
pub const MAX_ENDPOINTS: usize = 16;

/// Who a client is, whom it speaks to, and its times.
#[derive(Clone, Debug)]
pub struct Options {
    /// What TLS needs, for endpoints of `https://` and for those without a scheme.
    pub tls: Option<Tls>,
    /// The user of etcd, where the servers have users.
    pub user: Option<User>,
    /// Speak plainly to other machines, and where `http://` says so also with TLS configured; send a password there.
    pub insecure_network: bool,
    /// A call ends after this, with whatever is known by then.
    pub timeout: Duration,
    /// An endpoint that does not accept within this is passed over.
    pub connect_timeout: Duration,
    /// While something is under way (a watch always is), the server is asked this often whether it lives. etcd takes
    /// offence below 5 s (`--grpc-keepalive-min-time`).
    pub ping_interval: Duration,
    /// A server that does not answer a ping, or a new connection's first words, within this is gone.
    pub ping_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tls: None,
            user: None,
            insecure_network: false,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(3),
        }
    }
}

/// A lease as the server granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    /// Its time to live: what was asked for, or more (etcd has a least one of about 2 s).
    pub ttl_s: u64,
}

/// Whatever carries out transactions: the client, and a model of it in tests.
pub trait Transact {
    /// Carries out one transaction.
    ///
    /// # Errors
    /// See [`Error`].
    fn txn(&self, call: &Call) -> Result<Reply, Error>;

    /// Waits before what others were faster at is tried again; that was so this often already. Where nobody else is at it in the meantime, as in
    /// a simulation, nothing is to be waited for. Who passes transactions on passes this on.
    fn after_lost(&self, _races: u32) {}
}

impl Transact for Client {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        Client::txn(self, call)
    }

    fn after_lost(&self, races: u32) {
        std::thread::sleep(pause::after_lost(races));
    }
}

/// The blocking client; clones share one connection and may be used from any thread.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    handle: Handle,
    /// Dropped with the client: the thread ends.
    _stop: oneshot::Sender<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.inner.shared.endpoints())
    }
}

impl Client {
    /// A client of the metadata servers at `endpoints`: `HOST:PORT`, `https://HOST:PORT` or `http://HOST:PORT`, of one cluster.
    /// No connection is made yet: a server that is away is met by the first call.
    ///
    /// # Errors
    /// When an endpoint is not of that form, or none is given.
    pub fn connect<E: AsRef<str>>(endpoints: &[E]) -> Result<Client, Error> {
        Client::connect_with(endpoints, Options::default())
    }

    /// The same by TLS, as a user, or with other times.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_with<E: AsRef<str>>(endpoints: &[E], options: Options) -> Result<Client, Error> {
        let shared = Arc::new(Shared::new(endpoints, options)?);
        let broken = |what: String| Error::Unavailable {
            what,
            endpoints: shared.endpoints(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| broken(format!("no event loop: {error}")))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new()
            .name("amita-meta".to_owned())
            .spawn(move || {
                // Ends when the sender is dropped; the value says nothing.
                let _ = runtime.block_on(stopped);
            })
            .map_err(|error| broken(format!("no thread: {error}")))?;
        Ok(Client {
            inner: Arc::new(Inner {
                shared,
                handle,
                _stop: stop,
            }),
        })
    }

    /// The endpoints, for messages.
    #[must_use]
    pub fn endpoints(&self) -> String {
        self.inner.shared.endpoints()
    }

    fn call<M1, M2>(&self, path: &'static str, message: M1, effect: Effect, context: Context) -> Result<M2, Error>
    where
        M1: prost::Message + Clone + Default + 'static,
        M2: prost::Message + Default + 'static,
    {
        let (answer, _) = self.call_on_line(path, message, effect, context)?;
        Ok(answer)
    }

    fn call_on_line<M1, M2>(
        &self,
        path: &'static str,
        message: M1,
        effect: Effect,
        context: Context,
    ) -> Result<(M2, Line), Error>
    where
        M1: prost::Message + Clone + Default + 'static,
        M2: prost::Message + Default + 'static,
    {
        self.inner
            .handle
            .block_on(self.inner.shared.unary(path, message, effect, context))
    }

    /// A response that cannot be read says nothing of what was done.
    fn unreadable(&self, what: String) -> Error {
        Error::Unknown {
            what: format!("its answer is not readable: {what}"),
            endpoint: self.endpoints(),
        }
    }

    /// Carries out one transaction. Reads are linearizable.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn txn(&self, call: &Call) -> Result<Reply, Error> {
        let (reply, _) = self.txn_on_line(call)?;
        Ok(reply)
    }

    /// The same, and by which connection the answer came, for [`Client::watch_unbroken`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn txn_on_line(&self, call: &Call) -> Result<(Reply, Line), Error> {
        call.check()?;
        let effect = if call.is_read_only() {
            Effect::Repeatable
        } else {
            Effect::Once
        };
        // A server that misses a lease does not say which: it is told where there is but one.
        let mut leases = call.then.iter().chain(&call.otherwise).filter_map(|op| match op {
            Op::Put { lease, .. } => *lease,
            _ => None,
        });
        let first = leases.next();
        let lease = first.filter(|first| leases.all(|other| other == *first));
        let context = Context {
            lease,
            ..Context::default()
        };
        let request = wire::TxnRequest::from(call);
        let (response, line): (wire::TxnResponse, Line) = self.call_on_line(path::TXN, request, effect, context)?;
        let reply = convert::reply(call, response).map_err(|what| self.unreadable(what))?;
        Ok((reply, line))
    }

    /// Grants a lease. When the answer is lost, the lease expires by itself.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn lease_grant(&self, ttl_s: u64) -> Result<Lease, Error> {
        if ttl_s == 0 || ttl_s > crate::model::MAX_TTL_S {
            return Err(Refusal::BadTtl { ttl_s }.into());
        }
        let request = wire::LeaseGrantRequest {
            ttl: signed(ttl_s),
            id: 0,
        };
        let response: wire::LeaseGrantResponse =
            self.call(path::LEASE_GRANT, request, Effect::Repeatable, Context::default())?;
        if !response.error.is_empty() {
            return Err(Refusal::Server {
                code: "lease".to_owned(),
                message: response.error,
            }
            .into());
        }
        let id = convert::lease(response.id).ok_or_else(|| self.unreadable("lease number 0".to_owned()))?;
        let ttl_s = unsigned(response.ttl, "TTL").map_err(|what| self.unreadable(what))?;
        Ok(Lease { id, ttl_s })
    }

    /// Renews a lease; returns its time to live.
    ///
    /// # Errors
    /// [`Refusal::LeaseNotFound`] when it has expired; else see [`Error`].
    pub fn lease_keepalive(&self, id: LeaseId) -> Result<u64, Error> {
        let request = wire::LeaseKeepAliveRequest { id: id.0 };
        let context = Context {
            lease: Some(id),
            ..Context::default()
        };
        let shared = &self.inner.shared;
        let response: wire::LeaseKeepAliveResponse =
            self.inner
                .handle
                .block_on(shared.single(path::LEASE_KEEP_ALIVE, request, Effect::Repeatable, context))?;
        // etcd says so by a time to live of zero.
        match u64::try_from(response.ttl) {
            Ok(ttl_s) if ttl_s > 0 => Ok(ttl_s),
            _ => Err(Refusal::LeaseNotFound(id).into()),
        }
    }

    /// Ends a lease and deletes its keys.
    ///
    /// # Errors
    /// [`Refusal::LeaseNotFound`] when it has expired; else see [`Error`].
    pub fn lease_revoke(&self, id: LeaseId) -> Result<(), Error> {
        let request = wire::LeaseRevokeRequest { id: id.0 };
        let context = Context {
            lease: Some(id),
            ..Context::default()
        };
        self.call::<_, wire::LeaseRevokeResponse>(path::LEASE_REVOKE, request, Effect::Once, context)
            .map(drop)
    }

    /// How many seconds a lease still has.
    ///
    /// # Errors
    /// [`Refusal::LeaseNotFound`] when it has expired; else see [`Error`].
    pub fn lease_time_to_live(&self, id: LeaseId) -> Result<u64, Error> {
        let request = wire::LeaseTimeToLiveRequest { id: id.0, keys: false };
        let context = Context {
            lease: Some(id),
            ..Context::default()
        };
        let response: wire::LeaseTimeToLiveResponse =
            self.call(path::LEASE_TIME_TO_LIVE, request, Effect::Repeatable, context)?;
        u64::try_from(response.ttl).map_err(|_| Refusal::LeaseNotFound(id).into())
    }

    /// Forgets the history up to and with `revision`; keys stay.
    ///
    /// # Errors
    /// [`Refusal::Compacted`] when that is done already; else see [`Error`].
    pub fn compact(&self, revision: u64) -> Result<(), Error> {
        let request = wire::CompactionRequest {
            revision: signed(revision),
            physical: false,
        };
        let context = Context {
            revision,
            ..Context::default()
        };
        self.call::<_, wire::CompactionResponse>(path::COMPACT, request, Effect::Once, context)
            .map(drop)
    }

    /// Watches all keys that start with `prefix`, from `from_revision` on (that one included): name the revision of the
    /// read that the watch goes on from, plus one. Zero: from now on. It outlives outages: when a server is back it goes
    /// on where it was, and nothing is left out or told twice.
    #[must_use]
    pub fn watch(&self, prefix: &str, from_revision: u64) -> Watch {
        Watch::start(self.clone(), prefix, from_revision, None)
    }

    /// The same by the connection that a read came by, which ends with [`Error::Unavailable`] when its stream breaks, or the connection
    /// is in use no more: who has to know whether what answers then is what answered before reads it anew.
    #[must_use]
    pub fn watch_unbroken(&self, prefix: &str, from_revision: u64, line: Line) -> Watch {
        Watch::start(self.clone(), prefix, from_revision, Some(line))
    }
}

/// The model behind a lock: for tests and tools that need no server.
impl Transact for std::sync::Mutex<crate::model::State> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        let mut state = self.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.txn(call).map_err(Error::from)
    }
}
