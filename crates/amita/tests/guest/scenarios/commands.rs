//! SCSI commands that hypervisors send, by sg3-utils, each with what it has done read back.

use crate::host::Host;
use crate::scenarios::postgres::Paired;
use amita_terminal::error::Result;

/// UNMAP, GET LBA STATUS, WRITE SAME, COMPARE AND WRITE, EXTENDED COPY within a disk and to another one.
pub fn by_hand(host: &Host, target: &mut dyn Paired, second_bytes: u64) -> Result<String> {
    target.pair(second_bytes)?;
    host.connect(target, 0, "")?;
    let nqn = target.nqn().to_owned();
    let seen = host.sh(&format!(
        "second() {{ [ -n \"$(session_disk $(sessions {nqn}) 1)\" ]; }}; await 60 'the second disk' second
         session=$(sessions {nqn}); a=/dev/$(session_disk $session 0) b=/dev/$(session_disk $session 1); udevadm settle
         block=$(blockdev --getss $a); each=$((1048576 / block))
         head -c 8M /dev/urandom >/tmp/data
         dd if=/tmp/data of=$a bs=1M oflag=direct status=none
         is() {{ dd if=$1 bs=1M count=8 iflag=direct status=none | cmp - /tmp/data || fail \"$2\"; }}
         zero() {{ dd if=/dev/zero of=/tmp/data bs=1M seek=$1 count=1 conv=notrunc status=none; }}

         sg_unmap --force --lba=$each --num=$each $a || fail sg_unmap
         zero 1; is $a 'UNMAP: not zeros, or a neighbour changed'
         sg_get_lba_status --16 --lba=$each --brief $a | head -n 3 >/tmp/status || fail sg_get_lba_status
         echo \"LBA status behind UNMAP: $(tr '\\n' ';' </tmp/status)\"
         sg_get_lba_status --16 --lba=$each $a | grep -qi 'deallocated' || fail 'what was unmapped is not deallocated'
         sg_get_lba_status --16 --lba=0 $a | grep -qi 'mapped' || fail 'what was written is not mapped'

         sg_write_same --16 --lba=$((2 * each)) --num=$each --unmap --xferlen=0 --ndob $a || fail 'WRITE SAME without data'
         zero 2; is $a 'WRITE SAME without data: not zeros, or a neighbour changed'
         head -c $block /dev/urandom >/tmp/block
         sg_write_same --10 --lba=$((3 * each)) --num=$each --in=/tmp/block $a || fail 'WRITE SAME (10)'
         python3 -c \"import sys; sys.stdout.buffer.write(open('/tmp/block', 'rb').read() * $each)\" | dd of=/tmp/data bs=1M seek=3 conv=notrunc iflag=fullblock status=none
         is $a 'WRITE SAME: not the block, or a neighbour changed'

         old() {{ dd if=/tmp/data bs=1M skip=4 count=1 status=none | head -c 4096; }}
         head -c 4096 /dev/urandom >/tmp/new; {{ old; cat /tmp/new; }} >/tmp/both
         compare() {{ sg_compare_and_write --in=/tmp/both --lba=$((4 * each)) --num=$((4096 / block)) --xferlen=8192 $a; }}
         compare || fail 'COMPARE AND WRITE'
         dd if=/tmp/new of=/tmp/data bs=1M seek=4 conv=notrunc status=none
         is $a 'COMPARE AND WRITE: not what was to be written'
         compare >/tmp/said 2>&1; status=$?
         [ $status -eq 14 ] || {{ cat /tmp/said; fail \"a miscompare ends with $status\"; }}
         is $a 'a miscompare has written'
         echo 'COMPARE AND WRITE: once written, once a miscompare'

         sg_xcopy if=$a of=$a bs=$block skip=0 seek=$((5 * each)) count=$each >/tmp/said 2>&1 || {{ cat /tmp/said; fail 'sg_xcopy within'; }}
         dd if=/tmp/data of=/tmp/part bs=1M count=1 status=none; dd if=/tmp/part of=/tmp/data bs=1M seek=5 conv=notrunc status=none
         is $a 'EXTENDED COPY within: not the same'
         sg_xcopy if=$a of=$b bs=$block count=$((8 * each)) >/tmp/said 2>&1 || {{ cat /tmp/said; fail 'sg_xcopy to the other'; }}
         is $b 'EXTENDED COPY to the other: not the same'
         tail -n 2 /tmp/said
         sg_copy_results --params $a 2>&1 | head -n 4
         no_errors"
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}
