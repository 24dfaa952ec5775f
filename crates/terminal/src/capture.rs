//! What a command says, taken up instead of shown: a node carries commands out for people elsewhere, each on a thread of its own.
//!
//! On such a thread nothing is written to the process's terminal and nothing is read from it; a signal to the process is not the
//! command's, and the command ends by a time of its own ([`crate::interrupt`] looks at that instead).

use crate::error::{Failure, Result};
use std::cell::RefCell;
use std::time::Instant;

/// What a command is carried out under.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The most bytes of its answer, and the most of what it says beside that.
    pub most_bytes: usize,
    /// By then whatever it waits for is given up.
    pub until: Instant,
    /// The name that was written to confirm that something is destroyed.
    pub confirmed: Option<String>,
}

/// What it has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// On standard output.
    pub output: String,
    /// On standard error.
    pub beside: String,
    /// What has to be confirmed before it is done; nothing was done.
    pub question: Option<Question>,
}

/// A question whose one answer is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: String,
    /// What is lost.
    pub lost: String,
}

struct Capture {
    terms: Terms,
    said: Captured,
}

thread_local! {
    static CAPTURE: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// Ends the capture, however the work ends.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        CAPTURE.with_borrow_mut(|capture| *capture = None);
    }
}

/// Does the work, and takes up what it says on this thread.
pub fn run<T>(terms: Terms, work: impl FnOnce() -> T) -> (T, Captured) {
    let _ending = Ending;
    let said = Captured::default();
    CAPTURE.with_borrow_mut(|capture| *capture = Some(Capture { terms, said }));
    let done = work();
    let capture = CAPTURE.with_borrow_mut(Option::take);
    (done, capture.map(|capture| capture.said).unwrap_or_default())
}

/// Is what this thread says taken up?
#[must_use]
pub fn is_on() -> bool {
    CAPTURE.with_borrow(Option::is_some)
}

/// By when the command of this thread has to end; none: nobody has said so.
pub(crate) fn until() -> Option<Instant> {
    CAPTURE.with_borrow(|capture| capture.as_ref().map(|capture| capture.terms.until))
}

/// A part of the answer. None: it is to be written to standard output.
pub(crate) fn output(text: &str) -> Option<Result<()>> {
    CAPTURE.with_borrow_mut(|capture| {
        let Capture { terms, said } = capture.as_mut()?;
        if said.output.len() + text.len() > terms.most_bytes {
            let what = format!("the answer is longer than {} bytes, and is not told", terms.most_bytes);
            return Some(Err(Failure::new(what).advice(
                "Ask for less of it, by the command's options; or give it with --metadata. What was to be changed has been changed.",
            )));
        }
        said.output.push_str(text);
        Some(Ok(()))
    })
}

/// Something beside the answer. False: it is to be written to standard error.
pub(crate) fn beside(text: &str) -> bool {
    CAPTURE.with_borrow_mut(|capture| {
        let Some(Capture { terms, said }) = capture else {
            return false;
        };
        // Whoever says so much beside an answer is not listened to further.
        if said.beside.len() + text.len() < terms.most_bytes {
            said.beside.push_str(text);
            said.beside.push('\n');
        }
        true
    })
}

/// Whether something may be destroyed. None: the person at the terminal is to be asked.
pub(crate) fn confirm(name: &str, lost: &str) -> Option<Result<()>> {
    CAPTURE.with_borrow_mut(|capture| {
        let Capture { terms, said } = capture.as_mut()?;
        if terms.confirmed.as_deref() == Some(name) {
            return Some(Ok(()));
        }
        said.question = Some(Question {
            name: name.to_owned(),
            lost: lost.to_owned(),
        });
        let what = format!("nothing was done: it has to be confirmed by the name {name}. {lost}");
        Some(Err(Failure::new(what)
            .code("not-confirmed")
            .advice("Give the command again and write the name, or give --yes.")))
    })
}

/// What it waits for has not come in time.
pub(crate) fn too_late() -> Failure {
    Failure::new("what the command waits for has not come in the time that a node waits for it")
        .advice("What was begun may go on: look at it.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{confirm, interrupt, output, say_line};
    use std::time::Duration;

    fn terms(confirmed: Option<&str>) -> Terms {
        Terms {
            most_bytes: 64,
            until: Instant::now() + Duration::from_secs(600),
            confirmed: confirmed.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_said_is_taken_up_and_afterwards_no_more() {
        let (done, said) = run(terms(None), || -> Result<()> {
            assert!(is_on());
            say_line!("one\u{7}");
            output::json_line(&serde_json::json!({ "a": "\u{1b}" }))?;
            output::beside("two");
            Ok(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!(said.output, "one\u{fffd}\n{\"a\":\"\\u001b\"}\n");
        assert_eq!((said.beside.as_str(), said.question), ("two\n", None));
        assert!(!is_on());
        // Another thread's is its own.
        run(terms(None), || {
            let others = std::thread::spawn(is_on).join();
            assert!(!others.expect("a thread"));
        });
    }

    #[test]
    fn a_panic_ends_it() {
        let ended = std::panic::catch_unwind(|| run(terms(None), || assert!(!is_on(), "as planned")));
        assert!(ended.is_err() && !is_on());
    }

    #[test]
    fn an_answer_that_is_too_long_is_refused_and_what_was_said_stays() {
        let (done, said) = run(terms(None), || -> Result<()> {
            say_line!("{}", "x".repeat(60));
            say_line!("{}", "y".repeat(60));
            Ok(())
        });
        let refused = done.expect_err("too long");
        assert!(refused.what.contains("64 bytes"), "{refused}");
        assert_eq!(said.output.len(), 61);
        let (_, said) = run(terms(None), || (0..100).for_each(|_| output::beside("1234567")));
        assert!(said.beside.len() <= 64, "{}", said.beside.len());
    }

    #[test]
    fn what_destroys_wants_the_name_and_asks_nobody() {
        let ask = |given: Option<&str>| run(terms(given), || confirm::destroys(false, "db", "Volume db goes."));
        assert_eq!(ask(Some("db")).0, Ok(()));
        for wrong in [None, Some(""), Some("DB"), Some("yes")] {
            let (done, said) = ask(wrong);
            let refused = done.expect_err("not confirmed");
            assert_eq!(refused.code, "not-confirmed");
            assert!(refused.what.contains("Volume db goes."), "{refused}");
            let question = said.question.expect("a question");
            assert_eq!(
                (question.name.as_str(), question.lost.as_str()),
                ("db", "Volume db goes.")
            );
        }
        // Who says so beforehand is not asked.
        let (done, said) = run(terms(None), || confirm::destroys(true, "db", "Volume db goes."));
        assert_eq!((done, said.question), (Ok(()), None));
    }

    #[test]
    fn what_it_waits_for_is_given_up_in_time() {
        let late = Terms {
            until: Instant::now(),
            ..terms(None)
        };
        let (slept, _) = run(late.clone(), || interrupt::sleep(Duration::from_secs(3600)));
        let why = slept.expect_err("too late").what;
        assert!(why.contains("has not come in the time"), "{why}");
        let (bounded, _) = run(late.clone(), || {
            interrupt::bounded(Instant::now() + Duration::from_secs(3600))
        });
        assert_eq!(bounded, late.until);
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(interrupt::bounded(far), far);
        let (there, _) = run(terms(None), || (interrupt::caught(), interrupt::check()));
        assert_eq!(there, (false, Ok(())));
    }
}
