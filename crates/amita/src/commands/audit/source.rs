//! Where a log lies: in the metadata, or in the authority's folder.

use super::Which;
use crate::admin::{Admin, metadata_failure};
use crate::cli::Endpoints;
use crate::commands::join::Described as _;
use amita_audit::{Fault, Head, Line, Summary, Verifier};
use amita_control::access::Action;
use amita_control::audit::{self, Bounds, Unsound};
use amita_identity::{Authority, Clock};
use amita_terminal::error::{Failure, Result};

/// A log.
pub(super) enum Source {
    /// The cluster's.
    Metadata(Admin),
    /// The authority's.
    Authority(Authority),
}

/// The metadata is away, or what else is wrong.
struct Away(Failure);

impl From<amita_metadata::Error> for Away {
    fn from(why: amita_metadata::Error) -> Away {
        Away(metadata_failure(&why))
    }
}

impl Source {
    pub(super) fn open(which: &Which, metadata: &Endpoints) -> Result<Source> {
        match &which.ca {
            Some(folder) => Ok(Source::Authority(Authority::open(folder, Clock::system()).described()?)),
            None => {
                let admin = Admin::connect(metadata)?;
                admin.permit(Action::AuditRead)?;
                Ok(Source::Metadata(admin))
            }
        }
    }

    /// Where it begins and ends.
    pub(super) fn bounds(&self) -> Result<Bounds> {
        match self {
            Source::Metadata(admin) => audit::bounds(&admin.reader()).map_err(|why| metadata_failure(&why)),
            Source::Authority(authority) => {
                let log = authority.log().described()?;
                let last = log.lines.iter().rev().find_map(|text| Line::parse(text).ok());
                Ok(Bounds {
                    trimmed: log.trimmed(),
                    head: last.map(|line| line.head()),
                })
            }
        }
    }

    /// What stands in that place.
    pub(super) fn record(&self, place: u64) -> Result<Option<String>> {
        match self {
            Source::Metadata(admin) => audit::record(&admin.reader(), place).map_err(|why| metadata_failure(&why)),
            Source::Authority(authority) => {
                let is_it = |text: &String| Line::parse(text).is_ok_and(|line| line.head().seq == place);
                Ok(authority.log().described()?.lines.into_iter().rfind(is_it))
            }
        }
    }

    /// The records from this number on, each with its place.
    pub(super) fn for_each(&self, from: u64, mut each: impl FnMut(u64, &str) -> Result<()>) -> Result<()> {
        match self {
            Source::Metadata(admin) => {
                let took = audit::for_each(&admin.reader(), from, |place, text| each(place, text).map_err(Away));
                took.map_err(|Away(why)| why)
            }
            Source::Authority(authority) => {
                let log = authority.log().described()?;
                let mut next = log.trimmed().map_or(1, |head| head.next());
                for text in &log.lines {
                    // A file has no places but those that its lines say they are in.
                    let place = Line::parse(text).map_or(next, |line| line.record().seq);
                    if place >= from {
                        each(place, text)?;
                    }
                    next = place.saturating_add(1);
                }
                Ok(())
            }
        }
    }

    /// What is wrong with it first, or what it holds.
    pub(super) fn verify(&self, known: &[Head]) -> Result<std::result::Result<Summary, Fault>> {
        match self {
            Source::Metadata(admin) => match audit::verify(&admin.reader(), known, audit::RETENTION) {
                Ok(found) => Ok(Ok(found)),
                Err(Unsound::Fault(fault)) => Ok(Err(fault)),
                Err(Unsound::Metadata(why)) => Err(metadata_failure(&why)),
            },
            Source::Authority(authority) => {
                let log = authority.log().described()?;
                let mut verifier = Verifier::new(log.trimmed().as_ref());
                // The note beside the log may be one behind it, where a crash came in between.
                for head in known.iter().chain(&log.head) {
                    verifier = verifier.known(*head);
                }
                for text in &log.lines {
                    let place = Line::parse(text).map_or(verifier.next(), |line| line.record().seq);
                    if let Err(fault) = verifier.take(place, text) {
                        return Ok(Err(fault));
                    }
                }
                Ok(verifier.end(None))
            }
        }
    }
}
