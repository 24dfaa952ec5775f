use super::*;
use std::collections::HashSet;

#[test]
fn each_case_has_a_name_of_its_own_and_says_what_it_is_about() {
    let cases = cases();
    let mut names = HashSet::new();
    for case in &cases {
        assert!(names.insert(case.name.clone()), "two cases are called {}", case.name);
        assert!(case.name.contains('.'), "{} has no group", case.name);
        assert!(
            !case.rule.is_empty() && !case.does.is_empty() && !case.expects.is_empty(),
            "{}",
            case.name
        );
    }
    assert!(cases.len() >= 150, "only {} cases", cases.len());
}

#[test]
fn a_target_that_is_not_there_fails_every_case_and_passes_none() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut options = Options::new(address, "nqn.2014-08.org.example:nothing");
    options.timeout = Duration::from_millis(200);
    let report = run(&options, |_| {});
    assert_eq!(
        report.passed(),
        0,
        "{:?}",
        report.lines.iter().find(|line| line.outcome.is_ok())
    );
}
