//! gRPC: which method does what. Whatever a peer sends is checked and answered with etcd's words.

use super::access::{self, Peer, Touch};
use super::door::Guest;
use super::engine::{EngineRequest, Failure, LeaseFacts, Told, WatchEvent, Whose};
use super::grpc::{Answers, holding, status_of, streaming, unary};
use super::queue::{Ended, Queue};
use super::refusals::Refusals;
use super::shares::{Good, Hold, Holder, Share};
use super::unsent::{Held, Sending, Unsent};
use crate::call::{Batch, Call, LeaseId, OpReply, Reply};
use crate::wire::convert::{self, Span, header, signed};
use crate::wire::{self, path, words};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::{Status, Streaming};

/// A request that is not whole and answered after this is given up, so that nobody holds a place for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The most watches of one stream: etcdctl and our client use one.
const MAX_WATCHES_PER_STREAM: usize = 64;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// etcd's number of the alarm NOSPACE.
const NO_SPACE_ALARM: i32 = 1;

/// Serves one connection's requests.
#[derive(Clone)]
pub(super) struct Service {
    engine: Queue,
    holder: Arc<Holder>,
    peer: Arc<Option<Peer>>,
    source: IpAddr,
    refusals: Option<Refusals>,
    /// What this connection's peer has not taken yet.
    unsent: Unsent,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.route(request).await) })
    }
}

impl Service {
    pub(super) fn new(
        engine: Queue,
        holder: Arc<Holder>,
        guest: &Guest,
        refusals: Option<Refusals>,
        unsent: Unsent,
    ) -> Service {
        Service {
            engine,
            holder,
            peer: Arc::new(guest.peer.clone()),
            source: guest.source,
            refusals,
            unsent,
        }
    }

    fn check(&self, touch: Touch<'_>, asked: &'static str) -> Result<(), Status> {
        self.permitted(access::may((*self.peer).as_ref(), touch), None, asked)
    }

    /// Who may not is refused, and told of.
    fn permitted(&self, may: bool, call: Option<&Call>, asked: &'static str) -> Result<(), Status> {
        if may {
            return Ok(());
        }
        if let (Some(refusals), Some(peer)) = (&self.refusals, &*self.peer) {
            refusals.tell(peer, self.source, call, asked);
        }
        Err(Status::permission_denied(words::PERMISSION_DENIED))
    }

    fn whose(&self) -> Whose {
        Whose {
            holder: Arc::clone(&self.holder),
            also_others: access::may((*self.peer).as_ref(), Touch::ForeignLeases),
        }
    }

    async fn route(self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        let good = match path {
            path::LEASE_KEEP_ALIVE => Good::Renewals,
            path::WATCH => Good::Streams,
            _ => Good::Calls,
        };
        let Some(place) = self.holder.take(good, 1).map(Arc::new) else {
            return Status::resource_exhausted(words::TOO_MANY_REQUESTS).into_http();
        };
        // Who writes does so beside his watches: one that he is slow to read must not have a write's outcome unknown.
        let unsent = match good {
            Good::Streams | Good::Renewals if !self.holder.only_reads() => Unsent::default(),
            _ => self.unsent.clone(),
        };
        let mut response = match path {
            path::LEASE_KEEP_ALIVE => {
                let asking = self.asking(Hold::Stream(Arc::clone(&place)));
                streaming(request, move |messages, answers| asking.keep_alive(messages, answers)).await
            }
            path::WATCH => {
                let place = Arc::clone(&place);
                streaming(request, move |messages, answers| self.watch(messages, answers, place)).await
            }
            _ => {
                let work = async {
                    let place = Arc::new(self.holder.place().await);
                    self.asking(Hold::Place(place)).route_unary(request).await
                };
                match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
                    Ok(response) => response,
                    Err(_) => Status::deadline_exceeded("the request was not whole in time").into_http(),
                }
            }
        };
        let held = response.extensions_mut().remove::<Held>().unwrap_or_default();
        response.map(|body| Body::new(Sending::new(body, held, place, unsent)))
    }

    fn asking(&self, hold: Hold) -> Asking {
        Asking {
            service: self.clone(),
            hold,
        }
    }

    /// One stream of watches: each gets a task that passes its changes on; all of them end with the stream.
    async fn watch(
        self,
        mut messages: Streaming<wire::WatchRequest>,
        answers: Answers<wire::WatchResponse>,
        _place: Arc<Share>,
    ) {
        let mut watches: Vec<(i64, oneshot::Sender<()>)> = Vec::new();
        let mut next_id = 0;
        loop {
            let message = tokio::select! {
                message = messages.message() => message,
                () = answers.closed() => return,
            };
            let Ok(Some(request)) = message else { break };
            watches.retain(|(_, cancel)| !cancel.is_closed());
            match request.request_union {
                Some(wire::WatchUnion::Create(create)) => {
                    let full = watches.len() >= MAX_WATCHES_PER_STREAM;
                    let is_taken = |id| watches.iter().any(|(own, _)| *own == id);
                    let id = watch_id(create.watch_id, &mut next_id, is_taken);
                    let taken = is_taken(id);
                    match if full || taken {
                        Err(Status::resource_exhausted("no place for that watch"))
                    } else {
                        let place = tokio::select! {
                            place = self.holder.place() => place,
                            () = answers.closed() => return,
                        };
                        self.asking(Hold::Place(Arc::new(place))).open(create).await
                    } {
                        Ok((revision, told)) => {
                            let response = wire::WatchResponse {
                                header: header(revision),
                                watch_id: id,
                                created: true,
                                ..Default::default()
                            };
                            if answers.send((Ok(response), None)).await.is_err() {
                                return;
                            }
                            let (cancel, cancelled) = oneshot::channel();
                            tokio::spawn(pass_on(id, told, answers.clone(), cancelled));
                            watches.push((id, cancel));
                        }
                        Err(status) => {
                            let response = wire::WatchResponse {
                                header: header(1),
                                watch_id: -1,
                                created: true,
                                canceled: true,
                                cancel_reason: status.message().to_owned(),
                                ..Default::default()
                            };
                            if answers.send((Ok(response), None)).await.is_err() {
                                return;
                            }
                        }
                    }
                }
                Some(wire::WatchUnion::Cancel(cancel)) => {
                    let known = watches.iter().any(|(id, _)| *id == cancel.watch_id);
                    watches.retain(|(id, _)| *id != cancel.watch_id);
                    let response = wire::WatchResponse {
                        header: header(1),
                        watch_id: cancel.watch_id,
                        canceled: true,
                        ..Default::default()
                    };
                    if known && answers.send((Ok(response), None)).await.is_err() {
                        return;
                    }
                }
                Some(wire::WatchUnion::Progress(_)) | None => {}
            }
        }
        // The peer asks for nothing more; it still listens until it goes away.
        answers.closed().await;
    }
}

/// A request that may ask the engine.
struct Asking {
    service: Service,
    /// What it holds meanwhile.
    hold: Hold,
}

impl Deref for Asking {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Asking {
    async fn route_unary(self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            path::RANGE => holding(request, move |message| self.range(message)).await,
            path::PUT => unary(request, move |message| self.put(message)).await,
            path::DELETE_RANGE => unary(request, move |message| self.delete_range(message)).await,
            path::TXN => holding(request, move |message| self.txn(message)).await,
            path::COMPACT => unary(request, move |message| self.compact(message)).await,
            path::LEASE_GRANT => unary(request, move |message| self.lease_grant(message)).await,
            path::LEASE_REVOKE => unary(request, move |message| self.lease_revoke(message)).await,
            path::LEASE_TIME_TO_LIVE => unary(request, move |message| self.lease_time_to_live(message)).await,
            path::LEASE_LEASES => unary(request, move |message| self.lease_leases(message)).await,
            path::ALARM => unary(request, move |message| self.alarm(message)).await,
            path::STATUS => unary(request, move |message| self.status(message)).await,
            other => Status::unimplemented(format!("{other} is not served here: this is Amita's embedded server"))
                .into_http(),
        }
    }

    /// Asks the engine and waits for its answer.
    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<(u64, T), Failure>>) -> EngineRequest,
    ) -> Result<(u64, T), Status> {
        let (sender, answer) = oneshot::channel();
        let stopped = || Status::unavailable("etcdserver: server stopped");
        let put = self.engine.put(ask(sender), self.hold.clone());
        put.map_err(|Ended| stopped())?;
        let result = answer.await.map_err(|_| stopped())?;
        result.map_err(|failure| status_of(&failure))
    }

    async fn carry_out(&self, call: Call) -> Result<(Reply, Share), Status> {
        let asked = if call.is_read_only() { "a read" } else { "a change" };
        self.permitted(access::may_call((*self.peer).as_ref(), &call), Some(&call), asked)?;
        let holder = Arc::clone(&self.holder);
        // The reply carries the revision of its own moment: the newest may be a later one of the same commit.
        self.ask(|answer| EngineRequest::Txn { call, holder, answer })
            .await
            .map(|(_, reply)| reply)
    }

    async fn range(self, request: wire::RangeRequest) -> Result<(wire::RangeResponse, Option<Share>), Status> {
        let served = wire::RangeRequest {
            limit: request.limit,
            keys_only: request.keys_only,
            count_only: request.count_only,
            // Keys come in ascending order, which is what the orders 0 and 1 by key ask for.
            sort_order: if request.sort_target == 0 {
                request.sort_order.clamp(0, 1)
            } else {
                0
            },
            ..convert::plain_range(&request)
        };
        if request != served {
            return Err(Status::unimplemented(
                "revisions of the past and other orders are not served",
            ));
        }
        let op = convert::range_op(&request).map_err(Status::invalid_argument)?;
        let (reply, share) = self
            .carry_out(Call {
                then: vec![op],
                ..Call::default()
            })
            .await?;
        let values = reply.values(0);
        let limit = usize::try_from(request.limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX);
        let mut kvs: Vec<wire::KeyValue> = Vec::new();
        if !request.count_only {
            kvs.extend(values.iter().take(limit).map(wire::KeyValue::from));
        }
        if request.keys_only {
            kvs.iter_mut().for_each(|value| value.value = Bytes::new());
        }
        let more = values.len() > limit && !request.count_only;
        let response = wire::RangeResponse {
            header: header(reply.revision),
            kvs,
            more,
            count: signed(values.len() as u64),
        };
        Ok((response, Some(share)))
    }

    async fn put(self, request: wire::PutRequest) -> Result<wire::PutResponse, Status> {
        let op = convert::put_op(request).map_err(Status::unimplemented)?;
        let (reply, _) = self
            .carry_out(Call {
                then: vec![op],
                ..Call::default()
            })
            .await?;
        Ok(wire::PutResponse {
            header: header(reply.revision),
        })
    }

    async fn delete_range(self, request: wire::DeleteRangeRequest) -> Result<wire::DeleteRangeResponse, Status> {
        let op = convert::delete_op(&request).map_err(Status::unimplemented)?;
        let (reply, _) = self
            .carry_out(Call {
                then: vec![op],
                ..Call::default()
            })
            .await?;
        let deleted = if let Some(OpReply::Deleted(deleted)) = reply.results.first() {
            *deleted
        } else {
            0
        };
        Ok(wire::DeleteRangeResponse {
            header: header(reply.revision),
            deleted: signed(deleted),
        })
    }

    async fn txn(self, request: wire::TxnRequest) -> Result<(wire::TxnResponse, Option<Share>), Status> {
        let call = Call::try_from(request).map_err(Status::unimplemented)?;
        let (reply, share) = self.carry_out(call).await?;
        Ok((wire::TxnResponse::from(&reply), Some(share)))
    }

    async fn compact(self, request: wire::CompactionRequest) -> Result<wire::CompactionResponse, Status> {
        self.check(Touch::Upkeep, "a compaction of the history")?;
        let revision = convert::unsigned(request.revision, "revision").map_err(Status::invalid_argument)?;
        let (revision, ()) = self.ask(|answer| EngineRequest::Compact(revision, answer)).await?;
        Ok(wire::CompactionResponse {
            header: header(revision),
        })
    }

    async fn lease_grant(self, request: wire::LeaseGrantRequest) -> Result<wire::LeaseGrantResponse, Status> {
        self.check(Touch::Leases, "a lease")?;
        let ttl_s = convert::unsigned(request.ttl, "TTL").map_err(Status::invalid_argument)?;
        let id = convert::lease(request.id);
        let holder = Arc::clone(&self.holder);
        let grant = |answer| EngineRequest::Grant {
            id,
            ttl_s,
            holder,
            answer,
        };
        let (revision, id) = self.ask(grant).await?;
        Ok(wire::LeaseGrantResponse {
            header: header(revision),
            id: id.0,
            ttl: signed(ttl_s),
            error: String::new(),
        })
    }

    async fn lease_revoke(self, request: wire::LeaseRevokeRequest) -> Result<wire::LeaseRevokeResponse, Status> {
        self.check(Touch::Leases, "a lease's end")?;
        let (revision, ()) = self
            .ask(|answer| EngineRequest::Revoke(LeaseId(request.id), self.whose(), answer))
            .await?;
        Ok(wire::LeaseRevokeResponse {
            header: header(revision),
        })
    }

    async fn lease_time_to_live(
        self,
        request: wire::LeaseTimeToLiveRequest,
    ) -> Result<wire::LeaseTimeToLiveResponse, Status> {
        let id = request.id;
        let asked = self.ask(|answer| EngineRequest::TimeToLive(LeaseId(id), answer)).await;
        let (revision, facts) = match asked {
            Err(status) if status.message() == words::LEASE_NOT_FOUND => {
                return Ok(wire::LeaseTimeToLiveResponse {
                    header: header(1),
                    id,
                    ttl: -1,
                    ..Default::default()
                });
            }
            asked => asked?,
        };
        let LeaseFacts { ttl_s, left_s, keys } = facts;
        let keys = if request.keys {
            keys.into_iter().map(String::into_bytes).collect()
        } else {
            Vec::new()
        };
        let (ttl, granted_ttl) = (signed(left_s), signed(ttl_s));
        Ok(wire::LeaseTimeToLiveResponse {
            header: header(revision),
            id,
            ttl,
            granted_ttl,
            keys,
        })
    }

    async fn lease_leases(self, _: wire::LeaseLeasesRequest) -> Result<wire::LeaseLeasesResponse, Status> {
        let (revision, leases) = self.ask(EngineRequest::Leases).await?;
        let leases = leases.into_iter().map(|id| wire::LeaseStatus { id: id.0 }).collect();
        Ok(wire::LeaseLeasesResponse {
            header: header(revision),
            leases,
        })
    }

    async fn status(self, _: wire::StatusRequest) -> Result<wire::StatusResponse, Status> {
        let (revision, sizes) = self.ask(EngineRequest::Sizes).await?;
        let size = |bytes: usize| signed(bytes as u64);
        Ok(wire::StatusResponse {
            header: header(revision),
            version: format!("3.4.0+amita.{}", env!("CARGO_PKG_VERSION")),
            leader: 1,
            raft_index: revision,
            raft_term: 1,
            db_size: size(sizes.keys_bytes + sizes.history_bytes),
            db_size_in_use: size(sizes.keys_bytes),
            errors: sizes.no_space.then(|| "alarm:NOSPACE".to_owned()).into_iter().collect(),
        })
    }

    /// Lists the alarm, if there is one. It ends by itself when there is room, so that there is nothing to lift.
    async fn alarm(self, request: wire::AlarmRequest) -> Result<wire::AlarmResponse, Status> {
        const RAISE: i32 = 1;
        self.check(Touch::Upkeep, "the alarms")?;
        if request.action == RAISE {
            return Err(Status::unimplemented("alarms are raised by the server alone"));
        }
        let (revision, sizes) = self.ask(EngineRequest::Sizes).await?;
        let alarm = wire::AlarmMember {
            member_id: 1,
            alarm: NO_SPACE_ALARM,
        };
        Ok(wire::AlarmResponse {
            header: header(revision),
            alarms: sizes.no_space.then_some(alarm).into_iter().collect(),
        })
    }

    async fn keep_alive(
        self,
        mut messages: Streaming<wire::LeaseKeepAliveRequest>,
        answers: Answers<wire::LeaseKeepAliveResponse>,
    ) {
        while let Ok(Some(request)) = messages.message().await {
            let asked = match self.check(Touch::Leases, "a lease's renewal") {
                Ok(()) => {
                    self.ask(|answer| EngineRequest::KeepAlive(LeaseId(request.id), self.whose(), answer))
                        .await
                }
                Err(status) => Err(status),
            };
            let response = match asked {
                Ok((revision, ttl_s)) => Ok((revision, signed(ttl_s))),
                Err(status) if status.message() == words::LEASE_NOT_FOUND => Ok((1, 0)),
                Err(status) => Err(status),
            };
            let failed = response.is_err();
            let response = response.map(|(revision, ttl)| wire::LeaseKeepAliveResponse {
                header: header(revision),
                id: request.id,
                ttl,
            });
            if answers.send((response, None)).await.is_err() || failed {
                return;
            }
        }
    }

    async fn open(&self, create: wire::WatchCreateRequest) -> Result<(u64, Told), Status> {
        if create.prev_kv || !create.filters.is_empty() {
            return Err(Status::unimplemented("prev_kv and filters of watches are not served"));
        }
        let span = Span::parse(&create.key, &create.range_end).map_err(Status::invalid_argument)?;
        self.permitted(access::may_watch((*self.peer).as_ref(), &span), None, "a watch")?;
        let holder = Arc::clone(&self.holder);
        let from_revision =
            convert::unsigned(create.start_revision, "start_revision").map_err(Status::invalid_argument)?;
        self.ask(|answer| EngineRequest::Watch {
            span,
            from_revision,
            holder,
            answer,
        })
        .await
    }
}

async fn pass_on(
    watch_id: i64,
    mut told: Told,
    answers: Answers<wire::WatchResponse>,
    mut cancelled: oneshot::Receiver<()>,
) {
    loop {
        let told = tokio::select! {
            told = told.next() => told,
            _ = &mut cancelled => return,
            () = answers.closed() => return,
        };
        let (response, share, last) = match told {
            Some(WatchEvent::Changes(newest, Batch { events, .. }, share)) => {
                let events = events.iter().map(wire::Event::from).collect();
                (
                    wire::WatchResponse {
                        header: header(newest),
                        watch_id,
                        events,
                        ..Default::default()
                    },
                    Some(share),
                    false,
                )
            }
            Some(WatchEvent::Compacted(compacted)) => {
                let response = wire::WatchResponse {
                    header: header(compacted),
                    watch_id,
                    canceled: true,
                    compact_revision: signed(compacted),
                    cancel_reason: words::COMPACTED.to_owned(),
                    ..Default::default()
                };
                (response, None, true)
            }
            None => {
                // The file was opened anew, or the engine has ended: the stream breaks, and the client asks anew where it was.
                let status = Status::unavailable("etcdserver: the watch was broken off");
                let _ = answers.send((Err(status), None)).await;
                return;
            }
        };
        if answers.send((Ok(response), share)).await.is_err() || last {
            return;
        }
    }
}

/// The number of a watch: the one that the peer wishes, or the next that none has.
fn watch_id(wished: i64, next: &mut i64, is_taken: impl Fn(i64) -> bool) -> i64 {
    if wished > 0 {
        return wished;
    }
    while is_taken(*next) {
        *next += 1;
    }
    let id = *next;
    *next += 1;
    id
}

#[cfg(test)]
mod tests;
