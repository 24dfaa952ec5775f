//! What tonic wants methods to look like, and etcd's words for what goes wrong.

use super::MAX_REQUEST_BYTES;
use super::engine::Failure;
use crate::error::Refusal;
use crate::wire::words;
use http::{Request, Response};
use hyper::body::Incoming;
use std::future::Future;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

/// The most bytes of an answer: everything that the server holds.
const MAX_ANSWER_BYTES: usize = 1024 * 1024 * 1024;
/// The most bytes of one message of a stream (a watch's key, a lease's number).
const MAX_STREAM_MESSAGE_BYTES: usize = 64 * 1024;
/// Responses that wait on one stream.
const STREAM_QUEUE: usize = 16;

/// Where a method of streams puts its answers.
pub(super) type Answers<T> = mpsc::Sender<Result<T, Status>>;

/// Whatever the engine says, in etcd's words.
pub(super) fn status_of(failure: &Failure) -> Status {
    let refusal = match failure {
        Failure::Refused(refusal) => refusal,
        Failure::CommitFailed(what) => {
            return Status::unknown(format!("the metadata file could not be written: {what}"));
        }
        Failure::Poisoned(what) => {
            let message = format!(
                "an earlier write of the metadata file failed ({what}); it is opened anew as soon as it can be"
            );
            return Status::unavailable(message);
        }
        Failure::NoSpace => return Status::resource_exhausted(words::NO_SPACE),
        Failure::TooManyWatches => return Status::resource_exhausted("etcdserver: too many watches"),
    };
    let (code, message) = match refusal {
        Refusal::Compacted { .. } => (Code::OutOfRange, words::COMPACTED.to_owned()),
        Refusal::FutureRevision { .. } => (Code::OutOfRange, words::FUTURE.to_owned()),
        Refusal::LeaseNotFound(_) => (Code::NotFound, words::LEASE_NOT_FOUND.to_owned()),
        Refusal::LeaseExists(_) => (Code::FailedPrecondition, words::LEASE_EXISTS.to_owned()),
        Refusal::BadTtl { .. } => (Code::OutOfRange, words::LEASE_TTL.to_owned()),
        Refusal::TooManyLeases { .. } => (Code::ResourceExhausted, refusal.to_string()),
        Refusal::DuplicateKey { .. } => (Code::InvalidArgument, words::DUPLICATE_KEY.to_owned()),
        Refusal::EmptyKey => (Code::InvalidArgument, words::EMPTY_KEY.to_owned()),
        Refusal::TooManyOps { .. } => (Code::InvalidArgument, words::TOO_MANY_OPS.to_owned()),
        Refusal::TooLarge { .. } => (Code::InvalidArgument, words::TOO_LARGE.to_owned()),
        Refusal::BadRecord { .. } | Refusal::Server { .. } | Refusal::WentBack { .. } => {
            (Code::FailedPrecondition, refusal.to_string())
        }
    };
    Status::new(code, message)
}

/// Adapts a function to the method shape that tonic drives.
struct Method<F>(F);

impl<F, R, M1, M2> tower_service::Service<tonic::Request<M1>> for Method<F>
where
    F: FnMut(tonic::Request<M1>) -> R,
    R: Future<Output = Result<tonic::Response<M2>, Status>>,
{
    type Response = tonic::Response<M2>;
    type Error = Status;
    type Future = R;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<M1>) -> R {
        (self.0)(request)
    }
}

fn codec<M1, M2>(most_bytes: usize) -> tonic::server::Grpc<ProstCodec<M2, M1>>
where
    M1: prost::Message + Default + 'static,
    M2: prost::Message + Default + 'static,
{
    tonic::server::Grpc::new(ProstCodec::<M2, M1>::new())
        .max_decoding_message_size(most_bytes)
        .max_encoding_message_size(MAX_ANSWER_BYTES)
}

/// A method with one request and one answer.
pub(super) async fn unary<M1, M2, R>(request: Request<Incoming>, work: impl FnOnce(M1) -> R) -> Response<Body>
where
    M1: prost::Message + Default + 'static,
    M2: prost::Message + Default + 'static,
    R: Future<Output = Result<M2, Status>>,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<M1>| {
        let work = work.take().expect("one request, one call");
        let result = work(request.into_inner());
        async move { result.await.map(tonic::Response::new) }
    });
    codec::<M1, M2>(MAX_REQUEST_BYTES).unary(method, request).await
}

/// A method of two streams: `work` reads the one and writes the other, on a task of its own.
pub(super) async fn streaming<M1, M2, R>(
    request: Request<Incoming>,
    work: impl FnOnce(Streaming<M1>, Answers<M2>) -> R + Send,
) -> Response<Body>
where
    M1: prost::Message + Default + 'static,
    M2: prost::Message + Default + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<Streaming<M1>>| {
        let work = work.take().expect("one request, one call");
        let (answers, stream) = mpsc::channel(STREAM_QUEUE);
        tokio::spawn(work(request.into_inner(), answers));
        async move { Ok(tonic::Response::new(ReceiverStream::new(stream))) }
    });
    codec::<M1, M2>(MAX_STREAM_MESSAGE_BYTES)
        .streaming(method, request)
        .await
}
