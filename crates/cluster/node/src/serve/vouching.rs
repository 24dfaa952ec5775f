//! Clients of NBD with certificates of the cluster's own authority: judged by this node's identity, as its peers are.

use amita_identity::{Live, Name, Refusal, Role, Usage};
use amita_nbd::Judge;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Vouching(pub(super) Arc<Live>);

fn client(judged: Result<Name, Refusal>) -> Result<(), String> {
    match judged {
        Ok(name) if name.role() == Role::Client => Ok(()),
        Ok(name) => Err(format!("{name} is no client")),
        Err(why) => Err(why.to_string()),
    }
}

impl Judge for Vouching {
    fn admits(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        client(self.0.judge(chain, Usage::Client))
    }

    fn keeps(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        client(self.0.judge_established(chain, Usage::Client))
    }
}
