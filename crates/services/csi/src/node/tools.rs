//! What only the host's programs do: sessions of iSCSI (`iscsiadm` of open-iscsi, which asks `iscsid`) and maps of dm-multipath (`multipath`, which changes the list of
//! known disks, and `multipathd`, which has the maps). All that is asked of them is here. What sysfs tells is read there (`iscsi.rs`).

use super::machine::{Machine, Ran};
use tonic::Status;

/// A program has so many seconds: a login waits ten for a gateway that says nothing.
const SECONDS: &str = "30";
/// `iscsiadm`: the session is there (`ISCSI_ERR_SESS_EXISTS`).
const IS_THERE: i32 = 15;
/// `iscsiadm`: there is no such session (`ISCSI_ERR_SESS_NOT_FOUND`), or no such record (`ISCSI_ERR_NO_OBJS_FOUND`).
const NONE: [i32; 2] = [2, 21];
/// `timeout`: it was ended; and what a program that was killed has.
const TOO_LONG: [i32; 3] = [124, 137, -1];
/// `timeout` and `chroot`: it cannot be started.
const NOT_STARTED: [i32; 3] = [125, 126, 127];
/// Settings of each session: as `amita volume attach --iscsi` prints them, but for the start of the machine, at which nobody but the driver logs in, and the scan: what a
/// session has is looked for when nothing is left of an attachment that was lost.
const SETTINGS: [(&str, &str); 7] = [
    ("node.startup", "manual"),
    ("node.session.scan", "manual"),
    ("node.session.initial_login_retry_max", "1"),
    ("node.session.timeo.replacement_timeout", "5"),
    ("node.conn[0].timeo.login_timeout", "10"),
    ("node.conn[0].timeo.noop_out_interval", "5"),
    ("node.conn[0].timeo.noop_out_timeout", "5"),
];

/// They, and where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    /// The host's `/`, as it is seen here; none: this one is it.
    pub root: Option<String>,
}

/// A target as `iscsiadm` has it.
pub(super) struct Record<'a> {
    pub target: &'a str,
    /// `ADDRESS:PORT`.
    pub portal: &'a str,
    pub tag: u16,
}

impl Tools {
    fn run(&self, machine: &dyn Machine, tool: &str, words: &[&str]) -> Result<Ran, Status> {
        let mut all = vec!["--kill-after=5", SECONDS];
        if let Some(root) = &self.root {
            all.extend(["chroot", root.as_str()]);
        }
        all.push(tool);
        all.extend(words);
        let place = || {
            self.root
                .as_deref()
                .map_or_else(String::new, |root| format!(" in {root}"))
        };
        let ran = machine.run("timeout", &all).map_err(|why| {
            Status::failed_precondition(format!("timeout cannot be started, by which {tool} is: {why}"))
        })?;
        match ran.code {
            code if NOT_STARTED.contains(&code) => Err(Status::failed_precondition(format!(
                "{tool} cannot be started{}: volumes by iSCSI need open-iscsi (iscsid) and multipath-tools (multipathd) on the machine, and the driver its / \
                 (--host-root, where it is in a container): {}",
                place(),
                said(&ran)
            ))),
            code if TOO_LONG.contains(&code) => Err(Status::unavailable(format!(
                "{tool} {} has not ended within {SECONDS} s (do iscsid and multipathd run?)",
                shown(words)
            ))),
            _ => Ok(ran),
        }
    }

    fn iscsiadm(&self, machine: &dyn Machine, words: &[&str], good: &[i32]) -> Result<Ran, Status> {
        let ran = self.run(machine, "iscsiadm", words)?;
        match ran.code == 0 || good.contains(&ran.code) {
            true => Ok(ran),
            false => Err(bad("iscsiadm", words, &ran)),
        }
    }

    /// Asks multipathd, which says in words how it ended.
    fn multipathd(&self, machine: &dyn Machine, words: &[&str]) -> Result<(), Status> {
        let ran = self.run(machine, "multipathd", words)?;
        let is_good = ran.code == 0 && !ran.out.contains("fail") && !ran.out.contains("error");
        match is_good {
            true => Ok(()),
            false => Err(bad("multipathd", words, &ran)),
        }
    }

    /// Can this machine speak iSCSI?
    pub(super) fn can(&self, machine: &dyn Machine) -> bool {
        self.run(machine, "iscsiadm", &["--version"])
            .is_ok_and(|ran| ran.code == 0)
    }

    /// Has an interface by which the driver's initiator has a name of its own.
    pub(super) fn interface(&self, machine: &dyn Machine, name: &str, initiator: &str) -> Result<(), Status> {
        let line = format!("iface.initiatorname = {initiator}");
        let there = self.run(machine, "iscsiadm", &["-m", "iface", "-I", name])?;
        if there.code == 0 && there.out.lines().any(|found| found.trim() == line) {
            return Ok(());
        }
        if there.code != 0 {
            self.iscsiadm(machine, &["-m", "iface", "-I", name, "-o", "new"], &[])?;
        }
        let words = [
            "-m",
            "iface",
            "-I",
            name,
            "-o",
            "update",
            "-n",
            "iface.initiatorname",
            "-v",
            initiator,
        ];
        self.iscsiadm(machine, &words, &[]).map(drop)
    }

    /// Has a record of a target at a portal, with its settings and secrets (`node.session.auth...`), and logs in.
    pub(super) fn log_in(
        &self,
        machine: &dyn Machine,
        interface: &str,
        record: &Record<'_>,
        secrets: &[(String, String)],
    ) -> Result<(), Status> {
        let with_tag = format!("{},{}", record.portal, record.tag);
        let words = [
            "-m",
            "node",
            "-o",
            "new",
            "-T",
            record.target,
            "-p",
            &with_tag,
            "-I",
            interface,
        ];
        self.iscsiadm(machine, &words, &[])?;
        let of = ["-m", "node", "-T", record.target, "-p", record.portal];
        let settings = SETTINGS.iter().copied();
        let secrets = secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in settings.chain(secrets) {
            let words = [&of[..], &["-o", "update", "-n", name, "-v", value]].concat();
            self.iscsiadm(machine, &words, &[])?;
        }
        self.iscsiadm(machine, &[&of[..], &["--login"]].concat(), &[IS_THERE])
            .map(drop)
    }

    /// Ends all sessions with a target, and forgets it.
    pub(super) fn log_out(&self, machine: &dyn Machine, target: &str) -> Result<(), Status> {
        self.iscsiadm(machine, &["-m", "node", "-T", target, "--logout"], &NONE)?;
        self.iscsiadm(machine, &["-m", "node", "-T", target, "-o", "delete"], &NONE)
            .map(drop)
    }

    /// The targets of which there are records: `ADDRESS:PORT,TAG NAME`, line by line.
    pub(super) fn targets(&self, machine: &dyn Machine) -> Result<Vec<String>, Status> {
        let ran = self.iscsiadm(machine, &["-m", "node"], &NONE)?;
        if ran.code != 0 {
            return Ok(Vec::new());
        }
        let names = ran.out.lines().filter_map(|line| line.split_whitespace().nth(1));
        Ok(names.map(str::to_owned).collect())
    }

    /// Has a disk be one of multipath's, whatever `find_multipaths` says.
    pub(super) fn know(&self, machine: &dyn Machine, naa: &str) -> Result<(), Status> {
        let name = wwid(naa);
        let ran = self.run(machine, "multipath", &["-a", &name])?;
        match ran.code {
            0 => Ok(()),
            _ => Err(bad("multipath", &["-a", &name], &ran)),
        }
    }

    /// Has multipathd take a path that it has seen already and did not want. One that udev has not told it of yet it refuses here, and takes by itself.
    pub(super) fn add_path(&self, machine: &dyn Machine, path: &str) {
        if let Err(why) = self.multipathd(machine, &["add", "path", path]) {
            log::debug!("{path} is not of a map yet: {}", why.message());
        }
    }

    /// Has multipathd look at all disks anew.
    pub(super) fn reconfigure(&self, machine: &dyn Machine) -> Result<(), Status> {
        self.multipathd(machine, &["reconfigure"])
    }

    /// What waits for a path in a map fails. One that is gone has nothing that waits.
    pub(super) fn end_of_waiting(&self, machine: &dyn Machine, map: &str) {
        if let Err(why) = self.multipathd(machine, &["disablequeueing", "map", map]) {
            log::debug!("{map} waits for paths still: {}", why.message());
        }
    }

    /// Takes a map away that nobody uses.
    pub(super) fn flush(&self, machine: &dyn Machine, map: &str) -> Result<(), Status> {
        let ran = self.run(machine, "multipath", &["-f", map])?;
        match ran.code {
            0 => Ok(()),
            _ => Err(Status::failed_precondition(format!(
                "the map {map} is not taken away, it may be in use still: {}",
                said(&ran)
            ))),
        }
    }

    /// A disk is none of multipath's any more. Where it stays in the list, a disk that has its name again is.
    pub(super) fn forget(&self, machine: &dyn Machine, naa: &str) {
        let ran = self.run(machine, "multipath", &["-w", &wwid(naa)]);
        if !ran.is_ok_and(|ran| ran.code == 0) {
            log::debug!("multipath knows disk {naa} still");
        }
    }

    /// Has a map be as large as its paths are.
    pub(super) fn resize(&self, machine: &dyn Machine, map: &str) -> Result<(), Status> {
        self.multipathd(machine, &["resize", "map", map])
    }
}

/// A disk's name as multipath has it: NAA behind a 3.
pub(super) fn wwid(naa: &str) -> String {
    format!("3{naa}")
}

fn said(ran: &Ran) -> &str {
    if ran.err.is_empty() { &ran.out } else { &ran.err }
}

/// Without what is secret.
fn shown(words: &[&str]) -> String {
    let is_secret = words.iter().any(|word| word.contains(".auth.password"));
    match is_secret
        .then(|| words.iter().rposition(|word| *word == "-v"))
        .flatten()
    {
        Some(at) => format!("{} ...", words[..=at].join(" ")),
        None => words.join(" "),
    }
}

fn bad(tool: &str, words: &[&str], ran: &Ran) -> Status {
    Status::unavailable(format!(
        "{tool} {} has ended with {}: {}",
        shown(words),
        ran.code,
        said(ran)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_in_no_error() {
        let words = [
            "-m",
            "node",
            "-o",
            "update",
            "-n",
            "node.session.auth.password",
            "-v",
            "open sesame",
        ];
        let ran = Ran {
            code: 7,
            ..Ran::default()
        };
        let why = bad("iscsiadm", &words, &ran);
        assert!(
            !why.message().contains("sesame") && why.message().contains("ended with 7"),
            "{why}"
        );
        assert!(shown(&["-n", "node.startup", "-v", "manual"]).ends_with("manual"));
    }
}
