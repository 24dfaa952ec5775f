use super::{Machine, processor};

#[test]
fn a_kind_is_fit_for_a_files_name() {
    let machine = Machine {
        cpu: "Intel(R) Xeon(R) Processor @ 2.30GHz".to_owned(),
        cores: 2,
        virtualization: "kvm".to_owned(),
        ..Machine::default()
    };
    assert_eq!(machine.kind(), "intel-xeon-processor-2-30ghz-2-cores-kvm");
}

#[test]
fn the_processor_is_named() {
    assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU\n"), "Some CPU");
    assert_eq!(processor(""), "unknown processor");
}

#[test]
fn this_machine_has_facts() {
    let here = Machine::here();
    assert!(
        here.cores >= 1 && here.memory_gib > 0.0 && !here.kernel.is_empty(),
        "{here:?}"
    );
    assert!(here.describe().contains(&here.kernel));
}
