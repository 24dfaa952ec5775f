//! What a session's two ends agree on: the operational keys (RFC 7143, section 13).
//!
//! The initiator offers, and the target chooses: of a list the first value that it takes, of numbers the smaller or the larger
//! one, of yes and no what the key's rule says. What a number of a wrong form or beyond its range gets is Reject, and then holds
//! what held before. Each key is negotiated once in a login (6.2); what is declared needs no answer.

#[cfg(test)]
mod tests;

use crate::text::{IRRELEVANT, NONE, NOT_UNDERSTOOD, Pair, REJECT, Text, choose, parse_boolean, parse_number};

/// The values of numbers that mean a length of data (13.12 to 13.14).
const LENGTHS: std::ops::RangeInclusive<u64> = 512..=(1 << 24) - 1;
/// The level of the protocol (13.24): with what RFC 7144 adds.
pub const PROTOCOL_LEVEL: u32 = 2;

/// What the target wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Which digests it takes.
    pub digests: Digests,
    /// Must all data be asked for, but what comes with its command?
    pub initial_r2t: bool,
    /// May data come with its command?
    pub immediate_data: bool,
    /// The most data of a PDU to the target.
    pub max_receive: u32,
    /// The most data of a sequence that was asked for, or that is sent.
    pub max_burst: u32,
    /// The most data that comes unasked.
    pub first_burst: u32,
    /// R2Ts of one task that may be outstanding.
    pub max_outstanding_r2t: u16,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            digests: Digests::Any,
            initial_r2t: true,
            immediate_data: true,
            max_receive: 256 << 10,
            max_burst: 1 << 20,
            first_burst: 64 << 10,
            max_outstanding_r2t: 8,
        }
    }
}

/// Which digests are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digests {
    /// Whichever the initiator prefers.
    #[default]
    Any,
    /// CRC-32C only: who does not agree on both is not let in.
    Required,
    /// None only.
    Refused,
}

/// What has been agreed on. At first, the defaults of the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub header_digest: bool,
    pub data_digest: bool,
    pub initial_r2t: bool,
    pub immediate_data: bool,
    /// The most data of a PDU to the initiator.
    pub max_send: u32,
    pub max_burst: u32,
    pub first_burst: u32,
    pub max_outstanding_r2t: u16,
    /// Seconds to wait before a new login.
    pub time2wait: u16,
    /// Seconds that tasks would be kept without a connection.
    pub time2retain: u16,
    pub protocol_level: u32,
}

impl Default for Agreed {
    fn default() -> Agreed {
        Agreed {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            max_send: 8192,
            max_burst: 262_144,
            first_burst: 65_536,
            max_outstanding_r2t: 1,
            time2wait: 2,
            time2retain: 20,
            protocol_level: 1,
        }
    }
}

impl Agreed {
    /// The most data of a task that comes unasked, with its command and behind it.
    #[must_use]
    pub fn most_unasked(&self) -> u32 {
        match self.initial_r2t && !self.immediate_data {
            true => 0,
            false => self.first_burst,
        }
    }
}

/// In which part of a session a key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The login, of a session of this kind.
    Login { discovery: bool },
    /// Afterwards.
    FullFeature,
}

/// The keys that are negotiated in a login, each once.
const NEGOTIATED: [&str; 15] = [
    "HeaderDigest",
    "DataDigest",
    "MaxConnections",
    "InitialR2T",
    "ImmediateData",
    "MaxBurstLength",
    "FirstBurstLength",
    "DefaultTime2Wait",
    "DefaultTime2Retain",
    "MaxOutstandingR2T",
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "ErrorRecoveryLevel",
    "TaskReporting",
    "iSCSIProtocolLevel",
];

/// Those of them that a discovery session has no use for (section 13: "Irrelevant when").
const IRRELEVANT_TO_DISCOVERY: [&str; 10] = [
    "MaxConnections",
    "InitialR2T",
    "ImmediateData",
    "MaxBurstLength",
    "FirstBurstLength",
    "MaxOutstandingR2T",
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "TaskReporting",
    "iSCSIProtocolLevel",
];

/// The negotiation of one session.
#[derive(Clone, Debug, Default)]
pub struct Negotiation {
    wishes: Wishes,
    agreed: Agreed,
    /// Which of [`NEGOTIATED`] have come, one bit each.
    seen: u16,
    /// Has the target said how much it takes?
    declared: bool,
}

impl Negotiation {
    /// Nothing is agreed.
    #[must_use]
    pub fn new(wishes: Wishes) -> Negotiation {
        Negotiation {
            wishes,
            ..Negotiation::default()
        }
    }

    /// What is agreed by now.
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The most data of a PDU to the target, as the initiator knows it.
    #[must_use]
    pub fn max_receive(&self) -> usize {
        match self.declared {
            true => self.wishes.max_receive as usize,
            false => 8192,
        }
    }

    /// Takes keys that are neither names nor of the security; adds the answers.
    ///
    /// # Errors
    /// A key was negotiated before.
    pub fn take(&mut self, pairs: &[Pair<'_>], phase: Phase, answer: &mut Text) -> Result<(), &'static str> {
        // What comes unasked is never more than a burst: that is known first.
        let is_first = |pair: &&Pair<'_>| pair.0 == "MaxBurstLength";
        let first = pairs.iter().filter(is_first);
        let others = pairs.iter().filter(|pair| !is_first(pair));
        for (key, value) in first.chain(others) {
            self.take_one(key, value, phase, answer)?;
        }
        Ok(())
    }

    /// Has the target all that it insists on? Of a discovery session it insists on nothing.
    ///
    /// # Errors
    /// What is missing, when the login would be over.
    pub fn check(&self, discovery: bool) -> Result<(), &'static str> {
        let agreed = self.agreed.header_digest && self.agreed.data_digest;
        match self.wishes.digests == Digests::Required && !agreed && !discovery {
            true => Err("the target takes nobody without digests of headers and data"),
            false => Ok(()),
        }
    }

    /// Says how much of data a PDU to the target may have, once.
    pub fn declare(&mut self, answer: &mut Text) {
        if !std::mem::replace(&mut self.declared, true) {
            answer.push("MaxRecvDataSegmentLength", &self.wishes.max_receive.to_string());
        }
    }

    fn take_one(&mut self, key: &str, value: &str, phase: Phase, answer: &mut Text) -> Result<(), &'static str> {
        // Nothing was offered that these could be an answer to, or it was declared: it stands.
        if matches!(value, REJECT | IRRELEVANT | NOT_UNDERSTOOD) {
            return Ok(());
        }
        if let Some(place) = NEGOTIATED.iter().position(|known| *known == key) {
            let Phase::Login { discovery } = phase else {
                // Keys of use LO and IO are for the login (section 13).
                answer.push(key, REJECT);
                return Ok(());
            };
            if self.seen >> place & 1 == 1 {
                return Err("a key that was negotiated before");
            }
            self.seen |= 1 << place;
            if discovery && IRRELEVANT_TO_DISCOVERY.contains(&key) {
                answer.push(key, IRRELEVANT);
                return Ok(());
            }
            match self.negotiate(key, value) {
                Some(chosen) => answer.push(key, &chosen),
                None => answer.push(key, REJECT),
            }
            return Ok(());
        }
        match key {
            "MaxRecvDataSegmentLength" => match number(value, LENGTHS) {
                Some(bytes) => self.agreed.max_send = bytes,
                None => answer.push(key, REJECT),
            },
            // Declarations that nothing follows from, or that were looked at before.
            "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" | "X#NodeArchitecture" => {}
            // Obsolete, and never "NotUnderstood" (13.25).
            "IFMarker" | "OFMarker" => answer.push(key, "No"),
            "IFMarkInt" | "OFMarkInt" => answer.push(key, REJECT),
            // What only targets say; and keys of other phases.
            "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" | "SendTargets" | "AuthMethod" => {
                answer.push(key, REJECT);
            }
            _ => answer.push(key, NOT_UNDERSTOOD),
        }
        Ok(())
    }

    /// Chooses the value of one key; none: what was offered cannot be chosen from.
    fn negotiate(&mut self, key: &str, value: &str) -> Option<String> {
        let (wishes, agreed) = (&self.wishes, &mut self.agreed);
        match key {
            "HeaderDigest" => Some(choose_digest(value, wishes.digests, &mut agreed.header_digest)?.into()),
            "DataDigest" => Some(choose_digest(value, wishes.digests, &mut agreed.data_digest)?.into()),
            // Sessions have one connection each.
            "MaxConnections" => number(value, 1..=65_535).map(|_| "1".into()),
            "InitialR2T" => {
                agreed.initial_r2t = parse_boolean(value)? || wishes.initial_r2t;
                Some(yes_or_no(agreed.initial_r2t))
            }
            "ImmediateData" => {
                agreed.immediate_data = parse_boolean(value)? && wishes.immediate_data;
                Some(yes_or_no(agreed.immediate_data))
            }
            "MaxBurstLength" => {
                agreed.max_burst = number(value, LENGTHS)?.min(wishes.max_burst);
                // The first burst is never longer than a burst (13.14), also where it stays as it was.
                agreed.first_burst = agreed.first_burst.min(agreed.max_burst);
                Some(agreed.max_burst.to_string())
            }
            "FirstBurstLength" => {
                let most = wishes.first_burst.min(agreed.max_burst);
                agreed.first_burst = number(value, LENGTHS)?.min(most);
                Some(agreed.first_burst.to_string())
            }
            "DefaultTime2Wait" => {
                agreed.time2wait = number(value, 0..=3600)?.max(2) as u16;
                Some(agreed.time2wait.to_string())
            }
            // Nothing of a session outlives its connection.
            "DefaultTime2Retain" => {
                number(value, 0..=3600)?;
                agreed.time2retain = 0;
                Some("0".into())
            }
            "MaxOutstandingR2T" => {
                let most = u32::from(wishes.max_outstanding_r2t);
                agreed.max_outstanding_r2t = number(value, 1..=65_535)?.min(most) as u16;
                Some(agreed.max_outstanding_r2t.to_string())
            }
            // Data is in order, and so are its sequences: the rule of both is "or".
            "DataPDUInOrder" | "DataSequenceInOrder" => parse_boolean(value).map(|_| "Yes".into()),
            "ErrorRecoveryLevel" => number(value, 0..=2).map(|_| "0".into()),
            // A response to task management comes behind those of the tasks that it is about, as always here.
            "TaskReporting" => choose(value, |one| matches!(one, "RFC3720" | "ResponseFence")).map(Into::into),
            "iSCSIProtocolLevel" => {
                agreed.protocol_level = number(value, 0..=31)?.min(PROTOCOL_LEVEL);
                Some(agreed.protocol_level.to_string())
            }
            _ => None,
        }
    }
}

fn yes_or_no(value: bool) -> String {
    if value { "Yes" } else { "No" }.into()
}

fn number(value: &str, range: std::ops::RangeInclusive<u64>) -> Option<u32> {
    parse_number(value)
        .filter(|number| range.contains(number))
        .map(|number| number as u32)
}

/// Of a list, the first value that is taken here (6.2.1).
fn choose_digest<'a>(value: &'a str, digests: Digests, agreed: &mut bool) -> Option<&'a str> {
    const CRC: &str = "CRC32C";
    let chosen = choose(value, |one| match digests {
        Digests::Any => matches!(one, CRC | NONE),
        Digests::Required => one == CRC,
        Digests::Refused => one == NONE,
    })?;
    *agreed = chosen == CRC;
    Some(chosen)
}
