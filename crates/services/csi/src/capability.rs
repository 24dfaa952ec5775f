//! How volumes may be used: by whom at a time, as what.

use crate::wire::common::{
    VolumeCapability, VolumeCapabilityAccessModeMode as Mode, VolumeCapabilityAccessTypeOneOf as AccessType,
};
use tonic::Status;

/// The file systems that a node makes.
pub const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];
/// The one that is made where nothing is said.
pub const USUAL_FILE_SYSTEM: &str = "ext4";

/// As what a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A disk.
    Block,
    /// A file system.
    Mount {
        /// Which.
        file_system: String,
        /// As `mount -o` takes them.
        options: Vec<String>,
    },
}

/// How many nodes use a volume at a time, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One.
    Single,
    /// Several, and each may write.
    Writers,
    /// Several, and none writes.
    Readers,
}

/// A capability that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// As what.
    pub access: Access,
    /// By whom.
    pub sharing: Sharing,
    /// It is only read, though one node has it.
    pub reads_only: bool,
    /// One pod of that node uses it: it is shown at one place.
    pub at_one_place: bool,
}

/// Why it cannot be had, in words.
type Refused = String;

/// Reads a capability.
///
/// # Errors
/// In words: it is none, or one that no volume has.
pub fn read(capability: &VolumeCapability) -> Result<Use, Refused> {
    let access = match &capability.access_type {
        None => return Err("a capability says neither block nor mount".to_owned()),
        Some(AccessType::Block(_)) => Access::Block,
        Some(AccessType::Mount(mount)) => Access::Mount {
            file_system: file_system(&mount.fs_type)?,
            options: mount.mount_flags.clone(),
        },
    };
    let mode = capability.access_mode.as_ref().map(|mode| mode.mode);
    let mode = mode.and_then(|mode| Mode::try_from(mode).ok());
    let (sharing, reads_only) = match mode {
        Some(Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter) => {
            (Sharing::Single, false)
        }
        Some(Mode::SingleNodeReaderOnly) => (Sharing::Single, true),
        Some(Mode::MultiNodeReaderOnly) => (Sharing::Readers, true),
        Some(Mode::MultiNodeMultiWriter) if access == Access::Block => (Sharing::Writers, false),
        Some(Mode::MultiNodeMultiWriter | Mode::MultiNodeSingleWriter) => {
            return Err(
                "several nodes may write to a volume at one time as a disk only (volumeMode: Block)".to_owned(),
            );
        }
        None | Some(Mode::Unknown) => return Err("a capability has no access mode that is known".to_owned()),
    };
    Ok(Use {
        access,
        sharing,
        reads_only,
        at_one_place: mode == Some(Mode::SingleNodeSingleWriter),
    })
}

fn file_system(wanted: &str) -> Result<String, Refused> {
    match wanted {
        "" => Ok(USUAL_FILE_SYSTEM.to_owned()),
        known if FILE_SYSTEMS.contains(&known) => Ok(known.to_owned()),
        other => Err(format!(
            "{other:?} is no file system that is made; choose {}",
            FILE_SYSTEMS.join(" or ")
        )),
    }
}

/// The one of a request.
///
/// # Errors
/// There is none, or it cannot be.
pub fn one(capability: Option<&VolumeCapability>) -> Result<Use, Status> {
    let capability = capability.ok_or_else(|| Status::invalid_argument("there is no volume capability"))?;
    read(capability).map_err(Status::invalid_argument)
}

/// All of a request that is to make a volume.
///
/// # Errors
/// There is none, or one cannot be.
pub fn all(capabilities: &[VolumeCapability]) -> Result<Vec<Use>, Status> {
    if capabilities.is_empty() {
        return Err(Status::invalid_argument("there are no volume capabilities"));
    }
    let uses = capabilities.iter().map(read).collect::<Result<Vec<_>, _>>();
    uses.map_err(Status::invalid_argument)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::common::{VolumeCapabilityAccessMode, VolumeCapabilityBlockVolume, VolumeCapabilityMountVolume};

    pub(crate) fn capability(mode: Mode, access: AccessType) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(VolumeCapabilityAccessMode { mode: mode as i32 }),
            access_type: Some(access),
        }
    }

    pub(crate) fn block(mode: Mode) -> VolumeCapability {
        capability(mode, AccessType::Block(VolumeCapabilityBlockVolume {}))
    }

    pub(crate) fn mount(mode: Mode, fs_type: &str) -> VolumeCapability {
        let mount = VolumeCapabilityMountVolume {
            fs_type: fs_type.to_owned(),
            ..Default::default()
        };
        capability(mode, AccessType::Mount(mount))
    }

    #[test]
    fn several_writers_have_a_disk_and_no_file_system() {
        let sharing = |capability: VolumeCapability| read(&capability).map(|found| found.sharing);
        assert_eq!(sharing(block(Mode::MultiNodeMultiWriter)), Ok(Sharing::Writers));
        assert!(sharing(mount(Mode::MultiNodeMultiWriter, "")).is_err());
        assert!(sharing(block(Mode::MultiNodeSingleWriter)).is_err());
        assert_eq!(sharing(mount(Mode::SingleNodeSingleWriter, "xfs")), Ok(Sharing::Single));
        assert_eq!(sharing(mount(Mode::MultiNodeReaderOnly, "ext4")), Ok(Sharing::Readers));
        assert!(sharing(block(Mode::Unknown)).is_err());
        assert!(sharing(mount(Mode::SingleNodeWriter, "ntfs")).is_err_and(|why| why.contains("ext4 or xfs")));
        assert!(sharing(VolumeCapability::default()).is_err());
        let alone = |mode: Mode| read(&block(mode)).expect("a use").at_one_place;
        assert!(alone(Mode::SingleNodeSingleWriter));
        assert!(!alone(Mode::SingleNodeMultiWriter) && !alone(Mode::SingleNodeWriter));
    }

    #[test]
    fn ext4_is_made_where_nothing_is_said() {
        let found = read(&mount(Mode::SingleNodeWriter, "")).expect("a use");
        let Access::Mount { file_system, .. } = found.access else {
            panic!("{found:?}");
        };
        assert_eq!(file_system, "ext4");
    }
}
