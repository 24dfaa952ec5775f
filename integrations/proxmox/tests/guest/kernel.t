#!/usr/bin/perl -T
# The plugin with a real kernel, real udev with the package's rule, and real nodes: in a guest, which scripts/test-proxmox --guest boots. Proxmox' classes are
# stubs here as elsewhere.
use strict;
use warnings;

use Fcntl qw(:DEFAULT);
use File::Temp ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Amita::Here;
use PVE::Storage;
use PVE::Cluster;

my ($apis, $token, $share) = map { m/\A([!-~]+)\z/ } @ENV{qw(AMITA_TEST_API AMITA_TEST_TOKEN AMITA_TEST_SHARE)};
my $class = 'PVE::Storage::Custom::AmitaPlugin';
my ($pve) = File::Temp::tempdir(CLEANUP => 1) =~ m/\A(.*)\z/;
mkdir "$pve/$_" for qw(priv priv/storage nodes nodes/pve1);
$PVE::Storage::Custom::AmitaPlugin::AT{pve} = $pve;
%PVE::Cluster::MEMBERS = (pve1 => { online => 1 });
# Emulated machines are slow.
@AmitaProxmox::Host::SECONDS{qw(reach greet connect patience disk grow busy look)} = (10, 20, 60, 30, 60, 60, 10, 60);
my @warned;
local $SIG{__WARN__} = sub { push @warned, $_[0]; diag($_[0]) };
sub fails { my ($code, $why, $what) = @_; my $said = eval { $code->(); 1 }; if ($said) { fail("$what: it was done") } else { like($@, $why, $what) } return }
sub took { my ($began) = @_; return sprintf('%.1f s', time() - $began) }

# What is written goes past the cache of this machine where it is read back by another name.
sub put { my ($path, $offset, $text) = @_; sysopen(my $handle, $path, O_RDWR) or die "$path: $!\n"; sysseek($handle, $offset, 0); my $done = syswrite($handle, $text) // die "$path: $!\n"; IO::Handle::sync($handle) or die "$path: $!\n"; close($handle); return $done }
sub got { my ($path, $offset, $length) = @_; sysopen(my $handle, $path, O_RDONLY) or die "$path: $!\n"; sysseek($handle, $offset, 0); sysread($handle, my $text, $length) // die "$path: $!\n"; close($handle); return $text }
sub await { my ($seconds, $code) = @_; my $until = time() + $seconds; while (time() < $until) { return 1 if $code->(); sleep(0.2) } return 0 }
sub live { return scalar grep { $_->{state} eq 'live' } AmitaProxmox::Host::paths() }

my $scfg = $class->check_config('flash', { 'amita-api' => join(',', map { "http://$_" } split /,/, $apis), 'amita-pool' => 'main' }, 1, 0);
$class->on_add_hook('flash', $scfg, password => $token);
$class->activate_storage('flash', $scfg, {});
is($class->alloc_image('flash', $scfg, 100, 'raw', 'vm-100-disk-0', 16 * 1024), 'vm-100-disk-0', 'a disk');

# --- Connecting
my $began = time();
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
ok(1, 'is activated, in ' . took($began));
my $path = scalar $class->path($scfg, 'vm-100-disk-0', 'flash');
ok(-b $path, "$path is a disk");
my $uuid = AmitaProxmox::Host::uuid_of_link($path);
like(readlink($path), qr{\A/dev/disk/by-id/nvme-uuid\.}, 'by the name that stays');
my ($disk) = readlink("/dev/disk/by-id/nvme-uuid.$uuid") =~ m{/(nvme\d+n\d+)\z};
ok(defined $disk, 'which udev has made, by the rule of the package');
my $udev = `/usr/bin/udevadm info --query=property /dev/$disk`;
like($udev, qr/^UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG=1$/m, 'udev does not look what is on it');
like($udev, qr/^SYSTEMD_READY=0$/m, 'and starts nothing for it');
ok(await(60, sub { live() == 3 }), 'three paths are live');
$began = time();
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
ok(1, 'again, in ' . took($began));
is(AmitaProxmox::Host::bytes($disk), 16 << 20, 'its size');
is(AmitaProxmox::Host::slurp("/sys/block/$disk/queue/logical_block_size"), 512, 'and blocks');
put($path, 0, 'first' x 1000);
is(got($path, 0, 5), 'first', 'it takes what is written');

# --- In use
sysopen(my $held, $path, O_RDWR) or die;
my $child = fork() // die;
if (!$child) { sleep(600); POSIX::_exit(0) }
close($held);
fails(sub { local $AmitaProxmox::Host::SECONDS{busy} = 1; $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0') }, qr/in use, by process $child \(/, 'a process that has it open keeps it');
kill 'KILL', $child;
waitpid($child, 0);
is(system('/usr/sbin/mkfs.ext4', '-q', '-F', $path), 0, 'a file system');
mkdir '/run/mounted';
is(system('/usr/bin/mount', $path, '/run/mounted'), 0, 'is mounted');
fails(sub { local $AmitaProxmox::Host::SECONDS{busy} = 1; $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0') }, qr/in use, by a file system/, 'and keeps it');
ok(live() >= 1, 'with its paths');
open(my $file, '>', '/run/mounted/file') or die;
print {$file} "in a file\n";
close($file);
POSIX::sync() if POSIX->can('sync');
system('/usr/bin/sync');

# --- Growing while it is mounted
$began = time();
$class->volume_resize($scfg, 'flash', 'vm-100-disk-0', 32 << 20, 1);
is(AmitaProxmox::Host::bytes($disk), 32 << 20, 'the kernel has its new size, after ' . took($began));

# --- A snapshot beside it, to be read only, as a backup of a container has it
$class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', 'vzdump');
open($file, '>', '/run/mounted/later') or die;
close($file);
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', 'vzdump', {});
my $snapshot = scalar $class->path($scfg, 'vm-100-disk-0', 'flash', 'vzdump');
ok(-b $snapshot, 'a snapshot is a disk of its own');
mkdir '/run/snapshot';
is(system('/usr/bin/mount', '-o', 'ro,noload', $snapshot, '/run/snapshot'), 0, 'is mounted');
is(AmitaProxmox::Host::slurp('/run/snapshot/file'), 'in a file', 'has what was there');
ok(!-e '/run/snapshot/later', 'and not what came later');
fails(sub { local $AmitaProxmox::Host::SECONDS{busy} = 1; $class->volume_snapshot_delete($scfg, 'flash', 'vm-100-disk-0', 'vzdump') }, qr/in use, by a file system/, 'mounted, it is not deleted');
system('/usr/bin/umount', '/run/snapshot');
fails(sub { put($snapshot, 0, 'x' x 512) }, qr/Read-only|not permitted|denied/i, 'nobody writes to it');
$class->volume_snapshot_delete($scfg, 'flash', 'vm-100-disk-0', 'vzdump');
ok(!-e $snapshot, 'unmounted, it goes, and its disk with it');

# --- Going back, without a unmount in between for the plugin to find
$class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', 'before');
system('/usr/bin/umount', '/run/mounted');
put($path, 8 << 20, 'changed' x 100);
$class->volume_snapshot_rollback($scfg, 'flash', 'vm-100-disk-0', 'before');
ok(!-e $path, 'a rollback ends the disk');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is(got($path, 8 << 20, 4), "\0\0\0\0", 'and it is what it was');
is(AmitaProxmox::Host::bytes(AmitaProxmox::Host::disk((AmitaProxmox::Host::paths())[0]->{nqn})), 32 << 20, 'of its size');

# --- Streams, with dd and a disk
put($path, 24 << 20, 'near the end');
open(my $out, '>:raw', "$pve/stream") or die;
$class->volume_export($scfg, 'flash', $out, 'vm-100-disk-0', 'raw+size');
close($out);
is(-s "$pve/stream", 8 + (32 << 20), 'a stream');
open(my $in, '<:raw', "$pve/stream") or die;
is($class->volume_import($scfg, 'flash', $in, 'vm-101-disk-0', 'raw+size', undef, undef, 0, 0), 'flash:vm-101-disk-0', 'is another disk');
close($in);
unlink "$pve/stream";
$class->activate_volume('flash', $scfg, 'vm-101-disk-0', undef, {});
my $copy = scalar $class->path($scfg, 'vm-101-disk-0', 'flash');
is(got($copy, 24 << 20, 12), 'near the end', 'with the same bytes');

# --- A template and a clone
$class->deactivate_volume('flash', $scfg, 'vm-101-disk-0', undef, {});
is($class->create_base('flash', $scfg, 'vm-101-disk-0'), 'base-101-disk-0', 'a template');
my $clone = $class->clone_image($scfg, 'flash', 'base-101-disk-0', 102);
$class->activate_volume('flash', $scfg, $clone, undef, {});
my $clone_path = scalar $class->path($scfg, $clone, 'flash');
is(got($clone_path, 24 << 20, 12), 'near the end', 'a linked clone has what the template has');
put($clone_path, 24 << 20, 'of its own  ');
$class->activate_volume('flash', $scfg, 'base-101-disk-0', undef, {});
is(got(scalar $class->path($scfg, 'base-101-disk-0', 'flash'), 24 << 20, 12), 'near the end', 'which does not see what the clone writes');

# --- It was lost: another qualified name, while this machine has the old paths
my ($nqn) = map { $_->{nqn} } grep { $_->{nqn} =~ m/:pve-/ } AmitaProxmox::Host::paths();
my $direct = AmitaProxmox::Api->new(storeid => 'tests', api => $scfg->{'amita-api'}, token => $token, seconds => 1000);
my $subsystem = $direct->find('x', '/volumes/flash-vm-100-disk-0/attachment')->{thing}{subsystem};
my $found = $direct->find('x', "/subsystems/$subsystem");
my $old = $found->{thing}{nqn};
$direct->must('x', DELETE => "/subsystems/$subsystem?force=true", if_match => $found->{etag});
ok(await(60, sub { !grep { $_->{nqn} eq $old && $_->{state} eq 'live' } AmitaProxmox::Host::paths() }), 'who is taken off the list has no live path');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
isnt($direct->find('x', "/subsystems/$subsystem")->{thing}{nqn}, $old, 'let in again, it is by another name');
is_deeply([grep { $_->{nqn} eq $old } AmitaProxmox::Host::paths()], [], 'and the paths of before are ended');
is(got($path, 24 << 20, 12), 'near the end', 'the disk is there');

# --- A gateway is killed while somebody writes: the host of this guest is asked by a file
if ($share) {
    open(my $ask, '>', "$share/kill-a-node") or die "$share: $!";
    close($ask);
    ok(await(60, sub { -e "$share/killed" }), 'a node is killed');
    $began = time();
    is(put($path, 1 << 20, 'z' x (1 << 20)), 1 << 20, 'what is written is taken');
    ok(1, 'after ' . took($began));
    is(got($path, 1 << 20, 1), 'z', 'and is there');
    $began = time();
    is($class->alloc_image('flash', $scfg, 103, 'raw', undef, 1024), 'vm-103-disk-0', 'a disk is made meanwhile');
    $class->activate_volume('flash', $scfg, 'vm-103-disk-0', undef, {});
    ok(-b scalar $class->path($scfg, 'vm-103-disk-0', 'flash'), 'and activated, in ' . took($began));
    $class->free_image('flash', $scfg, 'vm-103-disk-0');
}

# --- The end
for my $name ($clone, 'base-101-disk-0', 'vm-100-disk-0') {
    $class->deactivate_volume('flash', $scfg, $name, undef, {}) for 1, 2;
    $class->free_image('flash', $scfg, $name) for 1, 2;
}
ok(await(60, sub { !AmitaProxmox::Host::paths() }), 'no path is left');
is_deeply([AmitaProxmox::Host::listed('/dev/amita/flash')], [], 'nor a link');
is_deeply([map { $_->{name} } @{ $direct->all('x', '/subsystems') }], [], 'nor a subsystem');
is_deeply([grep { m/I\/O error|Buffer I\/O|EXT4-fs error/ } split /\n/, `/usr/bin/dmesg`], [], 'and the kernel has told nobody of an error');
done_testing();
