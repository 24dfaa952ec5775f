//! The frames that are not about blocks: the handshake, pings, and the moving of a volume.

use super::wire::{Reader, Wire, wire};
use super::{DecodeError, EncodeError, Kind};
use crate::limits::MAX_REASON_BYTES;
use crate::message::{Cut, CutOutcome, CutStep, Message, ReleaseOutcome};
use amita_types::{ClusterId, Generation, NodeId, SetId, VolumeId};

wire! {
    /// `Hello` and `Welcome`.
    RawHello: 52 {
        cluster: u128,
        session: u64,
        node: u32,
        peer: u32,
        cluster_version: u32,
        window_bytes: u32,
        window_requests: u32,
        core: u16,
        link: u16,
        version_min: u8,
        version_max: u8,
        reserved: u16,
    }
}
wire! { RawRefuse: 2 { code: u16, } }
wire! { RawPing: 8 { number: u64, } }
wire! { RawRelease: 20 { tag: u64, volume: u64, generation: u32, } }
wire! { RawReleased: 13 { tag: u64, clients: u32, outcome: u8, } }
wire! { RawCut: 29 { tag: u64, set: u64, volume: u64, generation: u32, step: u8, } }
wire! { RawCutDone: 9 { tag: u64, outcome: u8, } }

pub(super) const HELLO_BYTES: usize = RawHello::BYTES;
pub(super) const REFUSE_BYTES: usize = RawRefuse::BYTES;
pub(super) const PING_BYTES: usize = RawPing::BYTES;
pub(super) const RELEASE_BYTES: usize = RawRelease::BYTES;
pub(super) const RELEASED_BYTES: usize = RawReleased::BYTES;
pub(super) const CUT_BYTES: usize = RawCut::BYTES;
pub(super) const CUT_DONE_BYTES: usize = RawCutDone::BYTES;

/// What the two ends of a new connection tell each other. In the acceptor's `Welcome` both versions are the one that was
/// chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// Made anew at each start of the sender.
    pub session: u64,
    /// The sender.
    pub node: NodeId,
    /// Whom the sender takes the other end for.
    pub peer: NodeId,
    /// The finalized version of the cluster, as the sender knows it: it gates what a newer build may use.
    pub cluster_version: u32,
    /// Bytes of requests and answers that the sender lets be in flight on this link.
    pub window_bytes: u32,
    /// Requests that the sender lets be in flight on this link.
    pub window_requests: u32,
    /// The sender's core.
    pub core: u16,
    /// Which of the links between the two nodes this is.
    pub link: u16,
    /// The oldest protocol version that the sender speaks.
    pub version_min: u8,
    /// The newest.
    pub version_max: u8,
}

impl Hello {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let &Hello {
            cluster,
            session,
            node,
            peer,
            cluster_version,
            window_bytes,
            window_requests,
            ..
        } = self;
        let &Hello {
            core,
            link,
            version_min,
            version_max,
            ..
        } = self;
        RawHello {
            cluster: cluster.0,
            session,
            node: node.0,
            peer: peer.0,
            cluster_version,
            window_bytes,
            window_requests,
            core,
            link,
            version_min,
            version_max,
            reserved: 0,
        }
        .put(out);
    }

    /// What a later version adds at the end is skipped, and so is what it makes of the reserved field: the handshake is
    /// what lets versions meet.
    pub(super) fn get(mut reader: Reader<'_>) -> Result<Hello, DecodeError> {
        let raw = RawHello::get(&mut reader)?;
        if raw.version_min > raw.version_max {
            return Err(DecodeError::Field {
                field: "oldest version",
                value: raw.version_min.into(),
            });
        }
        Ok(Hello {
            cluster: ClusterId(raw.cluster),
            session: raw.session,
            node: NodeId(raw.node),
            peer: NodeId(raw.peer),
            cluster_version: raw.cluster_version,
            window_bytes: raw.window_bytes,
            window_requests: raw.window_requests,
            core: raw.core,
            link: raw.link,
            version_min: raw.version_min,
            version_max: raw.version_max,
        })
    }
}

/// Why a connection ends. The code is for programs, the reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// What kind of reason.
    pub code: RefuseCode,
    /// In words; at most 256 bytes.
    pub reason: String,
}

/// Kinds of reasons for which a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseCode {
    /// No protocol version in common.
    Version,
    /// Another cluster.
    Cluster,
    /// Not the node that was meant.
    Node,
    /// The finalized cluster version is newer than the build.
    ClusterVersion,
    /// A limit in the hello is too small to work with.
    Limits,
    /// The peer broke the protocol.
    Violation,
    /// A newer connection has taken this one's place.
    Replaced,
    /// The certificate does not let its holder be that node.
    Identity,
    /// The node is not known here yet: its record is on the way.
    Unknown,
    /// A code of a later version.
    Other(u16),
}

impl RefuseCode {
    fn to_wire(self) -> u16 {
        match self {
            RefuseCode::Version => 1,
            RefuseCode::Cluster => 2,
            RefuseCode::Node => 3,
            RefuseCode::ClusterVersion => 4,
            RefuseCode::Limits => 5,
            RefuseCode::Violation => 6,
            RefuseCode::Replaced => 7,
            RefuseCode::Identity => 8,
            RefuseCode::Unknown => 9,
            RefuseCode::Other(code) => code,
        }
    }

    fn from_wire(code: u16) -> RefuseCode {
        match code {
            1 => RefuseCode::Version,
            2 => RefuseCode::Cluster,
            3 => RefuseCode::Node,
            4 => RefuseCode::ClusterVersion,
            5 => RefuseCode::Limits,
            6 => RefuseCode::Violation,
            7 => RefuseCode::Replaced,
            8 => RefuseCode::Identity,
            9 => RefuseCode::Unknown,
            other => RefuseCode::Other(other),
        }
    }
}

impl Refuse {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        RawRefuse {
            code: self.code.to_wire(),
        }
        .put(out);
        let cut = self.reason.floor_char_boundary(MAX_REASON_BYTES);
        out.extend_from_slice(&self.reason.as_bytes()[..cut]);
    }

    pub(super) fn get(mut reader: Reader<'_>) -> Result<Refuse, DecodeError> {
        let raw = RawRefuse::get(&mut reader)?;
        // The reason goes to logs and terminals: whatever a peer puts there, only plain text comes out.
        let text = String::from_utf8_lossy(reader.rest());
        let reason = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Ok(Refuse {
            code: RefuseCode::from_wire(raw.code),
            reason,
        })
    }
}

pub(super) fn put_ping(out: &mut Vec<u8>, number: u64) {
    RawPing { number }.put(out);
}

pub(super) fn get_ping(mut reader: Reader<'_>) -> Result<u64, DecodeError> {
    let raw = RawPing::get(&mut reader)?;
    reader.end()?;
    Ok(raw.number)
}

pub(super) fn put_release(
    out: &mut Vec<u8>,
    tag: u64,
    volume: VolumeId,
    generation: Generation,
    hand_over: bool,
    payload_bytes: usize,
) -> Result<Kind, EncodeError> {
    no_payload(payload_bytes)?;
    if generation > Generation::MAX {
        return Err(EncodeError::Field {
            field: "generation",
            value: generation.0.into(),
        });
    }
    RawRelease {
        tag,
        volume: volume.0,
        generation: generation.0,
    }
    .put(out);
    Ok(match hand_over {
        true => Kind::HandOver,
        false => Kind::Release,
    })
}

pub(super) fn get_release(mut reader: Reader<'_>, hand_over: bool) -> Result<Message, DecodeError> {
    let raw = RawRelease::get(&mut reader)?;
    reader.end()?;
    let generation = get_generation(raw.generation)?;
    Ok(Message::Release {
        tag: raw.tag,
        volume: VolumeId(raw.volume),
        generation,
        hand_over,
    })
}

pub(super) fn put_released(
    out: &mut Vec<u8>,
    tag: u64,
    outcome: ReleaseOutcome,
    payload_bytes: usize,
) -> Result<Kind, EncodeError> {
    no_payload(payload_bytes)?;
    let (outcome, clients) = match outcome {
        ReleaseOutcome::Released => (0, 0),
        ReleaseOutcome::Busy { clients } => (1, clients),
        ReleaseOutcome::NotOwner => (2, 0),
    };
    RawReleased { tag, clients, outcome }.put(out);
    Ok(Kind::Released)
}

pub(super) fn get_released(mut reader: Reader<'_>) -> Result<Message, DecodeError> {
    let raw = RawReleased::get(&mut reader)?;
    reader.end()?;
    let outcome = match raw.outcome {
        0 => ReleaseOutcome::Released,
        1 => ReleaseOutcome::Busy { clients: raw.clients },
        2 => ReleaseOutcome::NotOwner,
        other => {
            return Err(DecodeError::Field {
                field: "release outcome",
                value: other.into(),
            });
        }
    };
    if raw.clients != 0 && !matches!(outcome, ReleaseOutcome::Busy { .. }) {
        return Err(DecodeError::Field {
            field: "clients of a volume that is not busy",
            value: raw.clients.into(),
        });
    }
    Ok(Message::Released { tag: raw.tag, outcome })
}

pub(super) fn put_cut(out: &mut Vec<u8>, cut: &Cut, payload_bytes: usize) -> Result<Kind, EncodeError> {
    no_payload(payload_bytes)?;
    if cut.generation > Generation::MAX {
        return Err(EncodeError::Field {
            field: "generation",
            value: cut.generation.0.into(),
        });
    }
    RawCut {
        tag: cut.tag,
        set: cut.set.0,
        volume: cut.volume.0,
        generation: cut.generation.0,
        step: cut.step as u8,
    }
    .put(out);
    Ok(Kind::Cut)
}

pub(super) fn get_cut(mut reader: Reader<'_>) -> Result<Message, DecodeError> {
    let raw = RawCut::get(&mut reader)?;
    reader.end()?;
    let steps = [CutStep::Adopt, CutStep::Release, CutStep::Settle];
    let step = steps.into_iter().find(|step| *step as u8 == raw.step);
    Ok(Message::Cut(Cut {
        tag: raw.tag,
        set: SetId(raw.set),
        volume: VolumeId(raw.volume),
        generation: get_generation(raw.generation)?,
        step: step.ok_or(DecodeError::Field {
            field: "step of a set of snapshots",
            value: raw.step.into(),
        })?,
    }))
}

pub(super) fn put_cut_done(
    out: &mut Vec<u8>,
    tag: u64,
    outcome: CutOutcome,
    payload_bytes: usize,
) -> Result<Kind, EncodeError> {
    no_payload(payload_bytes)?;
    let outcome = outcome as u8;
    RawCutDone { tag, outcome }.put(out);
    Ok(Kind::CutDone)
}

pub(super) fn get_cut_done(mut reader: Reader<'_>) -> Result<Message, DecodeError> {
    let raw = RawCutDone::get(&mut reader)?;
    reader.end()?;
    let outcomes = [
        CutOutcome::Adopted,
        CutOutcome::Held,
        CutOutcome::Lapsed,
        CutOutcome::Settled,
        CutOutcome::Spoilt,
        CutOutcome::NotOwner,
    ];
    let outcome = outcomes.into_iter().find(|outcome| *outcome as u8 == raw.outcome);
    Ok(Message::CutDone {
        tag: raw.tag,
        outcome: outcome.ok_or(DecodeError::Field {
            field: "outcome of a step of a set of snapshots",
            value: raw.outcome.into(),
        })?,
    })
}

pub(super) fn no_payload(payload_bytes: usize) -> Result<(), EncodeError> {
    if payload_bytes == 0 {
        Ok(())
    } else {
        Err(EncodeError::Payload {
            expected: 0,
            found: payload_bytes,
        })
    }
}

pub(super) fn get_generation(value: u32) -> Result<Generation, DecodeError> {
    let generation = Generation(value);
    if generation > Generation::MAX {
        return Err(DecodeError::Field {
            field: "generation",
            value: value.into(),
        });
    }
    Ok(generation)
}
