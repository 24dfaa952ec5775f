//! Bytes of volumes on their way to whoever reads them: from a thread that may wait, some pieces ahead.

use crate::data::Sink;
use crate::going::Going;
use crate::problem::{Code, Problem};
use crate::waiting;
use axum::body::Bytes;
use std::io;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Pieces that wait to be taken.
pub(crate) const QUEUE: usize = 4;

/// To the connection.
pub(crate) struct Out {
    begin: Option<oneshot::Sender<u64>>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    going: Going,
    /// Whoever reads takes a piece within this.
    idle: Duration,
}

fn gone() -> Problem {
    Problem::new(Code::Incomplete, "whoever read it has gone")
}

impl Out {
    /// Says by the first when it begins and how large it is, and the rest by the second.
    pub(crate) fn new(
        (begin, pieces): (oneshot::Sender<u64>, mpsc::Sender<io::Result<Bytes>>),
        going: Going,
        idle: Duration,
    ) -> Out {
        Out {
            begin: Some(begin),
            pieces,
            going,
            idle,
        }
    }

    /// Waits for room where there is none: until a piece was taken, or none is wanted any more.
    fn send(&self, piece: io::Result<Bytes>) -> Result<(), Problem> {
        let room = async {
            tokio::select! {
                biased;
                () = self.going.ended() => None,
                room = self.pieces.reserve() => Some(room),
            }
        };
        match waiting::until(Instant::now() + self.idle, room) {
            Some(Some(Ok(room))) => {
                room.send(piece);
                Ok(())
            }
            Some(None) => self.going.check().and(Err(gone())),
            Some(Some(Err(_))) => Err(gone()),
            None => {
                let why = format!("whoever read it has not taken a piece within {} s", self.idle.as_secs());
                Err(Problem::new(Code::NotInTime, why))
            }
        }
    }

    /// Ends the connection, so that nobody takes a part for the whole.
    pub(crate) fn cut(&self, why: &Problem) {
        if self.begin.is_none() {
            let _ = self.pieces.try_send(Err(io::Error::other(why.detail.clone())));
        }
    }
}

impl Sink for Out {
    fn begin(&mut self, size_bytes: u64) -> Result<(), Problem> {
        let begin = self.begin.take().ok_or_else(gone)?;
        begin.send(size_bytes).map_err(|_| gone())
    }

    fn write(&mut self, bytes: Vec<u8>) -> Result<(), Problem> {
        self.send(Ok(Bytes::from(bytes)))
    }
}
