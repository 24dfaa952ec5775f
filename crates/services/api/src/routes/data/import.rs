//! An image's bytes, into a volume.
//!
//! They come in on the connection's task and are written on a thread that may wait; what is not written yet is not read. All that can be
//! refused is refused before the first byte is read, so that a client that waits to be told (`Expect: 100-continue`) sends nothing in vain.

use super::{IDLE, PIECE_BYTES, RawImage};
use crate::condition::IfMatch;
use crate::data::{Image, Imported, Source};
use crate::going::{Going, Watched};
use crate::lasting::Lasting;
use crate::panics::carry;
use crate::problem::{Code, Problem};
use crate::routes::input::{KnownWell, Named, Names, Parameters};
use crate::routes::volumes::{self, Volume};
use crate::session::{Api, Asker, panicked};
use crate::who::Standing;
use amita_control::access::Action;
use aws_lc_rs::digest::{Context, SHA256};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt as _;
use utoipa::{IntoParams, ToSchema};

/// What the body's bytes are to be (RFC 9530).
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Pieces that wait to be written; a piece is what the connection has read at one time.
const QUEUE: usize = 16;

/// How an image is to be taken.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// Byte for byte also where its head says that it is no raw image.
    #[serde(default)]
    #[param(default = false)]
    as_it_is: bool,
}

/// What comes with an image.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the specification: the handler reads the headers")]
pub(super) struct Digest {
    /// The SHA-256 of the image, as `sha-256=:BASE64:` (RFC 9530): where it is another one, that is said when all was written, and the
    /// import does not count as ended.
    #[param(rename = "Content-Digest")]
    content_digest: Option<String>,
}

/// An image that was copied into a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ImageImported {
    /// The volume's name.
    pub volume: String,
    /// Its size: what is behind the image is zeros.
    pub size_bytes: u64,
    /// The image's size.
    pub image_bytes: u64,
    /// Of those, what was written: all else is zeros and takes no space.
    pub written_bytes: u64,
    /// The SHA-256 of the image, as hexadecimal digits.
    pub sha256: String,
}

/// Copies an image into a volume that is there: what it holds is lost.
///
/// The image is raw, and at most as long as the volume; what is behind it reads as zeros. `Content-Length` says how long it is. Nobody may use
/// the volume meanwhile. How far it is says the job of kind `import`; where it is cut short, that stays, with the reason, and the image is
/// sent again from its beginning. `If-Match` is the volume's ETag.
#[utoipa::path(put, path = "/volumes/{name}/data", operation_id = "importVolumeData", tag = "volumes",
    request_body(content = RawImage, content_type = "application/octet-stream"), params(Named, How, KnownWell, Digest),
    responses((status = 200, body = ImageImported),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn import(
    State(api): State<Api>,
    asker: Asker,
    lasting: Option<Extension<Lasting>>,
    standing: Option<Extension<Standing>>,
    Names(name): Names<String>,
    Parameters(How { as_it_is }): Parameters<How>,
    known: IfMatch,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ImageImported>, Problem> {
    let of = (name.clone(), known.clone());
    let looked = api.run(asker.clone(), move |session| {
        let (name, known) = of;
        session.permit(Action::VolumeImport, &name)?;
        let held = known.demand(session, |meta| volumes::look(meta, &name))?;
        Ok(held.shown().clone())
    });
    let volume = looked.await?;
    if volume.protected {
        return Err(is_protected(&name));
    }
    let bytes = length(&headers)?;
    fits(&volume, bytes)?;
    let wanted = headers.get(CONTENT_DIGEST).map(digest).transpose()?.flatten();
    let data = api.data()?;
    let place = api.copying()?;
    let _hold = lasting.map(|Extension(lasting)| lasting.hold());
    let watched = Watched::begin(&api, standing.map(|Extension(standing)| standing));
    let going = watched.going().clone();
    let (pieces, taken) = mpsc::channel(QUEUE);
    let session = api.clone();
    let job = carry(move || {
        let _place = place;
        let session = session.session(asker.0)?;
        let (told, sum) = std::sync::mpsc::channel();
        let source = In {
            pieces: taken,
            piece: Bytes::new(),
            left: bytes,
            bytes,
            context: Context::new(&SHA256),
            wanted,
            told,
            going: going.clone(),
        };
        let image = Image {
            volume: &name,
            bytes,
            as_it_is,
            check: &|| known.demand(&session, |meta| volumes::look(meta, &name)).map(drop),
            going: &going,
        };
        let Imported {
            size_bytes,
            written_bytes,
        } = data.import(&session, &image, Box::new(source))?;
        Ok(ImageImported {
            size_bytes,
            image_bytes: bytes,
            written_bytes,
            sha256: sum.try_recv().unwrap_or_default(),
            volume: name,
        })
    });
    tokio::select! {
        () = pass_on(body, &pieces) => {}
        () = watched.going().ended() => {}
    }
    drop(pieces);
    job.await.unwrap_or_else(|why| Err(panicked(&why))).map(Json)
}

fn is_protected(name: &str) -> Problem {
    let why = format!(
        "volume {name} is protected, and what it holds would be lost; end its protection first (PATCH it with `protected`)"
    );
    Problem::new(Code::InUse, why)
}

fn length(headers: &HeaderMap) -> Result<u64, Problem> {
    let said = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    match said {
        Some(0) => Err(Problem::new(Code::BadRequest, "the image has no bytes")),
        Some(bytes) => Ok(bytes),
        None => {
            let why =
                "say how long the image is (Content-Length): that it fits is looked at before anything is written";
            Err(Problem::new(Code::BadRequest, why))
        }
    }
}

fn fits(volume: &Volume, bytes: u64) -> Result<(), Problem> {
    if bytes <= volume.size_bytes {
        return Ok(());
    }
    let why = format!(
        "the image has {bytes} bytes and volume {} {}: make it larger first (PATCH it with `size_bytes`)",
        volume.name, volume.size_bytes
    );
    Err(Problem::new(Code::NoRoom, why))
}

/// The SHA-256 of the header; of other algorithms none is looked at.
fn digest(said: &HeaderValue) -> Result<Option<Vec<u8>>, Problem> {
    let bad = || {
        let why = "Content-Digest is `sha-256=:BASE64:` (RFC 9530)";
        Problem::new(Code::BadRequest, why)
    };
    let said = said.to_str().map_err(|_| bad())?;
    let found = said.split(',').find_map(|one| one.trim().strip_prefix("sha-256="));
    let Some(found) = found else { return Ok(None) };
    let inner = found
        .strip_prefix(':')
        .and_then(|rest| rest.strip_suffix(':'))
        .ok_or_else(bad)?;
    let sum = STANDARD.decode(inner).map_err(|_| bad())?;
    if sum.len() == SHA256.output_len() {
        Ok(Some(sum))
    } else {
        Err(bad())
    }
}

/// What comes by the connection, or why no more does.
type Piece = Result<Bytes, String>;

/// Passes on what comes, until there is no more or nobody takes it. Who needs longer than [`IDLE`] for [`PIECE_BYTES`] is not waited for.
async fn pass_on(body: Body, pieces: &mpsc::Sender<Piece>) {
    let mut body = body.into_data_stream();
    let mut came = 0;
    let mut until = Instant::now() + IDLE;
    loop {
        let next = tokio::select! {
            next = timeout_at(until, body.next()) => next,
            // It has ended before its end.
            () = pieces.closed() => return,
        };
        let piece = match next {
            Ok(None) => return,
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(why))) => {
                let _ = pieces.send(Err(format!("whoever sent it has gone: {why}"))).await;
                return;
            }
            Err(_) => {
                let why = format!(
                    "whoever sent it has not sent {PIECE_BYTES} bytes within {} s",
                    IDLE.as_secs()
                );
                let _ = pieces.send(Err(why)).await;
                return;
            }
        };
        came += piece.len() as u64;
        let begun = Instant::now();
        if pieces.send(Ok(piece)).await.is_err() {
            return;
        }
        // That the volume was slow is not the sender's fault.
        until += begun.elapsed();
        if came >= PIECE_BYTES {
            came = 0;
            until = Instant::now() + IDLE;
        }
    }
}

/// From the connection.
struct In {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
    left: u64,
    bytes: u64,
    context: Context,
    wanted: Option<Vec<u8>>,
    told: std::sync::mpsc::Sender<String>,
    going: Going,
}

impl In {
    fn wanted(&self) -> io::Result<()> {
        self.going.check().map_err(|why| io::Error::other(why.detail))
    }
}

impl Read for In {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || into.is_empty() {
            return Ok(0);
        }
        self.wanted()?;
        while self.piece.is_empty() {
            self.piece = match self.pieces.blocking_recv() {
                Some(Ok(piece)) => piece,
                Some(Err(why)) => return Err(io::Error::other(why)),
                None => {
                    self.wanted()?;
                    return Err(io::Error::other("whoever sent it has gone"));
                }
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let length = self.piece.len().min(into.len()).min(most);
        let bytes = self.piece.split_to(length);
        into[..length].copy_from_slice(&bytes);
        self.context.update(&bytes);
        self.left -= length as u64;
        Ok(length)
    }
}

impl Source for In {
    fn check(&mut self) -> Result<(), Problem> {
        if self.left > 0 {
            let why = format!("{} of {} bytes came", self.bytes - self.left, self.bytes);
            return Err(Problem::new(Code::Incomplete, why));
        }
        let found = self.context.clone().finish();
        let hex: String = found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        if self.wanted.as_ref().is_some_and(|wanted| wanted != found.as_ref()) {
            let why = format!(
                "what came is not what Content-Digest says: its SHA-256 is {hex}; it is in the volume, and does not count as imported"
            );
            return Err(Problem::new(Code::Incomplete, why));
        }
        // Whoever wanted to know may have gone.
        let _ = self.told.send(hex);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_the_standard_says() {
        let read = |text: &str| digest(&HeaderValue::from_str(text).unwrap());
        let empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let found = read(&format!("sha-512=:AA==:, sha-256=:{empty}:")).unwrap().unwrap();
        assert_eq!(found, aws_lc_rs::digest::digest(&SHA256, b"").as_ref());
        assert_eq!(read("sha-512=:AA==:").unwrap(), None);
        for bad in ["sha-256=", "sha-256=:AA==:", "sha-256=AA==", "sha-256=:%%:"] {
            assert_eq!(read(bad).unwrap_err().code, "bad-request", "{bad}");
        }
    }

    #[test]
    fn bytes_come_as_they_are_asked_for_and_what_is_cut_short_is_an_error() {
        let (pieces, taken) = mpsc::channel(4);
        let (told, sum) = std::sync::mpsc::channel();
        let mut source = In {
            pieces: taken,
            piece: Bytes::new(),
            left: 6,
            bytes: 6,
            context: Context::new(&SHA256),
            wanted: None,
            told,
            going: Going::default(),
        };
        for piece in ["ab", "", "cdef"] {
            pieces.try_send(Ok(Bytes::from(piece))).unwrap();
        }
        let mut bytes = [0; 4];
        assert_eq!(source.read(&mut bytes).unwrap(), 2);
        assert_eq!(source.check().unwrap_err().code, "incomplete");
        source.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"cdef");
        assert_eq!(source.read(&mut bytes).unwrap(), 0);
        source.check().unwrap();
        let hex = sum.try_recv().unwrap();
        assert!(
            hex.starts_with("bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721"),
            "{hex}"
        );
        source.left = 1;
        drop(pieces);
        assert!(source.read(&mut bytes).unwrap_err().to_string().contains("has gone"));
        source.going.end(Problem::new(Code::Unauthenticated, "not any more"));
        assert_eq!(source.read(&mut bytes).unwrap_err().to_string(), "not any more");
    }
}
