//! `amita volume attach --iscsi`: what is missing is made, and the host's commands are said.

use super::{AttachArguments, DetachArguments, kind_of, new};
use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, LunSpec, Mask, TargetSpec};
use amita_control::guide::iscsi::{self, Chap, Guide};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_types::map::{IscsiLun, IscsiTarget, naa_text};
use serde::Serialize;

/// Of which kind the host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    Linux,
    Esxi,
    Windows,
    All,
}

impl System {
    /// Whose commands are printed; none: all.
    fn shown(said: Option<System>, initiator: &str) -> Option<iscsi::System> {
        match said {
            Some(System::Linux) => Some(iscsi::System::Linux),
            Some(System::Esxi) => Some(iscsi::System::Esxi),
            Some(System::Windows) => Some(iscsi::System::Windows),
            Some(System::All) => None,
            None => iscsi::System::of(initiator),
        }
    }
}

/// What `attach` answers.
#[derive(Debug, Serialize)]
struct Attached {
    volume: String,
    target: String,
    iqn: String,
    lun: u16,
    naa: String,
    initiator: String,
    /// What was missing and was made now.
    made: Vec<String>,
    #[serde(flatten)]
    guide: Guide,
}

/// What an initiator needs, and what of it was missing.
struct Made {
    lun: IscsiLun,
    found: IscsiTarget,
    made: Vec<String>,
}

pub(super) fn attach(arguments: &AttachArguments, initiator: &str, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let initiator = admin::check_iscsi_name("initiator", initiator).described()?;
    let (volume, used) = admin::lun_of(&metadata.reader(), name).described()?;
    let target = match (&arguments.target, &used) {
        (Some(wanted), Some(used)) if *wanted != used.target => {
            return Err(AdminError::IsLun {
                what: kind_of(name),
                name: name.clone(),
                target: used.target.clone(),
                lun: used.lun.number,
                besides: "",
            })
            .described();
        }
        (_, Some(used)) => used.target.clone(),
        (Some(wanted), None) => wanted.clone(),
        (None, None) => own_target(metadata, name, &initiator)?,
    };
    let present = used.map(|used| used.lun);
    let block_bytes = match arguments.block_size {
        Some(wished) => wished,
        None => admin::usual_block_bytes(&metadata.reader(), name).described()?,
    };
    let Made { lun, found, made } = metadata
        .act(Action::VolumeAttach, &format!("{name} to {initiator}"), |meta| {
            make(meta, (name.as_str(), block_bytes), &initiator, &target, present)
        })
        .described()?;
    let known = admin::initiator(&metadata.reader(), &initiator).described()?;
    let portals = admin::target_portals(&metadata.reader(), &found, volume.owner).described()?;
    if portals.is_empty() {
        let whose = match &found.gateways[..] {
            [] => "no node".to_owned(),
            named => format!("none of {}", named.join(", ")),
        };
        return Err(Failure::new(format!(
            "everything is made, but {whose} speaks iSCSI, so the initiator cannot log in yet"
        ))
        .advice("Start gateways that do, and give this command again."));
    }
    let naa = naa_text(&lun.uuid);
    let guide = Guide::new(&found.iqn, &initiator, &portals, &Chap::of(&known), &naa);
    let attached = Attached {
        volume: name.clone(),
        target,
        iqn: found.iqn,
        lun: lun.number,
        naa,
        initiator,
        made,
        guide,
    };
    let bare = known.chap.is_none();
    print(arguments.json, &attached, || {
        text(&attached, bare, System::shown(arguments.system, &attached.initiator))
    })
}

/// The name of a target for this volume, or for this snapshot alone. What the initiator sees of it is this LUN, whatever else it has; but who
/// sees all of it would see this one as well.
fn own_target(metadata: &Admin, name: &str, initiator: &str) -> Result<String> {
    let (volume, snapshot) = admin::split(name).described()?;
    let own = match snapshot {
        None => volume.to_owned(),
        // Names of snapshots may have what those of targets have not.
        Some(snapshot) => format!("{volume}.{}", snapshot.replace([':', '+'], "-")),
    };
    if own.len() > admin::MAX_TARGET_NAME_BYTES {
        let why = format!(
            "a target that is called as {name} would have a name of more than {} bytes",
            admin::MAX_TARGET_NAME_BYTES
        );
        return Err(Failure::new(why)
            .kind(Kind::Usage)
            .advice("Say which target it shall be, or what it is to be called: --target NAME."));
    }
    let there = match admin::target(&metadata.reader(), &own) {
        Err(AdminError::NoSuch { .. }) => None,
        found => Some(found.described()?),
    };
    match there.and_then(|found| others_who_see_all(&found, initiator)) {
        None => Ok(own),
        Some(who) => Err(Failure::new(format!(
            "target {own} is there, and shows all its LUNs to {who}: {name} would be one of them"
        ))
        .kind(Kind::Conflict)
        .advice(format!(
            "Say which target it shall be: --target NAME; --target {own} if that is meant."
        ))),
    }
}

/// Who beside the initiator sees whatever becomes a LUN of the target.
fn others_who_see_all(target: &IscsiTarget, initiator: &str) -> Option<String> {
    if target.any_initiator {
        return Some("any initiator".to_owned());
    }
    let mut all = target.initiators.iter().filter(|access| access.luns.is_none());
    let other = all.find(|access| access.initiator != initiator)?;
    Some(format!("initiator {}", other.initiator))
}

/// Makes what is missing. `present`: the LUN, where the volume is one.
fn make(
    meta: &dyn Transact,
    (name, block_bytes): (&str, u32),
    initiator: &str,
    target: &str,
    present: Option<IscsiLun>,
) -> std::result::Result<Made, AdminError> {
    let mut made = Vec::new();
    let spec = TargetSpec {
        name: target.to_owned(),
        ..TargetSpec::default()
    };
    made.extend(new(admin::create_target(meta, &spec), || format!("target {target}"))?);
    let lun = match present {
        Some(lun) => lun,
        None => {
            let spec = LunSpec {
                of: name.to_owned(),
                number: None,
                block_bytes,
                shared: false,
            };
            let lun = admin::add_lun(meta, target, &spec).inspect_err(|_| {
                // Nothing is left half done; where somebody uses it by now, or the metadata is away, it stays.
                if !made.is_empty() {
                    let _ = admin::delete_target(meta, target, false);
                }
            })?;
            made.push(format!("LUN {} of it, {} {name}", lun.number, kind_of(name)));
            lun
        }
    };
    let before = admin::target(meta, target)?;
    let found = admin::allow_initiator(meta, target, initiator, &Mask::Disk(lun.clone()))?;
    if before.initiators != found.initiators {
        made.push(format!(
            "the right of the initiator to log in to target {target} and to see LUN {}",
            lun.number
        ));
    }
    Ok(Made { lun, found, made })
}

fn text(attached: &Attached, bare: bool, system: Option<iscsi::System>) -> String {
    let Attached {
        volume,
        iqn,
        lun,
        naa,
        initiator,
        ..
    } = attached;
    let what = match kind_of(volume) {
        "snapshot" => "Snapshot",
        _ => "Volume",
    };
    let mut text = format!("{what} {volume} is LUN {lun} of {iqn} (naa.{naa}); initiator {initiator} may log in.\n");
    for made in &attached.made {
        text += &format!("  made: {made}\n");
    }
    if bare {
        text += &format!(
            "It has nothing to prove: whoever gives that name is let in. `amita initiator key {initiator} --generate-chap` gives it a secret.\n"
        );
    }
    text + &attached.guide.text(initiator, system)
}

/// Takes the LUN out, or has one initiator see it no more.
pub(super) fn detach(arguments: &DetachArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let (_, used) = admin::lun_of(&metadata.reader(), name).described()?;
    let Some(used) = used else {
        return Err(
            Failure::new(format!("{} {name} is no LUN of any target", kind_of(name)))
                .kind(Kind::NotFound)
                .advice("`amita lun list` shows which volumes are."),
        );
    };
    let (target, number) = (&used.target, used.lun.number);
    if let Some(initiator) = &arguments.initiator {
        let object = format!("{name} from {initiator}");
        let hidden = metadata.act(Action::VolumeDetach, &object, |meta| {
            admin::hide_disk(meta, target, initiator, &used.lun)
        });
        let found = hidden.described()?;
        let told = serde_json::json!({
            "name": name, "target": target, "lun": number, "initiator": initiator, "detached": true
        });
        return print(arguments.json, &told, || {
            format!("Initiator {initiator} sees LUN {number} of {} no more.\n", found.iqn)
        });
    }
    metadata
        .act(Action::VolumeDetach, name, |meta| {
            admin::remove_disk(meta, target, &used.lun)
        })
        .described()?;
    let left = admin::target(&metadata.reader(), target).described()?.luns.len();
    let told = serde_json::json!({
        "name": name, "target": target, "lun": number, "detached": true, "luns_left": left
    });
    print(arguments.json, &told, || {
        let mut text = format!("{name} is no LUN of target {target} any more; its data stays.\n");
        if left == 0 {
            text += &format!("The target has none left; `amita target delete {target}` removes it.\n");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::map::IscsiAccess;

    #[test]
    fn a_target_that_shows_all_to_others_is_not_taken_by_its_name_alone() {
        let access = |initiator: &str, luns: Option<Vec<u16>>| IscsiAccess {
            initiator: initiator.to_owned(),
            luns,
        };
        let mut target = IscsiTarget {
            name: "db".to_owned(),
            iqn: "iqn.2026-11.io.amita:test:db".to_owned(),
            gateways: Vec::new(),
            any_initiator: false,
            chap_required: false,
            initiators_move: false,
            space_warning_percent: None,
            initiators: vec![access("iqn.a", None), access("iqn.b", Some(vec![0]))],
            luns: Vec::new(),
        };
        assert_eq!(others_who_see_all(&target, "iqn.a"), None, "the other one has a list");
        assert_eq!(others_who_see_all(&target, "iqn.b").as_deref(), Some("initiator iqn.a"));
        target.initiators.clear();
        assert_eq!(others_who_see_all(&target, "iqn.b"), None);
        target.any_initiator = true;
        assert_eq!(others_who_see_all(&target, "iqn.b").as_deref(), Some("any initiator"));
    }
}
