//! `If-Match`: a change is made only to what was read.
//!
//! What is shown is compared when the request comes, and the records that it is changed by are compared once more by the transactions of
//! the change ([`Precondition`]): of two clients that have read the same, one is told that the other was faster.

use crate::page::tag;
use crate::problem::{Code, Problem};
use crate::session::Asking;
use amita_control::access::Action;
use amita_control::admin::{AdminError, Precondition};
use amita_metadata::Transact;
use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use serde::Serialize;
use std::cell::RefCell;

/// What was there when it was looked at (RFC 9110, section 13.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IfMatch(Option<Vec<String>>);

/// What a thing is known by: its entity tag, and the keys of the records that an operator changes it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    tag: String,
    records: Vec<String>,
}

impl Identity {
    /// Of what is shown so, and has these records.
    pub(crate) fn of(shown: &impl Serialize, records: Vec<String>) -> Identity {
        Identity {
            tag: tag(shown),
            records,
        }
    }
}

/// The same for what is to go: it may be what nobody can read.
///
/// # Errors
/// As the look at it, but for that.
pub(crate) fn whatever<T>(
    look: Result<(T, Identity), AdminError>,
    record: String,
) -> Result<((), Identity), AdminError> {
    match look {
        Ok((_, identity)) => Ok(((), identity)),
        Err(AdminError::Unreadable { said, .. }) => Ok(((), Identity::of(&said, vec![record]))),
        Err(why) => Err(why),
    }
}

/// What is shown, and what it is known by.
type Look<'a, T> = Box<dyn Fn(&dyn Transact) -> Result<(T, Identity), AdminError> + 'a>;

/// A thing that a request is about, while it is what the request says that it is.
pub(crate) struct Held<'a, T> {
    session: &'a Asking,
    look: Look<'a, T>,
    shown: T,
    /// None: whatever is there.
    condition: Option<Condition>,
    /// What this request has done by this: names of actions.
    done: RefCell<Vec<&'static str>>,
}

struct Condition {
    precondition: Precondition,
    /// What it has to be still: as it was read, or as this request has made it since.
    identity: RefCell<Identity>,
}

impl IfMatch {
    /// The thing, if it is what was read.
    ///
    /// # Errors
    /// It is not; or what `look` says.
    pub(crate) fn check<'a, T>(
        &self,
        session: &'a Asking,
        look: impl Fn(&dyn Transact) -> Result<(T, Identity), AdminError> + 'a,
    ) -> Result<Held<'a, T>, Problem> {
        let reader = session.reader();
        let (shown, condition) = match &self.0 {
            Some(tags) if !self.is_any() => {
                let records = |(_, identity): &(T, Identity)| identity.records.clone();
                let ((shown, identity), precondition) = Precondition::of(&reader, &look, records)?;
                if !tags.contains(&identity.tag) {
                    return Err(changed(identity.tag));
                }
                let condition = Condition {
                    precondition,
                    identity: RefCell::new(identity),
                };
                (shown, Some(condition))
            }
            _ => (look(&reader)?.0, None),
        };
        Ok(Held {
            session,
            look: Box::new(look),
            shown,
            condition,
            done: RefCell::default(),
        })
    }

    /// The same for what destroys: it was looked at before.
    ///
    /// # Errors
    /// The request does not say what is to be destroyed, or that is not what is there; or what `look` says.
    pub(crate) fn demand<'a, T>(
        &self,
        session: &'a Asking,
        look: impl Fn(&dyn Transact) -> Result<(T, Identity), AdminError> + 'a,
    ) -> Result<Held<'a, T>, Problem> {
        let held = self.check(session, look)?;
        if self.0.is_none() {
            let why =
                "say what is to go: If-Match with the ETag by which it was read; `If-Match: *` means whatever is there";
            return Err(Problem::new(Code::NeedsIfMatch, why));
        }
        Ok(held)
    }

    /// Says the request nothing of what it is about?
    pub(crate) fn is_missing(&self) -> bool {
        self.0.is_none()
    }

    /// Whatever is there.
    fn is_any(&self) -> bool {
        self.0.iter().flatten().any(|tag| tag == "*")
    }
}

fn changed(now: String) -> Problem {
    let why = format!("it was changed since; it is {now} now: read it again, and decide anew");
    Problem::new(Code::Changed, why).tagged(now)
}

impl<T> Held<'_, T> {
    /// As it was when the request came.
    pub(crate) fn shown(&self) -> &T {
        &self.shown
    }

    /// Changes it, while it is that still; what this request has changed by this before counts as read.
    ///
    /// # Errors
    /// It is another by now; they may not; or what `work` says. Behind that stands what this request has changed before: that stays.
    pub(crate) fn act<R>(
        &self,
        action: Action,
        object: &str,
        work: impl FnOnce(&dyn Transact) -> Result<R, AdminError>,
    ) -> Result<R, Problem> {
        let made = self.change(action, object, work);
        let mut done = self.done.borrow_mut();
        match made {
            Ok(made) => {
                done.push(action.name());
                Ok(made)
            }
            Err(why) if done.is_empty() => Err(why),
            Err(why) => Err(why.after(&done)),
        }
    }

    fn change<R>(
        &self,
        action: Action,
        object: &str,
        work: impl FnOnce(&dyn Transact) -> Result<R, AdminError>,
    ) -> Result<R, Problem> {
        let Some(condition) = &self.condition else {
            return Ok(self.session.act(action, object, work)?);
        };
        let reader = self.session.reader();
        if condition.precondition.has_written()
            && let Some((_, identity)) = condition.precondition.again(&reader, &self.look)?
        {
            *condition.identity.borrow_mut() = identity;
        }
        let still = |meta: &dyn Transact| -> Result<bool, AdminError> {
            Ok((self.look)(meta)?.1 == *condition.identity.borrow())
        };
        let done = self
            .session
            .act(action, object, |meta| condition.precondition.run(meta, &still, work));
        match done {
            Err(AdminError::Changed) => Err(changed((self.look)(&reader)?.1.tag)),
            done => Ok(done?),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IfMatch, Problem> {
        let mut tags: Option<Vec<String>> = None;
        for value in parts.headers.get_all(header::IF_MATCH) {
            let text = value
                .to_str()
                .map_err(|_| Problem::new(Code::BadRequest, "If-Match is no list of entity tags"))?;
            let found = text.split(',').map(|tag| tag.trim().to_owned());
            tags.get_or_insert_default().extend(found);
        }
        Ok(IfMatch(tags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Api;
    use amita_audit::Whence;
    use amita_control::access::Caller;
    use amita_metadata::model::State;
    use std::sync::Mutex;

    #[test]
    fn what_was_changed_is_not_taken_for_what_was_read() {
        let session = Api::new(std::sync::Arc::new(Mutex::new(State::new())))
            .session(Caller::unproved(Whence::default()))
            .unwrap();
        let old = tag(&1);
        assert_eq!(old, tag(&1));
        assert_ne!(old, tag(&2));
        let of = |tags: &[&str]| IfMatch(Some(tags.iter().map(|&tag| tag.to_owned()).collect()));
        let there = |now: u64| move |_: &dyn Transact| Ok((now, Identity::of(&now, Vec::new())));
        let refusal = |known: &IfMatch, now: u64| known.demand(&session, there(now)).err();
        assert_eq!(of(&[&old]).demand(&session, there(1)).unwrap().shown(), &1);
        assert_eq!(refusal(&of(&["\"x\"", &old]), 1), None);
        assert_eq!(refusal(&of(&["*"]), 2), None);
        let late = refusal(&of(&[&old]), 2).unwrap();
        assert_eq!((late.code.as_str(), late.tag()), ("changed", Some(&*tag(&2))));
        assert_eq!(refusal(&IfMatch(None), 1).unwrap().code, "needs-if-match");
        assert!(IfMatch(None).check(&session, there(1)).is_ok());
    }
}
