//! What can be found, and what to do about it: each once, with its stable name.

use crate::sheet::Severity;

/// Makes [`Code`] of a table: `/// meaning`, `Variant "name" Severity Check "what to do"`.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident $check:ident $mend:literal,)+) => {
        /// What an inspection can find.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code,)+];

            /// Its name: stable, and what scripts may rely on.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => $name,)+ }
            }

            /// How much it matters at most: where nothing but one machine is concerned, or little is wrong, it is said more softly.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Code::$code => Severity::$severity,)+ }
            }

            /// Who finds it.
            #[must_use]
            pub fn check(self) -> Check {
                match self { $(Code::$code => Check::$check,)+ }
            }

            /// What it means, in a sentence or two.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$code => concat!($($doc),+),)+ }
                .trim()
            }

            /// What to do about it.
            #[must_use]
            pub fn mend(self) -> &'static str {
                match self { $(Code::$code => $mend,)+ }
            }
        }
    };
}

/// Makes [`Check`] of a table: `/// what is looked at`, `Variant "name" "title"`.
macro_rules! checks {
    ($($(#[doc = $doc:literal])+ $check:ident $name:literal $title:literal,)+) => {
        /// What is looked at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Check {
            $($(#[doc = $doc])+ $check,)+
        }

        impl Check {
            /// All of them, in the order in which a report has them.
            pub const ALL: &[Check] = &[$(Check::$check,)+];

            /// Its name: stable.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Check::$check => $name,)+ }
            }

            /// Its section's title.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Check::$check => $title,)+ }
            }
        }
    };
}

checks! {
    /// What `amita status` says.
    Health "health" "Health",
    /// Whether a failure would take more than it should.
    Redundancy "redundancy" "Redundancy",
    /// Ways of hosts to their volumes.
    Paths "paths" "Paths of hosts",
    /// Addresses of the metadata.
    Metadata "metadata" "Metadata",
    /// Clocks against each other.
    Clocks "clocks" "Clocks",
    /// Speed, duplex, errors and links of network interfaces.
    Nics "nics" "Network interfaces",
    /// The longest packets of nodes against each other.
    Mtu "mtu" "MTU",
    /// Kernels and what their `io_uring` can do.
    Kernel "kernel" "Kernels",
    /// Processors, memory, swap and limits.
    Machine "machine" "Machines",
    /// Whether disks can be written, and who flushes their caches.
    Disks "disks" "Disks",
    /// Wear, spare blocks, errors and temperature, as disks tell them.
    Wear "wear" "Health of disks",
    /// How long disks take, against their siblings and their own past.
    Latency "latency" "Latency of disks",
    /// When pools will be full.
    Capacity "capacity" "Capacity",
    /// How evenly stores are used.
    Balance "balance" "Balance",
    /// When certificates end.
    Certificates "certificates" "Certificates",
    /// Versions of programs and of the cluster.
    Versions "versions" "Versions",
    /// Settings that somebody has changed.
    Settings "settings" "Settings",
}

codes! {
    /// A pool keeps one copy of its data: the loss of one disk loses data.
    CopiesSingle "copies-single" Warning Redundancy
        "Make a pool with two copies or more (`amita pool create --copies 3`), and copy its volumes there.",
    /// A pool's copies may lie on disks of one machine: its loss takes all of them.
    CopiesOnOneNode "copies-on-one-node" Warning Redundancy
        "Set a larger failure domain, once there are nodes enough: `amita pool set POOL --failure-domain node`.",
    /// Writes to a pool need all copies: one node that restarts stops them.
    MinCopiesAll "min-copies-all" Warning Redundancy
        "Keep a copy more: `amita pool set POOL --copies N`; the least number is chosen when a pool is made.",
    /// Writes to a pool are acknowledged while one copy alone holds them: the loss of that disk loses them.
    MinCopiesOne "min-copies-one" Notice Redundancy
        "Where that is not meant, make a pool of three copies (`amita pool create --copies 3`, which asks for two), and copy its volumes there.",
    /// A pool has exactly as many failure domains as copies: when one is lost, nothing can be rebuilt until it is back.
    NoSpareDomain "no-spare-domain" Notice Redundancy
        "Add a node (or a rack, or a site) more than the pool has copies.",
    /// Several nodes run on one machine: it goes, and they go together.
    OneMachine "one-machine" Notice Redundancy
        "Give nodes machines of their own, or tell the cluster that they stand together: `amita node place NODE --rack NAME`.",
    /// A node knows one address of the metadata: when that is away, it can change nothing, and open no volume anew.
    MetadataOneAddress "metadata-one-address" Warning Metadata
        "Run three members of etcd, and start nodes and commands with all of their addresses (`--metadata A,B,C`).",
    /// Hosts reach a subsystem, or initiators a target, by one gateway alone: when that is away, they lose their disks.
    GatewaySingle "gateway-single" Warning Paths
        "Serve at a second node (`amita serve --nvme`, `--iscsi`), allow it (`amita subsystem set --gateway`, `amita target set --gateway`), and \
         connect hosts to both.",
    /// The links of a node that others or hosts need hang on one network interface.
    LinkSingle "link-single" Notice Paths
        "Join two ports by a bond, each at a switch of its own.",
    /// Clocks of nodes differ: schedules, certificates and the times of events are wrong by as much.
    ClockOff "clock-off" Critical Clocks
        "See `chronyc tracking` or `timedatectl` at the node, and let it follow the same time servers as the others.",
    /// The kernel of a node does not hold its clock for synchronised: it will drift away.
    ClockFree "clock-free" Notice Clocks
        "Run chrony or systemd-timesyncd at the node.",
    /// A network interface that a node serves by is down.
    NicDown "nic-down" Warning Nics
        "See its cable, its switch and `ip link`.",
    /// A network interface is slower than those by which the other nodes serve the same.
    NicSlow "nic-slow" Warning Nics
        "See the cable, the transceiver and what the switch's port has agreed to (`ethtool INTERFACE`).",
    /// A network interface cannot send and receive at once.
    NicHalfDuplex "nic-half-duplex" Warning Nics
        "Let both ends of the cable agree on it by themselves (`ethtool -s INTERFACE autoneg on`).",
    /// A network interface loses or damages packets.
    NicErrors "nic-errors" Warning Nics
        "Exchange its cable and its transceiver, one after the other; see `ethtool -S INTERFACE` and the switch's counters.",
    /// A port of a bond is down: the next failure cuts the node off.
    BondDegraded "bond-degraded" Warning Nics
        "See the port's cable and its switch.",
    /// Nodes send packets of different lengths: long ones may be lost between them without a word.
    MtuDiffers "mtu-differs" Warning Mtu
        "Set the same everywhere, switches included, and try it: `ping -M do -s $((MTU-28)) ADDRESS`.",
    /// Nodes run different kernels.
    KernelDiffers "kernel-differs" Notice Kernel
        "Bring all nodes to the same one, a node at a time (`amita node maintenance on NODE` before each).",
    /// A kernel is older than those that Amita is tested with.
    KernelOld "kernel-old" Warning Kernel
        "Use one of 5.15 or newer.",
    /// The kernel lets only some use `io_uring`, or nobody: the node will not start again.
    UringRestricted "uring-restricted" Warning Kernel
        "Set `kernel.io_uring_disabled=0` (`sysctl`), or 1 with the node's group in `kernel.io_uring_group`.",
    /// The kernels of nodes differ in what their `io_uring` can do.
    UringDiffers "uring-differs" Notice Kernel
        "Bring all nodes to the same kernel.",
    /// Processors save power: each request waits until one has woken up.
    GovernorSaves "governor-saves" Notice Machine
        "`cpupower frequency-set -g performance`.",
    /// The kernel makes huge pages of everybody's memory, and stops programs for that now and then.
    HugePagesAlways "huge-pages-always" Notice Machine
        "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`.",
    /// Memory of a node lies in swap: its I/O waits for the disk that has it.
    ProcessSwapped "process-swapped" Warning Machine
        "Give the node less to keep (`amita serve --index-memory`, `--buffers`), move other programs away, and switch swap off (`swapoff -a`).",
    /// A machine that serves has swap: under pressure its I/O waits for that.
    SwapOn "swap-on" Notice Machine
        "Switch it off (`swapoff -a`), or start the node with `MemorySwapMax=0` in its unit.",
    /// A node may open few files: each host and each link to a core of another node is one.
    OpenFilesFew "open-files-few" Warning Machine
        "Set `LimitNOFILE=1048576` in the node's unit, and start it again.",
    /// A disk beneath a store cannot be written.
    DiskReadOnly "disk-read-only" Critical Disks
        "Replace it (`amita disk replace`): mostly it protects what it has when it is worn or broken.",
    /// A disk has a cache that a power cut empties, and the kernel does not flush it: acknowledged writes can be lost.
    CacheHidden "cache-hidden" Critical Disks
        "`echo 'write back' > /sys/block/DISK/queue/write_cache`, and find what has set it otherwise.",
    /// A disk has a cache that a power cut empties: Amita flushes it, and every write that is to stay waits for that.
    CacheVolatile "cache-volatile" Notice Disks
        "Nothing for safety; disks with power-loss protection answer many times faster.",
    /// A disk turns, and its store is called flash.
    DiskTurns "disk-turns" Warning Disks
        "Give the store its class (`amita disk class STORE hdd`), and keep pools of flash off it.",
    /// A disk says that something is wrong with it.
    DiskWarns "disk-warns" Critical Wear
        "Replace it (`amita disk replace`) while its copies are whole; `nvme smart-log` has all that it says.",
    /// Most of a disk's life is used.
    DiskWorn "disk-worn" Critical Wear
        "Order another one, and replace it (`amita disk replace`).",
    /// At the pace of its life so far a disk will be worn within half a year.
    DiskWearsOut "disk-wears-out" Warning Wear
        "Order another one, and see what writes so much (`amita top`).",
    /// A disk has few spare blocks left.
    DiskSpareLow "disk-spare-low" Critical Wear
        "Replace it (`amita disk replace`).",
    /// A disk could not do some reads or writes right.
    DiskMediaErrors "disk-media-errors" Warning Wear
        "Scrub its volumes (`amita volume scrub`); replace it when there are more each week.",
    /// A disk predicts its failure: its SMART says so, or what it counts has come to where its vendor says that it fails.
    DiskPredictsFailure "disk-predicts-failure" Critical Wear
        "Move its copies away (`amita disk drain`, or `amita disk replace` where a new disk is in) while it can still be read.",
    /// A disk has sectors that it could not read, or has replaced some.
    DiskBadSectors "disk-bad-sectors" Warning Wear
        "Scrub its volumes (`amita volume scrub`), which mends what cannot be read; replace it when there are more.",
    /// A disk counts more errors than it did some days ago: when that goes on for days, it mostly fails.
    DiskErrorsGrow "disk-errors-grow" Critical Wear
        "Order another one; where they have grown on several days, move its copies away now (`amita disk drain`).",
    /// The link of a SATA disk damages what it carries: it is sent again, and takes longer.
    DiskLinkErrors "disk-link-errors" Notice Wear
        "Exchange its cable or put it into another bay, and see whether the count still grows (`smartctl -A`, attribute 199).",
    /// A disk is too hot, or nearly so: it slows down to protect itself.
    DiskHot "disk-hot" Warning Wear
        "See the machine's fans and the air in front of it.",
    /// A disk takes much longer than others of its kind.
    DiskSlowerThanSiblings "disk-slower-than-siblings" Warning Latency
        "See its link (`lspci -vv`), its temperature and its firmware; replace it where nothing explains it.",
    /// A disk takes much longer than it did.
    DiskSlowerThanBefore "disk-slower-than-before" Warning Latency
        "See how worn and how hot it is, and whether it is nearly full; drain it for a trial (`amita disk drain`).",
    /// A disk takes longer from day to day, and twice as long as it did.
    DiskSlows "disk-slows" Warning Latency
        "See how worn and how hot it is, and whether it is nearly full; order another one where nothing explains it.",
    /// At its present pace a pool will be full soon.
    PoolFillsSoon "pool-fills-soon" Warning Capacity
        "Order disks now, or delete and trim what is not needed (`amita pool show`).",
    /// Stores of a pool are used unevenly: the fullest one is the pool's end.
    StoresUneven "stores-uneven" Warning Balance
        "See weights that are not in proportion to sizes (`amita disk list`, `amita disk weight`), and whether copies still move.",
    /// Stores of a pool hold uneven numbers of groups for their weights.
    GroupsUneven "groups-uneven" Notice Balance
        "Wait until nothing moves; then see weights and where nodes stand (`amita node list`). A pool with more groups spreads better.",
    /// A node's certificate ends soon, and was not renewed at half of its life.
    CertificateEnds "certificate-ends" Critical Certificates
        "Start the node with `--ca-server`, see that `amita ca serve` runs, or renew it by hand (`amita cert renew`).",
    /// The authority that all certificates rest on ends soon.
    AuthorityEnds "authority-ends" Critical Certificates
        "Exchange it (docs/operating/identities.md): that takes a while, because every identity has to be renewed.",
    /// Nodes run different programs.
    ProgramDiffers "program-differs" Notice Versions
        "Finish the upgrade; see `amita node list` and `amita cluster finalize`.",
    /// All nodes run a program that knows a newer version of the records than the cluster uses.
    VersionNotFinal "version-not-final" Notice Versions
        "When you are content with the new program, `amita cluster finalize`. There is no way back then.",
    /// A setting is not as usual.
    SettingUnusual "setting-unusual" Notice Settings
        "Nothing, where it is meant; else set it back.",
    /// Nodes have different settings.
    SettingDiffers "setting-differs" Notice Settings
        "Give all nodes the same, unless their machines differ.",
}

impl Code {
    /// The code of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_a_name_of_its_own_a_meaning_and_a_mend() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.meaning().ends_with('.'), "{code:?}");
            assert!(code.mend().ends_with('.'), "{code:?}");
            assert_eq!(Code::named(code.name()), Some(*code));
        }
        let checks: BTreeSet<&str> = Check::ALL.iter().map(|check| check.name()).collect();
        assert_eq!(checks.len(), Check::ALL.len());
    }
}
