use super::*;

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
