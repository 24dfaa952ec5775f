use super::Figures;

#[test]
fn the_file_has_the_form_that_scripts_rely_on() {
    let mut figures = Figures::default();
    figures.note("unit.p_us", "P", 12.5, "us");
    figures.at_most("path.write.4k.qd32.cpu_p", "write", 2.6, "P", 2.5);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/latest.json");
    figures.write(&path).expect("written");
    let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("read")).expect("JSON");
    assert_eq!(
        read,
        serde_json::json!([
            { "name": "unit.p_us", "value": 12.5, "unit": "us", "target": null, "holds": null },
            { "name": "path.write.4k.qd32.cpu_p", "value": 2.6, "unit": "P", "target": 2.5, "holds": false },
        ])
    );
    let table = figures.markdown();
    assert!(table.contains("| NO ") && table.contains("at most 2.50"), "{table}");
    figures.at_least("rebuild.iops_ratio", "rebuild", 0.97, "", 0.7);
    let table = figures.markdown();
    assert!(table.contains("at least 0.70"), "{table}");
}
