//! Encryption at rest, as far as it is pure: no I/O, no clock, no randomness of its own.
//!
//! **The story.** A volume is encrypted by whoever owns it, when a write gets its version, and decrypted there when a read is given
//! out; stores, resync, scrub, repair and `amita recover` see ciphertext and need no key. A block's ciphertext is a function of its key,
//! its place and its version, so it travels and lies everywhere as it is.
//! `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md` has why, and the rules S14 and S15.
//!
//! **Mechanism.**
//! * [`BlockCipher`]: AES-256-XTS over 4 KiB, the tweak made of [`Place`] and version (`cipher.rs`, `xts.rs`).
//! * [`KeyRing`]: which data key a version has, for clones and after re-encryption too (`amita-types`, `map/keys.rs`); [`Rewrite`]: how far
//!   that has got.
//! * [`Keychain`]: the keys of a ring, unwrapped: what encrypts writes and decrypts reads (`keychain.rs`).
//! * [`WrappedKey`]: a [`DataKey`] as it stands in the metadata, encrypted by a *key-encryption key* and bound to tenant, volume,
//!   image and number (`wrapped.rs`).
//! * [`Provider`]: who has key-encryption keys: a sealed file, a passphrase, Vault's transit engine, a KMIP server (`provider/`). One that has to ask
//!   somebody gives back the [`Question`]; whoever called carries it there and brings the answer.
//!
//! No type in here shows a key, a passphrase or a token in its `Debug`, and all of them wipe it when they are dropped.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod cipher;
mod hex;
mod key;
mod keychain;
mod provider;
mod rewrite;
mod ttlv;
mod wrapped;
mod wrapping;
mod xts;

pub use amita_types::map::{BadRing, Era, KeyName, KeyNumber, KeyRing, MAX_ERAS};
pub use amita_types::message::Run;
pub use cipher::{BlockCipher, Place};
pub use key::{BadKey, CheckValue, DATA_KEY_BYTES, DataKey};
pub use keychain::{Keychain, Keys, MissingKeys, NotNow, OpenError, SealError};
pub use provider::kmip::{BadKmip, Kmip, KmipAsks, KmipError, KmipProbed, KmipVersion, KmipWay, answer_length, look};
pub use provider::passphrase::{BadPassphrase, Cost, Passphrase};
pub use provider::sealed_file::{PURPOSE, SealedFile};
pub use provider::transit::{BadTransit, TOKEN_HEADER, Transit, TransitError, check_token, refusal};
pub use provider::{
    Finish, HttpRequest, HttpResponse, KmipRequest, Next, Provider, Question, Random, Request, Response,
};
pub use rewrite::Rewrite;
pub use ttlv::{BadTtlv, HEAD_BYTES, MAX_MESSAGE_BYTES};
pub use wrapped::{Algorithm, Binding, KeyError, MAX_RECORD_BYTES, WrappedKey};
pub use wrapping::WrappingKey;
pub use zeroize::Zeroizing;

#[cfg(test)]
mod tests;
