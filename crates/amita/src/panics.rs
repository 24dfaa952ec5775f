//! A panic ends the process at once, on whatever thread: what has lost its reason serves no I/O, and others take over. Three kinds of thread
//! unwind: one that carries a request of the API ends that request ([`amita_api::panics`]), one that makes a copy of a volume leaves that, and
//! one that reads what a disk says of its health ends that look ([`is_look`]).

use amita_api::panics::may_unwind;
use amita_inspect::collect::is_look;

/// From now on it is so in this process. What was said of a panic before is said still, and first.
pub fn install() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |found| {
        usual(found);
        if !may_unwind() && !is_look() {
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_api::panics::Unwinding;
    use amita_inspect::collect::Looks;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::PathBuf;
    use std::process::{Command, Output};

    /// What the test does that is started by the test.
    const PLANNED: &str = "AMITA_TEST_PANIC";
    const NAME: &str = "panics::tests::a_panic_ends_the_process_but_where_it_ends_a_request_or_a_look";
    const SIGABRT: i32 = 6;

    /// Panics on a thread of its own, and is there afterwards.
    fn panic_on_a_thread(carries_request: bool) {
        install();
        let thread = std::thread::spawn(move || {
            let _unwinding = Unwinding::begin_where(carries_request);
            assert_ne!(may_unwind(), carries_request, "as planned");
        });
        assert!(thread.join().is_err() && !may_unwind());
    }

    /// Panics in a look at a disk, and is there afterwards.
    fn panic_in_a_look() {
        install();
        let mut looks = Looks::by(|path| panic!("as planned: {}", path.display()));
        let path = PathBuf::from("/odd");
        looks.begin(std::slice::from_ref(&path));
        while !looks.have_ended() {
            std::thread::yield_now();
        }
        assert!(looks.found(&path).is_err() && !is_look());
    }

    fn run(planned: &str) -> Output {
        let own = std::env::current_exe().expect("this program");
        let mut again = Command::new(own);
        again.args(["--exact", NAME, "--nocapture"]).env(PLANNED, planned);
        again.output().expect("it starts")
    }

    #[test]
    fn a_panic_ends_the_process_but_where_it_ends_a_request_or_a_look() {
        match std::env::var(PLANNED).as_deref() {
            Ok("request") => return panic_on_a_thread(true),
            Ok("look") => return panic_in_a_look(),
            Ok(_) => return panic_on_a_thread(false),
            Err(_) => {}
        }
        for (planned, code, signal) in [
            ("request", Some(0), None),
            ("look", Some(0), None),
            ("core", None, Some(SIGABRT)),
        ] {
            let ended = run(planned);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(
                (ended.status.code(), ended.status.signal()),
                (code, signal),
                "{planned}: {said}"
            );
            assert!(said.contains("panicked at"), "{planned}: {said}");
        }
    }

    /// With `abort` there is nothing that ends a request alone.
    #[test]
    fn what_is_shipped_unwinds() {
        let manifest = include_str!("../../../Cargo.toml");
        let release = manifest.split("\n[").find(|part| part.starts_with("profile.release]"));
        let mut lines = release.expect("a profile").lines();
        assert!(lines.any(|line| line == "panic = \"unwind\""), "{release:?}");
    }
}
