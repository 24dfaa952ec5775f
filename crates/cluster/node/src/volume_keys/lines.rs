//! What the lines of the file give.

use super::file::KeyFileError;
use super::keeper::{Keeper, Trouble};
use super::{kmip, vault};
use amita_crypt::{
    Binding, Cost, DataKey, KeyError, Next, PURPOSE, Passphrase, Provider, Question, SealedFile, WrappedKey,
    WrappingKey, Zeroizing,
};
use amita_keys::{SealKey, system_random};
use amita_types::capability::{MAX_TENANT_BYTES, tenant_fault};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A passphrase may cost a stretching of a third of a second for each data key that another process has wrapped: they are few, tenants' among them.
const MAX_PASSPHRASES: usize = 4;
/// Each key that somebody else keeps has a thread: of one kind so many are the cluster's, and so many each tenant's,
const MAX_KEPT: usize = 4;
/// and so many are all.
const MAX_KEPT_OF_ALL: usize = 64;
/// What stands before a line that is a tenant's.
const TENANT: &str = "tenant=";
const KEY: &str = "amita-seal-1:";
const PASSPHRASE: &str = "passphrase:";
const VAULT: &str = "vault:";
const KMIP: &str = "kmip:";

/// Those who keep keys that the file names, as long as it does.
pub(super) type Keepers = BTreeMap<Place, Arc<Keeper>>;

/// A key that somebody else keeps, and where he is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Vault(vault::line::Place),
    Kmip(kmip::line::Place),
}

impl Place {
    fn start(&self) -> io::Result<Arc<Keeper>> {
        match self {
            Place::Vault(place) => vault::start(place.clone()),
            Place::Kmip(place) => kmip::start(place.clone()),
        }
    }

    fn provider(&self) -> Result<Box<dyn Provider>, String> {
        Ok(match self {
            Place::Vault(place) => Box::new(place.provider()?),
            Place::Kmip(place) => Box::new(place.provider()?),
        })
    }

    /// By which version of his key this one of his servers wraps now, where it has any. He has to wrap by it, or to give it, and to bind what he wraps.
    ///
    /// # Errors
    /// He does not, or does not answer: why, for people.
    pub fn probe(&self, keeper: &Keeper, server: usize) -> Result<Option<u32>, Trouble> {
        match self {
            Place::Vault(place) => vault::probe(keeper, &place.provider()?).map(Some),
            Place::Kmip(place) => kmip::probe(keeper, &place.provider()?, server).map(|()| None),
        }
    }

    /// The same of the first of his servers that does.
    ///
    /// # Errors
    /// None does: why, for people.
    pub fn probe_any(&self, keeper: &Keeper) -> Result<Option<u32>, Trouble> {
        first_of(keeper, |server| self.probe(keeper, server))
    }

    /// What a record says of it.
    fn named(&self) -> (&'static str, &str, &str) {
        match self {
            Place::Vault(place) => ("Vault's", &place.mount, &place.key),
            Place::Kmip(place) => ("a KMIP server's", "", &place.key),
        }
    }
}

/// Something that is there, or is to be asked for.
pub(super) enum Step<T> {
    Done(T),
    /// Of who keeps the key: by whoever has let go of the file meanwhile.
    Ask(Arc<Keeper>, Question<T>),
}

impl<T> Step<T> {
    /// Waits for it.
    pub fn finish(self) -> Result<T, Trouble> {
        match self {
            Step::Done(done) => Ok(done),
            Step::Ask(keeper, question) => keeper.carry(question),
        }
    }

    /// Waits for it, of this one of the servers alone ([`Keeper::ask_at`]).
    pub fn finish_at(self, server: usize) -> Result<Result<T, KeyError>, Trouble> {
        match self {
            Step::Done(done) => Ok(Ok(done)),
            Step::Ask(keeper, question) => keeper.ask_at(question, server),
        }
    }
}

/// What comes of the first of its servers of which something comes.
///
/// # Errors
/// Nothing comes of any: why, for people, of all. It passes where it may with one.
pub(super) fn first_of<T>(keeper: &Keeper, mut ask: impl FnMut(usize) -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut failed: Vec<Trouble> = Vec::new();
    for server in 0..keeper.servers() {
        match ask(server) {
            Ok(done) => return Ok(done),
            Err(why) => failed.push(why),
        }
    }
    Err(Trouble::of_all(failed))
}

/// What wraps by a line; all keys of the file are one, and all of a tenant's.
pub(super) struct Line {
    /// The tenant for whose volumes alone it wraps; none: it wraps for the cluster.
    pub tenant: Option<String>,
    pub provider: Box<dyn Provider>,
    /// Who carries its questions.
    pub keeper: Option<(Place, Arc<Keeper>)>,
}

impl Line {
    fn step<T>(&self, next: Next<T>) -> Result<Step<T>, String> {
        match (next, &self.keeper) {
            (Next::Done(done), _) => Ok(Step::Done(done)),
            (Next::Ask(question), Some((_, keeper))) => Ok(Step::Ask(Arc::clone(keeper), question)),
            (Next::Ask(_), None) => Err(format!("{} is asked by no line of the file", self.provider.kind())),
        }
    }

    pub fn wrap(&mut self, by: &WrappingKey, binding: &Binding, key: &DataKey) -> Result<Step<WrappedKey>, String> {
        let wrapped = self.provider.wrap_by(by, binding, key, &mut system_random);
        self.step(wrapped.map_err(|why| why.to_string())?)
    }
}

/// Unwraps by the first of these that can.
pub(super) fn unwrap(lines: &mut [Line], binding: &Binding, wrapped: &WrappedKey) -> Result<Step<DataKey>, String> {
    let mut refused: Option<KeyError> = None;
    for line in lines {
        match line.provider.unwrap(binding, wrapped) {
            Ok(next) => return line.step(next),
            // What is of its kind says more than what is not.
            Err(why) if refused.is_none() || !matches!(why, KeyError::OtherProvider { .. }) => refused = Some(why),
            Err(_) => {}
        }
    }
    Err(refused.map_or_else(String::new, |why| why.to_string()))
}

/// What the file gave when it was last looked at.
pub(super) struct Loaded {
    pub text: Zeroizing<String>,
    /// Never empty; the first one that is no tenant's wraps for the cluster.
    pub lines: Vec<Line>,
    /// There is a passphrase in it, which is stretched again whenever it is read again.
    pub is_costly: bool,
}

impl Loaded {
    /// Of the file's text.
    ///
    /// # Errors
    /// There is a line that is none, or none at all; no thread is to be had.
    pub fn of(text: Zeroizing<String>, keepers: &mut Keepers) -> Result<Loaded, KeyFileError> {
        let mut lines = Vec::new();
        let parsed = parse(&text)?;
        let named = |place: &Place| parsed.iter().any(|line| line.place.as_ref() == Some(place));
        keepers.retain(|place, _| named(place));
        for Parsed {
            tenant,
            provider,
            place,
        } in parsed
        {
            let keeper = match place {
                None => None,
                Some(place) => {
                    let keeper = match keepers.get(&place) {
                        Some(keeper) => Arc::clone(keeper),
                        None => place.start()?,
                    };
                    keepers.insert(place.clone(), Arc::clone(&keeper));
                    Some((place, keeper))
                }
            };
            lines.push(Line {
                tenant,
                provider,
                keeper,
            });
        }
        let is_passphrase = |line: &str| labelled(line).is_ok_and(|(_, line)| line.starts_with(PASSPHRASE));
        let is_costly = text.lines().any(is_passphrase);
        Ok(Loaded { text, lines, is_costly })
    }

    /// The first line that is no tenant's.
    pub fn first_line(&mut self) -> Result<&mut Line, String> {
        let mut lines = self.lines.iter_mut();
        lines.find(|line| line.tenant.is_none()).ok_or_else(|| {
            "all lines of the file of volume keys are tenants': what wraps for the cluster is one without `tenant=` (`amita volume key init` makes one)"
                .to_owned()
        })
    }

    /// The key of that. A passphrase has as many as there are salts: the one that the cluster has now, where it is of that.
    pub fn first(&mut self, now: Option<&WrappingKey>) -> Result<WrappingKey, String> {
        let first = &mut self.first_line()?.provider;
        if let Some(now) = now.filter(|now| now.is_of_passphrase())
            && first.has(now).map_err(|why| why.to_string())?
        {
            return Ok(now.clone());
        }
        first.first().map_err(|why| why.to_string())
    }

    /// A tenant's keys: of a passphrase the one that he has now, where it is of that.
    pub fn of_tenant(&mut self, tenant: &str, now: Option<&WrappingKey>) -> Result<Vec<WrappingKey>, String> {
        let mut keys = Vec::new();
        for line in self
            .lines
            .iter_mut()
            .filter(|line| line.tenant.as_deref() == Some(tenant))
        {
            let is_now = match now.filter(|now| now.is_of_passphrase()) {
                Some(now) => line.provider.has(now).map_err(|why| why.to_string())?,
                None => false,
            };
            match now.filter(|_| is_now) {
                Some(now) => keys.push(now.clone()),
                None => keys.extend(line.provider.all().map_err(|why| why.to_string())?),
            }
        }
        Ok(keys)
    }

    /// The line that wraps with this one for a tenant, or for the cluster.
    pub fn wrapper(&mut self, by: &WrappingKey, tenant: Option<&str>) -> Result<&mut Line, String> {
        let found = self.find(by)?;
        match (found, tenant) {
            (Some(at), _) if self.lines[at].tenant.as_deref() == tenant => Ok(&mut self.lines[at]),
            (Some(at), _) => Err(format!(
                "the line of the file of volume keys that is {by} is {}, and is to wrap for {}: see what stands before it (`{TENANT}NAME`)",
                whose(self.lines[at].tenant.as_deref()),
                whose(tenant)
            )),
            (None, Some(tenant)) => Err(format!(
                "no line of the file of volume keys is the volume key of tenant {tenant} ({by}): give it the file with that line \
                 (`{TENANT}{tenant} ...`)"
            )),
            (None, None) => Err(not_the_clusters(by)),
        }
    }

    /// Who has this one, whosever it is.
    pub fn with(&mut self, by: &WrappingKey) -> Result<&mut Line, String> {
        let at = self.find(by)?.ok_or_else(|| not_the_clusters(by))?;
        Ok(&mut self.lines[at])
    }

    fn find(&mut self, by: &WrappingKey) -> Result<Option<usize>, String> {
        for (at, line) in self.lines.iter_mut().enumerate() {
            if line.provider.has(by).map_err(|why| why.to_string())? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

fn not_the_clusters(by: &WrappingKey) -> String {
    format!(
        "the file of volume keys is not the cluster's: no line of it is what data keys are wrapped with ({by}); give it the cluster's file \
         (`amita volume key status` compares them)"
    )
}

/// For people.
fn whose(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "the cluster's".to_owned(), |tenant| format!("tenant {tenant}'s"))
}

/// A line, before it is one that wraps.
struct Parsed {
    tenant: Option<String>,
    provider: Box<dyn Provider>,
    place: Option<Place>,
}

/// The tenant that a line is for, and the line without that.
fn labelled(line: &str) -> Result<(Option<&str>, &str), String> {
    let Some(rest) = line.strip_prefix(TENANT) else {
        return Ok((None, line));
    };
    let (tenant, line) = rest
        .split_once(' ')
        .ok_or_else(|| format!("behind `{TENANT}NAME` stands a blank, and what wraps for that tenant"))?;
    if tenant.is_empty() {
        return Err(format!("behind `{TENANT}` stands no name for a tenant: it is empty"));
    }
    match tenant_fault(tenant) {
        // Nothing of what stands there: with words mixed up it is a key or a passphrase.
        Some(_) => Err(format!(
            "what stands behind `{TENANT}` is no name for a tenant: letters, digits, `.`, `_` and `-` are allowed, {MAX_TENANT_BYTES} at most, `.` and `-` not \
             at its start"
        )),
        None => Ok((Some(tenant), line)),
    }
}

fn parse(text: &str) -> Result<Vec<Parsed>, KeyFileError> {
    let mut found: Vec<Parsed> = Vec::new();
    // Half of a passphrase is a passphrase.
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(KeyFileError::NoKeys(
            "its last line has no end: it was not written to its end, or by an editor that leaves that out; see that it is whole, and end it with \
             a newline",
        ));
    }
    // All keys of one are one provider, at the place of the first.
    let mut keys: Vec<(Option<&str>, Vec<&str>, usize)> = Vec::new();
    let mut secrets: BTreeSet<&str> = BTreeSet::new();
    let mut passphrases = 0;
    for (index, line) in text.lines().enumerate() {
        let bad = |why: String| KeyFileError::Line { line: index + 1, why };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (tenant, line) = labelled(line).map_err(bad)?;
        let mut push = |provider, place| {
            found.push(Parsed {
                tenant: tenant.map(str::to_owned),
                provider,
                place,
            });
        };
        let is_secret = line.starts_with(PASSPHRASE) || line.starts_with(KEY);
        if is_secret && !secrets.insert(line) {
            return Err(bad(
                "it is the same as a line before: of each there is one, for one tenant or for the cluster".to_owned(),
            ));
        }
        if let Some(passphrase) = line.strip_prefix(PASSPHRASE) {
            let made = Passphrase::new(passphrase, Cost::RECOMMENDED, &mut system_random);
            push(Box::new(made.map_err(|why| bad(why.to_string()))?), None);
            passphrases += 1;
            if passphrases > MAX_PASSPHRASES {
                return Err(bad(format!("more than {MAX_PASSPHRASES} passphrases")));
            }
        } else if let Some(place) = place_of(line) {
            let place = place.map_err(bad)?;
            check_place(&found, tenant, &place).map_err(bad)?;
            let provider = place.provider().map_err(bad)?;
            found.push(Parsed {
                tenant: tenant.map(str::to_owned),
                provider,
                place: Some(place),
            });
        } else if line.starts_with(KEY) {
            if SealKey::of_lines(&[line]).is_none() {
                return Err(bad(format!("a key is `{KEY}BASE64:` with 32 bytes")));
            }
            match keys.iter_mut().find(|(of, ..)| *of == tenant) {
                Some((_, lines, _)) => lines.push(line),
                None => keys.push((tenant, vec![line], found.len())),
            }
        } else {
            return Err(bad(format!(
                "neither a key (`{KEY}BASE64:`) nor `{PASSPHRASE}TEXT` nor `{VAULT}https://HOST key=NAME token-file=PATH ca-file=PATH` nor \
                 `{KMIP}HOST key=ID cert-file=PATH key-file=PATH ca-file=PATH`, with `{TENANT}NAME ` before it or without"
            )));
        }
    }
    // The last one first, so that places stay.
    for (tenant, lines, at) in keys.into_iter().rev() {
        let derived = SealKey::of_lines(&lines).map(|key| key.derive(PURPOSE));
        if let Some(sealed) = derived.and_then(SealedFile::new) {
            let line = Parsed {
                tenant: tenant.map(str::to_owned),
                provider: Box::new(sealed),
                place: None,
            };
            found.insert(at, line);
        }
    }
    match found.is_empty() {
        true => Err(KeyFileError::NoKeys(
            "there is no key in it (`amita volume key init` makes one)",
        )),
        false => Ok(found),
    }
}

/// What a line says of who keeps its key; none: it is no such line.
fn place_of(line: &str) -> Option<Result<Place, String>> {
    if let Some(text) = line.strip_prefix(VAULT) {
        return Some(vault::line::Place::parse(text).map(Place::Vault));
    }
    let text = line.strip_prefix(KMIP)?;
    Some(kmip::line::Place::parse(text).map(Place::Kmip))
}

/// By its name alone (of Vault's its mount and name, of a KMIP server its identifier) a data key's record says which key has wrapped it.
fn check_place(found: &[Parsed], tenant: Option<&str>, place: &Place) -> Result<(), String> {
    let (kind, mount, key) = place.named();
    let kept = found
        .iter()
        .filter_map(|line| line.place.as_ref().map(|place| (line, place)));
    if kept.clone().count() >= MAX_KEPT_OF_ALL {
        return Err(format!("more than {MAX_KEPT_OF_ALL} lines of keys that others keep"));
    }
    let of_kind = kept.filter(|(_, place)| place.named().0 == kind);
    let own = of_kind.clone().filter(|(line, _)| line.tenant.as_deref() == tenant);
    if own.count() >= MAX_KEPT {
        return Err(format!("more than {MAX_KEPT} lines of {kind}"));
    }
    let mut others = of_kind.map(|(_, place)| place.named());
    if others.any(|other| other == (kind, mount, key)) {
        return Err(match place {
            Place::Vault(_) => format!(
                "a line before names the key {key} at mount {mount}, too: records say no more of a key than that, so give the new one another name or \
                 mount"
            ),
            Place::Kmip(_) => format!(
                "a line before names the key {key}, too: records say no more of a key than that, so name all its servers in one line, and of \
                 another one its own key"
            ),
        });
    }
    Ok(())
}
