//! What a host has to do to use a volume: exact commands, which `amita volume attach` prints and the API tells. Pure. Here for Linux and
//! NVMe/TCP; by iSCSI ([`iscsi`]) for others, too.

use amita_audit::{inert, is_obeyed};
use amita_types::map::Host;
use serde::Serialize;
use std::fmt::Write as _;

pub mod iscsi;

/// Seconds between two signs of life. Half of it is how long a gateway that froze goes unnoticed at least; one that ends
/// closes its connections, and is noticed at once.
const KEEP_ALIVE_S: u32 = 5;
/// Seconds between two attempts to reach a gateway that is away.
const RECONNECT_S: u32 = 2;
/// Attempts never end: a gateway that was away for a night is a path again by itself.
const CTRL_LOSS_S: i32 = -1;
/// Seconds without any path after which I/O fails. Until then it waits: an application sees a pause, no error. Linux with nothing set fails it
/// then, too, by its limit on attempts (decision 069).
const FAST_IO_FAIL_S: u32 = 600;
/// I/O queues of one path, each a connection. By itself a host takes one for each of its processors, on every path.
const IO_QUEUES: u32 = 8;

/// Where a host connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gateway {
    /// The node's name.
    pub node: String,
    /// Its address.
    pub traddr: String,
    /// Its port.
    pub trsvcid: u16,
    /// Does it own the volume?
    pub owner: bool,
    /// Does it live?
    pub alive: bool,
}

/// What the host has to prove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proofs {
    /// That it has its key.
    pub dhchap: bool,
    /// Controllers prove that they have theirs.
    pub dhchap_controller: bool,
    /// That it has the pre-shared key, and that both encrypt.
    pub tls: bool,
}

impl Proofs {
    /// Those of a host.
    #[must_use]
    pub fn of(host: &Host) -> Proofs {
        Proofs {
            dhchap: host.dhchap.is_some(),
            dhchap_controller: host.dhchap_controller.is_some(),
            tls: host.tls.is_some(),
        }
    }
}

/// The commands and files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guide {
    /// Where to connect, the owner first.
    pub gateways: Vec<Gateway>,
    /// What is run once before: the kernel's module, keys.
    pub prepare: Vec<String>,
    /// What connects: one command for each gateway.
    pub connect: Vec<String>,
    /// What connects all gateways and all subsystems at once, by discovery; none where the host has something to prove.
    pub connect_all: Option<String>,
    /// The name and the content of the file that makes it permanent.
    pub permanent_file: &'static str,
    /// Its lines, with commands of the shell where keys belong.
    pub permanent: Vec<String>,
}

/// The settings, as `nvme` takes them.
fn settings() -> String {
    format!(
        "--nr-io-queues={IO_QUEUES} --keep-alive-tmo={KEEP_ALIVE_S} --reconnect-delay={RECONNECT_S} \
         --ctrl-loss-tmo={CTRL_LOSS_S} --fast_io_fail_tmo={FAST_IO_FAIL_S}"
    )
}

fn portal(gateway: &Gateway) -> String {
    format!(
        "--transport=tcp --traddr={} --trsvcid={}",
        gateway.traddr, gateway.trsvcid
    )
}

/// A qualified name may hold any character that is no control: a shell takes it as it is only in quotes. What nobody sees, or what turns
/// the line, is written out, as bash and zsh know it.
fn quoted(text: &str) -> String {
    if text.contains(is_obeyed) {
        let mut word = "$'".to_owned();
        for c in text.chars() {
            match c {
                '\\' => word.push_str(r"\\"),
                // A quote, too, as its number: a shell that does not know $'...' would end the word at one.
                c if c == '\'' || is_obeyed(c) => {
                    let _ = write!(word, "\\U{:08x}", u32::from(c));
                }
                c => word.push(c),
            }
        }
        word.push('\'');
        return word;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

impl Guide {
    /// For a host and a subsystem; `gateways` in order.
    #[must_use]
    pub fn new(subsystem: &str, host: &str, gateways: &[Gateway], proofs: Proofs) -> Guide {
        let (nqn, hostnqn) = (quoted(subsystem), quoted(host));
        let mut prepare = vec!["modprobe nvme-tcp".to_owned()];
        let mut proof = String::new();
        let proves = proofs != Proofs::default();
        let permanent = match proves {
            true => config_json(subsystem, host, gateways, proofs),
            false => {
                let lines = gateways
                    .iter()
                    .map(|gateway| format!("{} {}", portal(gateway), settings()));
                lines.collect()
            }
        };
        if proofs.dhchap {
            prepare.push(config_script(&permanent));
        }
        if proofs.tls {
            prepare.push("systemctl enable --now tlshd".to_owned());
            prepare.push(format!(
                "nvme check-tls-key --insert --identity=1 --keydata=\"$(cat /etc/nvme/tls.key)\" --subsysnqn={nqn} \
                 --hostnqn={hostnqn}"
            ));
            proof += " --tls";
        }
        let connect = gateways
            .iter()
            .map(|gateway| {
                format!(
                    "nvme connect {} --nqn={nqn} --hostnqn={hostnqn} {}{proof}",
                    portal(gateway),
                    settings()
                )
            })
            .collect();
        let first = gateways.first().filter(|_| !proves);
        let connect_all =
            first.map(|first| format!("nvme connect-all {} --hostnqn={hostnqn} {}", portal(first), settings()));
        let permanent_file = if proves {
            CONFIG_FILE
        } else {
            "/etc/nvme/discovery.conf"
        };
        Guide {
            gateways: gateways.to_vec(),
            prepare,
            connect,
            connect_all,
            permanent_file,
            permanent,
        }
    }

    /// The disk of the namespace with this UUID, on the host.
    #[must_use]
    pub fn disk(uuid: &str) -> String {
        format!("/dev/disk/by-id/nvme-uuid.{uuid}")
    }

    /// For a person.
    #[must_use]
    pub fn text(&self, uuid: &str) -> String {
        let mut text = "\nOn the host, as root:\n\n".to_owned();
        for line in self
            .prepare
            .iter()
            .chain(&self.connect)
            .flat_map(|command| command.lines())
        {
            text += &format!("  {line}\n");
        }
        if self.prepare.iter().any(|command| command.contains("--keydata=")) {
            text += "\n(`nvme` takes the key for TLS among its arguments, where others on the host see it for a moment: run that line while nobody\n\
                     else is logged in, or with /proc mounted with hidepid=2. It is run again after each start of the host.)\n";
        }
        if let Some(all) = &self.connect_all {
            text += &format!("\nor everything that the host may use, by discovery:\n\n  {all}\n");
        }
        text += &format!(
            "\nThe disk is {} then; its paths: nvme list-subsys\n",
            Guide::disk(uuid)
        );
        if self.prepare.iter().any(|command| command.contains(CONFIG_FILE)) {
            text += &format!(
                "To connect at every start: systemctl enable nvmf-autoconnect.service. What {CONFIG_FILE} held before is in\n\
                 {CONFIG_FILE}.old: add other entries that you need to the new one's list.\n"
            );
        } else {
            text += &format!(
                "To connect at every start, put this into {} and run\nsystemctl enable nvmf-autoconnect.service:\n\n",
                self.permanent_file
            );
            for line in &self.permanent {
                text += &format!("  {line}\n");
            }
        }
        for gateway in self.gateways.iter().filter(|gateway| !gateway.alive) {
            text += &format!(
                "\nNode {} is not alive now: its path comes when it does.\n",
                gateway.node
            );
        }
        if let [only] = &self.gateways[..] {
            text += &format!(
                "\nOnly node {} serves it, so there is one path, and no disk while that node is away.\n",
                only.node
            );
        }
        text
    }
}

/// Where `nvme` finds its settings by itself, keys included.
const CONFIG_FILE: &str = "/etc/nvme/config.json";
/// What stands for keys in its lines: a shell reads them from the host's files, and nobody sees them in a list of processes.
const HOST_KEY: &str = "$(cat /etc/nvme/dhchap.key)";
const CONTROLLER_KEY: &str = "$(cat /etc/nvme/dhchap-ctrl.key)";

/// A command of the shell that writes these lines, with the keys in them, into a file that only root reads: a new one, for an old one
/// would keep the rights that it has.
fn config_script(lines: &[String]) -> String {
    // A shell expands the keys' places there, and nothing else: what names hold is escaped.
    let escape = |line: &String| {
        let line = line.replace('\\', r"\\").replace('`', r"\`").replace('$', r"\$");
        [HOST_KEY, CONTROLLER_KEY]
            .iter()
            .fold(line, |line, key| line.replace(&key.replace('$', r"\$"), key))
    };
    let text: Vec<String> = lines.iter().map(escape).collect();
    format!(
        "(umask 077; [ ! -e {CONFIG_FILE} ] || mv --backup=numbered {CONFIG_FILE} {CONFIG_FILE}.old; cat > {CONFIG_FILE} <<END\n{}\nEND\n)",
        text.join("\n")
    )
}

/// The lines of libnvme's own file of settings: keys are not said here, the host has them.
fn config_json(subsystem: &str, host: &str, gateways: &[Gateway], proofs: Proofs) -> Vec<String> {
    let ports: Vec<serde_json::Value> = gateways
        .iter()
        .map(|gateway| {
            let mut port = serde_json::json!({
                "transport": "tcp",
                "traddr": gateway.traddr,
                "trsvcid": gateway.trsvcid.to_string(),
                "nr_io_queues": IO_QUEUES,
                "keep_alive_tmo": KEEP_ALIVE_S,
                "reconnect_delay": RECONNECT_S,
                "ctrl_loss_tmo": CTRL_LOSS_S,
                "fast_io_fail_tmo": FAST_IO_FAIL_S,
            });
            if proofs.dhchap {
                port["dhchap_key"] = HOST_KEY.into();
            }
            if proofs.dhchap_controller {
                port["dhchap_ctrl_key"] = CONTROLLER_KEY.into();
            }
            if proofs.tls {
                port["tls"] = true.into();
            }
            port
        })
        .collect();
    let settings = serde_json::json!([{
        "hostnqn": host,
        "subsystems": [{ "nqn": subsystem, "ports": ports }],
    }]);
    let text = serde_json::to_string_pretty(&settings).expect("plain data");
    inert(&text).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
