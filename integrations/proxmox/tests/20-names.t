#!/usr/bin/perl -T
# Names of disks, paths, features: what is told without asking anybody.
use strict;
use warnings;

use Test::More;

use Amita::Here;
use PVE::Storage;

my $class = 'PVE::Storage::Custom::AmitaPlugin';
my $scfg = { type => 'amita', 'amita-prefix' => 'flash', 'amita-pool' => 'main' };

is_deeply([$class->parse_volname('vm-100-disk-0')], ['images', 'vm-100-disk-0', '100', undef, undef, undef, 'raw'], 'a disk');
is_deeply([$class->parse_volname('base-100-disk-0')], ['images', 'base-100-disk-0', '100', undef, undef, 1, 'raw'], 'a template');
is_deeply([$class->parse_volname('base-100-disk-0/vm-101-disk-1')], ['images', 'vm-101-disk-1', '101', 'base-100-disk-0', '100', undef, 'raw'], 'a linked clone');
is_deeply([$class->parse_volname('base-100-disk-0/base-101-disk-1')], ['images', 'base-101-disk-1', '101', 'base-100-disk-0', '100', 1, 'raw'], 'a template of a linked clone');
is_deeply([($class->parse_volname("vm-100-$_"))[1, 2]], ["vm-100-$_", 100], "vm-100-$_") for qw(cloudinit state-before_upgrade efidisk disk-12);
for my $bad ('', 'disk', 'vm--disk', 'vm-100-', 'vm-a-disk', "vm-100-disk-0\n", 'vm-100-a/b', 'vm-100-disk-0/vm-101-disk-0', '../vm-100-disk-0', 'vm-100-a b', 'vm-100-disk-0;x', 'subvol-100-disk-0', 'iso/x.iso') {
    eval { $class->parse_volname($bad) };
    (my $shown = $bad) =~ s/\n/\\n/g;
    like($@, qr/unable to parse/, "'$shown' is none");
}

is_deeply([$class->path($scfg, 'vm-100-disk-0', 'flash')], ['/dev/amita/flash/vm-100-disk-0', '100', 'images'], 'a path');
is(scalar $class->path($scfg, 'vm-100-disk-0', 'flash'), '/dev/amita/flash/vm-100-disk-0', 'a path where one value is asked for');
is(scalar $class->path($scfg, 'base-100-disk-0/vm-101-disk-0', 'flash'), '/dev/amita/flash/vm-101-disk-0', 'a path of a linked clone');
is(scalar $class->path($scfg, 'vm-100-disk-0', 'flash', 'vzdump'), '/dev/amita/flash/vm-100-disk-0@vzdump', 'a path of a snapshot is another one');
is(scalar $class->filesystem_path($scfg, 'vm-100-disk-0', 'a_b-1'), '/dev/amita/flash/vm-100-disk-0@a_b-1', 'the same by filesystem_path');
for my $bad ('../x', 'a/b', 'a.b', '', '-a', "a\n") {
    eval { $class->path($scfg, 'vm-100-disk-0', 'flash', $bad) };
    like($@, qr/cannot be the name of a snapshot/, "no snapshot is called '" . ($bad =~ s/\n/\\n/r) . q{'});
}
is_deeply($class->qemu_blockdev_options($scfg, 'flash', 'vm-100-disk-0', '10.0+pve1', {}), { driver => 'host_device', filename => '/dev/amita/flash/vm-100-disk-0' }, 'a device of QEMU');
is($class->qemu_blockdev_options($scfg, 'flash', 'vm-100-disk-0', '10.0+pve1', { 'snapshot-name' => 'a' })->{filename}, '/dev/amita/flash/vm-100-disk-0@a', 'and of a snapshot');
is($class->volume_qemu_snapshot_method('flash', $scfg, 'vm-100-disk-0'), 'storage', 'snapshots are the storage\'s');
ok($class->volume_snapshot_needs_fsfreeze(), 'file systems of containers are frozen');

my %features = (
    snapshot => [1, 0, 1], clone => [0, 1, 1], template => [1, 0, 0], copy => [1, 1, 1], sparseinit => [1, 1, 0], rename => [1, 0, 0], replicate => [0, 0, 0],
);
for my $feature (sort keys %features) {
    my @said = map { $class->volume_has_feature($scfg, $feature, 'flash', @$_) ? 1 : 0 } ['vm-100-disk-0'], ['base-100-disk-0'], ['vm-100-disk-0', 'a'];
    is_deeply(\@said, $features{$feature}, "$feature: of a disk, a template, a snapshot");
}
ok(!$class->volume_has_feature($scfg, 'clone', 'flash', 'base-100-disk-0', undef, 0, { valid_target_formats => ['qcow2'] }), 'no clone where raw is not wanted');
is_deeply([$class->volume_export_formats($scfg, 'flash', 'vm-100-disk-0')], ['raw+size'], 'streams are raw');
is_deeply([$class->volume_export_formats($scfg, 'flash', 'vm-100-disk-0', 'a')], ['raw+size'], 'also of a snapshot');
is_deeply([$class->volume_export_formats($scfg, 'flash', 'vm-100-disk-0', undef, undef, 1)], [], 'and none with snapshots');
is_deeply([$class->volume_import_formats($scfg, 'flash', 'vm-100-disk-0')], ['raw+size'], 'the same on the way in');
is_deeply([$class->volume_import_formats($scfg, 'flash', 'vm-100-disk-0', 'a', 'b', 1)], [], 'and none with snapshots');
done_testing();
