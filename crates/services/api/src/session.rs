//! Who asks, and the way to the metadata as them.

use crate::commands::{CommandLine, Commands, MAX_COMMANDS, OnBehalf, Outcome};
use crate::data::DataPath;
use crate::observed::Observed;
use crate::panics::carry;
use crate::problem::{Code, Problem};
use crate::repeat::Still;
use crate::share::Answers;
use crate::site::Page;
use crate::watch::{Hub, Moment};
use crate::who::Known;
use amita_audit::{Allowances, Limit};
use amita_control::access::{Action, Caller, Session};
use amita_control::admin::{self, AdminError, DataKeys};
use amita_metadata::{Call, Client, Error, Reply, Transact};
use amita_types::MirrorId;
use amita_types::map::Mirror;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How often what is kept for a time is looked through.
const UPKEEP: Duration = Duration::from_secs(600);
/// Requests of who is known that wait for the metadata at once.
pub(crate) const MAX_WORK: usize = 24;
/// Tokens that are looked up at once.
pub(crate) const MAX_CHECKS: usize = 4;
/// Images that are copied out or in at once: each has a gateway of its own, with its memory.
pub(crate) const MAX_COPIES: usize = 2;
/// Comparisons and reverts at once, which have one as well.
pub(crate) const MAX_GATEWAYS: usize = 2;
/// Repositories whose points are listed at once: of one that does not answer each is waited for without end, and nobody else's work is to wait with it.
pub(crate) const MAX_VAULTS: usize = 2;
/// Volumes of mirrors that are sent to their other ends at once, which have one as well. Another node is asked by who finds no place here.
pub(crate) const MAX_LINK_READS: usize = 4;
/// Answers at once that have counters of all nodes.
pub(crate) const MAX_GATHERS: usize = 4;
/// A request waits no longer for its turn.
pub(crate) const LONGEST_QUEUE: Duration = Duration::from_secs(5);
/// Refusals that are told of one asker, and of all.
const REFUSALS_OF_ONE: Limit = Limit {
    most: 20,
    pause: Duration::from_secs(300),
};
const REFUSALS: Limit = Limit {
    most: 200,
    pause: Duration::from_secs(60),
};

/// A connection to the metadata, which all requests share.
#[derive(Clone)]
pub struct Meta(Arc<dyn Transact + Send + Sync>);

impl Transact for Meta {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        self.0.txn(call)
    }

    fn after_lost(&self, races: u32) {
        self.0.after_lost(races);
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meta")
    }
}

/// The way to the metadata of one request.
pub type Asking = Session<Meta>;

/// What the routes share.
#[derive(Clone, Debug)]
pub struct Api {
    meta: Meta,
    shared: Arc<Shared>,
    page: Option<Page>,
    observed: Option<Arc<Observed>>,
    seal_key: Option<Arc<PathBuf>>,
    data_keys: Option<Arc<dyn DataKeys + Send + Sync>>,
    commands: Option<Arc<dyn Commands>>,
    data: Option<Arc<dyn DataPath>>,
}

#[derive(Debug)]
struct Shared {
    known: Known,
    hub: Hub,
    /// Requests that may wait for the metadata: those of who is known, and tokens that are looked up.
    work: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    /// Commands that are carried out.
    commands: Arc<Semaphore>,
    /// Those that use the data of volumes: images that are copied, and what is compared or reverted.
    copies: Arc<Semaphore>,
    gateways: Arc<Semaphore>,
    /// Those that have a repository opened.
    vaults: Arc<Semaphore>,
    /// Volumes that are sent to other ends of mirrors.
    link_reads: Arc<Semaphore>,
    /// Counters of all nodes that are gathered.
    gathers: Arc<Semaphore>,
    refusals: Mutex<Allowances>,
    still: Still,
    answers: Answers,
    /// When what is kept for a time was looked through last.
    kept_up: Mutex<Option<Instant>>,
}

impl Api {
    /// On this connection to the metadata, which cannot be watched.
    pub fn new(meta: Arc<dyn Transact + Send + Sync>) -> Api {
        Api::on(meta, None)
    }

    /// On this connection to the metadata.
    pub fn watching(client: Client) -> Api {
        Api::on(Arc::new(client.clone()), Some(client))
    }

    fn on(meta: Arc<dyn Transact + Send + Sync>, client: Option<Client>) -> Api {
        Api {
            meta: Meta(meta),
            shared: Arc::new(Shared {
                known: Known::default(),
                hub: Hub::new(client),
                still: Still::default(),
                answers: Answers::default(),
                work: Arc::new(Semaphore::new(MAX_WORK)),
                checks: Arc::new(Semaphore::new(MAX_CHECKS)),
                commands: Arc::new(Semaphore::new(MAX_COMMANDS)),
                copies: Arc::new(Semaphore::new(MAX_COPIES)),
                gateways: Arc::new(Semaphore::new(MAX_GATEWAYS)),
                vaults: Arc::new(Semaphore::new(MAX_VAULTS)),
                link_reads: Arc::new(Semaphore::new(MAX_LINK_READS)),
                gathers: Arc::new(Semaphore::new(MAX_GATHERS)),
                refusals: Mutex::new(Allowances::new(REFUSALS_OF_ONE, REFUSALS, Instant::now())),
                kept_up: Mutex::default(),
            }),
            page: None,
            observed: None,
            seal_key: None,
            data_keys: None,
            commands: None,
            data: None,
        }
    }

    /// With what carries commands out.
    #[must_use]
    pub fn with_commands(self, commands: Arc<dyn Commands>) -> Api {
        let commands = Some(commands);
        Api { commands, ..self }
    }

    /// Carries a command out as whoever asks, on a thread that may wait.
    ///
    /// # Errors
    /// This node carries none out, or as many as it can.
    pub(crate) async fn carry_out(
        &self,
        asker: Asker,
        ends_at: Option<u64>,
        is_private: bool,
        line: CommandLine,
    ) -> Result<Outcome, Problem> {
        let Some(commands) = self.commands.clone() else {
            return Err(Problem::new(Code::NotFound, "this node carries no commands out"));
        };
        let api = self.clone();
        wait(&self.shared.commands, move || {
            let name = asker.0.who().name.clone();
            let behalf = OnBehalf {
                tells_refusals: api.tells_refusals(&name),
                caller: asker.0,
                ends_at,
                is_private,
            };
            let outcome = commands.run(&line, behalf);
            if outcome.is_denied {
                api.refused(&name);
            }
            Ok(outcome)
        })
        .await
    }

    /// With a way to the data of volumes.
    #[must_use]
    pub fn with_data(self, data: Arc<dyn DataPath>) -> Api {
        let data = Some(data);
        Api { data, ..self }
    }

    /// The way to the data of volumes.
    ///
    /// # Errors
    /// This node has none.
    pub(crate) fn data(&self) -> Result<Arc<dyn DataPath>, Problem> {
        self.data.clone().ok_or_else(|| {
            let why = "this node reaches the metadata as a user of etcd, and as such it opens no volume for the API; do it by `amita \
                       volume` with a gateway's identity";
            Problem::new(Code::WrongState, why)
        })
    }

    /// A place for an image that is copied, if there is one.
    ///
    /// # Errors
    /// As many are copied as may be.
    pub(crate) fn copying(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.copies).try_acquire_owned().map_err(|_| {
            let why = format!(
                "this node copies {MAX_COPIES} images already, which is as many as it does at once; ask again in a while, or another node"
            );
            Problem::new(Code::TooMany, why)
        })
    }

    /// A place for a volume that is sent to a mirror's other end, if there is one.
    ///
    /// # Errors
    /// As many are sent as may be.
    pub(crate) fn sending(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.link_reads).try_acquire_owned().map_err(|_| {
            let why = format!(
                "this node sends {MAX_LINK_READS} volumes of mirrors already, which is as many as it does at once; ask another node, or \
                 again in a while"
            );
            Problem::new(Code::TooMany, why)
        })
    }

    /// A place to gather the counters of all nodes, as soon as there is one.
    ///
    /// # Errors
    /// There was none for as long as a request waits.
    pub(crate) async fn gathering(&self) -> Result<OwnedSemaphorePermit, Problem> {
        place(&self.shared.gathers).await
    }

    /// With the file of the cluster's sealing key: secrets of channels can be taken.
    #[must_use]
    pub fn with_seal_key(self, file: Option<PathBuf>) -> Api {
        let seal_key = file.map(Arc::new);
        Api { seal_key, ..self }
    }

    pub(crate) fn seal_key(&self) -> Option<Arc<PathBuf>> {
        self.seal_key.clone()
    }

    /// With what makes the data keys of encrypted volumes.
    #[must_use]
    pub fn with_data_keys(self, data_keys: Option<Arc<dyn DataKeys + Send + Sync>>) -> Api {
        Api { data_keys, ..self }
    }

    pub(crate) fn data_keys(&self) -> Option<Arc<dyn DataKeys + Send + Sync>> {
        self.data_keys.clone()
    }

    /// With what the node that serves it knows of itself.
    #[must_use]
    pub fn observing(self, observed: Observed) -> Api {
        let observed = Some(Arc::new(observed));
        Api { observed, ..self }
    }

    pub(crate) fn observed(&self) -> Option<Arc<Observed>> {
        self.observed.clone()
    }

    /// The same; where nothing is known, nothing.
    pub(crate) fn own(&self) -> Arc<Observed> {
        self.observed().unwrap_or_else(|| {
            Arc::new(Observed {
                node: String::new(),
                cluster: String::new(),
                identity: None,
                history: None,
                traces: None,
                counters: None,
                sessions: None,
            })
        })
    }

    /// With a page for browsers beside it.
    #[must_use]
    pub fn with_page(self, page: Page) -> Api {
        let page = Some(page);
        Api { page, ..self }
    }

    pub(crate) fn page(&self) -> Option<Page> {
        self.page
    }

    pub(crate) fn known_tokens(&self) -> &Known {
        &self.shared.known
    }

    pub(crate) fn still(&self) -> &Still {
        &self.shared.still
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.shared.answers
    }

    /// What changes from now on.
    ///
    /// # Errors
    /// The metadata cannot be watched.
    pub(crate) async fn listen(&self) -> Result<Receiver<Arc<Moment>>, Problem> {
        let api = self.clone();
        wait(&self.shared.work, move || api.shared.hub.listen()).await
    }

    /// Asks the metadata in the node's own name, on a thread that may wait.
    ///
    /// # Errors
    /// Too many ask; or what `work` says.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Transact) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let api = self.clone();
        wait(&self.shared.work, move || {
            api.keep_up();
            work(&api.meta)
        })
        .await
    }

    /// The same for somebody of whom nothing is known yet: those do not keep others waiting.
    ///
    /// # Errors
    /// Too many ask; or what `work` says.
    pub(crate) async fn check<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Transact) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let meta = self.meta.clone();
        wait(&self.shared.checks, move || work(&meta)).await
    }

    /// A session of theirs. The log of what was done is not filled by what they may not.
    pub(crate) fn session(&self, caller: Caller) -> Result<Asking, Problem> {
        let tells = self.tells_refusals(&caller.who().name);
        Ok(Session::open_telling(self.meta.clone(), caller, tells)?)
    }

    /// A session of a mirror's other end, and that mirror as it is.
    ///
    /// # Errors
    /// They are not the other end of that mirror; or it is gone.
    pub(crate) fn end_session(&self, caller: Caller, id: MirrorId) -> Result<(Asking, Mirror), Problem> {
        let tells = self.tells_refusals(&caller.who().name);
        let own = caller.mirror();
        let session = Session::open_end(self.meta.clone(), caller, tells, &id.to_string())?;
        if own != Some(id) {
            return Err(crate::who::not_own());
        }
        let found = match admin::mirror_by_id(&session.reader(), id) {
            // What else there is is nothing for the other end of this one.
            Err(AdminError::NoSuch { .. }) => {
                let why = format!("this cluster has no end of mirror {id}: it was removed");
                return Err(Problem::new(Code::NotFound, why));
            }
            found => found?,
        };
        Ok((session, found))
    }

    /// Is what they may not told in the log?
    fn tells_refusals(&self, name: &str) -> bool {
        let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.has_one(name, Instant::now())
    }

    /// Something was refused to them.
    fn refused(&self, name: &str) {
        let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = refusals.take(name, Instant::now());
    }

    /// Takes away what was kept for a time which is over: now and then, by whoever comes.
    fn keep_up(&self) {
        {
            let mut last = self.shared.kept_up.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| last.elapsed() < UPKEEP) {
                return;
            }
            *last = Some(Instant::now());
        }
        if let Err(why) = admin::end_tokens(&self.meta, crate::who::now()) {
            log::warn!("tokens of the API that have ended stay for now: {why}");
        }
        if let Err(why) = crate::repeat::trim(&self.meta) {
            log::warn!("old answers of the API stay for now: {why}");
        }
    }

    /// Does something as whoever asks, on a thread that may wait.
    ///
    /// # Errors
    /// They may not look at the cluster; or what `work` says.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        asker: Asker,
        work: impl FnOnce(&Asking) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let api = self.clone();
        wait(&self.shared.work, move || {
            let name = asker.0.who().name.clone();
            let done = api.session(asker.0).and_then(|session| work(&session));
            if done.as_ref().is_err_and(|problem| problem.code == Code::Denied.text()) {
                api.refused(&name);
            }
            done
        })
        .await
    }

    /// Does something as a mirror's other end, to that mirror, on a thread that may wait.
    ///
    /// # Errors
    /// They are not the other end of that mirror; or what `work` says.
    pub(crate) async fn run_end<T: Send + 'static>(
        &self,
        asker: Asker,
        id: MirrorId,
        work: impl FnOnce(&Asking, Mirror) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let api = self.clone();
        wait(&self.shared.work, move || {
            let name = asker.0.who().name.clone();
            let session = api.end_session(asker.0, id);
            let done = session.and_then(|(session, mirror)| work(&session, mirror));
            if done.as_ref().is_err_and(|problem| problem.code == Code::Denied.text()) {
                api.refused(&name);
            }
            done
        })
        .await
    }

    /// The same with the data of volumes: those who ask for no more than the metadata do not wait for it.
    ///
    /// # Errors
    /// This node has no way to the data, or too many ask; else as [`Api::run`].
    pub(crate) async fn run_on_data<T: Send + 'static>(
        &self,
        asker: Asker,
        work: impl FnOnce(&Asking, &dyn DataPath) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (api, data) = (self.clone(), self.data()?);
        wait(&self.shared.gateways, move || {
            let session = api.session(asker.0)?;
            work(&session, &*data)
        })
        .await
    }

    /// The same with what a repository has: no volume waits for that.
    ///
    /// # Errors
    /// As [`Api::run_on_data`].
    pub(crate) async fn run_on_repository<T: Send + 'static>(
        &self,
        asker: Asker,
        work: impl FnOnce(&dyn DataPath) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (api, data) = (self.clone(), self.data()?);
        wait(&self.shared.vaults, move || {
            let _ = api.session(asker.0)?;
            work(&*data)
        })
        .await
    }

    /// The same, where something is changed: it is in the audit log, before and after.
    ///
    /// # Errors
    /// They may not; the metadata is away; or what `work` says.
    pub(crate) async fn act<T: Send + 'static>(
        &self,
        asker: Asker,
        action: Action,
        object: String,
        work: impl FnOnce(&dyn Transact) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.run(asker, move |session| Ok(session.act(action, &object, work)?))
            .await
    }
}

/// A place in that room, as soon as there is one.
///
/// # Errors
/// There was none for [`LONGEST_QUEUE`].
async fn place(room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    match tokio::time::timeout(LONGEST_QUEUE, Arc::clone(room).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => {
            let why = "this node answers as many requests as it can; ask again in a moment, or another node";
            Err(Problem::new(Code::TooMany, why))
        }
    }
}

/// Does what waits, on a thread of its own. What is done goes on when nobody waits for it any more.
async fn wait<T: Send + 'static>(
    room: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let permit = place(room).await?;
    let task = carry(move || {
        let _permit = permit;
        work()
    });
    task.await.unwrap_or_else(|why| Err(panicked(&why)))
}

pub(crate) fn panicked(why: &tokio::task::JoinError) -> Problem {
    log::error!("a request of the API ended in a panic: {why}");
    Problem::new(Code::Internal, "this node could not answer; its log says more")
}

/// Whoever asks. The connection has found out who that is, and says so by an extension of the request.
#[derive(Clone, Debug)]
pub struct Asker(pub Caller);

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asker, Problem> {
        parts.extensions.get::<Asker>().cloned().ok_or_else(crate::who::nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_place_waits_for_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let room = Arc::new(Semaphore::new(1));
            let held = place(&room).await.expect("a place");
            let also = Arc::clone(&room);
            let waits = tokio::spawn(async move { place(&also).await.is_ok() });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished(), "it is not sent away");
            drop(held);
            assert!(waits.await.expect("no panic"));
            room.close();
            assert_eq!(place(&room).await.expect_err("no place").code, Code::TooMany.text());
        });
    }
}
