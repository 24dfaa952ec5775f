//! Who may use the API without a certificate.

use super::{AdminError, Result, check_name, json, list, parse, remove};
use amita_identity::{ApiToken as Secret, OperatorRole};
use amita_metadata::{Call, Transact};
use amita_types::MirrorId;
use amita_types::map::{self, ApiToken, Mirror};
use std::time::Duration;

/// The most tokens that there can be at one time.
pub const MAX_TOKENS: usize = 10_000;
/// How long a token is good for where nobody says.
pub const DEFAULT_TOKEN_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest time that a token is good for.
pub const MAX_TOKEN_LIFE: Duration = Duration::from_secs(366 * 24 * 3600);
/// How long a token of a mirror's other end is good for.
const MIRROR_TOKEN_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// It is renewed in the last part of that.
pub const MIRROR_TOKEN_RENEWAL: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most tokens of a mirror that are good at one time: that one is renewed ends none.
const MAX_MIRROR_TOKENS: usize = 8;
/// So far the clocks of two nodes may be apart.
const SKEW: Duration = Duration::from_secs(24 * 3600);
/// The least of an id that a token is revoked by.
const LEAST_ID: usize = 8;
/// The shortest one.
const LEAST_LIFE: Duration = Duration::from_secs(1);

/// A token that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Who will hold it.
    pub name: String,
    /// What they may.
    pub role: OperatorRole,
    /// For how long.
    pub life: Duration,
    /// Who makes it.
    pub made_by: String,
}

/// The tokens that there are, those that have ended as well, in the order of their holders' names. (Ended ones go by and by.)
///
/// # Errors
/// The metadata is away.
pub fn tokens(meta: &dyn Transact) -> Result<Vec<ApiToken>> {
    let mut all: Vec<ApiToken> = list(meta, &map::api_tokens_prefix())?;
    all.sort_by(|a, b| (&a.name, a.made_at, &a.id).cmp(&(&b.name, b.made_at, &b.id)));
    Ok(all)
}

/// Makes a token; `now` is since 1970. Only this answer has its secret.
///
/// # Errors
/// A name, a role or a life that cannot be; there are too many; the metadata is away or refuses.
pub fn create_token(meta: &dyn Transact, wanted: &NewToken, now: Duration) -> Result<(ApiToken, Secret)> {
    check_name("token", &wanted.name)?;
    if !(LEAST_LIFE..=MAX_TOKEN_LIFE).contains(&wanted.life) {
        return Err(bad_life(wanted));
    }
    if wanted.role == OperatorRole::Tenant {
        return Err(AdminError::BadSetting {
            what: "token",
            name: wanted.name.clone(),
            why: "tenants have no tokens; the role is admin, operator, viewer or auditor".to_owned(),
        });
    }
    if wanted.role == OperatorRole::Mirror {
        return Err(AdminError::BadSetting {
            what: "token",
            name: wanted.name.clone(),
            why: "a token of this role is bound to a mirror: `amita mirror add` and `amita mirror join` make it, and no other way does".to_owned(),
        });
    }
    make(meta, wanted, None, now)
}

/// Makes a token for the other end of a mirror, good for that mirror alone; `now` is since 1970. Only this answer has its secret.
///
/// # Errors
/// The mirror has as many as can be; the metadata is away or refuses.
pub fn create_mirror_token(
    meta: &dyn Transact,
    mirror: &Mirror,
    made_by: &str,
    now: Duration,
) -> Result<(ApiToken, Secret)> {
    let is_good = |token: &&ApiToken| token.mirror == Some(mirror.id) && now.as_secs() < token.ends_at;
    if tokens(meta)?.iter().filter(is_good).count() >= MAX_MIRROR_TOKENS {
        return Err(AdminError::Full {
            what: "mirror",
            name: mirror.name.clone(),
            of: "tokens",
            most: MAX_MIRROR_TOKENS,
        });
    }
    let wanted = NewToken {
        name: mirror.name.clone(),
        role: OperatorRole::Mirror,
        life: MIRROR_TOKEN_LIFE,
        made_by: made_by.to_owned(),
    };
    make(meta, &wanted, Some(mirror.id), now)
}

/// Has all tokens for the other end of a mirror be good for nothing; so many.
///
/// # Errors
/// The metadata is away or refuses.
pub fn revoke_mirror_tokens(meta: &dyn Transact, mirror: MirrorId) -> Result<usize> {
    let all = tokens(meta)?;
    let mut gone = 0;
    for token in all.iter().filter(|token| token.mirror == Some(mirror)) {
        gone += usize::from(remove(meta, &map::api_token_key(&token.id))?);
    }
    Ok(gone)
}

fn make(meta: &dyn Transact, wanted: &NewToken, mirror: Option<MirrorId>, now: Duration) -> Result<(ApiToken, Secret)> {
    if tokens(meta)?.len() >= MAX_TOKENS {
        return Err(AdminError::Full {
            what: "this",
            name: "cluster".to_owned(),
            of: "tokens",
            most: MAX_TOKENS,
        });
    }
    let secret = Secret::generate();
    let record = ApiToken {
        id: secret.id(),
        name: wanted.name.clone(),
        role: wanted.role.text().to_owned(),
        kept: secret.kept(),
        made_by: wanted.made_by.clone(),
        made_at: now.as_secs(),
        ends_at: now.saturating_add(wanted.life).as_secs(),
        mirror,
    };
    meta.txn(&Call::put_if(map::api_token_key(&record.id), 0, json(&record)))?;
    Ok((record, secret))
}

fn bad_life(wanted: &NewToken) -> AdminError {
    AdminError::BadSetting {
        what: "token",
        name: wanted.name.clone(),
        why: format!(
            "it would be good for {} s; 1 s to {} days can be",
            wanted.life.as_secs(),
            MAX_TOKEN_LIFE.as_secs() / (24 * 3600)
        ),
    }
}

/// Whose token this is, if it is good; `now` is since 1970. Whoever shows one that is not is told nothing of why.
///
/// # Errors
/// The metadata is away, or the record cannot be read.
pub fn check_token(meta: &dyn Transact, shown: &Secret, now: Duration) -> Result<Option<(ApiToken, OperatorRole)>> {
    find_good(meta, &shown.id(), now, |kept| shown.is(kept))
}

/// Is a token still good of which this was kept, by whoever was shown it?
///
/// # Errors
/// As [`check_token`].
pub fn is_token_good(meta: &dyn Transact, id: &str, kept: &str, now: Duration) -> Result<bool> {
    let found = find_good(meta, id, now, |found| found == kept)?;
    Ok(found.is_some())
}

fn find_good(
    meta: &dyn Transact,
    id: &str,
    now: Duration,
    is_it: impl FnOnce(&str) -> bool,
) -> Result<Option<(ApiToken, OperatorRole)>> {
    let reply = meta.txn(&Call::get(map::api_token_key(id)))?;
    let Some(found) = reply.value(0) else { return Ok(None) };
    let record: ApiToken = parse(found)?;
    let role: Option<OperatorRole> = record.role.parse().ok();
    // Nobody is let in for longer than a token can be made for, whatever wrote the record.
    let life = record.ends_at.saturating_sub(record.made_at);
    let can_be = life <= MAX_TOKEN_LIFE.as_secs() && record.made_at <= now.as_secs() + SKEW.as_secs();
    // A token of a mirror's other end is of one mirror, and no other token is.
    let is_bound = record.mirror.is_some() == (role == Some(OperatorRole::Mirror));
    let good = can_be && is_bound && record.id == id && is_it(&record.kept) && now.as_secs() < record.ends_at;
    Ok(role.filter(|_| good).map(|role| (record, role)))
}

/// Has a token be good for nothing. `which` is its id, or its beginning: at least 8 digits, and as many as no other one has.
///
/// # Errors
/// There is none, or there are several; the metadata is away or refuses.
pub fn revoke_token(meta: &dyn Transact, which: &str) -> Result<ApiToken> {
    let all = tokens(meta)?;
    let mut found = all
        .iter()
        .filter(|token| which.len() >= LEAST_ID && token.id.starts_with(which));
    let Some(token) = found.next() else {
        return Err(AdminError::NoSuch {
            what: "token",
            name: which.to_owned(),
            there: all.iter().map(|token| token.id.clone()).collect(),
        });
    };
    if let Some(other) = found.next() {
        return Err(AdminError::BadSetting {
            what: "token",
            name: which.to_owned(),
            why: format!("{} and {} begin so: give more of it", token.id, other.id),
        });
    }
    remove(meta, &map::api_token_key(&token.id))?;
    Ok(token.clone())
}

/// Takes those away that have ended a month ago, by this clock; how many. For whoever does the upkeep; `now` is since 1970.
///
/// # Errors
/// The metadata is away or refuses.
pub fn end_tokens(meta: &dyn Transact, now: Duration) -> Result<usize> {
    const KEPT: u64 = 30 * 24 * 3600;
    let reply = meta.txn(&Call::prefix(map::api_tokens_prefix()))?;
    let is_over = |token: &ApiToken| token.ends_at.saturating_add(KEPT) <= now.as_secs();
    let ended = reply
        .values(0)
        .iter()
        .filter(|found| found.json().is_ok_and(|token| is_over(&token)));
    let ended: Vec<&str> = ended.map(|found| found.key.as_str()).collect();
    for key in &ended {
        remove(meta, key)?;
    }
    Ok(ended.len())
}
