//! The body of a request: all of it, or pieces as they come.

use hyper::body::{Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// What is sent.
#[derive(Debug)]
pub enum Body {
    /// All of it, until it was taken.
    Whole(Option<Bytes>),
    /// Pieces, and how many bytes are to come.
    Pieces { pieces: Receiver<Bytes>, left: u64 },
}

impl Body {
    /// Of a text, which may be empty.
    #[must_use]
    pub fn of(text: Option<&str>) -> Body {
        Body::Whole(text.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    }

    fn left(&self) -> u64 {
        match self {
            Body::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Body::Pieces { left, .. } => *left,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let (pieces, left) = match self.get_mut() {
            Body::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Pieces { pieces, left } => (pieces, left),
        };
        if *left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(pieces.poll_recv(context)) {
            Some(piece) if piece.len() as u64 <= *left => {
                *left -= piece.len() as u64;
                Ok(Frame::data(piece))
            }
            Some(_) => Err(io::Error::other("there is more than was announced")),
            // The connection ends with it, so that nobody takes a part for the whole.
            None => Err(io::Error::other("it has ended before its end")),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;
    use std::task::Waker;
    use tokio::sync::mpsc;

    fn next(body: &mut Body) -> Poll<Option<Result<Bytes, String>>> {
        let polled = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        polled.map(|frame| {
            frame.map(|frame| {
                let frame = frame.map_err(|why| why.to_string())?;
                frame.into_data().map_err(|_| "no data".to_owned())
            })
        })
    }

    #[test]
    fn what_is_cut_short_is_an_error_and_no_end() {
        let (to, pieces) = mpsc::channel(4);
        let mut body = Body::Pieces { pieces, left: 5 };
        assert_eq!(body.size_hint().exact(), Some(5));
        assert!(next(&mut body).is_pending());
        to.try_send(Bytes::from_static(b"abc")).expect("room");
        assert_eq!(next(&mut body), Poll::Ready(Some(Ok(Bytes::from_static(b"abc")))));
        assert!(!body.is_end_stream());
        drop(to);
        assert!(matches!(next(&mut body), Poll::Ready(Some(Err(why))) if why.contains("before its end")));
        let (to, pieces) = mpsc::channel(4);
        let mut body = Body::Pieces { pieces, left: 2 };
        to.try_send(Bytes::from_static(b"abc")).expect("room");
        assert!(matches!(next(&mut body), Poll::Ready(Some(Err(why))) if why.contains("more than")));
    }

    #[test]
    fn what_is_there_whole_ends_behind_it() {
        let mut body = Body::of(Some("text"));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(4), false));
        assert_eq!(next(&mut body), Poll::Ready(Some(Ok(Bytes::from_static(b"text")))));
        assert_eq!(next(&mut body), Poll::Ready(None));
        assert!(body.is_end_stream() && Body::of(None).is_end_stream());
    }
}
