//! Key-encryption keys that Vault, or OpenBao, keeps in its transit engine, and never gives away: two requests of its HTTP API.
//!
//! | what | request | answer |
//! | --- | --- | --- |
//! | wrap | `POST /v1/MOUNT/encrypt/KEY` `{"plaintext", "associated_data"}` | `{"data": {"ciphertext": "vault:vN:..."}}` |
//! | unwrap | `POST /v1/MOUNT/decrypt/KEY` `{"ciphertext", "associated_data"}` | `{"data": {"plaintext"}}` |
//!
//! `associated_data` (Vault 1.13 and later; an older one leaves it out without a word, see [`Transit::probe`]) is what a data key is bound to; the key must be of a type with it (`aes256-gcm96` or
//! `chacha20-poly1305`). Vault's own `rewrap` and `datakey` take none ([vault#29532](https://github.com/hashicorp/vault/issues/29532)): what
//! `datakey` makes would be bound to nothing, so data keys are made here, and a key is wrapped again by these two: after `vault write -f transit/keys/KEY/rotate` what is wrapped has the new version.
//!
//! Vault makes a key that it does not know when the token's policy lets it *create*: give it `update` of these two paths, and no more.

use super::passphrase::BadPassphrase;
use super::{HttpRequest, HttpResponse, Next, Provider, Question, Random};
use crate::key::DataKey;
use crate::wrapped::{Binding, By, KeyError, Label, Told, WrappedKey};
use crate::wrapping::{Which, WrappingKey};
use amita_types::ClusterId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

const KIND: &str = "Vault's transit engine";
/// The header with the token.
pub const TOKEN_HEADER: &str = "X-Vault-Token";
/// What is wrapped to see by which version is bound to this, and is no key.
const PROBE: &[u8] = b"amita-crypt which version";
/// What is wrapped bound to [`PROBE`] is asked back bound to this: who gives it binds nothing.
const OTHER: &[u8] = b"amita-crypt another binding";
/// The longest name of a mount, a key or a namespace, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// The longest token: those that Vault does not store have some hundred bytes.
const MAX_TOKEN_BYTES: usize = 4096;
/// The longest text that Vault may give for a wrapped key: one has about 150 bytes.
const MAX_WRAPPED_BYTES: usize = 1024;
/// How much of Vault's own words an error repeats, in characters.
const MAX_SAID: usize = 200;
/// Room for a request with all that it may have, so that no copy of it is left behind when it grows.
const BODY_BYTES: usize = 4096;

/// What cannot be used with Vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTransit {
    /// A name has other characters, or none, or too many.
    #[error("{what}: 1 to {MAX_NAME_BYTES} letters, digits, and _ . - inside (in a path, / between them)")]
    Name {
        /// Which name.
        what: &'static str,
    },
    /// The token has other characters, or none, or too many.
    #[error("Vault's token has 1 to {MAX_TOKEN_BYTES} visible ASCII characters and no spaces")]
    Token,
}

/// Why Vault has not done it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitError {
    /// It refuses.
    #[error("Vault refuses ({status}{}{said}){}", if .said.is_empty() { "" } else { ": " }, hint(*.status, .said))]
    Refused {
        /// The status of its answer.
        status: u16,
        /// Its words, shortened.
        said: String,
    },
    /// It answers something else.
    #[error("Vault's answer is none to what it was asked: {what}")]
    Answer {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It opens what is bound to one thing for who shows another: `associated_data` is no field that it knows.
    #[error(
        "this Vault does not bind what it wraps: 1.13 or later does, and OpenBao; nothing is wrapped by it, as each record of a data key would \
         open as any other one"
    )]
    BindsNothing,
    /// The record has something that Vault never gives, or a name that it takes for none.
    #[error("the record of a key that Vault has wrapped has {what}")]
    Record {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The record is of another cluster.
    #[error("it was wrapped for cluster {cluster}, and stands in another one's metadata: put the right one back")]
    OtherCluster {
        /// For which.
        cluster: ClusterId,
    },
    /// The record is of another mount, or of another of Vault's keys.
    #[error("it was wrapped by Vault's key {mount}/{key}, and this node was given another: give it that one")]
    OtherKey {
        /// Where the engine is mounted.
        mount: String,
        /// The key's name there.
        key: String,
    },
}

/// What to do, by what Vault says (its own words stand before it).
fn hint(status: u16, said: &str) -> &'static str {
    match status {
        300..=399 => {
            ": it leads elsewhere, and is not followed: name the address of the active server, or have standbys forward"
        }
        400 if said.contains("encryption key not found") => {
            ": there is no such key: make it (`vault write -f MOUNT/keys/KEY`, of type aes256-gcm96), or name the right one"
        }
        400 if said.contains("authentication failed") => {
            ": the record was changed, or Vault's key of that name is another one than it was: put the right one back"
        }
        400 if said.contains("version") => {
            ": the version of Vault's key that has wrapped it is none that Vault opens with: lower its min_decryption_version, or restore the key"
        }
        400 => {
            ": is the key of a type with associated data (aes256-gcm96, chacha20-poly1305), and Vault 1.13 or later?"
        }
        403 => {
            ": give the token the right to update MOUNT/encrypt/KEY and MOUNT/decrypt/KEY, or put a new token into its file; is the namespace the \
             right one?"
        }
        404 => ": is the transit engine mounted there?",
        405 => ": what is mounted there is no transit engine",
        429 => ": it limits how often it is asked; it is asked again by and by",
        472 | 473 => ": it is a standby that forwards nothing: name the address of the active server",
        503 => ": Vault is sealed, or a standby; unseal it",
        _ => "",
    }
}

/// A token, without the line end behind it.
///
/// # Errors
/// It is none.
pub fn check_token(token: &str) -> Result<&str, BadTransit> {
    let token = token.trim_end_matches(['\r', '\n']);
    let is_good =
        (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.chars().all(|character| character.is_ascii_graphic());
    is_good.then_some(token).ok_or(BadTransit::Token)
}

/// What an answer says that is no success, for who has seen its status.
#[must_use]
pub fn refusal(response: &HttpResponse) -> TransitError {
    let body = &response.body[..response.body.len().min(HttpResponse::MAX_BODY_BYTES)];
    let Refusal { errors } = serde_json::from_slice(body).unwrap_or_default();
    let all = errors.join("; ");
    let said = all
        .chars()
        .filter(|character| !character.is_control())
        .take(MAX_SAID)
        .collect();
    let status = response.status;
    TransitError::Refused { status, said }
}

/// See the module.
pub struct Transit {
    mount: String,
    key: String,
    namespace: Option<String>,
    cluster: Option<ClusterId>,
    /// `None`: whoever carries the questions shows one.
    token: Option<Zeroizing<String>>,
}

/// A word of a path: what Vault takes for a name.
fn is_word(text: &str) -> bool {
    let is_alphanumeric = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let ends = text.starts_with(is_alphanumeric) && text.ends_with(is_alphanumeric);
    ends && text
        .chars()
        .all(|character| is_alphanumeric(character) || "-.".contains(character))
        && !text.contains("..")
}

fn check_path(text: &str, what: &'static str) -> Result<(), BadTransit> {
    match text.len() <= MAX_NAME_BYTES && text.split('/').all(is_word) {
        true => Ok(()),
        false => Err(BadTransit::Name { what }),
    }
}

fn check_names(mount: &str, key: &str) -> Result<(), BadTransit> {
    check_path(mount, "where Vault's transit engine is mounted")?;
    match key.contains('/') {
        true => Err(BadTransit::Name {
            what: "the name of Vault's key",
        }),
        false => check_path(key, "the name of Vault's key"),
    }
}

/// The version of Vault's key in what it gave for a wrapped key, if it is such a thing.
pub(crate) fn version_of(wrapped: &str) -> Option<u32> {
    let (version, bytes) = wrapped.strip_prefix("vault:v")?.split_once(':')?;
    let is_number = version.chars().all(|character| character.is_ascii_digit()) && !version.starts_with('0');
    let is_base64 = |character: char| character.is_ascii_alphanumeric() || "+/=".contains(character);
    let is_good = is_number && wrapped.len() <= MAX_WRAPPED_BYTES && !bytes.is_empty() && bytes.chars().all(is_base64);
    is_good.then(|| version.parse().ok()).flatten()
}

/// Can it stand in a record?
pub(crate) fn check_record(mount: &str, key: &str, wrapped: &str) -> Result<(), TransitError> {
    if check_names(mount, key).is_err() {
        let what = "a name of a mount or a key that is none";
        return Err(TransitError::Record { what });
    }
    let what = "a text that Vault does not give (`vault:vN:BASE64`)";
    version_of(wrapped).map(|_| ()).ok_or(TransitError::Record { what })
}

impl Transit {
    /// The engine at `mount` (`transit`, mostly), its key, the namespace of Vault Enterprise or OpenBao if there is one, and the token
    /// to show.
    ///
    /// # Errors
    /// One of them cannot be.
    pub fn new(mount: &str, key: &str, namespace: Option<&str>, token: &str) -> Result<Transit, BadTransit> {
        let mut transit = Transit::without_token(mount, key, namespace)?;
        transit.set_token(token)?;
        Ok(transit)
    }

    /// The same for who carries the questions, and shows the token itself, in the header [`TOKEN_HEADER`].
    ///
    /// # Errors
    /// One of them cannot be.
    pub fn without_token(mount: &str, key: &str, namespace: Option<&str>) -> Result<Transit, BadTransit> {
        check_names(mount, key)?;
        if let Some(namespace) = namespace {
            check_path(namespace, "Vault's namespace")?;
        }
        Ok(Transit {
            mount: mount.into(),
            key: key.into(),
            namespace: namespace.map(str::to_owned),
            cluster: None,
            token: None,
        })
    }

    /// Tokens end, and whoever renews them gives a new one here. A line end behind it is not part of it.
    ///
    /// # Errors
    /// It is none. The one of before stays.
    pub fn set_token(&mut self, token: &str) -> Result<(), BadTransit> {
        self.token = Some(Zeroizing::new(check_token(token)?.to_owned()));
        Ok(())
    }

    /// Asks which version of its key Vault wraps with now, and then whether it binds what it wraps, which a Vault before 1.13 does not, without a
    /// word. Nothing but wrapping and unwrapping is asked for that, so that the token needs no other right. The answer to the first question is the
    /// version, and the second question.
    #[must_use]
    pub fn probe(&self) -> Question<(u32, Question<()>)> {
        let body = Encrypt {
            plaintext: &STANDARD.encode([0; 32]),
            associated_data: &STANDARD.encode(PROBE),
        };
        let request = self.request("encrypt", &body);
        let again = Transit {
            mount: self.mount.clone(),
            key: self.key.clone(),
            namespace: self.namespace.clone(),
            cluster: self.cluster,
            token: self.token.clone(),
        };
        let finish = move |response: &HttpResponse| {
            let wrapped = encrypted(response).map_err(KeyError::Vault)?;
            let what = "its ciphertext is not of the form `vault:vN:BASE64`";
            let version = version_of(&wrapped).ok_or(KeyError::Vault(TransitError::Answer { what }))?;
            Ok((version, again.binds(&wrapped)))
        };
        Question::http(request, finish)
    }

    /// Asks for what is wrapped here, bound to [`PROBE`], as if it were bound to something else: it has to refuse that.
    fn binds(&self, wrapped: &str) -> Question<()> {
        let body = Decrypt {
            ciphertext: wrapped,
            associated_data: &STANDARD.encode(OTHER),
        };
        let request = self.request("decrypt", &body);
        let finish = |response: &HttpResponse| match response.status {
            // In whatever words.
            400 => Ok(()),
            200 => Err(KeyError::Vault(TransitError::BindsNothing)),
            _ => Err(KeyError::Vault(refusal(response))),
        };
        Question::http(request, finish)
    }

    fn request(&self, what: &str, body: &impl Serialize) -> HttpRequest {
        let mut bytes = Zeroizing::new(Vec::with_capacity(BODY_BYTES));
        serde_json::to_writer(&mut *bytes, body).expect("texts, in memory");
        let plain = |text: &str| Zeroizing::new(text.to_owned());
        let mut headers = vec![
            ("X-Vault-Request", plain("true")),
            ("Content-Type", plain("application/json")),
        ];
        if let Some(token) = &self.token {
            headers.push((TOKEN_HEADER, token.clone()));
        }
        if let Some(namespace) = &self.namespace {
            headers.push(("X-Vault-Namespace", plain(namespace)));
        }
        HttpRequest {
            method: "POST",
            path: format!("/v1/{}/{what}/{}", self.mount, self.key),
            headers,
            body: bytes,
        }
    }
}

#[derive(Serialize)]
struct Encrypt<'a> {
    plaintext: &'a str,
    associated_data: &'a str,
}

#[derive(Serialize)]
struct Decrypt<'a> {
    ciphertext: &'a str,
    associated_data: &'a str,
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
    key_version: Option<u32>,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: Secret,
}

/// A text that is wiped. (What the JSON's reader unescapes it does elsewhere; base64 has nothing to unescape.)
struct Secret(Zeroizing<String>);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Secret(Zeroizing::new(text)))
    }
}

/// What Vault says when it does not do it.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    errors: Vec<String>,
}

fn read<'a, T: Deserialize<'a>>(response: &'a HttpResponse) -> Result<T, TransitError> {
    let body = &response.body[..];
    if body.len() > HttpResponse::MAX_BODY_BYTES {
        return Err(TransitError::Answer { what: "it is too long" });
    }
    if response.status != 200 {
        return Err(refusal(response));
    }
    let answer: Answer<T> = serde_json::from_slice(body).map_err(|_| TransitError::Answer {
        what: "it is not the JSON that Vault gives",
    })?;
    Ok(answer.data)
}

fn encrypted(response: &HttpResponse) -> Result<String, TransitError> {
    let Encrypted {
        ciphertext,
        key_version,
    } = read(response)?;
    let version = version_of(&ciphertext).ok_or(TransitError::Answer {
        what: "its ciphertext is not of the form `vault:vN:BASE64`",
    })?;
    match key_version.is_none_or(|said| said == version) {
        true => Ok(ciphertext),
        false => Err(TransitError::Answer {
            what: "its key has another version than its ciphertext",
        }),
    }
}

fn decrypted(response: &HttpResponse) -> Result<Zeroizing<Vec<u8>>, TransitError> {
    let Decrypted { plaintext } = read(response)?;
    let bytes = STANDARD.decode(plaintext.0.as_bytes()).map(Zeroizing::new);
    bytes.map_err(|_| TransitError::Answer {
        what: "its plaintext is no base64",
    })
}

impl Provider for Transit {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn of_cluster(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    fn first(&mut self) -> Result<WrappingKey, BadPassphrase> {
        let (mount, key) = (self.mount.clone(), self.key.clone());
        Ok(WrappingKey(Which::Transit { mount, key }))
    }

    fn has(&mut self, by: &WrappingKey) -> Result<bool, BadPassphrase> {
        Ok(*by == self.first()?)
    }

    fn wrap_by(
        &mut self,
        by: &WrappingKey,
        binding: &Binding,
        key: &DataKey,
        _: Random<'_>,
    ) -> Result<Next<WrappedKey>, KeyError> {
        if !self.has(by).is_ok_and(|has| has) {
            return Err(KeyError::NotHere {
                key: binding.key,
                by: by.clone(),
                given: KIND,
            });
        }
        let label = Label::new(binding, key);
        let (mount, name, cluster) = (self.mount.clone(), self.key.clone(), self.cluster);
        let told = Told::Transit {
            mount: &mount,
            key: &name,
            cluster,
        };
        let plaintext = Zeroizing::new(STANDARD.encode(key.expose()));
        let body = Encrypt {
            plaintext: &plaintext,
            associated_data: &STANDARD.encode(label.associated(&told)),
        };
        let request = self.request("encrypt", &body);
        let finish = move |response: &HttpResponse| {
            let key = label.binding.key;
            let wrapped = encrypted(response).map_err(|why| KeyError::Transit { key, why })?;
            let by = By::Transit {
                mount,
                key: name,
                cluster,
                wrapped,
            };
            Ok(WrappedKey { label, by })
        };
        Ok(Next::Ask(Question::http(request, finish)))
    }

    fn unwrap(&mut self, binding: &Binding, wrapped: &WrappedKey) -> Result<Next<DataKey>, KeyError> {
        wrapped.expect(binding)?;
        let By::Transit {
            mount,
            key: name,
            cluster,
            wrapped: text,
        } = &wrapped.by
        else {
            return Err(wrapped.other_provider(KIND));
        };
        if (mount, name) != (&self.mount, &self.key) {
            let (mount, of) = (mount.clone(), name.clone());
            let why = TransitError::OtherKey { mount, key: of };
            return Err(KeyError::Transit { key: binding.key, why });
        }
        if let (Some(ours), Some(theirs)) = (self.cluster, *cluster)
            && ours != theirs
        {
            let why = TransitError::OtherCluster { cluster: theirs };
            return Err(KeyError::Transit { key: binding.key, why });
        }
        let told = Told::Transit {
            mount,
            key: name,
            cluster: *cluster,
        };
        let body = Decrypt {
            ciphertext: text,
            associated_data: &STANDARD.encode(wrapped.label.associated(&told)),
        };
        let request = self.request("decrypt", &body);
        let label = wrapped.label.clone();
        let finish = move |response: &HttpResponse| {
            let key = label.binding.key;
            let opened = decrypted(response).map_err(|why| KeyError::Transit { key, why })?;
            label.accept(&opened)
        };
        Ok(Next::Ask(Question::http(request, finish)))
    }
}

impl fmt::Debug for Transit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transit({}/{})", self.mount, self.key)
    }
}

#[cfg(test)]
mod tests;
