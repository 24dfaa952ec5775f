use super::*;
use std::path::PathBuf;

const SIZE: u64 = 64 << 20;

/// A sparse file with these bytes in it.
fn disk(folder: &tempfile::TempDir, size_bytes: u64, contents: &[(u64, &[u8])]) -> PathBuf {
    let path = folder.path().join("disk");
    let file = File::create(&path).expect("made");
    file.set_len(size_bytes).expect("its length");
    for (offset, bytes) in contents {
        file.write_all_at(bytes, *offset).expect("written");
    }
    path
}

fn refused(path: &Path) -> Option<String> {
    let refused = Target::open(path).expect("opened").refuse_if_in_use().err()?;
    assert_eq!(refused.kind, Kind::Conflict, "{refused}");
    assert!(
        refused.to_string().contains("--force"),
        "what to do is not said: {refused}"
    );
    Some(refused.to_string())
}

#[test]
fn what_is_at_either_end_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let md = 0xa92b_4efc_u32.to_le_bytes();
    let zfs = 0x00ba_b10c_u64.to_le_bytes();
    // A size that is no multiple of 64 KiB, as those of disks are.
    let odd = SIZE + 5 * 4096 + 512;
    for (what, size_bytes, offset, mark) in [
        ("metadata 1.0", SIZE, SIZE - 8192, md.as_slice()),
        // By hand: 131,113 sectors, less 16, rounded down to 4 KiB.
        ("metadata 1.0", odd, 131_096 * 512, &md),
        ("metadata 0.90", SIZE, SIZE - 65536, &md),
        ("metadata 0.90", odd, SIZE - 65536, &md),
        ("metadata 0.90", SIZE, SIZE - 65536, &[0xa9, 0x2b, 0x4e, 0xfc]),
        ("metadata 1.1", SIZE, 0, &md),
        ("metadata 1.2", SIZE, 4096, &md),
        ("second half of a partition table (GPT)", SIZE, SIZE - 512, b"EFI PART"),
        ("second half of a partition table (GPT)", SIZE, SIZE - 4096, b"EFI PART"),
        ("partition table (GPT)", SIZE, 512, b"EFI PART"),
        ("partition table (GPT)", SIZE, 4096, b"EFI PART"),
        ("partition table (MBR)", SIZE, 510, &[0x55, 0xaa]),
        ("RAID (DDF)", SIZE, SIZE - 512, &[0xde, 0x11, 0xde, 0x11]),
        ("RAID (Intel)", SIZE, SIZE - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
        ("ZFS", SIZE, (128 << 10) + 4096, &zfs),
        ("ZFS", SIZE, (256 << 10) + (255 << 10), &zfs),
        ("ZFS", SIZE, SIZE - (512 << 10) + (132 << 10), &zfs),
        ("ZFS", odd, SIZE - (256 << 10) + (132 << 10), &zfs),
        (
            "ZFS",
            SIZE,
            SIZE - (256 << 10) + (132 << 10),
            &0x00ba_b10c_u64.to_be_bytes(),
        ),
        ("LVM", SIZE, 512, b"LABELONE"),
        ("ext4", SIZE, 1080, &[0x53, 0xef]),
        ("XFS", SIZE, 0, b"XFSB"),
        ("Btrfs", SIZE, 65536 + 64, b"_BHRfS_M"),
        ("Ceph", SIZE, 0, b"bluestore block device\n"),
        ("LUKS", SIZE, 0, b"LUKS\xba\xbe"),
        ("swap", SIZE, 4086, b"SWAPSPACE2"),
    ] {
        let path = disk(&folder, size_bytes, &[(offset, mark)]);
        let said = refused(&path).unwrap_or_else(|| panic!("{what} at byte {offset} was not seen"));
        assert!(said.contains(what), "{what:?} is not in: {said}");
        assert!(
            said.contains(&format!("at byte {offset};")),
            "{offset} is not in: {said}"
        );
    }
}

#[test]
fn any_byte_at_either_end_is_somebodys() {
    let folder = tempfile::tempdir().expect("a folder");
    for offset in [0, 77, (1 << 20) - 1, SIZE - (1 << 20), SIZE - 1] {
        let said =
            refused(&disk(&folder, SIZE, &[(offset, &[1])])).unwrap_or_else(|| panic!("byte {offset} was not seen"));
        assert!(said.contains(&format!("byte {offset} of it is not zero")), "{said}");
    }
    // Smaller than both ends together, and than one.
    for (size_bytes, offset) in [(5 << 18, (5 << 18) - 1), (4096, 4095), (1, 0)] {
        assert!(
            refused(&disk(&folder, size_bytes, &[(offset, &[1])])).is_some(),
            "of {size_bytes}"
        );
        assert_eq!(refused(&disk(&folder, size_bytes, &[])), None, "of {size_bytes}");
    }
    assert_eq!(refused(&disk(&folder, SIZE, &[])), None);
}

#[test]
fn a_raid_is_named_and_not_the_boot_sector_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let md = 0xa92b_4efc_u32.to_le_bytes();
    let said = refused(&disk(&folder, SIZE, &[(510, &[0x55, 0xaa]), (SIZE - 8192, &md)])).expect("seen");
    assert!(said.contains("metadata 1.0"), "{said}");
}

#[test]
fn what_tools_of_the_system_make_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (tool, arguments, what) in [("mkfs.ext4", vec!["-q", "-F"], "ext4"), ("mkswap", vec![], "swap")] {
        let path = disk(&folder, SIZE, &[]);
        let made = std::process::Command::new(tool).args(arguments).arg(&path).output();
        match made {
            Ok(made) if made.status.success() => {
                let said = refused(&path).unwrap_or_else(|| panic!("{tool} was not seen"));
                assert!(said.contains(what), "{what:?} is not in: {said}");
            }
            other => eprintln!("skipped: {tool} does not run here: {other:?}"),
        }
    }
}
