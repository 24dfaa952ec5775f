# A virtual machine in a guest, for scripts that run there: sourced behind `common.sh`. No processor there can run one, so it is emulated in what is emulated
# (a Linux in it needs ten minutes to boot): it is `writer.c` alone.

vm=/tmp/vm

# What its emulator needs, in memory: pages of a shared folder would be asked for one by one.
vm_prepare() { # FILES WRITER: what `tests/guest/build` has made, what `build` beside this file has
    local tools=$1/tools libraries=$1/tools/usr/lib/x86_64-linux-gnu
    mkdir -p $vm/lib $vm/share
    cp "$tools/usr/bin/qemu-system-x86_64" "$tools/lib64/ld-linux-x86-64.so.2" $vm/
    cp -L $("$tools/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" --list "$tools/usr/bin/qemu-system-x86_64" |
        awk '$2 == "=>" { print $3 }') $vm/lib/
    cp -L "$tools/usr/share/seabios/bios-256k.bin" "$tools"/usr/share/qemu/{multiboot_dma,kvmvapic}.bin $vm/share/
    cp "$2" $vm/writer
    mkfifo $vm/stop.in $vm/stop.out
}

# Starts it, or with -incoming what waits for one that comes from elsewhere. What it says is in $vm/said, QEMU's status, at its end, in $vm/status; QEMU's
# monitor is port 4445. A byte to $vm/stop.in ends it.
vm_start() { # DISK [OPTION...]
    local disk=$1
    shift
    (
        $vm/ld-linux-x86-64.so.2 --library-path $vm/lib $vm/qemu-system-x86_64 -L $vm/share -nodefaults -no-user-config -no-reboot -display none \
            -machine pc,usb=off,vmport=off -accel tcg,thread=single,tb-size=32 -cpu qemu64 -smp 1 -m 64M -kernel $vm/writer \
            -blockdev "driver=host_device,node-name=disk,filename=$disk,aio=native,cache.direct=on" -device virtio-blk-pci,drive=disk \
            -chardev "file,id=said,path=$vm/said" -device isa-debugcon,chardev=said,iobase=0xe9 -device isa-debug-exit,iobase=0xf4,iosize=1 \
            -chardev "pipe,id=stop,path=$vm/stop" -serial chardev:stop -qmp tcp:0.0.0.0:4445,server=on,wait=off "$@"
        echo $? >$vm/status
    ) </dev/null >$vm/log 2>&1 &
}

vm_ended() {
    [ -s $vm/status ]
}

# Until it has said a line so often, in all.
vm_said() { # LINE TIMES SECONDS
    local until=$((SECONDS + $3))
    until [ "$(grep -c "$1" $vm/said)" -ge "$2" ]; do
        if vm_ended || [ $SECONDS -ge $until ]; then
            [ "$(grep -c "$1" $vm/said)" -lt "$2" ] || break
            cat $vm/log $vm/said $vm/status
            fail "it has not said '$1' $2 times"
        fi
        sleep 0.2
    done
}

# Writes down when I/O by the paths of this machine's disks was seen to have ended, in milliseconds, until $vm/watched is there.
vm_watch() {
    python3 -S -E -c '
import glob, os, time
paths = [open(path) for path in glob.glob("/sys/class/nvme/nvme*/nvme*c*n*/stat")]
assert paths, "there is no path"
before = None
while not os.path.exists("/tmp/vm/watched"):
    ended = 0
    for path in paths:
        path.seek(0)
        fields = path.read().split()
        ended += int(fields[0]) + int(fields[4])
    if ended != before:
        print(int(time.time() * 1000), flush=True)
        before = ended
    time.sleep(0.02)
' >$vm/times 2>$vm/watch.log &
}
