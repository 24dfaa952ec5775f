//! What the authority remembers: certificates that it made, those that it revoked, tokens that are open, what clients were granted.
//! A line for each.

use super::clients::{self, CLIENTS, GrantedClient};
use super::{DAY_S, MEMORY};
use crate::certificate::{Serial, hex, unhex};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::files::{self, Privacy};
use crate::live::outlives;
use crate::name::{Name, Role};
use crate::token::{AuthorityHash, Token};
use amita_types::ClusterId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

pub(super) const ISSUED: &str = "issued";
pub(super) const REVOKED: &str = "revoked";
pub(super) const TOKENS: &str = "tokens";
/// The longest file of it: a million certificates.
const MAX_LEDGER_BYTES: u64 = 256 << 20;
/// So many certificates that have ended long ago are kept before the log is written anew.
const MAX_ENDED: usize = 10_000;
/// An authority is used more often than that: nodes renew each three and a half days. A clock that jumps by less takes nothing
/// that is valid for long ended.
const MAX_GAP: Duration = Duration::from_secs(9 * DAY_S);
/// Certificates of one name that are valid at a time, if they were got by renewing: 64 machines that share a name have two
/// each. What a thief could make of one would fill the list of what is revoked.
const MAX_VALID: usize = 256;
/// The same for those that may have made a connection that is still there; a name's revocation revokes as many.
const MAX_OF_NAME: usize = 2048;
/// The most that are revoked at a time. Each takes 49 octets of a list at most, and while the authority is exchanged there are
/// two lists in one file.
const MAX_REVOKED: usize = 8000;

/// A certificate that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Its number.
    pub serial: Serial,
    /// When it was made.
    pub at: UnixSeconds,
    /// Until when it is valid.
    pub until: UnixSeconds,
    /// By which authority.
    pub by: AuthorityHash,
    /// For whom.
    pub name: Name,
}

impl Issued {
    pub(super) fn line(&self) -> String {
        format!(
            "{} {} {} {} {}",
            self.serial, self.at.0, self.until.0, self.by, self.name
        )
    }

    /// Until when a connection that was made with it may be there.
    fn counts_until(&self) -> UnixSeconds {
        self.until.after(outlives(self.until.since(self.at)))
    }

    fn parse(line: &str) -> Option<Issued> {
        let mut words = line.split(' ');
        let issued = Issued {
            serial: words.next()?.parse().ok()?,
            at: UnixSeconds(words.next()?.parse().ok()?),
            until: UnixSeconds(words.next()?.parse().ok()?),
            by: AuthorityHash(unhex(words.next()?)?.try_into().ok()?),
            name: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(issued)
    }
}

/// A certificate that was revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Its number.
    pub serial: Serial,
    /// When it was revoked.
    pub at: UnixSeconds,
    /// Until when it would have been valid.
    pub until: UnixSeconds,
    /// Whose it is; none: the log does not know it.
    pub name: Option<Name>,
}

impl Revoked {
    fn line(&self) -> String {
        let name = self.name.as_ref().map_or_else(|| "-".to_owned(), Name::to_string);
        format!("{} {} {} {name}", self.serial, self.at.0, self.until.0)
    }

    fn parse(line: &str) -> Option<Revoked> {
        let mut words = line.split(' ');
        let revoked = Revoked {
            serial: words.next()?.parse().ok()?,
            at: UnixSeconds(words.next()?.parse().ok()?),
            until: UnixSeconds(words.next()?.parse().ok()?),
            name: match words.next()? {
                "-" => None,
                name => Some(name.parse().ok()?),
            },
        };
        words.next().is_none().then_some(revoked)
    }
}

/// What was revoked by a name or a serial number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocation {
    /// The certificates; those among them that were revoked before included.
    pub certificates: Vec<Revoked>,
    /// What the tokens are called that were open for that name, and are taken no more.
    pub tokens: Vec<String>,
}

/// A token that was given out and not used.
pub(super) struct OpenToken {
    pub(super) id: String,
    pub(super) kept: [u8; 32],
    pub(super) until: UnixSeconds,
    pub(super) name: Name,
}

impl OpenToken {
    fn line(&self) -> String {
        format!("{} {} {} {}", self.id, hex(&self.kept), self.until.0, self.name)
    }

    fn parse(line: &str) -> Option<OpenToken> {
        let mut words = line.split(' ');
        let open = OpenToken {
            id: words.next()?.to_owned(),
            kept: unhex(words.next()?)?.try_into().ok()?,
            until: UnixSeconds(words.next()?.parse().ok()?),
            name: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(open)
    }
}

/// All of it.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) issued: Vec<Issued>,
    pub(super) revoked: Vec<Revoked>,
    pub(super) tokens: Vec<OpenToken>,
    /// Nothing is ever taken out.
    pub(super) clients: Vec<GrantedClient>,
}

fn read<T>(folder: &Path, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, IdentityError> {
    let path = folder.join(name);
    let Some(text) = files::read(&path, Privacy::Secret, MAX_LEDGER_BYTES)? else {
        return Ok(Vec::new());
    };
    // A crash may have cut off the last line: what it was to tell of had not happened then. The next one must not follow it.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    if whole.len() < text.len() {
        files::write(&path, Privacy::Secret, whole)?;
    }
    let mut found = Vec::new();
    for (index, line) in whole.lines().enumerate() {
        match parse(line) {
            Some(entry) => found.push(entry),
            None => {
                return Err(IdentityError::content(
                    &path,
                    format!(
                        "line {} is damaged: take it out, or put the file back from a copy",
                        index + 1
                    ),
                ));
            }
        }
    }
    Ok(found)
}

/// Is that token open? Seen without the lock, since the file is only ever written whole: what is decided by it is looked at
/// again.
pub(super) fn is_open(folder: &Path, token: &Token, now: UnixSeconds) -> Result<bool, IdentityError> {
    let text = files::read(&folder.join(TOKENS), Privacy::Secret, MAX_LEDGER_BYTES)?;
    let lines = text.iter().flat_map(|text| text.lines());
    let is_it = |open: OpenToken| open.id == token.id() && open.until > now && token.is(&open.kept);
    Ok(lines.filter_map(OpenToken::parse).any(is_it))
}

fn write(folder: &Path, name: &str, lines: impl Iterator<Item = String>) -> Result<(), IdentityError> {
    let text: String = lines.map(|line| line + "\n").collect();
    files::write(&folder.join(name), Privacy::Secret, &text)
}

impl Ledger {
    pub(super) fn read(folder: &Path) -> Result<Ledger, IdentityError> {
        let clients = read(folder, CLIENTS, GrantedClient::parse)?;
        if let Some(wrong) = clients::twice(&clients) {
            let path = folder.join(CLIENTS);
            let what = format!("{wrong}: put the file back from a copy");
            return Err(IdentityError::content(&path, what));
        }
        Ok(Ledger {
            issued: read(folder, ISSUED, Issued::parse)?,
            revoked: read(folder, REVOKED, Revoked::parse)?,
            tokens: read(folder, TOKENS, OpenToken::parse)?,
            clients,
        })
    }

    /// What a client was granted; none: nothing was.
    pub(super) fn granted(&self, name: &Name) -> Option<&GrantedClient> {
        self.clients.iter().find(|client| client.name == *name)
    }

    pub(super) fn write_clients(&self, folder: &Path) -> Result<(), IdentityError> {
        write(folder, CLIENTS, self.clients.iter().map(GrantedClient::line))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), IdentityError> {
        self.write_revoked(folder)?;
        write(folder, ISSUED, self.issued.iter().map(Issued::line))
    }

    pub(super) fn write_revoked(&self, folder: &Path) -> Result<(), IdentityError> {
        write(folder, REVOKED, self.revoked.iter().map(Revoked::line))
    }

    pub(super) fn write_tokens(&self, folder: &Path) -> Result<(), IdentityError> {
        write(folder, TOKENS, self.tokens.iter().map(OpenToken::line))
    }

    /// Drops what ended long ago; what was revoked since then stays, also when it had ended long before: connections
    /// outlive the certificate that they were made with. False: nothing is dropped, since the clock may be wrong.
    pub(super) fn forget(&mut self, now: UnixSeconds) -> bool {
        let is_steady = self.is_steady(now);
        if is_steady {
            let then = now.before(MEMORY);
            self.issued.retain(|issued| issued.until > then);
            self.revoked.retain(|revoked| revoked.until > then || revoked.at > then);
        }
        is_steady
    }

    /// Has the authority been used again and again in the time before? A clock that jumps ahead leaves a gap there.
    fn is_steady(&self, now: UnixSeconds) -> bool {
        let begin = now.before(MEMORY);
        let issued = self.issued.iter().map(|issued| issued.at);
        let used = issued.chain(self.revoked.iter().map(|revoked| revoked.at));
        let mut used: Vec<UnixSeconds> = used.filter(|at| (begin..=now).contains(at)).collect();
        used.extend([begin, now]);
        used.sort_unstable();
        used.windows(2).all(|two| two[1].since(two[0]) <= MAX_GAP)
    }

    /// Is there much in the log that ended long ago?
    pub(super) fn is_long(&self, now: UnixSeconds) -> bool {
        let then = now.before(MEMORY);
        self.issued.iter().filter(|issued| issued.until <= then).count() > MAX_ENDED
    }

    pub(super) fn is_revoked(&self, serial: &Serial) -> bool {
        self.revoked.iter().any(|revoked| revoked.serial == *serial)
    }

    /// Until when nobody renews a certificate of that name, since there are too many; none: it may be renewed.
    pub(super) fn full_until(&self, name: &Name, now: UnixSeconds) -> Option<UnixSeconds> {
        let of_name = self.issued.iter().filter(|issued| issued.name == *name);
        // What was revoked is on the list, and does not make it longer.
        let revoked: BTreeSet<&[u8]> = self.revoked.iter().map(|revoked| revoked.serial.bytes()).collect();
        let open: Vec<&Issued> = of_name
            .filter(|issued| !revoked.contains(issued.serial.bytes()))
            .collect();
        // The end of the one with whose end there are fewer than `most`.
        let full = |ends: &mut Vec<UnixSeconds>, most: usize| {
            ends.retain(|end| *end > now);
            ends.sort_unstable();
            ends.len().checked_sub(most).map(|more| ends[more])
        };
        let mut valid: Vec<UnixSeconds> = open.iter().map(|issued| issued.until).collect();
        let mut counting: Vec<UnixSeconds> = open.iter().map(|issued| issued.counts_until()).collect();
        full(&mut valid, MAX_VALID).max(full(&mut counting, MAX_OF_NAME))
    }

    /// Is there room for so many more that were revoked?
    ///
    /// # Errors
    /// There is not: what to do.
    pub(super) fn check_room(&self, more: usize) -> Result<(), IdentityError> {
        let all = self.revoked.len() + more;
        if all <= MAX_REVOKED {
            return Ok(());
        }
        Err(IdentityError::Request(format!(
            "with that, {all} certificates would be revoked, and the list of them holds {MAX_REVOKED}: none of them was \
             revoked. Exchange the authority (`amita ca rotate`), wait until all others have renewed their certificates, and end that with \
             --finish --force: what was not renewed is worth nothing then"
        )))
    }

    /// The certificates, ended ones too, and open tokens that a name or a serial number stands for; of many those that end
    /// last. `latest`: until then one may be valid that the log does not know.
    pub(super) fn find(
        &self,
        which: &str,
        cluster: ClusterId,
        now: UnixSeconds,
        latest: UnixSeconds,
    ) -> Result<Revocation, IdentityError> {
        let is_meant = |name: &Name| {
            let full = name.to_string();
            let short = format!("{}/{}", name.role(), name.name());
            [full.as_str(), short.as_str(), name.name()].contains(&which)
        };
        let named = self.issued.iter().filter(|issued| is_meant(&issued.name));
        let mut named: Vec<&Issued> = named.collect();
        let open = self.tokens.iter().filter(|open| open.until > now);
        let open: Vec<&OpenToken> = open.filter(|open| is_meant(&open.name)).collect();
        // One operator may have had several roles: that is one holder.
        let holder = |name: &Name| (name.role(), name.name().to_owned());
        let mut names = named
            .iter()
            .map(|issued| &issued.name)
            .chain(open.iter().map(|open| &open.name));
        if let Some(first) = names.next()
            && let Some(other) = names.find(|name| holder(name) != holder(first))
        {
            return Err(IdentityError::Request(format!(
                "{which} stands for {first} and for {other}: name it with its role, as ROLE/NAME"
            )));
        }
        // By no clock, which may be wrong.
        named.sort_by_key(|issued| std::cmp::Reverse(issued.counts_until()));
        named.truncate(MAX_OF_NAME);
        let revoked = |issued: &Issued| Revoked {
            serial: issued.serial.clone(),
            at: now,
            until: issued.until,
            name: Some(issued.name.clone()),
        };
        if !named.is_empty() || !open.is_empty() {
            return Ok(Revocation {
                certificates: named.into_iter().map(revoked).collect(),
                tokens: open.into_iter().map(|open| open.id.clone()).collect(),
            });
        }
        let one = |revoked| Revocation {
            certificates: vec![revoked],
            tokens: Vec::new(),
        };
        let serial: Option<Serial> = which.parse().ok();
        if let Some(issued) = self
            .issued
            .iter()
            .find(|issued| Some(&issued.serial) == serial.as_ref())
        {
            return Ok(one(revoked(issued)));
        }
        match serial {
            // The log may be an older copy: a number of full length is believed.
            Some(serial) if serial.bytes().len() == Serial::BYTES => Ok(one(Revoked {
                serial,
                at: now,
                until: latest,
                name: None,
            })),
            _ => Err(IdentityError::NotIssued(format!("{which} in cluster {cluster}"))),
        }
    }

    /// Whose newest valid certificate is by that authority. Its own server makes itself a new one when it starts.
    pub(super) fn newest_by(&self, by: AuthorityHash, now: UnixSeconds) -> Vec<Issued> {
        let valid = |issued: &&Issued| {
            issued.until > now && issued.name.role() != Role::Authority && !self.is_revoked(&issued.serial)
        };
        let mut newest: BTreeMap<&Name, &Issued> = BTreeMap::new();
        // The log is in the order of making: the last one of a name is its newest.
        for issued in self.issued.iter().filter(valid) {
            newest.insert(&issued.name, issued);
        }
        newest.into_values().filter(|issued| issued.by == by).cloned().collect()
    }
}
