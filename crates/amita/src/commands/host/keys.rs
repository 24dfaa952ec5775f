//! Keys of hosts on their way in: from a file, from standard input, or made here; checked, and sealed.

use crate::cli::Endpoints;
use amita_control::admin::{HostKeys, Secret, field};
use amita_keys::{DhchapSecret, Hash, KeyError, SealKey, TlsKey, Zeroizing, system_random};
use amita_terminal::error::{Context, Failure, Kind, Result};
use std::path::{Path, PathBuf};

/// A file with a key is at most this long: keys have a hundred characters.
const MAX_FILE_BYTES: u64 = 4096;

/// Where the keys of a host come from.
#[derive(Debug, clap::Args)]
#[group(id = "keys", multiple = true)]
pub struct KeyArguments {
    /// What the host proves to have by DH-HMAC-CHAP: a file with `DHHC-1:...` (`nvme gen-dhchap-key`), or - for standard
    /// input
    #[arg(long, value_name = "FILE|-")]
    pub dhchap_key: Option<PathBuf>,
    /// What controllers prove to have when the host asks: a file with `DHHC-1:...`, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub dhchap_controller_key: Option<PathBuf>,
    /// The pre-shared key for TLS, without which the host may not connect then: a file with `NVMeTLSkey-1:...`
    /// (`nvme gen-tls-key`), or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub tls_key: Option<PathBuf>,
    /// Make the host's key for DH-HMAC-CHAP, and the controllers' key with it, and show them once; a host that has both asks controllers to
    /// prove themselves too
    #[arg(long, conflicts_with = "dhchap_key")]
    pub generate_dhchap: bool,
    /// With --generate-dhchap: make no key for controllers
    #[arg(long, requires = "generate_dhchap", conflicts_with = "generate_dhchap_controller")]
    pub one_way: bool,
    /// Make the controllers' key for DH-HMAC-CHAP, and show it once
    #[arg(long, conflicts_with = "dhchap_controller_key")]
    pub generate_dhchap_controller: bool,
    /// Make the pre-shared key for TLS, and show it once
    #[arg(long, conflicts_with = "tls_key")]
    pub generate_tls: bool,
    /// The file with the cluster's sealing key (`amita host seal-key`); needed with any key
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
}

/// A key that was made here, to be shown once.
pub struct Generated {
    /// What it is for.
    pub what: &'static str,
    /// Its text.
    pub text: Zeroizing<String>,
}

/// One of a host's keys: what it is called, and the field of the record that it is sealed for.
struct Sort {
    field: &'static str,
    flag: &'static str,
    what: &'static str,
    check: fn(&str) -> std::result::Result<(), KeyError>,
    make: fn(&str) -> Zeroizing<String>,
}

fn make_dhchap(nqn: &str) -> Zeroizing<String> {
    DhchapSecret::generate(Some(Hash::Sha256), nqn, &mut system_random).to_text()
}

const DHCHAP: Sort = Sort {
    field: field::DHCHAP,
    flag: "--dhchap-key",
    what: "dhchap-secret",
    check: |text| DhchapSecret::parse(text).map(drop),
    make: make_dhchap,
};
const DHCHAP_CONTROLLER: Sort = Sort {
    field: field::DHCHAP_CONTROLLER,
    flag: "--dhchap-controller-key",
    what: "dhchap-ctrl-secret",
    ..DHCHAP
};
const TLS: Sort = Sort {
    field: field::TLS,
    flag: "--tls-key",
    what: "TLS pre-shared key",
    check: |text| TlsKey::parse(text).map(drop),
    make: |_| TlsKey::generate(Hash::Sha256, &mut system_random).to_text(),
};

impl KeyArguments {
    /// Reads and makes what is wanted, and seals it for the host of that name.
    ///
    /// `keeps_controller_key`: what controllers have is not made anew with the host's.
    pub fn sealed(
        &self,
        nqn: &str,
        keeps_controller_key: bool,
        endpoints: &Endpoints,
    ) -> Result<(HostKeys, Vec<Generated>)> {
        let both =
            self.generate_dhchap && !self.one_way && !keeps_controller_key && self.dhchap_controller_key.is_none();
        let wanted = [
            (&DHCHAP, &self.dhchap_key, self.generate_dhchap),
            (
                &DHCHAP_CONTROLLER,
                &self.dhchap_controller_key,
                self.generate_dhchap_controller || both,
            ),
            (&TLS, &self.tls_key, self.generate_tls),
        ];
        let stdin = wanted.iter().filter(|(_, file, _)| is_stdin(file.as_deref()));
        if stdin.count() > 1 {
            return Err(
                Failure::new("standard input holds one key, and two are to come from there")
                    .kind(Kind::Usage)
                    .advice("Put one of them into a file."),
            );
        }
        let mut generated = Vec::new();
        let mut secrets = [Secret::Keep, Secret::Keep, Secret::Keep];
        if wanted.iter().any(|(_, file, make)| file.is_some() || *make) {
            let seal = self.seal_key(endpoints)?;
            for ((sort, file, make), secret) in wanted.into_iter().zip(&mut secrets) {
                let text = match file {
                    Some(path) => read(sort, path, endpoints)?,
                    None if make => {
                        let text = (sort.make)(nqn);
                        generated.push(Generated {
                            what: sort.what,
                            text: text.clone(),
                        });
                        text
                    }
                    None => continue,
                };
                let sealed = seal.seal(nqn, sort.field, &text);
                *secret = Secret::Sealed(sealed.context(|| "cannot seal the key".to_owned())?);
            }
        }
        let [dhchap, dhchap_controller, tls] = secrets;
        let keys = HostKeys {
            dhchap,
            dhchap_controller,
            tls,
        };
        Ok((keys, generated))
    }

    fn seal_key(&self, endpoints: &Endpoints) -> Result<SealKey> {
        let found = endpoints.seal_key(self.seal_key.as_deref())?;
        found.ok_or_else(|| match endpoints.lent() {
            Some(_) => Failure::new("keys of hosts are kept sealed, and this node has no sealing key")
                .advice("Ask one that has (`amita serve --seal-key`): name it first (--by-api)."),
            None => Failure::new("keys of hosts are kept sealed, and no sealing key was given")
                .kind(Kind::Usage)
                .advice(
                    "Pass --seal-key FILE, or set AMITA_SEAL_KEY: the file that the gateways have. `amita host seal-key FILE` makes one \
                     for a new cluster.",
                ),
        })
    }
}

fn is_stdin(file: Option<&Path>) -> bool {
    file.is_some_and(|path| path.as_os_str() == "-")
}

/// A key that was given in the place of a file is not read, and not said.
///
/// # Errors
/// It is one.
pub(crate) fn check_is_no_key(flag: &str, path: &Path) -> Result<()> {
    let forms = ["DHHC-1:", "NVMeTLSkey-1:"];
    let is_key = path
        .to_str()
        .is_some_and(|given| forms.iter().any(|form| given.starts_with(form)));
    if !is_key {
        return Ok(());
    }
    let failure = Failure::new(format!("{flag} takes the name of a file, not the key itself")).kind(Kind::Usage);
    Err(failure.advice(
        "Everybody on this machine could read it in the list of processes: put a new key into a file, or pass - and give it on standard \
         input.",
    ))
}

/// Reads a key, and checks it. What was read is never said.
fn read(sort: &Sort, path: &Path, endpoints: &Endpoints) -> Result<Zeroizing<String>> {
    check_is_no_key(sort.flag, path)?;
    let place = if is_stdin(Some(path)) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let read = endpoints.read_file(path, MAX_FILE_BYTES);
    let text =
        read.map_err(|why| Failure::new(format!("{}: cannot read {place}: {why}", sort.flag)).kind(Kind::Unreadable))?;
    let trimmed = Zeroizing::new(text.trim().to_owned());
    (sort.check)(&trimmed).map_err(|why| Failure::new(format!("{}: {place}: {why}", sort.flag)).kind(Kind::Usage))?;
    Ok(trimmed)
}
