//! Attackers against real processes of the shipped binary: what each of them gets, and that a client with every right beside them
//! goes on unharmed. What single crates show of their own part is shown there; [`FINDINGS`] says where.
//!
//! `docs/security.md` says who may do what, and which of these tests shows it.

mod attacker;
mod bystander;
mod certificates;
mod fabric;
mod files;
mod findings;
mod hosts;
mod older;
mod relay;
mod silence;
mod strangers;
mod tampering;
mod tenants;
#[allow(dead_code, reason = "what the end-to-end tests use of it is more")]
#[path = "../e2e/world.rs"]
mod world;

/// A weakness that a review has found, and the tests that show that it is gone.
pub struct Finding {
    /// Its number there.
    pub number: u32,
    /// In short.
    pub what: &'static str,
    /// File (from the root of the sources) and test.
    pub shown_by: &'static [(&'static str, &'static str)],
}

/// All of them.
pub const FINDINGS: &[Finding] = &[
    Finding {
        number: 1,
        what: "the fabric's port alone reads and writes any volume",
        shown_by: &[
            (STRANGERS, "who_has_nothing_to_show_gets_nothing_at_any_port"),
            (
                "crates/amita/tests/security/fabric.rs",
                "a_cluster_whose_links_are_protected_serves_and_strangers_get_nothing",
            ),
            (
                CERTIFICATES,
                "a_certificate_of_another_time_authority_or_role_opens_nothing",
            ),
            (TAMPERING, "what_is_done_to_frames_on_the_way_reaches_nobody"),
            (
                TAMPERING,
                "nobody_on_the_way_talks_two_nodes_down_or_reads_what_they_say",
            ),
        ],
    },
    Finding {
        number: 2,
        what: "one frame takes, bricks or deletes a volume",
        shown_by: &[
            (STORE, "who_is_not_the_owner_changes_nothing_whatever_it_knows"),
            (STORE, "an_owner_that_lies_spoils_its_own_volume_only"),
            (
                "crates/cluster/node/src/authority/tests.rs",
                "nobody_else_does_whatever_it_knows",
            ),
            (
                FABRIC,
                "whoever_calls_itself_another_node_is_refused_and_that_nodes_links_stand",
            ),
        ],
    },
    Finding {
        number: 3,
        what: "the metadata has no authentication; older records come back",
        shown_by: &[
            (STRANGERS, "who_has_nothing_to_show_gets_nothing_at_any_port"),
            (CERTIFICATES, "a_stolen_certificate_opens_nothing_once_it_was_revoked"),
            (
                METADATA,
                "who_proves_nothing_is_not_let_in_and_knows_which_side_to_mend",
            ),
            (
                "crates/amita/tests/security/older.rs",
                "a_right_that_was_taken_away_does_not_come_back_with_older_metadata",
            ),
            (
                "crates/amita/tests/e2e/recover.rs",
                "metadata_restored_from_an_older_copy_is_refused_and_rebuilt",
            ),
        ],
    },
    Finding {
        number: 4,
        what: "a client is a node",
        shown_by: &[
            (
                CERTIFICATES,
                "a_certificate_of_another_time_authority_or_role_opens_nothing",
            ),
            ("crates/cluster/node/src/proof/tests.rs", "a_client_is_no_node"),
            (FABRIC, "nobody_sends_what_the_table_does_not_let_him"),
        ],
    },
    Finding {
        number: 5,
        what: "NBD serves every volume to whoever connects",
        shown_by: &[
            (STRANGERS, "who_has_nothing_to_show_gets_nothing_at_any_port"),
            (
                "crates/amita/tests/e2e/exports.rs",
                "a_volume_is_served_while_it_is_exported",
            ),
            (
                "crates/amita/tests/e2e/exports.rs",
                "a_volume_has_one_protocol_unless_both_are_asked_for",
            ),
            (
                "crates/amita/tests/e2e/local_socket.rs",
                "who_may_open_the_file_may_use_what_is_for_any_client_and_nothing_else",
            ),
        ],
    },
    Finding {
        number: 6,
        what: "client authorities without --tls-required let a client without a certificate in",
        shown_by: &[
            (
                CERTIFICATES,
                "a_certificate_of_another_time_authority_or_role_opens_nothing",
            ),
            (
                "crates/amita/tests/e2e/tls.rs",
                "each_client_has_the_volumes_that_are_exported_to_it",
            ),
            (
                "crates/frontends/nbd/src/tests/tls.rs",
                "authorities_mean_that_a_certificate_is_required",
            ),
        ],
    },
    Finding {
        number: 7,
        what: "a roll of a chunk to its last version kills each gateway in turn",
        shown_by: &[(STORE, "no_message_uses_the_counters_of_a_chunk_up")],
    },
    Finding {
        number: 8,
        what: "Diffie-Hellman on the core of I/O",
        shown_by: &[
            (NVME, "nothing_is_computed_where_io_is_done"),
            (NVME, "large_groups_are_not_computed_with"),
            (
                "crates/cluster/node/src/worker/schedule/tests.rs",
                "what_strangers_can_have_computed_is_bounded",
            ),
        ],
    },
    Finding {
        number: 9,
        what: "controllers before authentication",
        shown_by: &[
            (STRANGERS, "who_has_nothing_to_show_gets_nothing_at_any_port"),
            (NVME, "strangers_take_nobodys_place"),
            (
                "crates/frontends/nvme/src/hub/tests.rs",
                "places_are_kept_for_hosts_that_prove_themselves",
            ),
        ],
    },
    Finding {
        number: 10,
        what: "one client of the metadata exhausts it",
        shown_by: &[
            (METADATA, "one_peer_has_not_all_leases_and_those_of_others_are_not_its"),
            (
                METADATA,
                "an_answer_of_more_than_there_is_memory_for_is_refused_before_anything_is_done",
            ),
            (
                METADATA,
                "above_the_quota_nothing_is_added_and_room_is_made_by_deleting",
            ),
            (GREEDY, "one_name_has_a_few_streams_and_gets_places_back"),
            (GREEDY, "who_does_not_take_an_answer_is_cut_off"),
        ],
    },
    Finding {
        number: 11,
        what: "files of stores, of the metadata and of keys that others can read",
        shown_by: &[
            (FILES, "loose_files_are_refused_with_the_command_that_mends_them"),
            (
                "crates/cluster/identity/src/tests/folders.rs",
                "loose_files_are_refused_with_what_mends_them",
            ),
            ("crates/cluster/keys/src/tests.rs", "the_file_is_of_its_owner_alone"),
        ],
    },
    Finding {
        number: 12,
        what: "a host reserves as another",
        shown_by: &[
            (HOSTS, "a_host_is_kept_from_what_is_anothers"),
            (RESERVATION, "another_host_with_the_same_hash_is_refused"),
            (RESERVATION, "an_identifier_is_of_the_host_that_registered_it"),
        ],
    },
    Finding {
        number: 13,
        what: "a new key or fewer rights do not end sessions",
        shown_by: &[
            (
                "crates/amita/tests/e2e/nvme.rs",
                "a_host_whose_rights_change_is_cut_off_on_every_gateway",
            ),
            (NVME, "what_a_host_has_to_show_changes_and_its_sessions_end"),
        ],
    },
    Finding {
        number: 14,
        what: "authentication without TLS is taken over; discovery is told to anybody",
        shown_by: &[
            (STRANGERS, "who_has_nothing_to_show_gets_nothing_at_any_port"),
            (NVME, "a_subsystem_takes_tls_only"),
            (NVME, "a_host_proves_itself_for_discovery"),
        ],
    },
    Finding {
        number: 15,
        what: "idle sessions of NBD starve the fabric and the stores",
        shown_by: &[
            (
                FRONTS,
                "sessions_that_are_quiet_hold_little_and_only_of_what_is_for_hosts",
            ),
            (FRONTS, "strangers_are_let_in_up_to_a_number"),
            (FRONTS, "strangers_at_a_unix_socket_are_counted_by_their_user"),
        ],
    },
    Finding {
        number: 16,
        what: "quotas of the fabric by the number that a stranger claims",
        shown_by: &[
            (FABRIC, "a_flood_from_one_address_pushes_out_nobody_else"),
            (
                "crates/engine/fabric/src/fabric/gate/tests.rs",
                "strangers_take_nothing_of_what_known_peers_have_and_one_of_them_not_all",
            ),
        ],
    },
    Finding {
        number: 17,
        what: "printed commands have keys among their arguments",
        shown_by: &[(
            "crates/cluster/control/src/guide/tests.rs",
            "a_host_with_keys_gets_them_from_its_own_files",
        )],
    },
    Finding {
        number: 18,
        what: "core dumps hold keys and data",
        shown_by: &[
            (FILES, "a_process_that_aborts_leaves_no_core_dump_and_no_key"),
            (
                "crates/amita/src/commands/core_dumps/tests.rs",
                "nothing_is_dumped_unless_asked_for",
            ),
        ],
    },
    Finding {
        number: 19,
        what: "what strangers reach is not fuzzed (the rest of it, on releases and advisories, is in .github and scripts)",
        shown_by: &[
            ("crates/engine/fabric/tests/fuzz.rs", "a_stranger_is_not_heard"),
            ("crates/cluster/metadata/tests/fuzz.rs", "connections_that_go_wrong"),
            (
                "crates/frontends/nbd/tests/fuzz.rs",
                "connections_get_behind_the_handshake",
            ),
        ],
    },
];

const STRANGERS: &str = "crates/amita/tests/security/strangers.rs";
const CERTIFICATES: &str = "crates/amita/tests/security/certificates.rs";
const TAMPERING: &str = "crates/amita/tests/security/tampering.rs";
const FILES: &str = "crates/amita/tests/security/files.rs";
const HOSTS: &str = "crates/amita/tests/security/hosts.rs";
const STORE: &str = "crates/engine/store/tests/suite/hostile.rs";
const FABRIC: &str = "crates/engine/fabric/tests/sim/secure.rs";
const METADATA: &str = "crates/cluster/metadata/tests/servers/secure.rs";
const GREEDY: &str = "crates/cluster/metadata/tests/servers/greedy.rs";
const NVME: &str = "crates/frontends/nvme/src/tests/access.rs";
const FRONTS: &str = "crates/cluster/node/src/fronts/tests.rs";
const RESERVATION: &str = "crates/frontends/engine/src/reservation/tests.rs";
