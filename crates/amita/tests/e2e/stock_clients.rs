//! The clients that people have: nbdinfo, nbdcopy, qemu-img, fio.

use crate::world::{PATIENCE, VOLUME, VOLUME_BYTES, World, check_job, pattern, verify_job};
use std::os::unix::fs::FileExt;

#[test]
fn nbdinfo_is_told_the_size_and_the_limits() {
    let world = World::with_volume();
    let text = world.done("nbdinfo", &["--json", &world.uri(0)]);
    let info: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], VOLUME_BYTES, "{text}");
    assert_eq!(export["is_read_only"], false, "{text}");
    for feature in [
        "can_flush",
        "can_fua",
        "can_trim",
        "can_zero",
        "can_multi_conn",
        "can_df",
    ] {
        assert_eq!(export[feature], true, "{feature} in {text}");
    }
    let list = world.done("nbdinfo", &["--list", &world.uri(1).replace(VOLUME, "")]);
    assert!(list.contains(&format!("export=\"{VOLUME}\"")), "{list}");
    world.end(&[]);
}

#[test]
fn nbdcopy_and_qemu_img_read_back_what_they_wrote() {
    let world = World::with_volume();
    let source = world.file("source");
    let file = std::fs::File::create(&source).expect("a file");
    file.set_len(VOLUME_BYTES).expect("a length");
    // Data with holes between, and ends that lie on no block.
    for (number, offset) in [0, 5_000_123, 20 << 20, VOLUME_BYTES - 70_000].into_iter().enumerate() {
        file.write_all_at(&pattern(number as u64, 65_000 + number), offset)
            .expect("written");
    }
    let (source, uri, copy) = (
        source.display().to_string(),
        world.uri(0),
        world.file("copy").display().to_string(),
    );

    world.done("nbdcopy", &[&source, &uri]);
    world.done("nbdcopy", &[&uri, &copy]);
    assert!(same(&source, &copy), "nbdcopy read back something else");

    // Over old data, so that a hole in the source must become zeros.
    file.write_all_at(&vec![0; 65_000], 0).expect("written");
    file.write_all_at(&pattern(99, 300_000), 40 << 20).expect("written");
    world.done("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &source, &uri]);
    let said = world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, &uri]);
    assert!(said.contains("Images are identical"), "{said}");
    world.done("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &copy]);
    assert!(same(&source, &copy), "qemu-img read back something else");
    world.end(&[]);
}

fn same(left: &str, right: &str) -> bool {
    std::fs::read(left).expect("read") == std::fs::read(right).expect("read")
}

#[test]
fn fio_finds_every_block_as_it_wrote_it_and_would_notice_if_not() {
    let world = World::with_volume();
    let (folder, uri) = (world.folder(), world.uri(0));
    let report = verify_job("verify", &uri, 0, 32 << 20, 5)
        .run(folder, PATIENCE)
        .expect("all blocks are right");
    assert_eq!(report.write.ios, (32 << 20) / 4096);
    assert_eq!(report.read.ios, (32 << 20) / 4096);
    // The check is worth nothing unless it fails on a wrong block.
    let mut client = world.open(0);
    client.write(7 << 20, &pattern(1, 4096)).expect("written");
    client.close();
    check_job("check", &uri, 0, 32 << 20, 5)
        .run(folder, PATIENCE)
        .expect_err("a wrong block is noticed");
    world.end(&[]);
}

#[test]
fn large_and_unaligned_requests_keep_their_bytes() {
    let world = World::with_volume();
    let mut client = world.open(0);
    assert_eq!(client.size_bytes(), VOLUME_BYTES);
    // 8 MiB over chunk borders, then a few bytes inside of it, across a block's border.
    let mut expected = pattern(3, 8 << 20);
    client.write((4 << 20) - 12_345, &expected).expect("written");
    let patch = pattern(4, 5_001);
    client.write((4 << 20) - 2_500, &patch).expect("written");
    let at = 12_345 - 2_500;
    expected[at..at + patch.len()].copy_from_slice(&patch);
    let mut read = vec![0; expected.len()];
    client.read((4 << 20) - 12_345, &mut read).expect("read");
    assert!(read == expected, "what was read is not what was written");
    // Beyond the end: an error, and the connection goes on.
    client
        .read(VOLUME_BYTES - 4096, &mut [0; 8192])
        .expect_err("beyond the end");
    client
        .read(VOLUME_BYTES - 4096, &mut [0; 4096])
        .expect("the last block");
    client.close();
    world.end(&[]);
}
