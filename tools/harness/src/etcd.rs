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
}

impl Etcd {
    /// Starts it: its log in `folder`, its data in `data`, and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start(folder: &Path, data: &Path) -> Result<Etcd> {
        let loopback = || SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let mut etcd = Etcd {
            process: None,
            client: loopback(),
            peer: loopback(),
            folder: folder.to_owned(),
            data: data.join("etcd"),
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
        let arguments = [
            "--data-dir".to_owned(),
            self.data.display().to_string(),
            format!("--listen-client-urls={endpoint}"),
            format!("--advertise-client-urls={endpoint}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=error".to_owned(),
        ];
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
        format!("http://{}", self.client)
    }
}
