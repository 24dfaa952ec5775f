//! `amita volume import` by the API: the image is read here, whatever its format, and sent as a raw one, piece by piece. What has arrived is compared
//! by its SHA-256 with what was read.

use super::{Arguments, Summary, open, tell, usage, wanted_bytes};
use crate::by_api::rest::{Rest, encode};
use crate::by_api::stream::Sending;
use crate::by_api::transport::Question;
use crate::commands::volume::data::PIECE_BYTES;
use crate::commands::volume::image::Source;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::{interrupt, size};
use aws_lc_rs::digest::{Context, SHA256};
use http::Method;
use http::header::{CONTENT_TYPE, IF_MATCH};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use uuid::Uuid;

/// A volume, as the API has it.
#[derive(Deserialize)]
struct Volume {
    name: String,
    id: u64,
    pool: String,
    size_bytes: u64,
    /// Nodes of before have none.
    #[serde(default)]
    encrypted: bool,
    importing: bool,
}

/// What the API answers.
#[derive(Deserialize)]
struct Imported {
    size_bytes: u64,
    written_bytes: u64,
    sha256: String,
}

/// Copies it.
///
/// # Errors
/// The image cannot be read, it is refused, no node answers, or it is cut off: then the volume is there, and is not whole.
pub(in crate::commands::volume) fn run(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let start = Instant::now();
    let (source, format, image_bytes) = open(arguments)?;
    let wanted = wanted_bytes(arguments, image_bytes)?;
    if image_bytes == 0 {
        let failure = usage("the image has no bytes, and nothing is sent by the API that has none");
        return Err(failure.advice("`amita volume create` makes a volume that reads as zeros."));
    }
    interrupt::catch();
    let (volume, tag, before) = prepare(arguments, wanted, rest)?;
    let path = format!("/api/v1/volumes/{}/data?as_it_is=true", encode(&volume.name));
    let question = Question {
        method: Method::PUT,
        ..Question::get(&path)
    };
    let question = question
        .header(IF_MATCH, tag)
        .header(CONTENT_TYPE, "application/octet-stream");
    let begun = rest.begin(&question, image_bytes);
    let (node, mut sending) = begun.map_err(|failure| before.told(failure, arguments, &volume))?;
    let mut copy = Copy {
        source,
        bytes: image_bytes,
        done_bytes: 0,
        pads: arguments.pad,
        sum: Context::new(&SHA256),
        bar: progress::bar("importing", image_bytes),
    };
    let copied = copy.run(rest, &mut sending);
    let done: Result<Imported> = match copied {
        Ok(()) => rest.end(sending),
        Err(failure) => {
            // The node is told that no more comes, and notes how far it was.
            drop(sending);
            Err(failure)
        }
    };
    copy.bar.finish_and_clear();
    let done = done.map_err(|failure| copy.left(failure, arguments, &node))?;
    let sum = copy.sum();
    if done.sha256 != sum {
        let what = format!(
            "what has arrived at {node} has the SHA-256 {}, and what was read has {sum}",
            done.sha256
        );
        return Err(copy.left(Failure::new(what), arguments, &node));
    }
    let summary = Summary {
        volume: volume.name,
        id: volume.id,
        encrypted: volume.encrypted,
        size_bytes: done.size_bytes,
        format: format.name(),
        image_bytes,
        written_bytes: done.written_bytes,
        resumed_at_bytes: 0,
        seconds: start.elapsed().as_secs_f64(),
    };
    tell(arguments, &summary)
}

/// What was done to the volume before anything was sent.
#[derive(Debug)]
enum Before {
    Made,
    Enlarged,
    Nothing,
}

impl Before {
    /// That no node takes the image, with what is there by then.
    fn told(self, failure: Failure, arguments: &Arguments, volume: &Volume) -> Failure {
        let (name, is) = (&volume.name, size::show(volume.size_bytes));
        let (there, advice) = match self {
            Before::Made => (
                format!("volume {name} ({is}) was made, and nothing was sent to it: it reads as zeros"),
                anew(arguments),
            ),
            Before::Enlarged => (
                format!("volume {name} was made larger ({is}), and nothing was sent to it: it holds what it held"),
                "Give the command again.".to_owned(),
            ),
            Before::Nothing => return failure,
        };
        let what = format!("{}\n{there}", failure.what);
        let advice = format!("{} {advice}", failure.advice);
        Failure { what, ..failure }.advice(advice.trim_start().to_owned())
    }
}

/// How the import is begun again, or given up.
fn anew(arguments: &Arguments) -> String {
    let name = &arguments.name;
    let again = match arguments.file == Path::new("-") {
        true => format!("`amita volume import - {name} --force` begins anew"),
        false => "The same command with --force begins anew".to_owned(),
    };
    format!("{again}; `amita volume delete {name}` removes what is there.")
}

/// Makes the volume, or takes the one that is there; and its entity tag.
fn prepare(arguments: &Arguments, wanted: u64, rest: &Rest) -> Result<(Volume, String, Before)> {
    let name = &arguments.name;
    let at = format!("/api/v1/volumes/{}", encode(name));
    let (volume, tag) = match rest.get_tagged::<Volume>(&at) {
        Ok(found) => found,
        Err(failure) if failure.kind == Kind::NotFound => {
            let Some(pool) = &arguments.pool else {
                return Err(usage(&format!(
                    "there is no volume {name:?}, and a new one needs --pool"
                )));
            };
            let mut body = json!({ "name": name, "pool": pool, "size_bytes": wanted });
            if arguments.encrypted {
                body["encrypted"] = true.into();
            }
            let (made, tag) = rest.ask_tagged(&changing(Method::POST, "/api/v1/volumes", &body))?;
            return Ok((made, tag, Before::Made));
        }
        Err(failure) => return Err(failure),
    };
    if let Some(pool) = arguments.pool.as_ref().filter(|pool| **pool != volume.pool) {
        let what = format!("volume {name} is in pool {}, not in {pool}", volume.pool);
        return Err(usage(&what).kind(Kind::Conflict));
    }
    if !arguments.force {
        let what = match volume.importing {
            true => format!("an import into volume {name} was interrupted"),
            false => format!("there is a volume {name:?} already"),
        };
        let advice = "--force writes over it: what it holds is lost. Or choose another name.";
        return Err(Failure::new(what).kind(Kind::Conflict).advice(advice));
    }
    if volume.size_bytes >= wanted {
        return Ok((volume, tag, Before::Nothing));
    }
    let larger = changing(Method::PATCH, &at, &json!({ "size_bytes": wanted }));
    let (larger, tag) = rest.ask_tagged(&larger.header(IF_MATCH, tag))?;
    Ok((larger, tag, Before::Enlarged))
}

fn changing(method: Method, path: &str, body: &serde_json::Value) -> Question {
    Question::with_body(method, path, body.to_string(), Some(Uuid::new_v4().to_string()))
}

struct Copy {
    source: Source,
    bytes: u64,
    done_bytes: u64,
    /// The stream may be shorter.
    pads: bool,
    sum: Context,
    bar: ProgressBar,
}

impl Copy {
    fn run(&mut self, rest: &Rest, sending: &mut Sending) -> Result<()> {
        while self.done_bytes < self.bytes {
            let piece = self.piece()?;
            if self.done_bytes + piece.len() as u64 == self.bytes {
                self.check_end()?;
            }
            self.sum.update(&piece);
            self.done_bytes += piece.len() as u64;
            rest.send(sending, piece)?;
            self.bar.set_position(self.done_bytes);
        }
        Ok(())
    }

    /// Before its last piece is sent: a stream that has more is not the image, and the node is not to take it for whole.
    fn check_end(&mut self) -> Result<()> {
        if let Source::Stream(stream) = &mut self.source {
            let more = stream.read(&mut [0]).context(|| "standard input".to_owned())?;
            if more > 0 {
                let bytes = self.bytes;
                return Err(Failure::new(format!(
                    "standard input has more than the {bytes} bytes of --size"
                )));
            }
        }
        Ok(())
    }

    /// The next bytes of the image: never none.
    fn piece(&mut self) -> Result<Bytes> {
        let at = self.done_bytes;
        let mut piece = vec![0; PIECE_BYTES.min(self.bytes - at) as usize];
        let read = |why: std::io::Error| Failure::new(format!("the image cannot be read at byte {at}: {why}"));
        let (is_data, until) = self.source.extent(at, self.bytes).map_err(read)?;
        if !is_data {
            // A hole is zeros on its way, and takes no space where it arrives.
            piece.truncate((until - at).min(PIECE_BYTES) as usize);
            return Ok(piece.into());
        }
        let found = self.source.read(at, &mut piece).map_err(read)?;
        if found < piece.len() && !(self.pads && at + found as u64 > 0) {
            let what = format!(
                "standard input ended after {} of {} bytes: was whoever wrote it cut short?",
                at + found as u64,
                self.bytes
            );
            return Err(
                Failure::new(what).advice("If that was all of it, --pad has the rest of the volume read as zeros.")
            );
        }
        Ok(piece.into())
    }

    fn sum(&self) -> String {
        let sum = self.sum.clone().finish();
        sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What a failure leaves, and what to do.
    fn left(&self, failure: Failure, arguments: &Arguments, node: &str) -> Failure {
        let name = &arguments.name;
        let what = format!(
            "{}: volume {name} is there, and does not hold the whole image: {} of {} were sent to {node}",
            failure.what,
            size::show(self.done_bytes),
            size::show(self.bytes)
        );
        let advice = format!("{} {}", failure.advice, anew(arguments));
        Failure { what, ..failure }.advice(advice.trim_start().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};
    use crate::commands::volume;
    use std::ffi::OsString;

    fn arguments(line: &str) -> Arguments {
        let words = line.split(' ').map(OsString::from);
        match cli::read(words).expect("a command line").0.command {
            Command::Volume(volume::Command::Import(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_made_for_an_image_that_no_node_takes_is_told() {
        let volume = Volume {
            name: "db".to_owned(),
            id: 1,
            pool: "fast".to_owned(),
            size_bytes: 1 << 30,
            encrypted: false,
            importing: false,
        };
        let full = || {
            Failure::new("no node answers")
                .kind(Kind::Unreachable)
                .advice("Name others.")
        };
        let line = arguments("amita volume import disk.raw db --pool fast");
        let made = Before::Made.told(full(), &line, &volume);
        assert_eq!(made.kind, Kind::Unreachable);
        assert!(
            made.what.contains("no node answers") && made.what.contains("was made"),
            "{made}"
        );
        for advice in ["Name others.", "--force", "volume delete db"] {
            assert!(made.advice.contains(advice), "{made}");
        }
        let larger = Before::Enlarged.told(full(), &line, &volume);
        assert!(
            larger.what.contains("larger") && !larger.advice.contains("delete"),
            "{larger}"
        );
        assert_eq!(Before::Nothing.told(full(), &line, &volume), full());
    }

    fn copy(source: Source, bytes: u64, pads: bool) -> Copy {
        Copy {
            source,
            bytes,
            done_bytes: 0,
            pads,
            sum: Context::new(&SHA256),
            bar: ProgressBar::hidden(),
        }
    }

    fn stream(bytes: &'static [u8]) -> Source {
        Source::stream(Box::new(bytes), None, "a test").expect("a raw image").0
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error_unless_it_may() {
        let Err(short) = copy(stream(b"abc"), 8, false).piece() else {
            panic!("it is shorter")
        };
        assert!(
            short.what.contains("after 3 of 8 bytes") && short.advice.contains("--pad"),
            "{short}"
        );
        let mut padded = copy(stream(b"abc"), 8, true);
        assert_eq!(padded.piece().expect("padded"), &b"abc\0\0\0\0\0"[..]);
        let mut long = copy(stream(b"abcdefghi"), 8, false);
        assert_eq!(long.piece().expect("a piece"), &b"abcdefgh"[..]);
        assert!(
            long.check_end()
                .is_err_and(|why| why.what.contains("more than the 8 bytes"))
        );
        // Nothing at all is no image.
        assert!(copy(stream(b""), 8, true).piece().is_err());
    }

    #[test]
    fn holes_are_zeros_and_the_whole_has_its_sum() {
        let mut file = tempfile::tempfile().expect("a file");
        let bytes = 3 * PIECE_BYTES + 5;
        file.set_len(bytes).expect("long");
        std::io::Write::write_all(&mut file, b"begin").expect("written");
        let mut copy = copy(
            Source::Raw {
                file,
                size_bytes: bytes,
            },
            bytes,
            false,
        );
        let mut all = Vec::new();
        while copy.done_bytes < bytes {
            let piece = copy.piece().expect("a piece");
            assert!(!piece.is_empty() && piece.len() as u64 <= PIECE_BYTES);
            copy.sum.update(&piece);
            copy.done_bytes += piece.len() as u64;
            all.extend_from_slice(&piece);
        }
        assert!(all.starts_with(b"begin") && all[5..].iter().all(|byte| *byte == 0));
        let whole = aws_lc_rs::digest::digest(&SHA256, &all);
        let whole: String = whole.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(copy.sum(), whole);
    }
}
