//! What tonic wants methods to look like.

use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;

/// The most bytes of a request.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// Answers of a stream that wait for their reader.
const STREAM_QUEUE: usize = 4;

/// Adapts a function to the method shape that tonic drives.
struct Method<F>(F);

impl<F, R, M1, A> tower_service::Service<tonic::Request<M1>> for Method<F>
where
    F: FnMut(tonic::Request<M1>) -> R,
    R: Future<Output = Result<tonic::Response<A>, Status>>,
{
    type Response = tonic::Response<A>;
    type Error = Status;
    type Future = R;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<M1>) -> R {
        (self.0)(request)
    }
}

fn codec<M1, M2>() -> tonic::server::Grpc<ProstCodec<M2, M1>>
where
    M1: Message + Default + Send + 'static,
    M2: Message + Default + Send + 'static,
{
    tonic::server::Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_REQUEST_BYTES)
}

/// A method with one request and one answer. It is carried to its end, also where whoever has asked is gone: a call that is cut off in the middle
/// of what it does would be repeated beside itself.
pub async fn unary<M1, M2, R>(request: Request<Incoming>, work: impl FnOnce(M1) -> R) -> Response<Body>
where
    M1: Message + Default + Send + 'static,
    M2: Message + Default + Send + 'static,
    R: Future<Output = Result<M2, Status>> + Send + 'static,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<M1>| {
        let work = work.take().expect("one request, one call");
        let done = tokio::spawn(work(request.into_inner()));
        async move {
            let done = done
                .await
                .map_err(|_| Status::internal("the call has failed within the driver"))?;
            done.map(tonic::Response::new)
        }
    });
    codec::<M1, M2>().unary(method, request).await
}

/// Where a method puts the answers of its stream.
pub type Answers<T> = mpsc::Sender<Result<T, Status>>;

/// A method with one request and a stream of answers: `work` ends with what has gone wrong.
pub async fn streamed<M1, M2, R>(request: Request<Incoming>, work: impl FnOnce(M1, Answers<M2>) -> R) -> Response<Body>
where
    M1: Message + Default + Send + 'static,
    M2: Message + Default + Send + 'static,
    R: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut work = Some(work);
    let method = Method(move |request: tonic::Request<M1>| {
        let work = work.take().expect("one request, one call");
        let (answers, stream) = mpsc::channel(STREAM_QUEUE);
        let done = work(request.into_inner(), answers.clone());
        tokio::spawn(async move {
            if let Err(status) = done.await {
                // Who has gone is told nothing.
                let _ = answers.send(Err(status)).await;
            }
        });
        async move { Ok(tonic::Response::new(ReceiverStream::new(stream))) }
    });
    codec::<M1, M2>().server_streaming(method, request).await
}
