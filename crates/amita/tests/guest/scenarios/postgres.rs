//! PostgreSQL with its data on one volume and its log on another, under pgbench, snapshotted as a set.

use crate::host::{Host, PATIENCE, await_line};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// A target with a second volume, whose snapshots can be taken at one moment with those of the first.
pub trait Paired: Target {
    /// Makes a further volume namespace 2.
    fn pair(&mut self, size_bytes: u64) -> Result<()>;

    /// Takes snapshots of namespaces 1 and 2 at one moment.
    fn take_both(&mut self, snapshot: &str) -> Result<()>;

    /// Makes a clone of each of the two a namespace; their numbers.
    fn lend_both(&mut self, snapshot: &str) -> Result<[u32; 2]>;

    /// Takes these namespaces away, and deletes the clones and the snapshots.
    fn take_both_back(&mut self, nsids: [u32; 2], snapshot: &str) -> Result<()>;
}

/// The server does not run as root; its log is on the other file system.
const PREPARE: &str = r#"
grep -q '^pg:' /etc/passwd || echo 'pg:x:1000:1000::/tmp:/bin/sh' >>/etc/passwd
grep -q '^pg:' /etc/group || echo 'pg:x:1000:' >>/etc/group
bin=$(echo /usr/lib/postgresql/*/bin)
pg() { setpriv --reuid=1000 --regid=1000 --clear-groups env PATH="$bin:$PATH" PGHOST=/tmp/pg PGUSER=pg PGDATABASE=bench LC_ALL=C "$@"; }
# FOLDER PORT
serve() {
    pg postgres -D $1/pg -p $2 -k /tmp/pg -c listen_addresses= -c shared_buffers=32MB -c max_wal_size=64MB \
        -c checkpoint_timeout=30s -c autovacuum_naptime=5s -c jit=off -c huge_pages=off >/tmp/pg/$2.log 2>&1 &
    server=$! port=$2
    await 480 "the server at $2" is_ready
}
is_ready() {
    kill -0 $server 2>/dev/null || { cat /tmp/pg/$port.log; fail "the server at $port has ended"; }
    pg pg_isready -q -p $port -d postgres
}
# Four times the same number?
is_one() { echo "$1" | grep -Eqx -e '(-?[0-9]+)\|\1\|\1\|\1'; }
# PORT SQL
ask() { pg psql -XAtq -v ON_ERROR_STOP=1 -p $1 -c "$2" || fail "$2"; }
"#;

/// What is the same of all four tables after each transaction of pgbench, whatever it was.
const SUMS: &str = "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
     (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)";

/// Snapshots of both volumes while clients write. From the clones of each pair a second server starts: it replays the log, has every
/// transaction that was committed before the snapshots were asked for, no half of one, and every page is what its checksum says. The
/// first one goes on meanwhile, and is sound in the end.
pub fn sets_under_load(host: &Host, target: &mut dyn Paired, rounds: usize, volume_bytes: u64) -> Result<String> {
    let nqn = target.nqn().to_owned();
    target.pair(volume_bytes)?;
    host.connect_all(target, "")?;
    let sh = |script: &str| host.sh(&format!("{PREPARE}{script}"));
    sh(&format!(
        "modprobe ext4; mkdir -p /data /log /was/data /was/log
         there() {{ device_name {nqn} 2; }}; await 60 'the second disk' there
         for pair in 1:/data 2:/log; do
             device=$(device {nqn} ${{pair%:*}})
             mkfs.ext4 -q -F $device && mount $device ${{pair#*:}} && chown 1000:1000 ${{pair#*:}} || fail \"$pair\"
         done
         rm -rf /tmp/pg /tmp/stop; mkdir /tmp/pg; chown 1000:1000 /tmp/pg
         pg initdb -D /data/pg --waldir=/log/wal --data-checksums --auth=trust --no-sync >/tmp/initdb.log 2>&1 || {{ cat /tmp/initdb.log; fail initdb; }}
         sync; serve /data 5432
         pg createdb -p 5432 bench && pg pgbench -p 5432 -i -q -s 1 >/tmp/pgbench.log 2>&1 || {{ cat /tmp/pgbench.log; fail 'pgbench -i'; }}"
    ))?;
    let load = host.start(&format!(
        "{PREPARE}
         echo begun
         while ! [ -e /tmp/stop ]; do
             pg pgbench -p 5432 -n -c 4 -T 10 >/tmp/pgbench.log 2>&1 || {{ cat /tmp/pgbench.log; fail pgbench; }}
             grep -q 'failed transactions: 0 ' /tmp/pgbench.log || {{ cat /tmp/pgbench.log; fail 'transactions failed'; }}
         done
         grep -E 'transactions actually|latency average' /tmp/pgbench.log; echo 'all ended'"
    ))?;
    await_line(&load, |line| line == "begun")?;
    let mut seen = String::new();
    for round in 1..=rounds {
        let snapshot = format!("set-{round}");
        // Some more than at the last one.
        sh("count() { ask 5432 'select count(*) from pgbench_history'; }
            last=$(cat /tmp/after 2>/dev/null || echo 0)
            enough() { [ $(count) -ge $((last + 50)) ]; }
            await 240 'transactions' enough; count >/tmp/before")?;
        target.take_both(&snapshot)?;
        sh("ask 5432 'select count(*) from pgbench_history' >/tmp/after")?;
        if load.has_ended() {
            return Err(Failure::new(format!("the load has ended: {}", load.so_far())));
        }
        let nsids = target.lend_both(&snapshot)?;
        let [data, log] = nsids;
        seen += &sh(&format!(
            "dmesg -C
             there() {{ device_name {nqn} {data} && device_name {nqn} {log}; }}; await 60 'the clones' there
             mount -t ext4 $(device {nqn} {data}) /was/data && mount -t ext4 $(device {nqn} {log}) /was/log || fail 'a clone does not mount'
             # The link that was cloned leads to the log of the first server.
             ln -sfn /was/log/wal /was/data/pg/pg_wal && rm -f /was/data/pg/postmaster.pid
             serve /was/data 5433
             grep -q 'redo starts at' /tmp/pg/5433.log || {{ cat /tmp/pg/5433.log; fail 'no log was replayed'; }}
             sums=$(ask 5433 '{SUMS}')
             is_one \"$sums\" || fail \"half a transaction: $sums\"
             # Four clients may have committed, and not been counted, when the second count was made.
             count=$(ask 5433 'select count(*) from pgbench_history') before=$(cat /tmp/before) after=$(($(cat /tmp/after) + 4))
             [ $count -ge $before ] && [ $count -le $after ] || fail \"$count transactions, and there were $before to $after\"
             ask 5433 'create extension if not exists amcheck'
             ask 5433 \"select bt_index_check(c.oid, true) from pg_class c join pg_am a on a.oid = c.relam where a.amname = 'btree' and c.relpersistence = 'p'\" >/tmp/indexes
             pg pg_ctl -D /was/data/pg -m fast -t 120 stop >/dev/null || fail 'the second server does not stop'
             pg pg_checksums --check -D /was/data/pg >/tmp/sums 2>&1 || {{ cat /tmp/sums; fail 'a page is wrong'; }}
             echo \"$count of $before to $after, $(grep -m1 'Blocks scanned' /tmp/sums | tr -s ' '), $(wc -l </tmp/indexes) indexes\"
             umount /was/data /was/log || fail umount
             no_errors"
        ))?;
        target.take_both_back(nsids, &snapshot)?;
        host.sh(&format!(
            "gone_too() {{ ! device_name {nqn} {data} && ! device_name {nqn} {log}; }}; await 60 'no clones' gone_too"
        ))?;
    }
    host.sh("touch /tmp/stop")?;
    seen += &load.wait(PATIENCE)?.success()?.text;
    seen += &sh(&format!(
        "sums=$(ask 5432 '{SUMS}')
         is_one \"$sums\" || fail \"half a transaction: $sums\"
         pg pg_ctl -D /data/pg -m fast -t 120 stop >/dev/null || fail 'the server does not stop'
         pg pg_checksums --check -D /data/pg >/tmp/sums 2>&1 || {{ cat /tmp/sums; fail 'a page is wrong'; }}
         umount /data /log || fail umount
         no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// pgbench while the gateway of the optimized path is killed and comes back: no transaction fails, and what was committed is there and
/// whole after a start on new connections.
pub fn through_a_death(host: &Host, target: &mut dyn Target) -> Result<String> {
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    target.relocate(0)?;
    let sh = |script: &str| host.sh(&format!("{PREPARE}{script}"));
    sh(&format!(
        "modprobe ext4; mkdir -p /data; device=$(device {nqn})
         mkfs.ext4 -q -F $device && mount $device /data && chown 1000:1000 /data || fail 'ext4'
         rm -rf /tmp/pg /tmp/stop; mkdir /tmp/pg; chown 1000:1000 /tmp/pg
         pg initdb -D /data/pg --data-checksums --auth=trust --no-sync >/tmp/initdb.log 2>&1 || {{ cat /tmp/initdb.log; fail initdb; }}
         sync; serve /data 5432
         pg createdb -p 5432 bench && pg pgbench -p 5432 -i -q -s 1 >/tmp/pgbench.log 2>&1 || {{ cat /tmp/pgbench.log; fail 'pgbench -i'; }}"
    ))?;
    let load = host.start(&format!(
        "{PREPARE}
         while ! [ -e /tmp/stop ]; do
             pg pgbench -p 5432 -n -c 4 -t 25 >/tmp/pgbench.log 2>&1 || {{ cat /tmp/pgbench.log; fail pgbench; }}
             grep -q 'failed transactions: 0 ' /tmp/pgbench.log || {{ cat /tmp/pgbench.log; fail 'transactions failed'; }}
             sum=$((sum + 100)); echo \"$sum committed\"
         done
         echo \"$sum\" >/tmp/committed; echo \"all of $sum committed\""
    ))?;
    let further = |rounds: usize| {
        let rows = load.so_far().lines().count();
        await_line(&load, |line| line == format!("{} committed", (rows + rounds) * 100))
    };
    further(1)?;
    target.kill(0)?;
    // The first of them may have been committed before.
    further(2)?;
    target.revive(0)?;
    host.sh(&format!("await_paths {nqn} {} 180", target.portals().len()))?;
    further(1)?;
    host.sh("touch /tmp/stop")?;
    let text = load.wait(PATIENCE)?.success()?.text;
    let last = text.lines().last().unwrap_or_default().to_owned();
    sh(
        "pg pg_ctl -D /data/pg -m fast -t 120 stop >/dev/null || fail 'the server does not stop'
        umount /data || fail umount; no_errors",
    )?;
    host.disconnect(target)?;
    host.connect_all(target, "")?;
    let seen = sh(&format!(
        "device=$(device {nqn}); e2fsck -f -n $device >/tmp/check 2>&1 || {{ cat /tmp/check; fail 'the file system is not sound'; }}
         mount $device /data || fail mount
         pg pg_checksums --check -D /data/pg >/tmp/sums 2>&1 || {{ cat /tmp/sums; fail 'a page is wrong'; }}
         grep 'Blocks scanned' /tmp/sums | tr -s ' '
         serve /data 5432
         sums=$(ask 5432 '{SUMS}')
         is_one \"$sums\" || fail \"half a transaction: $sums\"
         [ \"$(ask 5432 'select count(*) from pgbench_history')\" = \"$(cat /tmp/committed)\" ] || fail 'not as many as were committed'
         pg pg_ctl -D /data/pg -m fast -t 120 stop >/dev/null || fail 'the server does not stop'
         umount /data || fail umount; no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(format!("{last}\n{seen}"))
}
