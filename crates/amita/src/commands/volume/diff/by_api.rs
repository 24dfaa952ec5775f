//! `amita volume diff` by the API: piece by piece, so that no answer is held whole.

use super::{Arguments, Compared, Teller, named};
use crate::by_api::rest::{Rest, encode};
use amita_client::Extent;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use serde::Deserialize;

/// A piece of what the API answers.
#[derive(Deserialize)]
struct Piece {
    from_size_bytes: u64,
    size_bytes: u64,
    items: Vec<Changed>,
    next: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
struct Changed {
    offset: u64,
    length: u64,
    kind: ChangeKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChangeKind {
    Data,
    Zero,
}

impl From<Changed> for Extent {
    fn from(changed: Changed) -> Extent {
        Extent {
            offset: changed.offset,
            length: changed.length,
            is_zero: changed.kind == ChangeKind::Zero,
        }
    }
}

/// An extent that may go on in what comes next.
#[derive(Default)]
struct Joined(Option<Extent>);

impl Joined {
    /// The one before, where this one does not go on with it.
    fn take(&mut self, next: Extent) -> Option<Extent> {
        match &mut self.0 {
            Some(last) if last.is_zero == next.is_zero && last.offset + last.length == next.offset => {
                last.length += next.length;
                None
            }
            last => last.replace(next),
        }
    }
}

/// Is what is told of one moment? A snapshot is. The volume as it is now has its owner for one piece only, and behind that others may write to it
/// before the next one is asked for.
fn check_moment(volume: &str, from: &str, to: Option<&str>, goes_on: bool) -> Result<()> {
    if to.is_some() || !goes_on {
        return Ok(());
    }
    let what = format!(
        "what was changed in volume {volume} since {from} does not go into one answer of the API, and between two others may write to the volume: \
         it would be of several moments"
    );
    Err(Failure::new(what).kind(Kind::Conflict).advice(format!(
        "Compare with a snapshot: `amita volume snapshot create {volume} NAME`, and `amita volume diff {volume}@{from} NAME`."
    )))
}

/// Shows it.
///
/// # Errors
/// They cannot be compared, it is refused, or no node answers.
pub(in crate::commands::volume) fn run(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let (volume, from, to) = named(arguments)?;
    interrupt::catch();
    let mut path = format!(
        "/api/v1/volumes/{}/diff?limit=10000&from={}",
        encode(volume),
        encode(from)
    );
    if let Some(to) = to {
        path.push_str(&format!("&to={}", encode(to)));
    }
    let mut teller = None;
    let mut joined = Joined::default();
    let mut after: Option<String> = None;
    loop {
        interrupt::check()?;
        let piece: Piece = match &after {
            None => rest.get(&path)?,
            Some(after) => rest.get(&format!("{path}&after={}", encode(after)))?,
        };
        check_moment(volume, from, to, piece.next.is_some())?;
        let compared = Compared {
            volume,
            from,
            to,
            from_size_bytes: piece.from_size_bytes,
            size_bytes: piece.size_bytes,
        };
        let teller = match &mut teller {
            Some(teller) => teller,
            none => none.insert(Teller::begin(arguments.json, &compared)?),
        };
        for item in piece.items {
            if let Some(whole) = joined.take(item.into()) {
                teller.extent(whole)?;
            }
        }
        after = piece.next;
        if after.is_none() {
            break;
        }
    }
    let Some(mut teller) = teller else { return Ok(()) };
    if let Some(last) = joined.0 {
        teller.extent(last)?;
    }
    teller.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_now_is_told_in_one_piece_or_not_at_all() {
        assert!(check_moment("db", "monday", None, false).is_ok());
        assert!(check_moment("db", "monday", Some("tuesday"), true).is_ok());
        let refused = check_moment("db", "monday", None, true).expect_err("of several moments");
        assert_eq!(refused.kind, Kind::Conflict);
        assert!(refused.advice.contains("snapshot create db"), "{refused}");
    }

    #[test]
    fn what_goes_on_in_the_next_piece_is_one_extent() {
        let of = |offset, length, is_zero| Extent {
            offset,
            length,
            is_zero,
        };
        let mut joined = Joined::default();
        assert_eq!(joined.take(of(0, 10, false)), None);
        assert_eq!(joined.take(of(10, 5, false)), None);
        assert_eq!(joined.take(of(15, 5, true)), Some(of(0, 15, false)));
        assert_eq!(joined.take(of(30, 5, true)), Some(of(15, 5, true)));
        assert_eq!(joined.0, Some(of(30, 5, true)));
    }
}
