//! What the lines of the file give.

use super::file::KeyFileError;
use super::keeper::{Keeper, Trouble};
use super::{kmip, vault};
use amita_crypt::{
    Binding, Cost, DataKey, KeyError, Next, PURPOSE, Passphrase, Provider, Question, SealedFile, WrappedKey,
    WrappingKey, Zeroizing,
};
use amita_keys::{SealKey, system_random};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A passphrase may cost a stretching of a third of a second for each data key that another process has wrapped: they are few.
const MAX_PASSPHRASES: usize = 4;
/// Each key that somebody else keeps has a thread.
const MAX_KEPT: usize = 4;
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

/// What wraps by a line; all keys of the file are one.
pub(super) struct Line {
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
    /// Never empty; the first one wraps.
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
        let named = |place: &Place| parsed.iter().any(|(_, named)| named.as_ref() == Some(place));
        keepers.retain(|place, _| named(place));
        for (provider, place) in parsed {
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
            lines.push(Line { provider, keeper });
        }
        let is_costly = text.lines().any(|line| line.starts_with(PASSPHRASE));
        Ok(Loaded { text, lines, is_costly })
    }

    /// The first line's key. A passphrase has as many as there are salts: the one that the cluster has now, where it is of that.
    pub fn first(&mut self, now: Option<&WrappingKey>) -> Result<WrappingKey, String> {
        let first = &mut self.lines.first_mut().expect("it is never empty").provider;
        if let Some(now) = now.filter(|now| now.is_of_passphrase())
            && first.has(now).map_err(|why| why.to_string())?
        {
            return Ok(now.clone());
        }
        first.first().map_err(|why| why.to_string())
    }

    /// Who has this one.
    pub fn with(&mut self, by: &WrappingKey) -> Result<&mut Line, String> {
        let mut place = None;
        for (at, line) in self.lines.iter_mut().enumerate() {
            if line.provider.has(by).map_err(|why| why.to_string())? {
                place = Some(at);
                break;
            }
        }
        let place = place.ok_or_else(|| {
            format!(
                "the file of volume keys is not the cluster's: no line of it is what data keys are wrapped with ({by}); give it the \
                 cluster's file (`amita volume key status` compares them)"
            )
        })?;
        Ok(&mut self.lines[place])
    }
}

type Parsed = (Box<dyn Provider>, Option<Place>);

fn parse(text: &str) -> Result<Vec<Parsed>, KeyFileError> {
    let mut found: Vec<Parsed> = Vec::new();
    // Half of a passphrase is a passphrase.
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(KeyFileError::NoKeys(
            "its last line has no end: it was not written to its end, or by an editor that leaves that out; see that it is whole, and end it with \
             a newline",
        ));
    }
    // All keys are one provider, at the place of the first.
    let (mut keys, mut keys_at): (Vec<&str>, usize) = (Vec::new(), 0);
    let mut passphrases = 0;
    for (index, line) in text.lines().enumerate() {
        let bad = |why: String| KeyFileError::Line { line: index + 1, why };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(passphrase) = line.strip_prefix(PASSPHRASE) {
            let made = Passphrase::new(passphrase, Cost::RECOMMENDED, &mut system_random);
            found.push((Box::new(made.map_err(|why| bad(why.to_string()))?), None));
            passphrases += 1;
            if passphrases > MAX_PASSPHRASES {
                return Err(bad(format!("more than {MAX_PASSPHRASES} passphrases")));
            }
        } else if let Some(place) = place_of(line) {
            let place = place.map_err(bad)?;
            check_place(&found, &place).map_err(bad)?;
            found.push((place.provider().map_err(bad)?, Some(place)));
        } else if line.starts_with(KEY) {
            if SealKey::of_lines(&[line]).is_none() {
                return Err(bad(format!("a key is `{KEY}BASE64:` with 32 bytes")));
            }
            if keys.is_empty() {
                keys_at = found.len();
            }
            keys.push(line);
        } else {
            return Err(bad(format!(
                "neither a key (`{KEY}BASE64:`) nor `{PASSPHRASE}TEXT` nor `{VAULT}https://HOST key=NAME token-file=PATH ca-file=PATH` nor \
                 `{KMIP}HOST key=ID cert-file=PATH key-file=PATH ca-file=PATH`"
            )));
        }
    }
    let derived = SealKey::of_lines(&keys).map(|key| key.derive(PURPOSE));
    if let Some(sealed) = derived.and_then(SealedFile::new) {
        found.insert(keys_at, (Box::new(sealed), None));
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
fn check_place(found: &[Parsed], place: &Place) -> Result<(), String> {
    let (kind, mount, key) = place.named();
    let others = found.iter().filter_map(|(_, place)| place.as_ref()).map(Place::named);
    let others = others.filter(|(of, ..)| *of == kind);
    if others.clone().count() >= MAX_KEPT {
        return Err(format!("more than {MAX_KEPT} lines of {kind}"));
    }
    if others.clone().any(|other| other == (kind, mount, key)) {
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
