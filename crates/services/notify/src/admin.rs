//! What people ask and change: alerts, silences and channels.

use crate::alert::{Acknowledgement, Alert, Alerts, State};
use crate::channel::{Channel, MAX_CHANNELS};
use crate::delivery::Delivery;
use crate::records::{self, Answer, Leader, Test};
use crate::silence::{KEPT_S, MAX_SILENCE_S, MAX_SILENCES, Match, Silence, silenced_by};
use amita_control::admin::{AdminError, check_name};
use amita_metadata::{Call, Compare, KeyValue, Op, Transact};
use amita_types::condition::failing_channel_key;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, AdminError>;

/// How often a lost race is tried again.
const RACES: u32 = 16;
/// The least of an id that something is called by.
const LEAST_ID: usize = 4;
/// The longest texts that people write, in bytes.
const MAX_NOTE: usize = 500;
/// For so long an answer to a test is waited for.
pub const TEST_PATIENCE: Duration = Duration::from_secs(25);
/// How often it is looked for.
const TEST_LOOK: Duration = Duration::from_millis(250);

fn read<T: DeserializeOwned>(found: &KeyValue) -> Result<T> {
    Ok(found.json().map_err(amita_metadata::Error::from)?)
}

fn list<T: DeserializeOwned>(meta: &dyn Transact, prefix: String) -> Result<Vec<T>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    reply.values(0).iter().map(read).collect()
}

fn get<T: DeserializeOwned>(meta: &dyn Transact, key: String) -> Result<Option<(T, u64)>> {
    let reply = meta.txn(&Call::get(key))?;
    reply
        .value(0)
        .map(|found| Ok((read(found)?, found.mod_revision)))
        .transpose()
}

fn json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

fn bad(what: &'static str, name: &str, why: impl Into<String>) -> AdminError {
    AdminError::BadSetting {
        what,
        name: name.to_owned(),
        why: why.into(),
    }
}

fn check_text(what: &'static str, name: &str, text: &str, least: usize) -> Result<()> {
    let fits = (least..=MAX_NOTE).contains(&text.trim().len()) && !text.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(bad(
        what,
        name,
        format!("say why in one line, of {least} to {MAX_NOTE} characters"),
    ))
}

/// The channels by name.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn channels(meta: &dyn Transact) -> Result<Vec<Channel>> {
    list(meta, records::channels_prefix())
}

/// A channel.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn channel(meta: &dyn Transact, name: &str) -> Result<Channel> {
    match get(meta, records::channel_key(name))? {
        Some((found, _)) => Ok(found),
        None => Err(no_channel(meta, name)?),
    }
}

fn no_channel(meta: &dyn Transact, name: &str) -> Result<AdminError> {
    Ok(AdminError::NoSuch {
        what: "channel",
        name: name.to_owned(),
        there: channels(meta)?.into_iter().map(|known| known.name).collect(),
    })
}

/// Makes a channel; its secrets are sealed already ([`Channel::seal`]).
///
/// # Errors
/// A name or a setting that cannot be; there is one of that name, or there are too many; the metadata is away or refuses.
pub fn add_channel(meta: &dyn Transact, channel: &Channel) -> Result<()> {
    check_name("channel", &channel.name)?;
    if let Some(fault) = channel.fault() {
        return Err(bad("channel", &channel.name, fault));
    }
    let known = meta.txn(&Call::prefix(records::channels_prefix()))?.values(0).len();
    if known >= MAX_CHANNELS {
        return Err(AdminError::Full {
            what: "this",
            name: "cluster".to_owned(),
            of: "channels",
            most: MAX_CHANNELS,
        });
    }
    let made = meta.txn(&Call::put_if(records::channel_key(&channel.name), 0, json(channel)))?;
    if made.succeeded {
        return Ok(());
    }
    Err(AdminError::Exists {
        what: "channel",
        name: channel.name.clone(),
    })
}

/// Removes a channel, with what it was told. One whose record nobody can read goes by this, too.
///
/// # Errors
/// There is none of that name; the metadata is away or refuses.
pub fn remove_channel(meta: &dyn Transact, name: &str) -> Result<()> {
    let key = records::channel_key(name);
    for _ in 0..RACES {
        let Some(revision) = meta
            .txn(&Call::get(key.as_str()))?
            .value(0)
            .map(|found| found.mod_revision)
        else {
            return Err(no_channel(meta, name)?);
        };
        let own = [
            key.clone(),
            records::delivery_key(name),
            records::test_key(name),
            failing_channel_key(name),
        ];
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: revision,
            }],
            then: own.into_iter().map(|key| Op::Delete { key }).collect(),
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(());
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// What the channels were told, by their names.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn deliveries(meta: &dyn Transact) -> Result<BTreeMap<String, Delivery>> {
    let prefix = records::deliveries_prefix();
    let reply = meta.txn(&Call::prefix(prefix.as_str()))?;
    let named = |found: &KeyValue| Ok((found.key[prefix.len()..].to_owned(), read(found)?));
    reply.values(0).iter().map(named).collect()
}

/// Who tells at this moment; none: nobody.
///
/// # Errors
/// The metadata is away, or the record cannot be read.
pub fn leader(meta: &dyn Transact) -> Result<Option<Leader>> {
    Ok(get(meta, records::leader_key())?.map(|(leader, _)| leader))
}

/// Has whoever tells send a test message, and waits for what comes of it; none: nobody has done it in time, or nobody tells at this moment.
///
/// # Errors
/// There is no such channel; the metadata is away or refuses.
pub fn test_channel(meta: &dyn Transact, name: &str, by: &str) -> Result<Option<Answer>> {
    channel(meta, name)?;
    let wish = Test {
        id: new_id(),
        by: by.to_owned(),
        at: crate::now(),
        answer: None,
    };
    let key = records::test_key(name);
    meta.txn(&Call::put(key.as_str(), json(&wish)))?;
    let began = Instant::now();
    while began.elapsed() < TEST_PATIENCE && leader(meta)?.is_some() {
        std::thread::sleep(TEST_LOOK);
        let found = get::<Test>(meta, key.clone())?;
        let Some((test, _)) = found.filter(|(test, _)| test.id == wish.id) else {
            return Err(bad("channel", name, "somebody else tests it at this moment: try again"));
        };
        if test.answer.is_some() {
            return Ok(test.answer);
        }
    }
    // Nobody waits for it any more.
    meta.txn(&Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    })?;
    Ok(None)
}

/// Why nobody has tested a channel, and what to do.
pub const NOT_TESTED: &str = "no node has sent the test: none tells of alerts at this moment, or it is at another one. Where a node has just \
                              died another takes over within half a minute: try again then; `amita notify list` says which one tells";

/// All silences, those that have ended as well, in the order of their ends.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn silences(meta: &dyn Transact) -> Result<Vec<Silence>> {
    let mut all: Vec<Silence> = list(meta, records::silences_prefix())?;
    all.sort_by(|a, b| (a.until, &a.id).cmp(&(b.until, &b.id)));
    Ok(all)
}

/// A silence that is to be made.
#[derive(Clone, Debug)]
pub struct NewSilence {
    /// Which alerts.
    pub matches: Match,
    /// From when on, in seconds since 1970.
    pub from: u64,
    /// Until when, in seconds since 1970.
    pub until: u64,
    /// Who makes it.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Makes a silence; `now` is in seconds since 1970.
///
/// # Errors
/// It would silence everything without saying so, is too long, or is over before it begins; there are too many; the metadata is away or
/// refuses.
pub fn add_silence(meta: &dyn Transact, wanted: NewSilence, now: u64) -> Result<Silence> {
    let name = wanted.matches.text();
    if wanted.matches.is_empty() {
        let why = "say which alerts: a code, an object or a label; the code * is all of them";
        return Err(bad("silence", &name, why));
    }
    if let Some(fault) = wanted.matches.fault() {
        return Err(bad("silence", &name, fault));
    }
    check_text("silence", &name, &wanted.why, 1)?;
    if wanted.until <= now || wanted.until <= wanted.from {
        return Err(bad("silence", &name, "it would be over before it begins"));
    }
    if wanted.until.saturating_sub(wanted.from.min(now)) > MAX_SILENCE_S {
        let days = MAX_SILENCE_S / (24 * 3600);
        return Err(bad(
            "silence",
            &name,
            format!("it would end in more than {days} days, which is the most"),
        ));
    }
    let all = silences(meta)?;
    if all.iter().filter(|silence| silence.until > now).count() >= MAX_SILENCES {
        return Err(AdminError::Full {
            what: "this",
            name: "cluster".to_owned(),
            of: "silences",
            most: MAX_SILENCES,
        });
    }
    let made = Silence {
        id: new_id(),
        matches: wanted.matches,
        from: wanted.from,
        until: wanted.until,
        by: wanted.by,
        why: wanted.why.trim().to_owned(),
        made_at: now,
    };
    meta.txn(&Call::put_if(records::silence_key(&made.id), 0, json(&made)))?;
    Ok(made)
}

/// Ends a silence. `which` is its id, or its beginning.
///
/// # Errors
/// There is none, or there are several; the metadata is away or refuses.
pub fn remove_silence(meta: &dyn Transact, which: &str) -> Result<Silence> {
    let all = silences(meta)?;
    let found = one("silence", which, &all, |silence| &silence.id)?.clone();
    meta.txn(&Call {
        then: vec![Op::Delete {
            key: records::silence_key(&found.id),
        }],
        ..Call::default()
    })?;
    Ok(found)
}

/// Takes silences away that have ended long ago; `now` is in seconds since 1970.
///
/// # Errors
/// The metadata is away or refuses.
pub fn end_silences(meta: &dyn Transact, all: &[Silence], now: u64) -> Result<()> {
    let over = all.iter().filter(|silence| silence.until.saturating_add(KEPT_S) <= now);
    let then: Vec<Op> = over
        .take(64)
        .map(|silence| Op::Delete {
            key: records::silence_key(&silence.id),
        })
        .collect();
    if then.is_empty() {
        return Ok(());
    }
    meta.txn(&Call {
        then,
        ..Call::default()
    })?;
    Ok(())
}

/// An alert, and what keeps it from being told.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The alert.
    pub alert: Alert,
    /// The id of the silence that holds for it now.
    pub silenced_by: Option<String>,
}

/// The alerts, the worst of what fires first; and how many have found no room. `now` is in seconds since 1970.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn alerts(meta: &dyn Transact, now: u64) -> Result<(Vec<Seen>, u64)> {
    let found: Option<(Alerts, u64)> = get(meta, records::alerts_key())?;
    let known = found.map_or_else(Alerts::default, |(known, _)| known);
    let silences = silences(meta)?;
    let seen = |alert: Alert| Seen {
        silenced_by: silenced_by(&silences, &alert.condition, now).map(|silence| silence.id.clone()),
        alert,
    };
    let mut all: Vec<Seen> = known.alerts.into_values().map(seen).collect();
    all.sort_by_key(|seen| {
        let rank = match seen.alert.state {
            State::Firing => 0,
            State::Pending => 1,
            State::Resolved => 2,
        };
        (
            rank,
            std::cmp::Reverse(seen.alert.condition.severity),
            std::cmp::Reverse(seen.alert.since),
            seen.alert.id.clone(),
        )
    });
    Ok((all, known.left_out))
}

/// An alert. `which` is its id, or its beginning.
///
/// # Errors
/// There is none, or there are several; the metadata is away.
pub fn alert(meta: &dyn Transact, which: &str, now: u64) -> Result<Seen> {
    let (all, _) = alerts(meta, now)?;
    one("alert", which, &all, |seen| &seen.alert.id).cloned()
}

/// Says that somebody looks after an alert.
///
/// # Errors
/// There is no such alert, or it is over; the metadata is away or refuses.
pub fn acknowledge(meta: &dyn Transact, which: &str, by: &str, note: &str, now: u64) -> Result<Seen> {
    check_text("alert", which, note, 0)?;
    let key = records::alerts_key();
    for _ in 0..RACES {
        let id = alert(meta, which, now)?.alert.id;
        let Some((mut known, revision)) = get::<Alerts>(meta, key.clone())? else {
            continue;
        };
        let Some(found) = known.alerts.get_mut(&id) else {
            continue;
        };
        if found.state == State::Resolved {
            return Err(bad("alert", which, "it is over: there is nothing to look after"));
        }
        found.acknowledged = Some(Acknowledgement {
            by: by.to_owned(),
            at: now,
            severity: found.condition.severity,
            note: note.trim().to_owned(),
        });
        if meta.txn(&Call::put_if(key.as_str(), revision, json(&known)))?.succeeded {
            return alert(meta, &id, now);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The one whose id begins so.
fn one<'a, T>(what: &'static str, which: &str, all: &'a [T], id: impl Fn(&T) -> &String) -> Result<&'a T> {
    let mut found = all
        .iter()
        .filter(|item| which.len() >= LEAST_ID && id(item).starts_with(which));
    let Some(first) = found.next() else {
        return Err(AdminError::NoSuch {
            what,
            name: which.to_owned(),
            there: all.iter().map(|item| id(item).clone()).collect(),
        });
    };
    match found.next() {
        None => Ok(first),
        Some(other) => Err(bad(
            what,
            which,
            format!("{} and {} begin so: give more of it", id(first), id(other)),
        )),
    }
}

/// Twelve hexadecimal digits that nothing else has.
pub(crate) fn new_id() -> String {
    let mut text = uuid::Uuid::new_v4().simple().to_string();
    text.truncate(12);
    text
}

#[cfg(test)]
mod tests;
