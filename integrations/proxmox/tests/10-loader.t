#!/usr/bin/perl -T
# Proxmox loads the plugin, by each version of its storage API that 8 and 9 have; and all methods are there, with the parameters that the API has.
use strict;
use warnings;

use Test::More;

use Amita::Here;

# Each version in a process of its own: constants are the compiler's.
my ($perl) = $^X =~ m/\A(.*)\z/;
my ($folder) = Amita::Here::folder() =~ m/\A(.*)\z/;
my $loaded = sub {
    my ($version, $age) = @_;
    local $ENV{AMITA_TEST_APIVER} = $version;
    local $ENV{AMITA_TEST_APIAGE} = $age;
    open(my $handle, '-|', 'sh', '-c', "exec \"\$0\" -T -I\"\$1/tests/lib\" -MAmita::Here -MPVE::Storage -e 'print \"type: \", join(\",\", \@{ PVE::Storage::Plugin->lookup_types() }), \"\\n\"' 2>&1", $perl, $folder)
        or die "no perl: $!";
    local $/;
    my $said = <$handle>;
    close($handle);
    return $said;
};
for my $case (['8.0 to 8.3', 10, 1], ['8.4', 11, 2], ['9.0', 12, 3], ['9.0.15', 13, 4], ['9.1 with libpve-storage-perl 9.1.3', 14, 5], ['9.2.3', 15, 6]) {
    my ($name, $version, $age) = @$case;
    is($loaded->($version, $age), "type: amita,pbs\n", "Proxmox VE $name (API $version, age $age) loads it, and says nothing");
}
like($loaded->(16, 7), qr/older storage API.*type: amita,pbs/s, 'a version that only adds loads it, with its warning');
like($loaded->(20, 2), qr/API version too old.*type: pbs$/s, 'a version that breaks what was before does not');
like($loaded->(9, 0), qr/newer than current.*type: pbs$/s, 'Proxmox VE 7 does not');

require PVE::Storage;
my $class = 'PVE::Storage::Custom::AmitaPlugin';
isa_ok($class, 'PVE::Storage::Plugin');
is($class->type(), 'amita', 'its type');
is_deeply(PVE::Storage::Plugin::sensitive_properties('amita'), ['password'], 'the token is kept out of storage.cfg');
my %properties = %{ $class->properties() };
is_deeply([grep { !m/\Aamita-/ } sort keys %properties], [], 'properties are its own by their names');
is_deeply([sort grep { $class->plugindata()->{content}[0]{$_} } qw(images rootdir iso vztmpl backup)], [qw(images rootdir)], 'disks of virtual machines and of containers');
is_deeply($class->get_formats({ type => 'amita' }, 'a'), { default => 'raw', valid => { raw => 1 } }, 'raw alone');

# Parameters of methods, behind the class, as the storage API has them at version 15: those of its change log and of the base class.
my %methods = (
    api => [],
    type => [],
    plugindata => [],
    properties => [],
    options => [],
    check_config => [qw(sectionId config create skipSchemaCheck)],
    on_add_hook => [qw(storeid scfg %sensitive)],
    on_update_hook => [qw(storeid scfg %sensitive)],
    on_update_hook_full => [qw(storeid scfg update delete sensitive)],
    on_delete_hook => [qw(storeid scfg)],
    parse_volname => [qw(volname)],
    filesystem_path => [qw(scfg volname snapname)],
    path => [qw(scfg volname storeid snapname)],
    qemu_blockdev_options => [qw(scfg storeid volname machine_version options)],
    volume_qemu_snapshot_method => [qw(storeid scfg volname)],
    create_base => [qw(storeid scfg volname)],
    clone_image => [qw(scfg storeid volname vmid snap)],
    alloc_image => [qw(storeid scfg vmid fmt name size)],
    free_image => [qw(storeid scfg volname isBase format)],
    list_images => [qw(storeid scfg vmid vollist cache)],
    status => [qw(storeid scfg cache)],
    get_identity => [qw(scfg storeid)],
    check_connection => [qw(storeid scfg)],
    activate_storage => [qw(storeid scfg cache)],
    deactivate_storage => [qw(storeid scfg cache)],
    activate_volume => [qw(storeid scfg volname snapname cache hints)],
    deactivate_volume => [qw(storeid scfg volname snapname cache)],
    map_volume => [qw(storeid scfg volname snapname hints)],
    unmap_volume => [qw(storeid scfg volname snapname)],
    volume_size_info => [qw(scfg storeid volname timeout)],
    volume_resize => [qw(scfg storeid volname size running snapname)],
    volume_snapshot => [qw(scfg storeid volname snap)],
    volume_snapshot_info => [qw(scfg storeid volname)],
    volume_snapshot_rollback => [qw(scfg storeid volname snap)],
    volume_rollback_is_possible => [qw(scfg storeid volname snap blockers)],
    volume_snapshot_delete => [qw(scfg storeid volname snap running)],
    volume_snapshot_needs_fsfreeze => [],
    volume_has_feature => [qw(scfg feature storeid volname snapname running opts)],
    get_volume_attribute => [qw(scfg storeid volname attribute)],
    update_volume_attribute => [qw(scfg storeid volname attribute value)],
    rename_volume => [qw(scfg storeid source_volname target_vmid target_volname)],
    volume_export => [qw(scfg storeid fh volname format snapshot base_snapshot with_snapshots)],
    volume_export_formats => [qw(scfg storeid volname snapshot base_snapshot with_snapshots)],
    volume_import => [qw(scfg storeid fh volname format snapshot base_snapshot with_snapshots allow_rename)],
    volume_import_formats => [qw(scfg storeid volname snapshot base_snapshot with_snapshots)],
);
open(my $source, '<', Amita::Here::file()) or die;
my $text = do { local $/; <$source> };
$text =~ s/\A.*?^package PVE::Storage::Custom::AmitaPlugin;//ms;
my %own;
while ($text =~ m/^sub (\w+) \{(.*?)(?:^\}|\}$)/gms) {
    my ($name, $body) = ($1, $2);
    my ($list) = $body =~ m/my \(\$class,? ?([^)]*)\) = \@_;/;
    $own{$name} = [map { s/\A\$//r } split /, /, $list // ''];
}
for my $name (sort keys %methods) {
    is_deeply($own{$name}, $methods{$name}, "$name(" . join(', ', @{ $methods{$name} }) . ')');
}
is_deeply([grep { !$methods{$_} } sort keys %own], [], 'and nothing else is a method, so that no method of a later version is overridden by chance');

# storage.cfg, read and written.
my $config = "amita: flash\n\tamita-api n1:7710,n2:7710\n\tamita-pool main\n\tcontent images\n\tnodes pve1,pve2\n\n";
my $read = PVE::Storage::Plugin->parse_config('storage.cfg', $config);
my $flash = $read->{ids}{flash};
is($flash->{shared}, 1, 'a storage is shared, whether it is said or not');
is($flash->{'amita-prefix'}, 'flash', 'the prefix is its ID where nothing is said');
is_deeply($flash->{content}, { images => 1 }, 'content');
like(PVE::Storage::Plugin->write_config('storage.cfg', $read), qr/\Aamita: flash\n.*\tamita-prefix flash\n.*\tnodes pve1,pve2\n/s, 'and is written');
my $default = PVE::Storage::Plugin->parse_config('storage.cfg', "amita: a1\n\tamita-api n1:7710\n\tamita-pool main\n")->{ids}{a1};
is_deeply($default->{content}, { images => 1, rootdir => 1 }, 'disks of both kinds where nothing is said');

# A change does not touch what is not changed.
my $change = $class->check_config('flash', { 'amita-api' => 'n3:7710' }, 0, 1);
is_deeply($change, { type => 'amita', 'amita-api' => 'n3:7710' }, 'a change has what is changed alone');
for my $case (
    [{ 'amita-pool' => 'other' }, qr/fixed parameter 'amita-pool'/],
    [{ 'amita-prefix' => 'other' }, qr/fixed parameter 'amita-prefix'/],
    [{ 'amita-api' => '' }, qr/amita-api names no node/],
    [{ 'amita-api' => 'n1' }, qr/'n1' is no address/],
    [{ 'amita-api' => 'n1:70000' }, qr/a port is 1 to 65535/],
    [{ 'amita-api' => 'http://n1:7710' }, qr/token would go over the network in the clear/],
    [{ 'amita-api' => 'https://n1:7710/api' }, qr/is no address/],
) {
    my ($config, $why) = @$case;
    eval { $class->check_config('flash', $config, 0, 1) };
    like($@, $why, join(' ', %$config) . ' is refused');
}
ok($class->check_config('flash', { 'amita-api' => $_ }, 0, 1), "$_ is taken") for 'n1:7710', 'https://n1:7710/', '[2001:db8::1]:7710', 'http://127.0.0.1:7710', 'http://[::1]:7710', 'n1:7710, n2:7710';
eval { $class->check_config('x' x 70, { 'amita-api' => 'n1:7710', 'amita-pool' => 'main' }, 1, 1) };
like($@, qr/amita-prefix .* say --amita-prefix/, 'an ID that cannot be a prefix wants one');
done_testing();
