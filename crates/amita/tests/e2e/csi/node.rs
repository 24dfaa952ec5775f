//! The node's part of the driver, as a program of its own.

use super::{ONE, ask};
use crate::world::{binary, eventually};
use amita_harness::process::Process;
use amita_harness::tool;
use prost::Message;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct NodePart<'a> {
    folder: &'a Path,
    socket: PathBuf,
    process: Process,
}

fn words(socket: &Path, more: &[&str]) -> Vec<String> {
    let endpoint = format!("unix://{}", socket.display());
    let words = ["csi", "node", "--node", "n", "--host-id", ONE, "--endpoint", &endpoint];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

impl<'a> NodePart<'a> {
    /// With these words more it is not started, and `says` why.
    pub fn refused(folder: &Path, more: &[&str], says: &str) {
        let words = words(&folder.join("node.sock"), more);
        let refused = tool::run(folder, binary(), words, Duration::from_secs(30)).expect("it runs");
        assert!(
            !refused.status.success() && refused.text.contains(says),
            "{}",
            refused.text
        );
    }

    pub fn begin(folder: &'a Path, more: &[&str]) -> NodePart<'a> {
        NodePart::serve(folder, binary(), &[], more)
    }

    /// The programs in `tools` are found before the machine's own.
    pub fn begin_beside(folder: &'a Path, tools: &Path, more: &[&str]) -> NodePart<'a> {
        let path = std::env::var("PATH").expect("a PATH");
        let first = [format!("PATH={}:{path}", tools.display()), binary().to_owned()];
        NodePart::serve(folder, "/usr/bin/env", &first, more)
    }

    fn serve(folder: &'a Path, program: &str, first: &[String], more: &[&str]) -> NodePart<'a> {
        let socket = folder.join("node.sock");
        let words = first.iter().cloned().chain(words(&socket, more));
        let process = tool::start(folder, program, words).expect("it starts");
        eventually("the node serves", || socket.exists());
        NodePart {
            folder,
            socket,
            process,
        }
    }

    /// What a method answers, or the number of its status.
    pub fn ask<A: Message + Default>(&self, method: &str, message: &impl Message) -> Result<A, String> {
        ask(self.folder, &self.socket, method, message)
    }

    pub fn end(mut self) {
        assert!(
            self.process.stop().is_some_and(|status| status.success()),
            "{}",
            self.process.last_words()
        );
    }
}
