//! Which nodes are asked, by whom they are believed, and as whom.

use super::place::Place;
use super::transport::Proof;
use crate::cli::Cli;
use crate::commands::join::Described as _;
use amita_identity::{Clock, Live};
use amita_terminal::error::{Failure, Kind, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most addresses that are tried.
const MOST_PLACES: usize = 64;
/// The longest file of authorities, in bytes,
const MAX_AUTHORITIES: u64 = 4 << 20;
/// and of a token.
const MAX_TOKEN: u64 = 4096;

/// The nodes that are asked, one where another one does not answer.
#[derive(Clone, Debug)]
pub struct Nodes {
    places: Vec<Place>,
    /// By whom they are believed, and what is shown to them.
    pub proof: Proof,
    /// Which of them has answered last.
    last: Arc<AtomicUsize>,
}

impl Nodes {
    /// As the command line, or the environment, says.
    ///
    /// # Errors
    /// It says nothing that can be, or a file that it names cannot be read.
    pub fn of(cli: &Cli) -> Result<Nodes> {
        let usage = |why: String| Failure::new(why).kind(Kind::Usage);
        let token = token(cli)?;
        let proves = token.is_some() || cli.identity.is_some() || cli.api_authority.is_some();
        let given = cli.by_api.as_deref().unwrap_or_default();
        let parts = given.split(',').map(str::trim).filter(|part| !part.is_empty());
        let places =
            parts.map(|part| Place::parse(part, proves).map_err(|why| usage(format!("--by-api {part}: {why}"))));
        let places: Vec<Place> = places.collect::<Result<_>>()?;
        if places.is_empty() || places.len() > MOST_PLACES {
            return Err(usage(format!("--by-api: give 1 to {MOST_PLACES} addresses of nodes")));
        }
        let proof = match places.iter().any(Place::is_tls) {
            true => proof(cli, token.is_some())?,
            false => Proof::none(),
        };
        let proof = match &token {
            Some(token) => proof.with_token(token).map_err(usage)?,
            None => proof,
        };
        Ok(Nodes::new(places, proof))
    }

    /// Those at these places.
    #[must_use]
    pub fn new(places: Vec<Place>, proof: Proof) -> Nodes {
        let last = Arc::default();
        Nodes { places, proof, last }
    }

    /// All of them, from the one on that has answered last: who asks again and again does not wait each time for one that is gone.
    pub fn in_turn(&self) -> impl Iterator<Item = (usize, &Place)> {
        let first = self.last.load(Ordering::Relaxed);
        let places = self.places.iter().enumerate();
        places.clone().skip(first).chain(places.take(first))
    }

    /// This one has answered.
    pub fn answered(&self, index: usize) {
        self.last.store(index, Ordering::Relaxed);
    }

    /// This one is gone: the one behind it is the next one to be asked.
    pub fn lost(&self, index: usize) {
        self.answered((index + 1) % self.places.len().max(1));
    }

    /// Does nobody else read what is sent to them, and what they say?
    #[must_use]
    pub fn are_private(&self) -> bool {
        self.places.iter().all(Place::is_tls)
    }
}

/// Whom nodes are believed by.
fn proof(cli: &Cli, has_token: bool) -> Result<Proof> {
    let usage = |why: String| Failure::new(why).kind(Kind::Usage);
    if let (None, Some(folder)) = (&cli.api_authority, &cli.identity) {
        return Ok(Proof::by_identity(&Live::open(folder, Clock::system()).described()?));
    }
    if !has_token {
        return Err(
            usage("--by-api: as who? There is no identity, and no token".to_owned()).advice(
                "Give --identity DIR, or a token (--api-token-file FILE, AMITA_TOKEN): `amita token create` makes one.",
            ),
        );
    }
    let roots = match &cli.api_authority {
        Some(path) => authorities(path)?,
        None => of_system()?,
    };
    Proof::by_authorities(roots).map_err(usage)
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let bad = |why: String| {
        Failure::new(format!("--api-authority {}: {why}", path.display()))
            .kind(Kind::Unreadable)
            .advice("Give a file with the authorities' certificates (PEM).")
    };
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_AUTHORITIES).read_to_end(&mut text));
    read.map_err(|why| bad(why.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|why| bad(format!("it is no PEM: {why}")))?;
        let added = roots.add(certificate);
        added.map_err(|why| bad(format!("one of its certificates is none: {why}")))?;
    }
    match roots.is_empty() {
        true => Err(bad("there is no certificate in it".to_owned())),
        false => Ok(roots),
    }
}

fn of_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to believe none.
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good > 0 {
        return Ok(roots);
    }
    let what = "--by-api: there is nobody to believe nodes by: this machine has no authorities";
    Err(Failure::new(what)
        .kind(Kind::Usage)
        .advice("Give --identity DIR, or --api-authority FILE with the authorities of the nodes' certificates."))
}

/// The token, if there is one.
fn token(cli: &Cli) -> Result<Option<String>> {
    let Some(path) = &cli.api_token_file else {
        let given = std::env::var("AMITA_TOKEN").ok();
        return Ok(given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()));
    };
    let bad = |why: String| Failure::new(format!("--api-token-file {}: {why}", path.display())).kind(Kind::Unreadable);
    let file = File::open(path).map_err(|why| bad(why.to_string()))?;
    let facts = file.metadata().map_err(|why| bad(why.to_string()))?;
    let mode = facts.permissions().mode();
    if facts.is_file() && mode & 0o077 != 0 {
        let why = format!("others may read it (mode {:04o})", mode & 0o7777);
        return Err(bad(why).advice("`chmod 600` it; and make another token if others have read it."));
    }
    let mut text = String::new();
    let read = file.take(MAX_TOKEN).read_to_string(&mut text);
    read.map_err(|why| bad(why.to_string()))?;
    match text.trim() {
        "" => Err(bad("it is empty".to_owned())),
        token => Ok(Some(token.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn the_one_that_has_answered_last_is_asked_first() {
        let places = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
        let places = places.map(|text| Place::parse(text, false).expect("a place"));
        let nodes = Nodes::new(places.to_vec(), Proof::none());
        let order = || nodes.in_turn().map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!(order(), [0, 1, 2]);
        nodes.answered(1);
        assert_eq!(order(), [1, 2, 0]);
        nodes.lost(2);
        assert_eq!(order(), [0, 1, 2]);
        assert!(!nodes.are_private());
    }

    #[test]
    fn a_token_is_read_from_a_file_of_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let cli = |path: &Path| {
            let words = ["amita", "--api-token-file", path.to_str().expect("text"), "status"];
            crate::cli::read(words.map(OsString::from)).expect("a command line").0
        };
        std::fs::write(&path, "  amita-api-1.x\n").expect("written");
        for (mode, good) in [(0o600, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            let read = token(&cli(&path));
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
            assert!(read.is_err() || read == Ok(Some("amita-api-1.x".to_owned())));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        std::fs::write(&path, "\n").expect("written");
        assert!(token(&cli(&path)).is_err_and(|why| why.what.contains("empty")));
        assert!(token(&cli(&folder.path().join("none"))).is_err_and(|why| why.kind == Kind::Unreadable));
    }
}
