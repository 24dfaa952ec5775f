//! What a host has to do to use a volume by iSCSI, on Linux (open-iscsi and dm-multipath), ESXi and Windows.
//!
//! No secret stands in any of it: commands read them from files of the host, or ask for them.

use super::quoted;
use amita_types::map::{IscsiInitiator, SCSI_PRODUCT, SCSI_VENDOR};
use serde::Serialize;
use std::net::SocketAddr;

/// Seconds without an answer after which an initiator asks whether the gateway is there, and after which it takes it for gone.
const NOP_INTERVAL_S: u32 = 5;
const NOP_TIMEOUT_S: u32 = 5;
/// ESXi takes no less.
const ESXI_NOP_TIMEOUT_S: u32 = 10;
/// Seconds after which I/O of a path that is gone is handed to another one.
const REPLACEMENT_S: u32 = 5;
/// Seconds between two looks at paths that are gone, as multipathd has it by itself.
const POLLING_S: u32 = 5;
/// Seconds without any path after which I/O fails, as by NVMe. Until then it waits: an application sees a pause, no error.
const NO_PATH_S: u32 = 600;
/// Seconds that a login may take: a gateway that is asked may be taking volumes over.
const LOGIN_S: u32 = 30;

/// Where initiators log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Portal {
    /// The node's name.
    pub node: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// The tag of the node's portal group.
    pub tag: u16,
    /// Does it own the volume?
    pub owner: bool,
    /// Does it live?
    pub alive: bool,
}

impl Portal {
    /// At this address.
    #[must_use]
    pub fn new(node: &str, at: SocketAddr, tag: u16) -> Portal {
        Portal {
            node: node.to_owned(),
            address: at.ip().to_string(),
            port: at.port(),
            tag,
            owner: false,
            alive: false,
        }
    }

    /// `ADDRESS:PORT`, with brackets where the address has colons.
    fn place(&self) -> String {
        match self.address.contains(':') {
            true => format!("[{}]:{}", self.address, self.port),
            false => format!("{}:{}", self.address, self.port),
        }
    }
}

/// What the initiator has to prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chap {
    /// The name that it gives; none: it has nothing to prove.
    pub user: Option<String>,
    /// Targets prove that they have their secret.
    pub both_ways: bool,
    /// The name that they give then; none: each its own.
    pub target_user: Option<String>,
}

impl Chap {
    /// That of an initiator.
    #[must_use]
    pub fn of(initiator: &IscsiInitiator) -> Chap {
        Chap {
            user: initiator.chap.as_ref().map(|_| initiator.user().to_owned()),
            both_ways: initiator.chap_target.is_some(),
            target_user: initiator.chap_target_user.clone(),
        }
    }
}

/// What is done on a host of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Steps {
    /// What is run once before.
    pub prepare: Vec<String>,
    /// What connects, so that it is connected after each start as well.
    pub connect: Vec<String>,
    /// A file of settings that belongs to it.
    pub file: Option<SettingsFile>,
    /// The disk, on that host.
    pub disk: String,
}

/// A file of settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsFile {
    pub name: String,
    pub lines: Vec<String>,
}

/// The commands and files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guide {
    /// Where to log in, the owner first.
    pub portals: Vec<Portal>,
    pub linux: Steps,
    pub esxi: Steps,
    pub windows: Steps,
}

/// A kind of host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    Esxi,
    Windows,
}

impl System {
    /// What makes names of this form by itself; none: nobody knows.
    #[must_use]
    pub fn of(initiator: &str) -> Option<System> {
        let made = [
            ("iqn.1998-01.com.vmware:", System::Esxi),
            ("iqn.1991-05.com.microsoft:", System::Windows),
            ("iqn.1993-08.org.debian:", System::Linux),
            ("iqn.1994-05.com.redhat:", System::Linux),
            ("iqn.1996-04.de.suse:", System::Linux),
            ("iqn.2016-04.com.open-iscsi:", System::Linux),
        ];
        let found = made.iter().find(|(beginning, _)| initiator.starts_with(beginning));
        found.map(|(_, system)| *system)
    }
}

/// What is to be used, by whom.
#[derive(Clone, Debug)]
struct Facts<'a> {
    target: &'a str,
    initiator: &'a str,
    portals: &'a [Portal],
    chap: &'a Chap,
    naa: &'a str,
}

impl Guide {
    /// For an initiator, and a LUN of a target that has this name ([`amita_types::map::naa_text`]); `portals` in order.
    #[must_use]
    pub fn new(target: &str, initiator: &str, portals: &[Portal], chap: &Chap, naa: &str) -> Guide {
        let facts = Facts {
            target,
            initiator,
            portals,
            chap,
            naa,
        };
        Guide {
            portals: portals.to_vec(),
            linux: linux(&facts),
            esxi: esxi(&facts),
            windows: windows(&facts),
        }
    }

    /// For a person; of all kinds of hosts, where none is said.
    #[must_use]
    pub fn text(&self, initiator: &str, system: Option<System>) -> String {
        let all = [
            (
                System::Linux,
                "On Linux (open-iscsi, multipath-tools), as root",
                &self.linux,
            ),
            (System::Esxi, "On ESXi, in its shell", &self.esxi),
            (
                System::Windows,
                "On Windows, in PowerShell as administrator",
                &self.windows,
            ),
        ];
        let mut text = String::new();
        for (_, title, steps) in all.iter().filter(|(of, ..)| system.is_none_or(|wanted| wanted == *of)) {
            text += &format!("\n{title}; the initiator's name there has to be {initiator}:\n\n");
            if let Some(file) = &steps.file {
                // As it is to be typed: where lines are moved in, a shell does not see the last one.
                text += &format!("cat > {} <<'END'\n{}\nEND\n", file.name, file.lines.join("\n"));
            }
            for line in steps.prepare.iter().chain(&steps.connect) {
                text += &format!("{line}\n");
            }
            text += &format!("\nThe disk is {} then.\n", steps.disk);
        }
        for portal in self.portals.iter().filter(|portal| !portal.alive) {
            text += &format!(
                "\nNode {} is not alive now: give the commands that connect again when it is, for the path by it.\n",
                portal.node
            );
        }
        let first = self.portals.first().map(|portal| &portal.node);
        if self.portals.iter().all(|portal| Some(&portal.node) == first) {
            text += &format!(
                "\nOnly node {} serves it, so there is no disk while that node is away.\n",
                first.map_or("", String::as_str)
            );
        }
        text
    }
}

/// Where the host keeps the secrets.
const SECRET: &str = "/etc/iscsi/amita.secret";
const TARGET_SECRET: &str = "/etc/iscsi/amita-target.secret";
const MULTIPATH_FILE: &str = "/etc/multipath/conf.d/amita.conf";

fn linux(facts: &Facts<'_>) -> Steps {
    let Facts {
        target,
        portals,
        chap,
        naa,
        ..
    } = facts;
    let prepare = vec![
        "systemctl enable --now iscsid multipathd".to_owned(),
        "multipathd reconfigure".to_owned(),
    ];
    // A record for each portal is made by hand: no session of discovery is needed, which would have to be proven as well.
    let mut connect: Vec<String> = portals
        .iter()
        .map(|portal| {
            let (place, tag) = (portal.place(), portal.tag);
            format!("iscsiadm -m node -o new -T {target} -p {place},{tag}")
        })
        .collect();
    if chap.user.is_none()
        && let Some(first) = portals.first()
    {
        // Nothing has to be proven: any portal tells all of them. What is known already stays as it is: by itself a discovery gives the records of all
        // targets that it finds the settings of iscsid.conf again (on Debian: they are not logged in to at a start), and takes those away
        // whose gateway does not live just now.
        connect = vec![format!(
            "iscsiadm -m discoverydb -t sendtargets -p {} -o new --discover",
            first.place()
        )];
    }
    let set = |name: &str, value: &str| format!("iscsiadm -m node -T {target} -o update -n '{name}' -v {value}");
    let timeo = [
        ("node.startup", "automatic".to_owned()),
        ("node.session.timeo.replacement_timeout", REPLACEMENT_S.to_string()),
        ("node.conn[0].timeo.login_timeout", LOGIN_S.to_string()),
        ("node.conn[0].timeo.noop_out_interval", NOP_INTERVAL_S.to_string()),
        ("node.conn[0].timeo.noop_out_timeout", NOP_TIMEOUT_S.to_string()),
    ];
    connect.extend(timeo.iter().map(|(name, value)| set(name, value)));
    if let Some(user) = &chap.user {
        connect.push(set("node.session.auth.authmethod", "CHAP"));
        connect.push(set("node.session.auth.chap_algs", "SHA3-256,SHA256"));
        connect.push(set("node.session.auth.username", &quoted(user)));
        connect.push(set("node.session.auth.password", &format!("\"$(cat {SECRET})\"")));
        if chap.both_ways {
            let own = chap.target_user.as_deref().unwrap_or(target);
            connect.push(set("node.session.auth.username_in", &quoted(own)));
            connect.push(set(
                "node.session.auth.password_in",
                &format!("\"$(cat {TARGET_SECRET})\""),
            ));
        }
    }
    connect.push(format!("iscsiadm -m node -T {target} --login"));
    // Where multipath takes only disks that it knows (`find_multipaths strict`, its default), it has to be told. By the disk's WWID: of
    // names of devices it takes those of the kernel alone (`sda`), and no link to them.
    connect.push("udevadm settle".to_owned());
    connect.push(format!("multipath -a 3{naa}"));
    connect.push("multipathd reconfigure".to_owned());
    connect.push(format!("multipath -ll 3{naa}"));
    Steps {
        prepare,
        connect,
        file: Some(SettingsFile {
            name: MULTIPATH_FILE.to_owned(),
            lines: multipath(),
        }),
        disk: format!("/dev/disk/by-id/dm-uuid-mpath-3{naa}"),
    }
}

/// What dm-multipath has to know of these disks.
#[must_use]
pub fn multipath() -> Vec<String> {
    let retries = NO_PATH_S / POLLING_S;
    let settings = [
        format!("vendor                \"{SCSI_VENDOR}\""),
        format!("product               \"{SCSI_PRODUCT}\""),
        "path_grouping_policy  group_by_prio".to_owned(),
        "prio                  alua".to_owned(),
        "hardware_handler      \"1 alua\"".to_owned(),
        "path_checker          tur".to_owned(),
        "path_selector         \"service-time 0\"".to_owned(),
        "failback              immediate".to_owned(),
        format!("fast_io_fail_tmo      {REPLACEMENT_S}"),
        format!("no_path_retry         {retries}"),
    ];
    let mut lines = vec!["devices {".to_owned(), "    device {".to_owned()];
    lines.extend(settings.iter().map(|setting| format!("        {setting}")));
    lines.extend(["    }".to_owned(), "}".to_owned()]);
    lines
}

fn esxi(facts: &Facts<'_>) -> Steps {
    let Facts {
        target,
        initiator,
        portals,
        chap,
        naa,
    } = facts;
    let adapter = "esxcli iscsi adapter";
    let prepare = vec![
        "esxcli iscsi software set --enabled=true".to_owned(),
        format!("A=$({adapter} list | awk '/iscsi_vmk/ {{ print $1 }}')"),
        format!("{adapter} set --adapter=$A --name={initiator}"),
        format!(
            "esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --vendor={SCSI_VENDOR} --model={SCSI_PRODUCT} --claim-option=tpgs_on \
             --psp=VMW_PSP_RR --psp-option=policy=latency --description=Amita"
        ),
    ];
    let mut connect = Vec::new();
    if let Some(user) = &chap.user {
        // Typed, so that it stands in no history of the shell.
        connect.push("read -rs -p 'secret of the initiator: ' S".to_owned());
        connect.push(format!(
            "{adapter} auth chap set --adapter=$A --direction=uni --level=required --authname={} --secret=\"$S\"",
            quoted(user)
        ));
        if chap.both_ways {
            connect.push("read -rs -p 'secret of the targets: ' S".to_owned());
            connect.push(format!(
                "{adapter} auth chap set --adapter=$A --direction=mutual --level=required --authname={} --secret=\"$S\"",
                quoted(chap.target_user.as_deref().unwrap_or(target))
            ));
        }
    }
    connect.extend(portals.iter().map(|portal| {
        let place = portal.place();
        format!("{adapter} discovery sendtarget add --adapter=$A --address={place}")
    }));
    let params = [
        ("NoopOutInterval", NOP_INTERVAL_S),
        ("NoopOutTimeout", ESXI_NOP_TIMEOUT_S),
        ("RecoveryTimeout", REPLACEMENT_S),
        ("LoginTimeout", LOGIN_S),
    ];
    connect.extend(
        params
            .iter()
            .map(|(key, value)| format!("{adapter} param set --adapter=$A --key={key} --value={value}")),
    );
    connect.push(format!(
        "{adapter} param set --adapter=$A --key=DelayedAck --value=false"
    ));
    connect.push("esxcli storage core adapter rescan --adapter=$A".to_owned());
    connect.push(format!("esxcli storage nmp device list --device=naa.{naa}"));
    Steps {
        prepare,
        connect,
        file: None,
        disk: format!("/vmfs/devices/disks/naa.{naa}"),
    }
}

/// A text as PowerShell takes it as it is.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn windows(facts: &Facts<'_>) -> Steps {
    let Facts {
        target,
        initiator,
        portals,
        chap,
        naa,
    } = facts;
    let prepare = vec![
        "Install-WindowsFeature -Name Multipath-IO    # Windows Server; start it anew when it says so".to_owned(),
        "Set-Service -Name MSiSCSI -StartupType Automatic; Start-Service -Name MSiSCSI".to_owned(),
        format!(
            "Get-InitiatorPort | Where-Object ConnectionType -eq iSCSI | Set-InitiatorPort -NewNodeAddress {}",
            literal(initiator)
        ),
        format!("New-MSDSMSupportedHW -VendorId {SCSI_VENDOR} -ProductId {SCSI_PRODUCT}"),
        "Enable-MSDSMAutomaticClaim -BusType iSCSI".to_owned(),
        format!("Set-MPIOSetting -NewPathVerificationState Enabled -NewPDORemovePeriod {NO_PATH_S} -NewDiskTimeout 60"),
    ];
    let mut connect = Vec::new();
    let mut proof = String::new();
    if let Some(user) = &chap.user {
        let ask = |what: &str| {
            format!(
                "(New-Object Net.NetworkCredential('', (Read-Host -AsSecureString 'secret of the {what}'))).Password"
            )
        };
        if chap.both_ways {
            connect.push(format!("Set-IscsiChapSecret -ChapSecret {}", ask("targets")));
        }
        connect.push(format!("$s = {}", ask("initiator")));
        let kind = if chap.both_ways { "MUTUALCHAP" } else { "ONEWAYCHAP" };
        proof = format!(
            " -AuthenticationType {kind} -ChapUsername {} -ChapSecret $s",
            literal(user)
        );
    }
    for portal in *portals {
        connect.push(format!(
            "New-IscsiTargetPortal -TargetPortalAddress {} -TargetPortalPortNumber {}{proof}",
            portal.address, portal.port
        ));
    }
    for portal in *portals {
        connect.push(format!(
            "Connect-IscsiTarget -NodeAddress {} -TargetPortalAddress {} -TargetPortalPortNumber {} -IsPersistent $true \
             -IsMultipathEnabled $true{proof}",
            literal(target),
            portal.address,
            portal.port
        ));
    }
    connect.push("Update-HostStorageCache; mpclaim -s -d".to_owned());
    let id = naa.to_ascii_uppercase();
    Steps {
        prepare,
        connect,
        file: None,
        disk: format!("Get-Disk | Where-Object UniqueId -eq '{id}'"),
    }
}

#[cfg(test)]
mod tests;
