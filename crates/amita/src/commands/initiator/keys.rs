//! Secrets of initiators on their way in: from a file, from standard input, or made here; checked, and sealed.

use crate::cli::Endpoints;
use amita_control::admin::{InitiatorKeys, Secret, chap_field};
use amita_keys::{ChapSecret, ChapSide, PairError, SealKey, seal_pair, system_random};
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::map::IscsiInitiator;
use std::path::{Path, PathBuf};

/// A file with a secret is at most this long.
const MAX_FILE_BYTES: u64 = 1024;

/// Where the secrets of an initiator come from.
#[derive(Debug, clap::Args)]
#[group(id = "secrets", multiple = true)]
pub struct SecretArguments {
    /// What the initiator proves to have: a file with 12 to 255 printable characters (16 at most for Windows), or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub chap_secret: Option<PathBuf>,
    /// What targets prove to have when the initiator asks, another one: a file, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub chap_target_secret: Option<PathBuf>,
    /// Make the initiator's secret, and the targets' with it, and show them once
    #[arg(long, conflicts_with = "chap_secret")]
    pub generate_chap: bool,
    /// With --generate-chap: make no secret for targets
    #[arg(long, requires = "generate_chap", conflicts_with = "generate_chap_target")]
    pub one_way: bool,
    /// Make the targets' secret, and show it once
    #[arg(long, conflicts_with = "chap_target_secret")]
    pub generate_chap_target: bool,
    /// The file with the cluster's sealing key (`amita host seal-key`); needed with any secret
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
}

/// A secret that was made here, to be shown once.
pub struct Generated {
    /// What it is for.
    pub what: &'static str,
    pub secret: ChapSecret,
}

/// Which secrets are taken away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removes {
    pub chap: bool,
    pub chap_target: bool,
}

/// Where one of both comes from.
enum Source<'a> {
    Nowhere,
    File(&'static str, &'a Path),
    Made(&'static str),
}

impl SecretArguments {
    /// Reads and makes what is wanted, and seals it for the initiator of that name. `known`: what is known of it so far.
    pub fn sealed(
        &self,
        name: &str,
        known: Option<&IscsiInitiator>,
        removes: Removes,
        endpoints: &Endpoints,
    ) -> Result<(InitiatorKeys, Vec<Generated>)> {
        let both = self.generate_chap && !self.one_way && !removes.chap_target && self.chap_target_secret.is_none();
        let makes_target = self.generate_chap_target || both;
        let chap = source(
            "--chap-secret",
            self.chap_secret.as_deref(),
            self.generate_chap,
            "chap-secret",
        );
        let target = source(
            "--chap-target-secret",
            self.chap_target_secret.as_deref(),
            makes_target,
            "chap-target-secret",
        );
        let stdin = [&self.chap_secret, &self.chap_target_secret];
        if stdin.iter().filter(|file| is_stdin(file.as_deref())).count() > 1 {
            return Err(
                Failure::new("standard input holds one secret, and two are to come from there")
                    .kind(Kind::Usage)
                    .advice("Put one of them into a file."),
            );
        }
        let mut keys = InitiatorKeys::default();
        let mut generated = Vec::new();
        if !matches!((&chap, &target), (Source::Nowhere, Source::Nowhere)) {
            let seal = self.seal_key(endpoints)?;
            let chap = take(chap, &mut generated, endpoints)?;
            let target = take(target, &mut generated, endpoints)?;
            // What is there already counts as well, as long as it is not taken away: the two must not be the same.
            let old_chap = known.and_then(|known| known.chap.as_deref()).filter(|_| !removes.chap);
            let old_target = known
                .and_then(|known| known.chap_target.as_deref())
                .filter(|_| !removes.chap_target);
            let own = ChapSide {
                field: chap_field::INITIATOR,
                new: chap.as_ref(),
                kept: old_chap,
            };
            let targets = ChapSide {
                field: chap_field::TARGET,
                new: target.as_ref(),
                kept: old_target,
            };
            let (chap, target) = seal_pair(name, &own, &targets, &seal).map_err(|why| {
                let kind = match why {
                    PairError::Seal(_) => Kind::Unreadable,
                    _ => Kind::Usage,
                };
                Failure::new(why.to_string()).kind(kind)
            })?;
            keys.compared = Some(known.map_or((None, None), |known| (known.chap.clone(), known.chap_target.clone())));
            keys.chap = chap.map_or(Secret::Keep, Secret::Sealed);
            keys.chap_target = target.map_or(Secret::Keep, Secret::Sealed);
        }
        if removes.chap {
            keys.chap = Secret::Remove;
        }
        if removes.chap_target {
            keys.chap_target = Secret::Remove;
        }
        Ok((keys, generated))
    }

    fn seal_key(&self, endpoints: &Endpoints) -> Result<SealKey> {
        let found = endpoints.seal_key(self.seal_key.as_deref())?;
        found.ok_or_else(|| match endpoints.lent() {
            Some(_) => Failure::new("secrets of initiators are kept sealed, and this node has no sealing key")
                .advice("Ask one that has (`amita serve --seal-key`): name it first (--by-api)."),
            None => Failure::new("secrets of initiators are kept sealed, and no sealing key was given")
                .kind(Kind::Usage)
                .advice(
                    "Pass --seal-key FILE, or set AMITA_SEAL_KEY: the file that the gateways have. `amita host seal-key FILE` makes one \
                     for a new cluster.",
                ),
        })
    }
}

fn source<'a>(flag: &'static str, file: Option<&'a Path>, makes: bool, what: &'static str) -> Source<'a> {
    match file {
        Some(file) => Source::File(flag, file),
        None if makes => Source::Made(what),
        None => Source::Nowhere,
    }
}

fn take(from: Source<'_>, generated: &mut Vec<Generated>, endpoints: &Endpoints) -> Result<Option<ChapSecret>> {
    match from {
        Source::Nowhere => Ok(None),
        Source::File(flag, file) => read(flag, file, endpoints).map(Some),
        Source::Made(what) => {
            let secret = ChapSecret::generate(&mut system_random);
            let shown = secret.clone();
            generated.push(Generated { what, secret: shown });
            Ok(Some(secret))
        }
    }
}

fn is_stdin(file: Option<&Path>) -> bool {
    file.is_some_and(|path| path.as_os_str() == "-")
}

/// Reads a secret, and checks it. What was read is never said; nor is what stands where the file's name belongs, which may be the secret
/// itself by mistake.
fn read(flag: &'static str, path: &Path, endpoints: &Endpoints) -> Result<ChapSecret> {
    let from_stdin = is_stdin(Some(path));
    let place = if from_stdin { "standard input" } else { "the file" };
    let text = endpoints.read_file(path, MAX_FILE_BYTES).map_err(|why| {
        Failure::new(format!("{flag}: cannot read {place}: {why}"))
            .kind(Kind::Unreadable)
            .advice("It takes the name of a file, not the secret itself: everybody on this machine could read that in the list of processes.")
    })?;
    ChapSecret::parse(&text).map_err(|why| Failure::new(format!("{flag}: {place}: {why}")).kind(Kind::Usage))
}
