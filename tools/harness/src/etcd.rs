//! A real etcd on free ports, alone, that is killed, frozen and started again.

use crate::process::Process;
use crate::{ports, tool};
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server. It ends with this.
#[derive(Debug)]
pub struct Etcd {
    process: Option<Process>,
    client: SocketAddr,
    peer: SocketAddr,
    folder: PathBuf,
    data: PathBuf,
    /// The folder of its identity, where it speaks TLS.
    identity: Option<PathBuf>,
}

impl Etcd {
    /// Starts it: its log in `folder`, its data in `data`, and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(folder: &Path, data: &Path) -> Result<Etcd> {
        Etcd::start_as(folder, data, None)
    }

    /// The same by TLS, with the identity in this folder (`key.pem`, `cert.pem`, `ca.pem`); its clients must show certificates
    /// of the same authority.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub fn start_secure(folder: &Path, data: &Path, identity: &Path) -> Result<Etcd> {
        Etcd::start_as(folder, data, Some(identity.to_owned()))
    }

    fn start_as(folder: &Path, data: &Path, identity: Option<PathBuf>) -> Result<Etcd> {
        let loopback = || SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let mut etcd = Etcd {
            process: None,
            client: loopback(),
            peer: loopback(),
            folder: folder.to_owned(),
            data: data.join("etcd"),
            identity,
        };
        etcd.restart()?;
        Ok(etcd)
    }

    /// Starts it again on the data that it had.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self) -> Result<()> {
        let (endpoint, peer) = (self.endpoint(), format!("http://{}", self.peer));
        let mut arguments = vec![
            "--data-dir".to_owned(),
            self.data.display().to_string(),
            format!("--listen-client-urls={endpoint}"),
            format!("--advertise-client-urls={endpoint}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=error".to_owned(),
        ];
        if let Some(identity) = &self.identity {
            let file = |flag: &str, name: &str| format!("--{flag}={}", identity.join(name).display());
            arguments.push("--client-cert-auth".to_owned());
            arguments.push(file("cert-file", "cert.pem"));
            arguments.push(file("key-file", "key.pem"));
            arguments.push(file("trusted-ca-file", "ca.pem"));
        }
        let process = tool::start(&self.folder, "etcd", arguments)?;
        let client = self.client;
        let listens = interrupt::poll(PATIENCE, Duration::from_millis(20), || {
            Ok(TcpStream::connect(client).ok().map(drop))
        });
        if listens.context(|| "waiting for etcd".to_owned())?.is_none() {
            let said = process.last_words();
            return Err(Failure::new(format!("etcd does not listen on {client}:\n  {said}")));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Its process, while it was not killed.
    #[must_use]
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Where clients reach it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.client)
    }
}
