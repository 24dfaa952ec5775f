use super::compare;

#[test]
fn the_first_byte_that_differs_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (left, right) = (folder.path().join("left"), folder.path().join("right"));
    let mut bytes = vec![3u8; (1 << 20) + 5000];
    std::fs::write(&left, &bytes).expect("written");
    bytes.extend([9; 100]);
    std::fs::write(&right, &bytes).expect("written");
    assert_eq!(compare(&left, &right), Ok((1 << 20) + 5000));
    bytes[(1 << 20) + 77] = 4;
    std::fs::write(&right, &bytes).expect("written");
    let error = compare(&left, &right).expect_err("differs");
    assert!(error.what.contains(&((1 << 20) + 77).to_string()), "{error}");
    std::fs::write(&right, &bytes[..100]).expect("written");
    assert!(compare(&left, &right).is_err(), "a short copy is no copy");
}
