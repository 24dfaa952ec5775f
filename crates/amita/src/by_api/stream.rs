//! What comes from a node, or goes to one, as it comes: no answer and no body is held whole.

use super::body::Body;
use super::place::Place;
use super::transport::{Connection, Proof, Question, SELF, Said, Unsaid, reach, reach_at_once, said, while_there};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, EXPECT};
use hyper::body::{Body as _, Bytes, Incoming};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A node says within this that what is asked for comes, or that what is to be sent is wanted: a gateway has to open the volume before.
const LONGEST_OPENING: Duration = Duration::from_secs(180);
/// A node gives a volume up that has answered nothing for two minutes: one that has sent nothing, or taken nothing, for longer is gone.
pub const SILENCE: Duration = Duration::from_secs(150);
/// Pieces of a body that wait to be sent.
const PIECES: usize = 4;

/// An answer that is taken as it comes.
pub struct Coming {
    body: Incoming,
    /// How many bytes it has, where that was said.
    pub length: Option<u64>,
    _connection: Connection,
}

/// What becomes of an answer that is to be taken as it comes.
pub enum Opened {
    /// It comes.
    Coming(Box<Coming>),
    /// It is none of the kind.
    Said(Said),
}

/// Asks a node for what is taken as it comes.
///
/// # Errors
/// The node is not there, does not say in time that it comes, or is gone.
pub async fn open(place: &Place, proof: &Proof, question: &Question) -> Result<Opened, String> {
    let (connection, greeting) = reach(place, proof, SELF).await?;
    if greeting.status != 200 {
        return Ok(Opened::Said(greeting));
    }
    opened(connection, question).await
}

/// The same of a node that is asked nothing before, for who may ask nothing else.
///
/// # Errors
/// As [`open`].
pub async fn open_at_once(place: &Place, proof: &Proof, question: &Question) -> Result<Opened, Unsaid> {
    let connection = reach_at_once(place, proof).await?;
    opened(connection, question).await.map_err(Unsaid::Silent)
}

async fn opened(mut connection: Connection, question: &Question) -> Result<Opened, String> {
    let request = connection.request(question, Body::of(question.body.as_deref()))?;
    let silent = |_| Err(format!("it has not answered within {} s", LONGEST_OPENING.as_secs()));
    let response = timeout(LONGEST_OPENING, connection.begin(request))
        .await
        .unwrap_or_else(silent)?;
    if response.status() != StatusCode::OK {
        let told = said(response).await?;
        return Ok(Opened::Said(Said { is_sent: true, ..told }));
    }
    let length = response.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    Ok(Opened::Coming(Box::new(Coming {
        length,
        body: response.into_body(),
        _connection: connection,
    })))
}

impl Coming {
    /// The next bytes; none: it is over.
    ///
    /// # Errors
    /// It is cut off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
            let frame = frame.map_err(|why| format!("its answer is cut off: {why}"))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// A body that is sent as it comes, to a node that wants it.
pub struct Sending {
    pieces: mpsc::Sender<Bytes>,
    answer: JoinHandle<Result<Said, String>>,
    place: Place,
    proof: Proof,
}

/// What becomes of a body that is to be sent as it comes.
pub enum Wanted {
    /// The node waits for it.
    Yes(Sending),
    /// It does not want it: nothing was sent.
    No(Said),
}

/// Says that so many bytes are to be sent, and waits until the node wants them (RFC 9110, section 10.1.1).
///
/// # Errors
/// The node is not there, or does not say in time that it wants them: nothing was sent.
pub async fn send_pieces(place: &Place, proof: &Proof, question: &Question, length: u64) -> Result<Wanted, String> {
    let (mut connection, greeting) = reach(place, proof, SELF).await?;
    if greeting.status != 200 {
        return Ok(Wanted::No(greeting));
    }
    let (to, pieces) = mpsc::channel(PIECES);
    let asks = question.clone().header(EXPECT, "100-continue");
    let mut request = connection.request(&asks, Body::Pieces { pieces, left: length })?;
    let is_wanted = Arc::new(Notify::new());
    let tells = Arc::clone(&is_wanted);
    hyper::ext::on_informational(&mut request, move |informed| {
        if informed.status() == StatusCode::CONTINUE {
            tells.notify_one();
        }
    });
    let mut answer = tokio::spawn(async move {
        let told = said(connection.begin(request).await?).await?;
        Ok(Said { is_sent: true, ..told })
    });
    tokio::select! {
        () = is_wanted.notified() => Ok(Wanted::Yes(Sending {
            pieces: to,
            answer,
            place: place.clone(),
            proof: proof.clone(),
        })),
        told = &mut answer => joined(told).map(Wanted::No),
        () = sleep(LONGEST_OPENING) => {
            answer.abort();
            Err(format!("it has not said within {} s that it wants the image", LONGEST_OPENING.as_secs()))
        }
    }
}

fn joined(told: Result<Result<Said, String>, tokio::task::JoinError>) -> Result<Said, String> {
    told.unwrap_or_else(|why| Err(format!("asking it has failed: {why}")))
}

impl Sending {
    /// Sends the next bytes. Waits where there is no room. Some: the node has answered already, and wants no more.
    ///
    /// # Errors
    /// It is gone.
    pub async fn send(&mut self, piece: Bytes) -> Result<Option<Said>, String> {
        tokio::select! {
            biased;
            told = &mut self.answer => joined(told).map(Some),
            sent = self.pieces.send(piece) => match sent {
                Ok(()) => Ok(None),
                // Why nobody takes it any more says the answer.
                Err(_) => joined((&mut self.answer).await).map(Some),
            },
        }
    }

    /// All was sent: what the node says then. Nothing more where that was less than was announced: the node takes it for cut short.
    ///
    /// # Errors
    /// It is gone, or says nothing for too long.
    pub async fn end(self) -> Result<Said, String> {
        let Sending {
            pieces,
            answer,
            place,
            proof,
        } = self;
        drop(pieces);
        while_there(&place, &proof, async { joined(answer.await) }).await
    }
}
