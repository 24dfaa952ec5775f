//! The driver of CSI asks nodes' APIs, as a command does: the next one, where one does not answer. What it asks has no key of idempotency, for it
//! looks before it changes anything; so what changes something and was perhaps carried out is given to no other node: whoever asks the driver asks again.

use super::client::problem;
use super::rest::NO_PATH;
use super::transport::{self, NoAnswer, Question, Said};
use super::who::Nodes;
use amita_csi::api::{Answer, Ask, Boxed, Way};
use http::Method;
use http::header::IF_MATCH;
use tokio::sync::Semaphore;

/// What is asked at one time: a node has 64 connections for one address, and 24 requests that wait for its metadata. Kubernetes makes hundreds of calls at
/// once, which wait here.
const AT_ONCE: usize = 24;

/// Nodes, for the driver.
#[derive(Debug)]
pub struct Driver {
    nodes: Nodes,
    places: Semaphore,
}

fn question(ask: Ask) -> Question {
    let Ask {
        method,
        path,
        body,
        if_match,
    } = ask;
    let question = Question {
        method,
        body: body.map(|body| body.to_string()),
        ..Question::get(&path)
    };
    match if_match {
        None => question,
        Some(tag) => question.header(IF_MATCH, tag),
    }
}

/// Is another node to be asked?
fn is_for_another(said: &Said, changes: bool) -> bool {
    match said.status {
        421 | 429 => true,
        // With its metadata away a node may have made a change.
        503 => !(changes && said.is_sent),
        // It is of a release that does not know this.
        404 => problem(said).1.starts_with(NO_PATH),
        _ => false,
    }
}

impl Driver {
    /// That asks these.
    #[must_use]
    pub fn new(nodes: Nodes) -> Driver {
        Driver {
            nodes,
            places: Semaphore::new(AT_ONCE),
        }
    }

    async fn ask_in_turn(&self, ask: Ask) -> Result<Answer, String> {
        let changes = ask.method != Method::GET;
        let question = question(ask);
        // It is never closed.
        let _place = self.places.acquire().await;
        let mut reasons = Vec::new();
        for (index, place) in self.nodes.in_turn() {
            match transport::send(place, &self.nodes.proof, &question).await {
                Ok(said) if is_for_another(&said, changes) => {
                    reasons.push(format!("{place} answers {}: {}", said.status, problem(&said).1));
                }
                // Whoever is not known to one node is known to none: it is told what that says.
                Ok(said) => {
                    self.nodes.answered(index);
                    return Ok(Answer {
                        status: said.status,
                        tag: said.tag,
                        body: said.body,
                    });
                }
                Err(NoAnswer::Before(why)) => reasons.push(format!("{place}: {why}")),
                Err(NoAnswer::Perhaps(why)) => {
                    self.nodes.lost(index);
                    reasons.push(format!("{place}: {why}"));
                    if changes {
                        break;
                    }
                }
            }
        }
        Err(reasons.join("; "))
    }
}

impl Way for Driver {
    fn ask(&self, ask: Ask) -> Boxed<'_, Result<Answer, String>> {
        Box::pin(self.ask_in_turn(ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(status: u16, is_sent: bool, detail: &str) -> Said {
        Said {
            status,
            retry_after: None,
            tag: None,
            body: json!({"code": "x", "detail": detail}).to_string().into_bytes(),
            is_sent,
        }
    }

    #[test]
    fn a_change_that_was_perhaps_made_goes_to_no_other_node() {
        for (status, is_sent, changes, wanted) in [
            (429, true, true, true),
            (421, false, true, true),
            (503, true, true, false),
            (503, false, true, true),
            (503, true, false, true),
            (409, true, true, false),
            (404, true, false, false),
            (401, false, true, false),
        ] {
            let said = said(status, is_sent, "there is no volume");
            assert_eq!(is_for_another(&said, changes), wanted, "{status} {is_sent} {changes}");
        }
        let old = said(
            404,
            true,
            "there is nothing at this path; /openapi.json has all of them",
        );
        assert!(is_for_another(&old, true));
    }

    #[test]
    fn what_is_asked_is_sent_as_it_is() {
        let ask = Ask {
            method: Method::PATCH,
            path: "/api/v1/volumes/db".to_owned(),
            body: Some(json!({"size_bytes": 4096})),
            if_match: Some("\"x\"".to_owned()),
        };
        let question = question(ask);
        assert_eq!(
            (question.method, question.path.as_str()),
            (Method::PATCH, "/api/v1/volumes/db")
        );
        assert_eq!(question.body.as_deref(), Some(r#"{"size_bytes":4096}"#));
        assert_eq!(question.headers, [(IF_MATCH, "\"x\"".to_owned())]);
        assert_eq!(question.key, None);
    }
}
