//! Clients of NBD with certificates of the cluster's own authority: judged by this node's identity, as its peers are.

use amita_identity::{Facts, Live, Name, Refusal, Role, Usage};
use amita_nbd::{Admitted, Judge};
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::Duration;

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
    fn admits(&self, chain: &[CertificateDer<'_>]) -> Result<Admitted, String> {
        client(self.0.judge(chain, Usage::Client))?;
        let leaf = chain.first().ok_or_else(|| Refusal::Nothing.to_string())?;
        let facts = Facts::of(leaf).map_err(|why| why.to_string())?;
        let left = facts.not_after.0.saturating_sub(self.0.clock().now().0);
        Ok(Admitted {
            grant: facts.capability.map(|capability| Arc::new(capability.grant)),
            left: Duration::from_secs(left),
        })
    }

    fn keeps(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        client(self.0.judge_established(chain, Usage::Client))
    }
}
