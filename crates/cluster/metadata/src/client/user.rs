//! A user of etcd, and the token that the server gives for its password.

use crate::error::{Error, Refusal};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tonic::metadata::{Ascii, MetadataValue};
use zeroize::Zeroizing;

/// The most bytes of a password.
const MAX_PASSWORD_BYTES: u64 = 1024;
/// Rights of anybody but the owner.
const OTHERS: u32 = 0o077;

/// A user of etcd (`etcdctl user add`). The password stays in its file, which is read whenever a token is needed: it may be
/// changed while the client lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(super) name: String,
    password_file: PathBuf,
}

impl User {
    /// # Errors
    /// When the password cannot be read, or others could read it.
    pub fn new(name: impl Into<String>, password_file: impl Into<PathBuf>) -> Result<User, Error> {
        let (name, password_file) = (name.into(), password_file.into());
        let user = User { name, password_file };
        user.password()?;
        Ok(user)
    }

    pub(super) fn file(&self) -> &Path {
        &self.password_file
    }

    /// The first line of the file.
    pub(super) fn password(&self) -> Result<Zeroizing<String>, Error> {
        let shown = self.password_file.display();
        let cannot = |why: std::io::Error| refused(format!("the password file {shown} cannot be read: {why}"));
        let file = File::open(&self.password_file).map_err(cannot)?;
        let facts = file.metadata().map_err(cannot)?;
        if facts.mode() & OTHERS != 0 {
            return Err(refused(format!(
                "the password file {shown} can be read by others (mode {:04o}): `chmod 600 {shown}` mends that",
                facts.mode() & 0o7777
            )));
        }
        let own = rustix::process::geteuid().as_raw();
        if facts.uid() != own && own != 0 {
            return Err(refused(format!(
                "the password file {shown} belongs to another user: `chown` it"
            )));
        }
        // With room for all of it: a string that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(MAX_PASSWORD_BYTES as usize + 1));
        let read = file
            .take(MAX_PASSWORD_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(cannot)?;
        let password = text.lines().next().unwrap_or_default();
        if password.is_empty() || read as u64 > MAX_PASSWORD_BYTES {
            return Err(refused(format!(
                "the password file {shown} must have one line of 1 to {MAX_PASSWORD_BYTES} bytes"
            )));
        }
        Ok(Zeroizing::new(password.to_owned()))
    }
}

pub(super) fn refused(message: String) -> Error {
    Refusal::Server {
        code: "user".to_owned(),
        message,
    }
    .into()
}

/// What the server gave for the password: sent with each call.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// `None`: the server has no users.
    pub(super) value: Option<MetadataValue<Ascii>>,
    /// Tells the tokens of one client apart.
    pub(super) number: u64,
}

impl Token {
    /// Where a call carries it: etcd's `TokenFieldNameGRPC`.
    pub(super) const FIELD: &'static str = "token";

    /// Has a call carry it.
    pub(super) fn attach<T>(token: Option<&Token>, request: &mut tonic::Request<T>) {
        if let Some(value) = token.and_then(|token| token.value.clone()) {
            request.metadata_mut().insert(Token::FIELD, value);
        }
    }
}
