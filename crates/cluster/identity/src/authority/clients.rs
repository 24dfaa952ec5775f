//! What clients are granted: a line in the ledger for each client's name, which stays when the name is revoked. A certificate says
//! what the ledger says when it is made, a renewed one too.

use super::{Authority, DAY_S};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::files;
use crate::name::{Name, Role};
use amita_types::capability::{Capability, Entry, Grant, Rights, Scope};
use std::time::Duration;

pub(super) const CLIENTS: &str = "clients";
/// How long a client's certificate is valid, where nothing else is said.
pub const CLIENT_LIFE: Duration = Duration::from_secs(DAY_S);
const MIN_LIFE: Duration = Duration::from_secs(10 * 60);
const MAX_LIFE: Duration = Duration::from_secs(7 * DAY_S);
/// The most names of clients that ever were: ten times as many as a cluster is made for.
const MAX_CLIENTS: usize = 100_000;

/// What a client is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTerms {
    /// What it may.
    pub grant: Grant,
    /// How long each of its certificates is valid: ten minutes to seven days.
    pub life: Duration,
}

/// What of a client's terms changes; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientChange {
    /// What it may.
    pub grant: Option<Grant>,
    /// See [`ClientTerms::life`].
    pub life: Option<Duration>,
}

/// All of them.
impl From<ClientTerms> for ClientChange {
    fn from(terms: ClientTerms) -> ClientChange {
        ClientChange {
            grant: Some(terms.grant),
            life: Some(terms.life),
        }
    }
}

/// What a client has, by the authority's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedClient {
    /// Its name.
    pub name: Name,
    /// Since when it has just this.
    pub at: UnixSeconds,
    /// How long each of its certificates is valid.
    pub life: Duration,
    /// What it may.
    pub grant: Grant,
}

impl GrantedClient {
    pub(super) fn line(&self) -> String {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let entry = |entry: &Entry| {
            let (kind, number) = entry.scope.parts();
            format!("{kind}:{number}:{}", entry.rights.bits())
        };
        let entries: Vec<String> = self.grant.entries().iter().map(entry).collect();
        format!(
            "{} {} {} {} {}",
            self.life.as_secs(),
            self.at.0,
            or_none(self.grant.tenant().to_owned()),
            or_none(entries.join(",")),
            self.name
        )
    }

    pub(super) fn parse(line: &str) -> Option<GrantedClient> {
        let mut words = line.split(' ');
        let life = Duration::from_secs(words.next()?.parse().ok()?);
        let at = UnixSeconds(words.next()?.parse().ok()?);
        let mut listed = || Some(Some(words.next()?).filter(|word| *word != "-").unwrap_or_default());
        let (tenant, entries) = (listed()?, listed()?);
        let entry = |text: &str| {
            let mut parts = text.split(':');
            let (kind, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let rights = Rights::new(parts.next()?.parse().ok()?)?;
            let scope = Scope::of(kind, number)?;
            parts.next().is_none().then_some(Entry { scope, rights })
        };
        let entries = entries.split(',').filter(|text| !text.is_empty()).map(entry);
        let granted = GrantedClient {
            at,
            life,
            grant: Grant::new(tenant, entries.collect::<Option<_>>()?).ok()?,
            name: words.next()?.parse().ok()?,
        };
        let is_right = granted.name.role() == Role::Client && (MIN_LIFE..=MAX_LIFE).contains(&life);
        (is_right && words.next().is_none()).then_some(granted)
    }

    /// What a certificate says of it that is made now.
    pub(super) fn capability(&self, now: UnixSeconds) -> Capability {
        Capability {
            made_s: now.0,
            grant: self.grant.clone(),
        }
    }

    fn has(&self, terms: &ClientTerms) -> bool {
        (&self.grant, self.life) == (&terms.grant, terms.life)
    }
}

/// Is a name in there twice? What is wrong, in words.
pub(super) fn twice(clients: &[GrantedClient]) -> Option<String> {
    let mut names: Vec<&Name> = clients.iter().map(|client| &client.name).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|two| two[0] == two[1])?;
    Some(format!("{} is in it twice", twice[0]))
}

fn not_granted(name: &Name, why: String) -> IdentityError {
    IdentityError::NotGranted {
        name: name.clone(),
        why,
    }
}

/// What the log says that a client has.
fn told(client: &GrantedClient) -> String {
    let entries = client.grant.entries().iter();
    let entries: Vec<String> = entries
        .map(|entry| format!("{} ({})", entry.scope, entry.rights))
        .collect();
    format!(
        "certificates of {} s, tenant {:?}: {}",
        client.life.as_secs(),
        client.grant.tenant(),
        entries.join("; ")
    )
}

impl Authority {
    /// Grants a client what its certificates from now on say. What it has been granted already, in the same words, it still has.
    ///
    /// # Errors
    /// It is no client's name, or has been granted something else; the terms are beyond their limits; there are too many clients.
    pub fn grant(&self, name: &Name, terms: &ClientTerms) -> Result<GrantedClient, IdentityError> {
        self.check_terms(name, terms)?;
        let mut state = self.state()?;
        match state.ledger.granted(name) {
            Some(known) if known.has(terms) => {
                let known = known.clone();
                // An earlier attempt may have ended before its record.
                self.tell(&state, &self.actor, "client.grant", &name.to_string(), &told(&known))?;
                return Ok(known);
            }
            Some(_) => return Err(IdentityError::GrantedOtherwise(name.clone())),
            None => {}
        }
        if state.ledger.clients.len() >= MAX_CLIENTS {
            let why = format!("there are {MAX_CLIENTS} clients, and no more can be");
            return Err(not_granted(name, why));
        }
        let client = GrantedClient {
            name: name.clone(),
            at: self.clock.now(),
            life: terms.life,
            grant: terms.grant.clone(),
        };
        files::append(&self.folder.join(CLIENTS), &client.line())?;
        state.ledger.clients.push(client.clone());
        self.tell(&state, &self.actor, "client.grant", &name.to_string(), &told(&client))?;
        Ok(client)
    }

    /// Changes what a client is granted: its next certificate says so, and what it has now counts until it ends.
    ///
    /// # Errors
    /// It was granted nothing yet; the terms are beyond their limits.
    pub fn change_grant(&self, name: &Name, change: &ClientChange) -> Result<GrantedClient, IdentityError> {
        let mut state = self.state()?;
        let now = self.clock.now();
        let found = state.ledger.clients.iter_mut().find(|client| client.name == *name);
        let client = found.ok_or_else(|| not_granted(name, "it was granted nothing yet".to_owned()))?;
        // By what it has now: of two who change different things none takes the other's back.
        let terms = ClientTerms {
            grant: change.grant.clone().unwrap_or_else(|| client.grant.clone()),
            life: change.life.unwrap_or(client.life),
        };
        self.check_terms(name, &terms)?;
        if client.has(&terms) {
            let known = client.clone();
            self.tell(&state, &self.actor, "client.change", &name.to_string(), &told(&known))?;
            return Ok(known);
        }
        *client = GrantedClient {
            name: name.clone(),
            at: now,
            life: terms.life,
            grant: terms.grant,
        };
        let changed = client.clone();
        state.ledger.write_clients(&self.folder)?;
        self.tell(&state, &self.actor, "client.change", &name.to_string(), &told(&changed))?;
        Ok(changed)
    }

    /// All clients that were ever granted something.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn granted(&self) -> Result<Vec<GrantedClient>, IdentityError> {
        Ok(self.state()?.ledger.clients)
    }

    /// Refuses terms that nobody can have.
    fn check_terms(&self, name: &Name, terms: &ClientTerms) -> Result<(), IdentityError> {
        self.may_have(name)?;
        if name.role() != Role::Client {
            return Err(not_granted(name, "it is no client".to_owned()));
        }
        if !(MIN_LIFE..=MAX_LIFE).contains(&terms.life) {
            let given = terms.life.as_secs();
            let why = format!("its certificates may be valid for ten minutes to seven days, not for {given} s");
            return Err(not_granted(name, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
