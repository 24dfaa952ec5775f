use super::Layout;

#[test]
fn the_parts_of_the_volume_do_not_overlap() {
    for size in [64 << 20, (64 << 20) + 4096, 100_003_840, 256 << 20, 5 << 30] {
        let layout = Layout::of(size);
        assert!(layout.image_bytes > 0 && layout.image_bytes.is_multiple_of(4096));
        assert_eq!(layout.region, layout.image_bytes);
        assert!(layout.region_bytes > 0 && layout.region_bytes.is_multiple_of(1 << 20));
        assert!(layout.region + layout.region_bytes <= layout.probe);
        assert_eq!(layout.probe + 4096, size);
    }
}
