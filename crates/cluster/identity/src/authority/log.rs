//! The authority's audit log: a line for each use of its keys, and for each that was refused.
//!
//! It lies beside the keys (`audit`), because the authority needs no metadata, and is chained by hashes as the cluster's own log is
//! ([`amita_audit`]). `audit.head` holds the number and hash of the newest line, so that an end that was cut off is seen. Who
//! reads this folder can be anybody in the cluster, and can also write a whole log anew: ship it elsewhere (`amita audit ship`).
//! A log that was damaged does not stop the authority: what is told next follows the head, and what is damaged stays as it is.

use crate::error::IdentityError;
use crate::files::{self, Lock, Privacy};
use amita_audit::{Draft, Head, Line, Outcome, Proof, TRIM, Whence, Who, trimmed};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

pub(super) const LOG: &str = "audit";
const HEAD: &str = "audit.head";
/// Above this the older half goes: some 60,000 lines, a year of 800 nodes.
const MAX_LOG_BYTES: u64 = 32 << 20;
/// The longest line, with room to spare.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Who uses the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who.
    pub who: Who,
    /// From where.
    pub whence: Whence,
}

impl Actor {
    /// The user who runs this process. Nothing was proved: who reads the authority's folder may use it.
    #[must_use]
    pub fn here() -> Actor {
        let uid = rustix::process::getuid().as_raw();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Actor {
            who: Who {
                name: format!("user {uid} of {host}"),
                role: "admin".to_owned(),
                proof: Proof::None,
            },
            whence: Whence {
                host,
                uid: Some(uid),
                address: None,
            },
        }
    }

    /// Somebody who has reached the authority's server.
    pub(crate) fn reached(name: &str, role: &str, proof: Proof, address: Option<String>) -> Actor {
        Actor {
            who: Who {
                name: name.to_owned(),
                role: role.to_owned(),
                proof,
            },
            whence: Whence {
                address,
                ..Whence::default()
            },
        }
    }

    pub(super) fn draft(&self, action: &str, object: &str, outcome: Outcome) -> Draft {
        Draft::new(self.who.clone(), self.whence.clone(), action, object, outcome)
    }
}

/// What is kept of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorityLog {
    /// Its lines, the oldest first.
    pub lines: Vec<String>,
    /// The newest line, as it is noted beside the log.
    pub head: Option<Head>,
}

impl AuthorityLog {
    /// The record before the first that is there; none: the log begins with the first record of all.
    #[must_use]
    pub fn trimmed(&self) -> Option<Head> {
        let first = Line::parse(self.lines.first()?).ok()?;
        let (seq, hash) = (first.record().seq.checked_sub(1)?, first.record().prev);
        (seq > 0).then_some(Head { seq, hash })
    }
}

pub(super) fn read(folder: &Path) -> Result<AuthorityLog, IdentityError> {
    let bytes = bytes(folder)?;
    Ok(AuthorityLog {
        lines: String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect(),
        head: head(folder)?,
    })
}

fn head(folder: &Path) -> Result<Option<Head>, IdentityError> {
    let bytes = files::read_bytes(&folder.join(HEAD), Privacy::Secret, MAX_LINE_BYTES)?;
    Ok(bytes.and_then(|bytes| String::from_utf8_lossy(&bytes).trim().parse().ok()))
}

/// All of the log, whatever it is.
fn bytes(folder: &Path) -> Result<Vec<u8>, IdentityError> {
    let bytes = files::read_bytes(&folder.join(LOG), Privacy::Secret, 2 * MAX_LOG_BYTES)?;
    Ok(bytes.unwrap_or_default())
}

pub(super) fn append(folder: &Path, draft: Draft, _: &Lock) -> Result<(), IdentityError> {
    append_bounded(folder, draft, MAX_LOG_BYTES)
}

pub(super) fn append_bounded(folder: &Path, draft: Draft, longest: u64) -> Result<(), IdentityError> {
    let path = folder.join(LOG);
    let (bytes, last) = last_line(folder)?;
    // The newest line counts before the note beside it: a crash may have come in between.
    let last = last.and_then(|line| Line::parse(&line).ok()).map(|line| line.head());
    let noted = head(folder)?;
    let newest = match (last, noted) {
        (Some(last), Some(noted)) if noted.seq > last.seq => Some(noted),
        (last, noted) => last.or(noted),
    };
    let mut line = draft.after(newest.as_ref());
    if bytes > longest {
        line = trim(folder, line)?;
    } else {
        files::append(&path, &line.text())?;
    }
    files::write(&folder.join(HEAD), Privacy::Secret, &format!("{}\n", line.head()))
}

/// Drops the older half, behind a line that says so; the last line that there is then.
fn trim(folder: &Path, newest: Line) -> Result<Line, IdentityError> {
    let mut kept = bytes(folder)?;
    kept.extend_from_slice(newest.text().as_bytes());
    kept.push(b'\n');
    let lines: Vec<&[u8]> = kept.split_inclusive(|byte| *byte == b'\n').collect();
    let cut = lines.len() / 2;
    let parse = |line: &[u8]| Line::parse(std::str::from_utf8(line).ok()?.trim_end()).ok();
    let gone = cut.checked_sub(1).and_then(|last| parse(lines[last]));
    let gone = gone.map(|gone| (cut, gone.head())).or_else(|| {
        // Where that one is damaged, the next that can be read says what it follows.
        let (cut, first) = (cut..lines.len()).find_map(|at| Some((at, parse(lines[at])?)))?;
        let (seq, hash) = (first.record().seq - 1, first.record().prev);
        Some((cut, Head { seq, hash }))
    });
    let mut last = newest;
    if let Some((cut, gone)) = gone.filter(|(cut, _)| *cut > 0) {
        let place = trimmed(&gone);
        let told = Actor::here().draft(TRIM, &place, Outcome::Done);
        last = told
            .saying(format!("{cut} records were dropped"))
            .after(Some(&last.head()));
        let dropped: usize = lines[..cut].iter().map(|line| line.len()).sum();
        kept.drain(..dropped);
        kept.extend_from_slice(last.text().as_bytes());
        kept.push(b'\n');
    }
    files::write_bytes(&folder.join(LOG), Privacy::Secret, &kept)?;
    Ok(last)
}

/// How long the log is, and its last line. What a crash has cut off is taken away: it tells of nothing that was done.
fn last_line(folder: &Path) -> Result<(u64, Option<String>), IdentityError> {
    let path = &folder.join(LOG);
    let wrong = |why| IdentityError::file(path, "read it")(why);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok((0, None)),
        Err(why) => return Err(wrong(why)),
    };
    let length = file.metadata().map_err(wrong)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE_BYTES)))
        .map_err(wrong)?;
    let mut tail = Vec::new();
    file.take(MAX_LINE_BYTES).read_to_end(&mut tail).map_err(wrong)?;
    let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next_back().map(str::to_owned);
    if !tail.is_empty() && tail.last() != Some(&b'\n') {
        let mut whole = bytes(folder)?;
        let end = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        whole.truncate(end);
        files::write_bytes(path, Privacy::Secret, &whole)?;
        return Ok((whole.len() as u64, last(&whole)));
    }
    Ok((length, last(&tail)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_audit::Verifier;

    #[test]
    fn a_long_log_loses_its_older_half_and_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for number in 0..200 {
            let draft = Actor::here().draft("cert.issue", &format!("n{number}"), Outcome::Done);
            append_bounded(folder, draft, 16 << 10).unwrap();
        }
        let log = read(folder).unwrap();
        let trimmed = log.trimmed().expect("the oldest are gone");
        let mut verifier = Verifier::new(Some(&trimmed)).known(log.head.unwrap());
        for text in &log.lines {
            verifier.take(verifier.next(), text).unwrap();
        }
        let found = verifier.end(None).unwrap();
        assert_eq!(found.head, log.head);
        assert!(found.records < 100 && found.first > 100, "{found:?}");
        assert!(log.lines.iter().any(|text| text.contains(TRIM)));
    }

    /// One byte that is no text, in the middle or at a torn end, and lines that are nothing: what is there stays as it is, and more is
    /// told behind it.
    #[test]
    fn a_damaged_log_goes_on() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let path = folder.join(LOG);
        let tell = |number: u64| {
            let draft = Actor::here().draft("cert.issue", &format!("n{number}"), Outcome::Done);
            append_bounded(folder, draft, 16 << 10)
        };
        for number in 0..4 {
            tell(number).unwrap();
        }
        let change = |change: fn(&mut Vec<u8>)| {
            let mut bytes = std::fs::read(&path).unwrap();
            change(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
        };
        change(|bytes| bytes[100] = 0xff);
        tell(4).unwrap();
        change(|bytes| bytes.extend(b"torn \xff"));
        tell(5).unwrap();
        let found = std::fs::read(&path).unwrap();
        assert_eq!((found[100], found.ends_with(b"\n")), (0xff, true));
        let log = read(folder).unwrap();
        assert_eq!((log.lines.len(), log.head.unwrap().seq), (6, 6));
        assert!(Line::parse(&log.lines[0]).is_err() && Line::parse(&log.lines[5]).is_ok());
        // Its head as well.
        std::fs::write(folder.join(HEAD), b"\xff").unwrap();
        tell(6).unwrap();
        assert_eq!(head(folder).unwrap().unwrap().seq, 7);
        // Trimmed, damaged lines at the cut or not.
        for number in 7..200 {
            if number % 3 == 0 {
                change(|bytes| {
                    let half = bytes.len() / 2;
                    bytes[half] = 0xfe;
                });
            }
            tell(number).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 32 << 10);
    }
}
