//! What tonic wants methods to look like, and etcd's words for what goes wrong.

use super::MAX_REQUEST_BYTES;
use super::engine::Failure;
use super::scan::Inbound;
use super::shares::Share;
use super::unsent::Held;
use crate::error::Refusal;
use crate::wire::words;
use bytes::Buf;
use http::{Request, Response};
use hyper::body::Incoming;
use std::future::Future;
use std::marker::PhantomData;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status, Streaming};

/// The most bytes of an answer: everything that the server holds.
const MAX_ANSWER_BYTES: usize = 1024 * 1024 * 1024;
/// The most bytes of one message of a stream: a watch's two keys (the longest of Amita's have below 1 KiB), a lease's number. One
/// that is begun may stay so for as long as its stream; how many streams there are is bounded.
const MAX_STREAM_MESSAGE_BYTES: usize = 4 * 1024;
/// What is made ready for a stream before anything has come, or is answered.
const STREAM_BUFFER_BYTES: usize = 1024;
/// Answers of a stream that are sent together.
const STREAM_YIELD_BYTES: usize = 32 * 1024;
/// Responses that wait on one stream.
const STREAM_QUEUE: usize = 4;

/// Where a method of streams puts its answers.
pub(super) type Answers<T> = mpsc::Sender<(Result<T, Status>, Option<Share>)>;

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
        Failure::TooManyBytes => return Status::resource_exhausted(words::TOO_MANY_BYTES),
        Failure::TooManyLeases(leases) => {
            let message = format!("etcdserver: you hold {leases} leases, and may not hold more: revoke some");
            return Status::resource_exhausted(message);
        }
        Failure::Denied => return Status::permission_denied(words::PERMISSION_DENIED),
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

/// Counts the parts of what comes in before it is decoded, and makes room for what goes out at once.
struct Codec<M1, M2> {
    buffers: BufferSettings,
    messages: PhantomData<(M1, M2)>,
}

impl<M1, M2> tonic::codec::Codec for Codec<M1, M2>
where
    M1: Inbound + Send + 'static,
    M2: prost::Message + Send + 'static,
{
    type Encode = M2;
    type Decode = M1;
    type Encoder = Coder<M2>;
    type Decoder = Coder<M1>;

    fn encoder(&mut self) -> Coder<M2> {
        Coder(self.buffers, PhantomData)
    }

    fn decoder(&mut self) -> Coder<M1> {
        Coder(self.buffers, PhantomData)
    }
}

struct Coder<M>(BufferSettings, PhantomData<M>);

impl<M: prost::Message> Encoder for Coder<M> {
    type Item = M;
    type Error = Status;

    fn encode(&mut self, item: M, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.reserve(item.encoded_len());
        item.encode(dst).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0
    }
}

impl<M: Inbound> Decoder for Coder<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        if src.chunk().len() != src.remaining() {
            return Err(Status::internal("a message in parts"));
        }
        M::scan(src.chunk())?;
        M::decode(src)
            .map(Some)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0
    }
}

fn codec<M1, M2>(most_bytes: usize, buffers: BufferSettings) -> tonic::server::Grpc<Codec<M1, M2>>
where
    M1: Inbound + Send + 'static,
    M2: prost::Message + Send + 'static,
{
    let messages = PhantomData;
    tonic::server::Grpc::new(Codec { buffers, messages })
        .max_decoding_message_size(most_bytes)
        .max_encoding_message_size(MAX_ANSWER_BYTES)
}

/// A method with one request and one answer.
pub(super) async fn unary<M1, M2, R>(request: Request<Incoming>, work: impl FnOnce(M1) -> R) -> Response<Body>
where
    M1: Inbound + Send + 'static,
    M2: prost::Message + Send + 'static,
    R: Future<Output = Result<M2, Status>>,
{
    holding(request, |message| {
        let work = work(message);
        async move { work.await.map(|answer| (answer, None)) }
    })
    .await
}

/// The same, with what the answer holds until it has been sent.
pub(super) async fn holding<M1, M2, R>(request: Request<Incoming>, work: impl FnOnce(M1) -> R) -> Response<Body>
where
    M1: Inbound + Send + 'static,
    M2: prost::Message + Send + 'static,
    R: Future<Output = Result<(M2, Option<Share>), Status>>,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<M1>| {
        let work = work.take().expect("one request, one call");
        let result = work(request.into_inner());
        async move {
            let (answer, share) = result.await?;
            let (mut response, held) = (tonic::Response::new(answer), Held::default());
            held.add(share);
            response.extensions_mut().insert(held);
            Ok(response)
        }
    });
    codec::<M1, M2>(MAX_REQUEST_BYTES, BufferSettings::default())
        .unary(method, request)
        .await
}

/// A method of two streams: `work` reads the one and writes the other, on a task of its own.
pub(super) async fn streaming<M1, M2, R>(
    request: Request<Incoming>,
    work: impl FnOnce(Streaming<M1>, Answers<M2>) -> R + Send,
) -> Response<Body>
where
    M1: Inbound + Send + 'static,
    M2: prost::Message + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<Streaming<M1>>| {
        let work = work.take().expect("one request, one call");
        let (answers, stream) = mpsc::channel(STREAM_QUEUE);
        tokio::spawn(work(request.into_inner(), answers));
        let held = Held::default();
        let holds = held.clone();
        let stream = ReceiverStream::new(stream).map(move |(answer, share)| {
            holds.add(share);
            answer
        });
        let mut response = tonic::Response::new(stream);
        response.extensions_mut().insert(held);
        async move { Ok(response) }
    });
    let buffers = BufferSettings::new(STREAM_BUFFER_BYTES, STREAM_YIELD_BYTES);
    codec::<M1, M2>(MAX_STREAM_MESSAGE_BYTES, buffers)
        .streaming(method, request)
        .await
}
