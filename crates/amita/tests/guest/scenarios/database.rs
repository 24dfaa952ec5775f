//! MariaDB on xfs on the volume, under sysbench's OLTP, while a gateway dies.

use crate::host::{Host, await_line};
use crate::target::Target;
use amita_terminal::error::Result;
use std::time::Duration;

/// How long beyond its run the benchmark may take: loading its tables, and an emulated processor.
const SLACK: Duration = Duration::from_secs(240);

/// Transactions for `seconds`; in the middle the gateway of the optimized path is killed, and later it comes back. No
/// transaction fails, the tables check clean, also after a start of the server on a new connection.
pub fn mariadb(host: &Host, target: &mut dyn Target, seconds: u64) -> Result<String> {
    let nqn = target.nqn().to_owned();
    host.connect_all(target, "")?;
    target.relocate(0)?;
    host.sh(&format!(
        "device=$(device {nqn}); modprobe xfs
         mkfs.xfs -q -f $device && mkdir -p /mnt/db && mount $device /mnt/db || fail 'xfs'
         mkdir /mnt/db/data
         mariadb-install-db --no-defaults --user=root --datadir=/mnt/db/data --skip-test-db \\
             --auth-root-authentication-method=normal >/tmp/install.log 2>&1 || {{ tail /tmp/install.log; fail install-db; }}
         {START}
         mariadb -S /tmp/db.sock -e 'create database sbtest'
         sysbench {BENCH} prepare >/tmp/prepare.log 2>&1 || {{ tail /tmp/prepare.log; fail prepare; }}"
    ))?;
    let bench = host.start(&format!(
        "sysbench {BENCH} --time={seconds} --report-interval=2 run || fail sysbench"
    ))?;
    // Seconds of the benchmark's own clock, by its reports.
    await_line(&bench, |line| reported(line).is_some_and(|at| at >= seconds / 3))?;
    target.kill(0)?;
    await_line(&bench, |line| reported(line).is_some_and(|at| at >= seconds * 2 / 3))?;
    target.revive(0)?;
    let result = bench.wait(Duration::from_secs(seconds) + SLACK)?.success()?.text;
    let mut seen: String = result
        .lines()
        .filter(|line| {
            ["transactions:", "ignored errors:", "reconnects:", "max:"]
                .iter()
                .any(|word| line.contains(word))
        })
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
        .collect();
    seen += &host.sh(
        "mariadb-check -S /tmp/db.sock --all-databases --extended >/tmp/check || { cat /tmp/check; fail check; }
         grep -vE ' OK$' /tmp/check | grep . && fail 'not all tables are sound'
         echo \"$(grep -c ' OK$' /tmp/check) tables OK\"
         mariadb-admin -S /tmp/db.sock shutdown && umount /mnt/db && no_errors",
    )?;
    host.disconnect(target)?;
    host.connect_all(target, "")?;
    seen += &host.sh(&format!(
        "device=$(device {nqn}); xfs_repair -n $device >/tmp/repair 2>&1 || {{ cat /tmp/repair; fail xfs_repair; }}
         mount $device /mnt/db && {START}
         mariadb -S /tmp/db.sock sbtest -N -e 'check table sbtest1, sbtest2, sbtest3 extended; select count(*) from sbtest1'
         mariadb -S /tmp/db.sock sbtest -N -e 'check table sbtest1, sbtest2, sbtest3 extended' | grep -v 'status.*OK' | grep . && fail tables
         mariadb-admin -S /tmp/db.sock shutdown && umount /mnt/db && no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

const START: &str = "mariadbd --no-defaults --user=root --datadir=/mnt/db/data --socket=/tmp/db.sock --skip-networking \\
    --innodb-buffer-pool-size=32M --innodb-flush-method=O_DIRECT --innodb-flush-log-at-trx-commit=1 --innodb-log-file-size=16M \\
    >/tmp/db.log 2>&1 &
    database=$!
    settled() { mariadb-admin -S /tmp/db.sock ping || ! kill -0 $database; }
    await 480 'the database answers' settled
    kill -0 $database 2>/dev/null || { tail /tmp/db.log; fail 'the database has ended'; }";
const BENCH: &str = "oltp_read_write --db-driver=mysql --mysql-socket=/tmp/db.sock --mysql-user=root --tables=3 \
    --table-size=1000 --threads=4 --db-ps-mode=disable";

/// The second of a report: `[ 12s ] thds: 4 tps: ...`.
fn reported(line: &str) -> Option<u64> {
    line.strip_prefix("[ ")?.split_once("s ]")?.0.trim().parse().ok()
}
