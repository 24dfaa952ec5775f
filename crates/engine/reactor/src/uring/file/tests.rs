use super::*;
use std::os::unix::fs::FileExt;

/// A folder of the disk of the build, and not in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn file_of(folder: &tempfile::TempDir, name: &str) -> (PathBuf, File) {
    let path = folder.path().join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    (path.clone(), options.open(&path).unwrap())
}

fn about(path: &Path) -> FileInfo {
    open(path, false).unwrap().info
}

/// Can the file system of the build tell what a file has?
fn can_tell(file: &File) -> bool {
    sys::is_written_whole(file, 0, 1).is_ok() && sys::is_written_whole(file, 1, 1).is_ok()
}

/// What a file without holes says: what its device does.
fn device_is_volatile(path: &Path) -> bool {
    let Opened { file, way, .. } = open(path, false).unwrap();
    let device = file.metadata().unwrap().dev();
    !matches!(way, Way::Direct { .. })
        || has_volatile_cache(Path::new(DEVICES), libc::major(device), libc::minor(device))
}

#[test]
fn a_file_that_is_written_full_has_no_holes_synced_or_not() {
    let folder = folder();
    let mut one_did_tell = false;
    for (name, size, sync) in [
        ("synced", 1 << 20, true),
        ("fresh", 1 << 20, false),
        ("odd", 10_001, false),
        ("empty", 0, false),
    ] {
        let (path, file) = file_of(&folder, name);
        file.write_all_at(&vec![7; size], 0).unwrap();
        if sync {
            file.sync_all().unwrap();
        }
        let info = about(&path);
        // A file system that cannot tell is not trusted, but for an empty file there is nothing to tell.
        assert_eq!(info.holes, !can_tell(&file) && size > 0, "{name}: {info:?}");
        assert_eq!(
            info.volatile_cache,
            info.holes || device_is_volatile(&path),
            "{name}: {info:?}"
        );
        assert!(info.discard_makes_holes && !info.inline);
        one_did_tell |= !info.holes && size > 0;
    }
    let (_, probe) = file_of(&folder, "probe");
    assert_eq!(one_did_tell, can_tell(&probe));
}

#[test]
fn a_file_with_a_place_that_was_never_written_is_volatile_whatever_its_device() {
    let folder = folder();
    let (sparse, file) = file_of(&folder, "sparse");
    file.set_len(1 << 20).unwrap();
    let (tail, file) = file_of(&folder, "tail");
    file.write_all_at(&[7; 1 << 19], 0).unwrap();
    file.set_len(1 << 20).unwrap();
    let (middle, file) = file_of(&folder, "middle");
    file.write_all_at(&[7; 1 << 18], 0).unwrap();
    file.write_all_at(&[7; 1 << 18], 3 << 18).unwrap();
    let mut paths = vec![sparse, tail, middle];
    let (allocated, file) = file_of(&folder, "allocated");
    // Some file systems cannot allocate ahead.
    if sys::allocate(&file, 1 << 20).is_ok() {
        file.write_all_at(&[7; 4096], 0).unwrap();
        paths.push(allocated);
    }
    for path in paths {
        let info = about(&path);
        assert!(info.holes && info.volatile_cache, "{}: {info:?}", path.display());
        // Writing it full makes it whole.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![9; info.size_bytes as usize], 0).unwrap();
        let info = about(&path);
        assert_eq!(info.holes, !can_tell(&file), "{}: {info:?}", path.display());
    }
}

#[test]
fn a_punched_file_has_holes_when_it_is_opened_next() {
    let folder = folder();
    let (path, file) = file_of(&folder, "punched");
    file.write_all_at(&[7; 1 << 20], 0).unwrap();
    if about(&path).discard {
        sys::punch(file.as_raw_fd(), 1 << 19, 8192).unwrap();
        let info = about(&path);
        assert!(info.holes && info.volatile_cache, "{info:?}");
    } else {
        let error = sys::punch(file.as_raw_fd(), 1 << 19, 8192).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    }
    assert_eq!(file.metadata().unwrap().len(), 1 << 20, "asking changes no length");
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, (1 << 20) - 4096).unwrap();
    assert_eq!(bytes, [7; 4096], "nor what is there");
}

#[test]
fn extents_are_found_out_in_many_steps_as_in_one() {
    let folder = folder();
    // Two files that grow in turn and out of order lie in pieces on most file systems.
    let ((_, one), (_, other)) = (file_of(&folder, "one"), file_of(&folder, "other"));
    for block in 0..64 {
        let at = (block * 37 % 64) * 4096;
        for file in [&one, &other] {
            file.write_all_at(&[7; 4096], at).unwrap();
            if block % 4 == 0 {
                file.sync_all().unwrap();
            }
        }
    }
    one.sync_all().unwrap();
    one.set_len(70 * 4096).unwrap();
    if !can_tell(&one) {
        return;
    }
    for at_once in [0, 1, 2, 3, EXTENTS_AND_MORE] {
        assert!(sys::is_written_whole(&one, 64 * 4096, at_once).unwrap(), "{at_once}");
        assert!(!sys::is_written_whole(&one, 70 * 4096, at_once).unwrap(), "{at_once}");
    }
}

const EXTENTS_AND_MORE: usize = sys::EXTENTS + 1;

#[test]
fn a_file_in_memory_is_durable_enough_and_gives_memory_back() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("sparse");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let info = about(&path);
    assert!(info.inline && info.discard && !info.holes && !info.discard_makes_holes && !info.volatile_cache);
}

#[test]
fn a_disk_that_discards_says_so_and_doubt_means_that_it_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("block/nvme0n1");
    std::fs::create_dir_all(disk.join("queue")).unwrap();
    std::fs::create_dir_all(disk.join("nvme0n1p1")).unwrap();
    let devices = folder.path().join("dev");
    std::fs::create_dir_all(&devices).unwrap();
    std::os::unix::fs::symlink(&disk, devices.join("259:0")).unwrap();
    std::os::unix::fs::symlink(disk.join("nvme0n1p1"), devices.join("259:1")).unwrap();
    assert!(!can_discard(&devices, 259, 0), "nothing is said");
    for (setting, discards) in [("2199023255040\n", true), ("0\n", false), ("much\n", false)] {
        std::fs::write(disk.join("queue/discard_max_bytes"), setting).unwrap();
        assert_eq!(can_discard(&devices, 259, 0), discards);
        assert_eq!(can_discard(&devices, 259, 1), discards, "a partition asks its disk");
    }
}

#[test]
fn the_write_cache_is_looked_up_at_the_disk_and_doubt_means_volatile() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("block/sda");
    std::fs::create_dir_all(disk.join("queue")).unwrap();
    std::fs::create_dir_all(disk.join("sda1")).unwrap();
    let devices = folder.path().join("dev");
    std::fs::create_dir_all(&devices).unwrap();
    std::os::unix::fs::symlink(&disk, devices.join("8:0")).unwrap();
    std::os::unix::fs::symlink(disk.join("sda1"), devices.join("8:1")).unwrap();
    for (setting, volatile) in [("write back\n", true), ("write through\n", false)] {
        std::fs::write(disk.join("queue/write_cache"), setting).unwrap();
        assert_eq!(has_volatile_cache(&devices, 8, 0), volatile);
        assert_eq!(
            has_volatile_cache(&devices, 8, 1),
            volatile,
            "a partition asks its disk"
        );
    }
    assert!(has_volatile_cache(&devices, 0, 42), "an unknown device is not trusted");
}
