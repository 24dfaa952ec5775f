//! What clients are granted, and the numbers of their processes: a line in the ledger for each client's name.
//!
//! A range of numbers is one name's for ever: a line is never taken out. It is drawn by chance, so that an authority that goes on
//! from an older copy of its folder, and has forgotten some, hardly gives one of those again. A certificate says what the ledger says
//! when it is made, a renewed one too.

use super::{Authority, DAY_S};
use crate::clock::UnixSeconds;
use crate::error::IdentityError;
use crate::files;
use crate::name::{Name, Role};
use amita_types::NodeId;
use amita_types::capability::{Capability, Entry, FIRST_CLIENT_NUMBER, Grant, MAX_NUMBERS, Numbers, Rights, Scope};
use std::time::Duration;

pub(super) const CLIENTS: &str = "clients";
/// How long a client's certificate is valid, where nothing else is said.
pub const CLIENT_LIFE: Duration = Duration::from_secs(DAY_S);
/// How many processes of a client there may be at a time, where nothing else is said.
pub const CLIENT_PROCESSES: u32 = 8;
const MIN_LIFE: Duration = Duration::from_secs(10 * 60);
const MAX_LIFE: Duration = Duration::from_secs(7 * DAY_S);
/// The most names of clients that ever were: ten times as many as a cluster is made for, and a three hundredth of the ranges.
const MAX_CLIENTS: usize = 100_000;
/// A range is free at the first attempt but for three in a thousand cases.
const MAX_DRAWS: usize = 100;

/// What a client is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTerms {
    /// What it may.
    pub grant: Grant,
    /// How many processes it may have at a time: 1 to [`MAX_NUMBERS`].
    pub processes: u32,
    /// How long each of its certificates is valid: ten minutes to seven days.
    pub life: Duration,
}

/// What of a client's terms changes; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientChange {
    /// What it may.
    pub grant: Option<Grant>,
    /// See [`ClientTerms::processes`].
    pub processes: Option<u32>,
    /// See [`ClientTerms::life`].
    pub life: Option<Duration>,
}

/// All of them.
impl From<ClientTerms> for ClientChange {
    fn from(terms: ClientTerms) -> ClientChange {
        ClientChange {
            grant: Some(terms.grant),
            processes: Some(terms.processes),
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
    /// The numbers of its processes.
    pub numbers: Numbers,
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
            "{} {} {} {} {} {} {}",
            self.numbers.first(),
            self.numbers.count(),
            self.life.as_secs(),
            self.at.0,
            or_none(self.grant.tenant().to_owned()),
            or_none(entries.join(",")),
            self.name
        )
    }

    pub(super) fn parse(line: &str) -> Option<GrantedClient> {
        let mut words = line.split(' ');
        let (first, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
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
            numbers: Numbers::new(NodeId(first), count)?,
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
            numbers: self.numbers,
            grant: self.grant.clone(),
        }
    }

    fn has(&self, terms: &ClientTerms) -> bool {
        (&self.grant, self.numbers.count(), self.life) == (&terms.grant, terms.processes, terms.life)
    }
}

/// Is a name or a number in there twice? What is wrong, in words.
pub(super) fn overlap(clients: &[GrantedClient]) -> Option<String> {
    let mut firsts: Vec<u32> = clients.iter().map(|client| client.numbers.first().0).collect();
    firsts.sort_unstable();
    if let Some(two) = firsts.windows(2).find(|two| two[1] - two[0] < MAX_NUMBERS) {
        return Some(format!("two clients have numbers from {} on", two[1]));
    }
    let mut names: Vec<&Name> = clients.iter().map(|client| &client.name).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|two| two[0] == two[1])?;
    Some(format!("{} is in it twice", twice[0]))
}

/// Numbers that none of the clients ever had, and that none of them comes to when its count grows; `None`: chance gave none.
fn draw(clients: &[GrantedClient], count: u32, mut random: impl FnMut() -> u32) -> Option<Numbers> {
    for _ in 0..MAX_DRAWS {
        let first = (FIRST_CLIENT_NUMBER | random()) & !(MAX_NUMBERS - 1);
        let is_apart = |client: &GrantedClient| client.numbers.first().0.abs_diff(first) >= MAX_NUMBERS;
        if clients.iter().all(is_apart) {
            return Numbers::new(NodeId(first), count);
        }
    }
    None
}

fn random() -> u32 {
    let mut octets = [0; 4];
    aws_lc_rs::rand::fill(&mut octets).expect("the kernel gives random numbers");
    u32::from_le_bytes(octets)
}

/// What the log says that a client has.
fn told(client: &GrantedClient) -> String {
    let entries = client.grant.entries().iter();
    let entries: Vec<String> = entries
        .map(|entry| format!("{} ({})", entry.scope, entry.rights))
        .collect();
    format!(
        "numbers {}, certificates of {} s, tenant {:?}: {}",
        client.numbers,
        client.life.as_secs(),
        client.grant.tenant(),
        entries.join("; ")
    )
}

impl Authority {
    /// Grants a client what its certificates from now on say, and gives it the numbers of its processes. What it has been granted
    /// already, in the same words, it still has.
    ///
    /// # Errors
    /// It is no client's name, or has been granted something else; the terms are beyond their limits; there are too many clients.
    pub fn grant(&self, name: &Name, terms: &ClientTerms) -> Result<GrantedClient, IdentityError> {
        let not_granted = self.check_terms(name, terms)?;
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
            return Err(not_granted(format!(
                "there are {MAX_CLIENTS} clients, and no more can be"
            )));
        }
        let numbers = draw(&state.ledger.clients, terms.processes, random);
        let client = GrantedClient {
            name: name.clone(),
            at: self.clock.now(),
            numbers: numbers.ok_or_else(|| not_granted("no numbers were found for it: try again".to_owned()))?,
            life: terms.life,
            grant: terms.grant.clone(),
        };
        // Before anybody has them.
        files::append(&self.folder.join(CLIENTS), &client.line())?;
        state.ledger.clients.push(client.clone());
        self.tell(&state, &self.actor, "client.grant", &name.to_string(), &told(&client))?;
        Ok(client)
    }

    /// Changes what a client is granted: its next certificate says so, and what it has now counts until it ends. Its numbers begin
    /// where they did.
    ///
    /// # Errors
    /// It was granted nothing yet; the terms are beyond their limits.
    pub fn change_grant(&self, name: &Name, change: &ClientChange) -> Result<GrantedClient, IdentityError> {
        let mut state = self.state()?;
        let now = self.clock.now();
        let found = state.ledger.clients.iter_mut().find(|client| client.name == *name);
        let client = found.ok_or_else(|| IdentityError::NotGranted {
            name: name.clone(),
            why: "it was granted nothing yet".to_owned(),
        })?;
        // By what it has now: of two who change different things none takes the other's back.
        let terms = ClientTerms {
            grant: change.grant.clone().unwrap_or_else(|| client.grant.clone()),
            processes: change.processes.unwrap_or(client.numbers.count()),
            life: change.life.unwrap_or(client.life),
        };
        let not_granted = self.check_terms(name, &terms)?;
        if client.has(&terms) {
            let known = client.clone();
            self.tell(&state, &self.actor, "client.change", &name.to_string(), &told(&known))?;
            return Ok(known);
        }
        let numbers = Numbers::new(client.numbers.first(), terms.processes);
        *client = GrantedClient {
            name: name.clone(),
            at: now,
            numbers: numbers.ok_or_else(|| not_granted("its numbers are used up".to_owned()))?,
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

    /// Refuses terms that nobody can have; what makes an error about this name.
    fn check_terms(
        &self,
        name: &Name,
        terms: &ClientTerms,
    ) -> Result<impl Fn(String) -> IdentityError + use<>, IdentityError> {
        self.may_have(name)?;
        let whose = name.clone();
        let not_granted = move |why| IdentityError::NotGranted {
            name: whose.clone(),
            why,
        };
        if name.role() != Role::Client {
            return Err(not_granted("it is no client".to_owned()));
        }
        if !(MIN_LIFE..=MAX_LIFE).contains(&terms.life) {
            let given = terms.life.as_secs();
            return Err(not_granted(format!(
                "its certificates may be valid for ten minutes to seven days, not for {given} s"
            )));
        }
        if !(1..=MAX_NUMBERS).contains(&terms.processes) {
            let given = terms.processes;
            return Err(not_granted(format!(
                "it may have 1 to {MAX_NUMBERS} processes, not {given}"
            )));
        }
        Ok(not_granted)
    }
}

#[cfg(test)]
mod tests;
