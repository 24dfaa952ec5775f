#!/usr/bin/perl -T
# What Proxmox asks for, at real nodes of Amita: scripts/test-proxmox starts three, and says where they are. Each call is given twice. The nodes of Proxmox are made up
# (lib/Amita/Machine.pm): who is let in, and by what, real nodes say; that a kernel connects is not tried here.
use strict;
use warnings;

use File::Temp ();
use JSON ();
use Test::More;
use Time::HiRes qw(sleep time);

use Amita::Here;
use PVE::Storage;
use Amita::Machine;
use PVE::Cluster;

plan skip_all => 'no nodes: scripts/test-proxmox starts them' if !$ENV{AMITA_TEST_API};
my ($apis) = $ENV{AMITA_TEST_API} =~ m/\A(.*)\z/;
my ($amita) = $ENV{AMITA_TEST_BINARY} =~ m/\A(.*)\z/;
my ($tokens) = $ENV{AMITA_TEST_TOKENS} =~ m/\A(.*)\z/;
$ENV{AMITA_METADATA} = ($ENV{AMITA_METADATA} =~ m/\A(.*)\z/)[0];
my @nodes = map { "http://$_" } split /,/, $apis;
sub token { my ($name) = @_; open(my $handle, '<', "$tokens/$name") or die "$tokens/$name: $!"; my ($text) = <$handle> =~ m/\A(\S+)/; return $text }

my $class = 'PVE::Storage::Custom::AmitaPlugin';
my ($pve) = File::Temp::tempdir(CLEANUP => 1) =~ m/\A(.*)\z/;
my $direct = AmitaProxmox::Api->new(storeid => 'tests', api => join(',', @nodes), token => token('operator'), seconds => 100000);
my $knows = sub {
    my ($nqn, $host) = @_;
    my ($there) = grep { $_->{nqn} eq $nqn } @{ $direct->all('subsystems', '/subsystems') };
    return if !$there || !grep { $_ eq $host } @{ $there->{hosts} };
    my ($namespace) = @{ $direct->all('namespaces', "/subsystems/$there->{name}/namespaces") };
    return $namespace && [$namespace->{uuid}, $namespace->{size_bytes}];
};
my %machine = map { $_ => Amita::Machine->new($_, $pve, $knows) } qw(pve1 pve2 pve3);
%PVE::Cluster::MEMBERS = map { $_ => { online => 1 } } keys %machine;
sub on { my ($name) = @_; return $machine{$name}->enter() }
my @warned;
local $SIG{__WARN__} = sub { push @warned, $_[0] };
sub fails { my ($code, $why, $what) = @_; my $said = eval { $code->(); 1 }; if ($said) { fail("$what: it was done") } else { like($@, $why, $what) } return }
sub number { my ($name) = @_; my $found = $direct->find($name, "/volumes/flash-$name"); return $found && $found->{thing}{id} }
sub hosts { my ($name) = @_; my $sum = substr(Digest::SHA::sha256_hex('flash'), 0, 8); my $found = $direct->find('x', "/subsystems/pve-$sum-" . number($name)); return $found ? [sort @{ $found->{thing}{hosts} }] : undef }
sub nqn_of { my ($name) = @_; my $sum = substr(Digest::SHA::sha256_hex('flash'), 0, 8); return $direct->find('x', "/subsystems/pve-$sum-" . number($name))->{thing}{nqn} }
sub subsystems { return scalar @{ $direct->all('subsystems', '/subsystems') } }
sub label { return { 'proxmox.amita.io/storage' => 'flash' } }

on('pve1');
mkdir "$pve/priv/storage";
$AmitaProxmox::Host::SECONDS{busy} = 0.3;

# --- The storage is added
my %config = ('amita-api' => join(',', @nodes), 'amita-pool' => 'main');
sub add {
    my ($storeid, $token, %other) = @_;
    my $scfg = $class->check_config($storeid, { %config, %other }, 1, 0);
    $class->on_add_hook($storeid, $scfg, defined $token ? (password => $token) : ());
    return $scfg;
}
fails(sub { add('flash') }, qr/no token: give one by --password/, 'a storage without a token is not added');
fails(sub { add('flash', 'amita_0123456789abcdef') }, qr/who asks: .*\[unauthenticated, .*amita token create/, 'nor with one that is none');
fails(sub { add('flash', token('viewer')) }, qr/has the role viewer, which may not volume\.create, volume\.delete/, 'nor with a viewer\'s');
fails(sub { add('flash', token('operator'), 'amita-pool' => 'other') }, qr/pool other: .*\[not-found/, 'nor with a pool that is not there');
ok(!-e "$pve/priv/storage/flash.pw", 'and no token is left behind');
my $scfg = add('flash', token('operator'));
is($scfg->{shared}, 1, 'a storage is shared');
is($scfg->{'amita-prefix'}, 'flash', 'and has its prefix');
is((stat "$pve/priv/storage/flash.pw")[2] & 0777, 0600, 'the token is root\'s alone');
unlike(PVE::Storage::Plugin->write_config('storage.cfg', { ids => { flash => $scfg } }), qr/\Q${\token('operator')}\E/, 'and not in storage.cfg');
is_deeply(\@warned, [], 'without a warning');
{
    local $PVE::Storage::CONFIG = { ids => { flash => { %$scfg, type => 'amita' }, local => { type => 'dir', 'amita-prefix' => 'more' } } };
    fails(sub { add('more', token('operator'), 'amita-prefix' => 'flash') }, qr/storage 'flash' has the prefix 'flash' already: .*--amita-prefix/, 'two storages of one prefix are not possible');
    ok(!-e "$pve/priv/storage/more.pw", 'and no token is left of it');
    is(add('more', token('operator'))->{'amita-prefix'}, 'more', 'two of two are');
}
$class->activate_storage('flash', $scfg, {}) for 1, 2;
pass('it is activated, twice');
# Nodes tell of their stores every few seconds.
my ($total, $free, $used, $active);
for (1 .. 60) {
    ($total, $free, $used, $active) = $class->status('flash', $scfg, {});
    last if $total;
    sleep(0.5);
}
ok($active && $total > 0 && $free <= $total && $used == $total - $free, "its status: $total bytes, $free free");
like($class->get_identity($scfg, 'flash'), qr/\Aamita:[0-9a-f-]{36}:main:flash\z/, 'its identity');
is($class->get_identity($scfg, 'flash'), $class->get_identity($scfg, 'flash'), 'which stays');

# --- Disks
is($class->alloc_image('flash', $scfg, 100, 'raw', undef, 16 * 1024), 'vm-100-disk-0', 'a disk');
is($class->alloc_image('flash', $scfg, 100, 'raw', undef, 16 * 1024), 'vm-100-disk-1', 'and a second one');
is($class->alloc_image('flash', $scfg, 100, 'raw', 'vm-100-cloudinit', 4 * 1024), 'vm-100-cloudinit', 'one of a given name');
is($class->alloc_image('flash', $scfg, 101, 'raw', undef, 528), 'vm-101-disk-0', 'an EFI disk of 528 KiB');
is(scalar $class->volume_size_info($scfg, 'flash', 'vm-101-disk-0'), 540672, 'has just that size');
fails(sub { $class->alloc_image('flash', $scfg, 100, 'raw', 'vm-100-cloudinit', 4096) }, qr/vm-100-cloudinit cannot be made: .*exists.*\[exists/, 'a name that is taken');
is_deeply([map { $_->{volid} } @{ $class->list_images('flash', $scfg) }], [map { "flash:$_" } qw(vm-100-cloudinit vm-100-disk-0 vm-100-disk-1 vm-101-disk-0)], 'a list');
is_deeply([map { $_->{volid} } @{ $class->list_images('flash', $scfg, 101) }], ['flash:vm-101-disk-0'], 'of one guest');
is_deeply([map { $_->{volid} } @{ $class->list_images('flash', $scfg, undef, ['flash:vm-100-disk-1', 'flash:vm-9-disk-0']) }], ['flash:vm-100-disk-1'], 'of named ones');
my ($one) = grep { $_->{volid} eq 'flash:vm-100-disk-0' } @{ $class->list_images('flash', $scfg) };
is_deeply({ %$one, ctime => 0 }, { volid => 'flash:vm-100-disk-0', format => 'raw', size => 16 << 20, vmid => '100', ctime => 0 }, 'as Proxmox knows it');
cmp_ok(abs($one->{ctime} - time()), '<', 120, 'with when it was made');
is_deeply([($class->volume_size_info($scfg, 'flash', 'vm-100-disk-0'))[0, 1]], [16 << 20, 'raw'], 'its size and format');

# What is not ours is not seen, and not touched.
$direct->must('by hand', POST => '/volumes', body => { name => 'flash-vm-100-disk-2', pool => 'main', size_bytes => 1 << 20 });
$direct->must('by hand', POST => '/volumes', body => { name => 'flash-something', pool => 'main', size_bytes => 1 << 20, labels => label() });
is(scalar(@{ $class->list_images('flash', $scfg) }), 4, 'a volume by hand, or of a name that is none of a disk, is not listed');
fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-2') }, qr/is not this storage's/, 'nor removed');
fails(sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-2') }, qr/is not this storage's/, 'nor activated');
fails(sub { $class->alloc_image('flash', $scfg, 100, 'raw', undef, 1024) }, qr/no free name.*are not this storage's/, 'a name that it takes is told of');
$direct->must('by hand', DELETE => '/volumes/flash-vm-100-disk-2?now=true', if_match => '*');
my $other = add('other', token('operator'));
is_deeply($class->list_images('other', $other), [], 'another storage in the same pool has its own');
fails(sub { $class->free_image('other', { %$other, 'amita-prefix' => 'flash-x' }, 'vm-100-disk-0') ; die "nothing\n" }, qr/nothing/, 'and one of a similar prefix finds nothing');
@warned = ();
add('flash2', token('operator'), 'amita-prefix' => 'flash');
like("@warned", qr/volumes with the prefix 'flash' are there already/, 'who adds a storage with a prefix that is used is warned');
$class->on_delete_hook('flash2', {}) for 1, 2;
ok(!-e "$pve/priv/storage/flash2.pw", 'a storage that is removed takes its token along, twice');

# --- Size
for (1, 2) { ok($class->volume_resize($scfg, 'flash', 'vm-100-disk-0', 32 << 20, 0), 'a disk grows, and again') }
is(scalar $class->volume_size_info($scfg, 'flash', 'vm-100-disk-0'), 32 << 20, 'to its new size');
fails(sub { $class->volume_resize($scfg, 'flash', 'vm-100-disk-0', 16 << 20, 0) }, qr/does not become smaller/, 'not back');
fails(sub { $class->volume_resize($scfg, 'flash', 'vm-9-disk-0', 16 << 20, 0) }, qr/there is no disk vm-9-disk-0/, 'one that is not there');

# --- Activation
my $link = "$AmitaProxmox::Host::AT{dev}/amita/flash/vm-100-disk-0";
is(scalar $class->path($scfg, 'vm-100-disk-0', 'flash'), $link, 'a path is known before');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
my @lines = $machine{pve1}->log();
is(scalar(@lines), 3, 'a line for each of three gateways');
like($lines[0], qr/\Aconnect nqn=nqn\.2026-11\.io\.amita:[0-9a-f]{32}:pve-[0-9a-f]{8}-\d+,transport=tcp,traddr=127\.0\.1\.1,trsvcid=\d+,hostnqn=nqn\.2014-08/, 'as the kernel wants it');
ok(-e $link, 'the disk is there');
is_deeply(hosts('vm-100-disk-0'), [$machine{pve1}->nqn()], 'this node has it');
my $nqn = nqn_of('vm-100-disk-0');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is_deeply([$machine{pve1}->log()], [], 'again: nothing is asked of the kernel');
is(nqn_of('vm-100-disk-0'), $nqn, 'and the attachment is the same');
is($class->map_volume('flash', $scfg, 'vm-100-disk-0'), $link, 'mapped, it has the same path');
ok($class->unmap_volume('flash', $scfg, 'vm-100-disk-0'), 'and unmapped it stays');
my $block = $direct->all('x', '/subsystems/' . ($nqn =~ m/:(pve-\S+)\z/)[0] . '/namespaces')->[0];
is($block->{block_bytes}, 512, 'with blocks of 512 bytes');

# A disk that is used grows, and the kernel has its size before QEMU is told.
$machine{pve1}->log();
ok($class->volume_resize($scfg, 'flash', 'vm-100-disk-0', 48 << 20, 1), 'a disk that is used grows');
is(AmitaProxmox::Host::bytes(AmitaProxmox::Host::disk($nqn)), 48 << 20, 'and this machine knows it');

# In use: nothing is taken away under it.
my $disk = AmitaProxmox::Host::disk($nqn);
$machine{pve1}->open_by(4711, 'kvm', $disk);
for my $case (
    ['deactivated', sub { $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0') }],
    ['removed', sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }],
    ['renamed', sub { $class->rename_volume($scfg, 'flash', 'vm-100-disk-0', 102) }],
    ['made a template', sub { $class->create_base('flash', $scfg, 'vm-100-disk-0') }],
) {
    fails($case->[1], qr/in use, by process 4711 \(kvm\)/, "a disk that is used is not $case->[0]");
}
ok(-e $link, 'it is there still');
is_deeply(hosts('vm-100-disk-0'), [$machine{pve1}->nqn()], 'and this node has it');

# --- Live migration: two nodes hold it
$PVE::Cluster::GUESTS{100} = 'pve1';
on('pve2');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) for 1, 2;
is_deeply(hosts('vm-100-disk-0'), [sort map { $machine{$_}->nqn() } qw(pve1 pve2)], 'the target of a migration has it as well');
is(nqn_of('vm-100-disk-0'), $nqn, 'by the same attachment');
ok(-e "$machine{pve2}{root}/dev/amita/flash/vm-100-disk-0", 'as a disk');
is(AmitaProxmox::Host::uuid_of_link("$machine{pve2}{root}/dev/amita/flash/vm-100-disk-0"), AmitaProxmox::Host::uuid_of_link($link), 'of one UUID');
fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/guest 100 is at node pve1, which may be using it/, 'at the other node it is not removed under the guest');
is(scalar(@{ hosts('vm-100-disk-0') }), 2, 'both have it still');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
$PVE::Cluster::GUESTS{100} = 'pve2';
on('pve1');
$machine{pve1}->close_by(4711);
$class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) for 1, 2;
is_deeply(hosts('vm-100-disk-0'), [$machine{pve2}->nqn()], 'afterwards the target alone');
ok(!-l $link, 'and no link is left at the source');
is_deeply([AmitaProxmox::Host::paths()], [], 'nor a path');

# --- A node is lost, and the guest is started elsewhere
$PVE::Cluster::MEMBERS{pve2}{online} = 0;
$PVE::Cluster::QUORATE = 0;
on('pve1');
fails(sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) }, qr/is let in at pve2, and this node is not with most of its Proxmox cluster/, 'who has no quorum activates nothing beside another');
fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/another node has it, and this node is not with most/, 'and takes nothing away');
is_deeply(hosts('vm-100-disk-0'), [$machine{pve2}->nqn()], 'the other has it still');
is($class->alloc_image('flash', $scfg, 199, 'raw', undef, 1024), 'vm-199-disk-0', 'what nobody has');
$class->activate_volume('flash', $scfg, 'vm-199-disk-0', undef, {}) for 1, 2;
$class->free_image('flash', $scfg, 'vm-199-disk-0');
$PVE::Cluster::QUORATE = 1;
$PVE::Cluster::GUESTS{100} = 'pve1';
@warned = ();
my $began = time();
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
my $took = time() - $began;
is_deeply(hosts('vm-100-disk-0'), [$machine{pve1}->nqn()], 'a lost node is taken off');
isnt(nqn_of('vm-100-disk-0'), $nqn, 'and the name by which it was let in is used no more: what it had queued is never sent');
like("@warned", qr/is taken from node pve2, which is lost/, 'which is said');
cmp_ok($took, '<', 15, sprintf('within %.1f s', $took));
# It is back, and was not started anew.
$PVE::Cluster::MEMBERS{pve2}{online} = 1;
$machine{pve2}->log();
on('pve2');
$class->activate_storage('flash', $scfg, {});
is_deeply([AmitaProxmox::Host::paths()], [], 'what a lost node has still, and nobody uses, it ends by itself');
on('pve2');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is(scalar(@{ hosts('vm-100-disk-0') }), 2, 'it may have it again, beside the other: the guest may be migrated to it');
on('pve1');
@warned = ();
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is_deeply(hosts('vm-100-disk-0'), [$machine{pve1}->nqn()], 'where the guest is started that is its node\'s, another one that has its disk from before has it no more');
like("@warned", qr/is taken from node pve2, for guest 100 is this node's/, 'which is said');
on('pve2');
{
    local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
    $class->activate_storage('flash', $scfg, {});
}
is_deeply([AmitaProxmox::Host::paths()], [], 'and that one ends its paths, for nobody uses them');
delete $PVE::Cluster::GUESTS{100};
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is(scalar(@{ hosts('vm-100-disk-0') }), 2, 'of a guest that is nowhere yet nobody is taken off');
on('pve1');
fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/node pve2 has it, and there is no guest 100: give the command there/, 'nor by a deletion, for another guest may have the disk');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});

# What a process knows of guests and nodes is of when it looked last: it looks again before it takes anything from another node.
{
    local $PVE::Cluster::GUESTS{100} = 'pve1';
    PVE::Cluster::cfs_update();
    # Migrated since, and pve2 has started it.
    local $PVE::Cluster::GUESTS{100} = 'pve2';
    fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/guest 100 is at node pve2, which may be using it/, 'a guest that was migrated since this process looked keeps its disk');
    @warned = ();
    $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
    is(scalar(@{ hosts('vm-100-disk-0') }), 2, 'also where this node activates it');
    local $PVE::Cluster::GUESTS{100} = 'pve1';
    local $PVE::Cluster::ANSWERS = 0;
    PVE::Cluster::cfs_update(0);
    fails($_, qr/which nodes and guests there are cannot be learnt \(`systemctl status pve-cluster`\): ipcc_send_rec/, 'where pmxcfs does not answer nobody is taken for lost')
        for sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) }, sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') };
    is(scalar(@{ hosts('vm-100-disk-0') }), 2, 'and both have it still');
    # A node that is no member itself, as one that was taken out of its cluster.
    $PVE::Cluster::ANSWERS = 1;
    local %PVE::Cluster::MEMBERS;
    delete local $PVE::Cluster::GUESTS{100};
    fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/node pve2 has it, and there is no guest 100/, 'nor where this node is on no list of members itself');
}
# Somebody is let in while others are looked at.
{
    local $PVE::Cluster::GUESTS{100} = 'pve1';
    local $PVE::Cluster::MEANWHILE = sub {
        $PVE::Cluster::MEANWHILE = sub { };
        $PVE::Cluster::GUESTS{100} = 'pve3';
        on('pve3');
        $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
        on('pve1');
    };
    fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/guest 100 is at node pve3, which may be using it/, 'who is let in while others are looked at keeps a disk');
    ok((grep { $_ eq $machine{pve3}->nqn() } @{ hosts('vm-100-disk-0') // [] }), 'and is on the list');
    on('pve3');
    $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
    on('pve2');
    $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
    on('pve1');
    $PVE::Cluster::GUESTS{100} = 'pve3';
    $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
}
# A node that a disk was taken from, and that lives: nothing of what waits there can go out, so nobody waits for it.
{
    local $PVE::Cluster::GUESTS{100} = 'pve1';
    $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
    on('pve2');
    cmp_ok(scalar(AmitaProxmox::Host::paths()), '>', 0, 'pve2 has paths of a disk that was taken from it');
    $machine{pve2}{flush_fails} = 'Input/output error';
    my $done = eval { $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}); 1 };
    ok($done, 'and lets go of it') or diag($@);
    is_deeply([AmitaProxmox::Host::paths()], [], 'wholly');
    $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
    fails(sub { $class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) }, qr/is not with the cluster: Input/, 'one that it has by right keeps what was written');
    delete $machine{pve2}{flush_fails};
    on('pve1');
}
# Another process of this node was at work on the disk for longer than a call may take: the call's time begins when it is its turn.
{
    local $AmitaProxmox::Api::SECONDS{call} = 2;
    my $subsystem = (nqn_of('vm-100-disk-0') =~ m/:(pve-\S+)\z/)[0];
    pipe(my $read, my $write) or die "no pipe: $!\n";
    my $child = fork() // die "no process: $!\n";
    if (!$child) {
        AmitaProxmox::Host::locked($subsystem, 0, sub { syswrite($write, '.'); sleep(3) });
        POSIX::_exit(0);
    }
    sysread($read, my $said, 1);
    my $done = eval { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}); 1 };
    ok($done, 'who has waited for a lock has all of its time left') or diag($@);
    waitpid($child, 0);
}

# A node of another cluster, which nobody here knows.
my $stranger = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555';
my ($subsystem) = nqn_of('vm-100-disk-0') =~ m/:(pve-\S+)\z/;
$direct->ask(POST => '/hosts', body => { nqn => $stranger });
$direct->must('x', PUT => "/subsystems/$subsystem/hosts/$stranger");
on('pve3');
fails(sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) }, qr/let in at \Q$stranger\E, which is no node of this Proxmox cluster.*amita host deny/, 'beside a stranger a disk is not activated');
is_deeply([AmitaProxmox::Host::paths()], [], 'and nothing is left of the attempt');
$direct->must('x', DELETE => "/subsystems/$subsystem/hosts/$stranger");

# A node that is started anew has nothing, and is published what it had: that is taken back.
$machine{pve2}->reboot();
on('pve2');
$class->activate_storage('flash', $scfg, {});
is_deeply(hosts('vm-100-disk-0'), [$machine{pve1}->nqn()], 'what was published to a node that was started anew is taken back');

# A gateway was away when a disk was connected: the path is made later.
on('pve1');
$class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
my ($away) = map { "$_->{traddr}:$_->{trsvcid}" } @{ $direct->find('x', '/volumes/flash-vm-100-disk-0/attachment')->{thing}{gateways} };
$class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
$machine{pve1}{unreached}{$away} = 1;
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
is(scalar(AmitaProxmox::Host::paths()), 2, 'two paths, where one gateway is away');
delete $machine{pve1}{unreached}{$away};
{
    local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
    $class->activate_storage('flash', $scfg, {}) for 1, 2;
}
is(scalar(AmitaProxmox::Host::paths()), 3, 'three, when it is back');
# Its machine was given another address since: what the kernel tries for ever is no path, and is ended.
my ($old) = map { $_->{name} } grep { $_->{address} eq $away =~ s/:(\d+)\z/ $1/r } AmitaProxmox::Host::paths();
$machine{pve1}->write("sys/class/nvme/$old/address", 'traddr=192.0.2.9,trsvcid=4420');
$machine{pve1}->write("sys/class/nvme/$old/state", 'connecting');
{
    local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
    $class->activate_storage('flash', $scfg, {});
}
is_deeply([sort map { $_->{address} =~ s/ /:/r } AmitaProxmox::Host::paths()], [sort map { "$_->{traddr}:$_->{trsvcid}" } @{ $direct->find('x', '/volumes/flash-vm-100-disk-0/attachment')->{thing}{gateways} }],
    'a path to a gateway that is no more makes way for the one that there is');
# Gateways that are take greetings as the kernel gives them.
for my $path (AmitaProxmox::Host::paths()) {
    my ($address, $port) = $path->{address} =~ m/\A(\S+) (\d+)\z/;
    is($Amita::Machine::reach->($address, $port), '', "the gateway at $address answers");
}

# Where no gateway lets a node in nothing is left: no path, no right.
$class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
{
    local $AmitaProxmox::Host::SECONDS{patience} = 1;
    $machine{pve1}{knows} = sub { return };
    fails(sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {}) }, qr/disk vm-100-disk-0: no gateway lets this node in/, 'no gateway lets a node in');
    $machine{pve1}{knows} = $knows;
}
is(hosts('vm-100-disk-0'), undef, 'so it is not published either');

# --- Snapshots, of a disk that is used
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
$machine{pve1}->open_by(4711, 'kvm', AmitaProxmox::Host::disk(nqn_of('vm-100-disk-0')));
$class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', $_) for qw(first second);
fails(sub { $class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', 'first') }, qr/snapshot first of disk vm-100-disk-0 cannot be taken: .*\[exists/, 'a name that is taken: nobody takes an old one for a new one');
my $info = $class->volume_snapshot_info($scfg, 'flash', 'vm-100-disk-0');
is_deeply([sort keys %$info], [qw(first second)], 'snapshots');
cmp_ok(abs($info->{first}{timestamp} - time()), '<', 120, 'with when they were taken');
isnt($info->{first}{id}, $info->{second}{id}, 'and a number each');
is($info->{first}{'virtual-size'}, 48 << 20, 'and their size');
is_deeply($class->volume_snapshot_info($scfg, 'flash', 'vm-9-disk-0'), {}, 'none of a disk that is not there');
$direct->must('by hand', POST => '/volumes/flash-vm-100-disk-0/snapshots', body => { name => 'daily' });
is_deeply([sort keys %{ $class->volume_snapshot_info($scfg, 'flash', 'vm-100-disk-0') }], [qw(first second)], 'one by a policy, or by hand, is not Proxmox\'');

# A backup of a container has a snapshot as a disk beside it, and nobody deactivates it.
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', 'first', {}) for 1, 2;
my $snapshot_link = scalar $class->path($scfg, 'vm-100-disk-0', 'flash', 'first');
ok(-e $snapshot_link, 'a snapshot is a disk');
isnt(AmitaProxmox::Host::uuid_of_link($snapshot_link), AmitaProxmox::Host::uuid_of_link($link), 'of its own');
my ($read_only) = grep { defined $_->{snapshot} } map { @{ $direct->all('x', "/subsystems/$_->{name}/namespaces") } } @{ $direct->all('x', '/subsystems') };
ok($read_only->{read_only}, 'to be read only');
$class->deactivate_volume('flash', $scfg, 'vm-100-disk-0', 'first', {}) for 1, 2;
ok(!-e $snapshot_link, 'which is taken away');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', 'first', {});
$class->volume_snapshot_delete($scfg, 'flash', 'vm-100-disk-0', 'first', 1) for 1, 2;
ok(!-l $snapshot_link, 'or goes with its snapshot, twice');
is_deeply([sort keys %{ $class->volume_snapshot_info($scfg, 'flash', 'vm-100-disk-0') }], ['second'], 'which is deleted');
is(subsystems(), 1, 'and leaves no subsystem');
fails(sub { $class->activate_volume('flash', $scfg, 'vm-100-disk-0', 'first', {}) }, qr/has no snapshot first/, 'a snapshot that is not there');
ok(-e $link, 'the disk is there all the time');

# Back to a snapshot: nobody may have the disk, and what this node has of it is ended.
ok($class->volume_rollback_is_possible($scfg, 'flash', 'vm-100-disk-0', 'second'), 'a rollback is possible');
fails(sub { $class->volume_rollback_is_possible($scfg, 'flash', 'vm-100-disk-0', 'first') }, qr/has no snapshot first/, 'not to one that is not there');
fails(sub { $class->volume_snapshot_rollback($scfg, 'flash', 'vm-100-disk-0', 'second') }, qr/in use, by process 4711/, 'nor while it is used');
$machine{pve1}->close_by(4711);
$class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', 'third');
my $before = number('vm-100-disk-0');
$class->volume_snapshot_rollback($scfg, 'flash', 'vm-100-disk-0', 'second') for 1, 2;
is(number('vm-100-disk-0'), $before, 'a disk is rolled back, twice, and is the same volume');
is_deeply([sort keys %{ $class->volume_snapshot_info($scfg, 'flash', 'vm-100-disk-0') }], [qw(second third)], 'its snapshots stay, those that were taken since too');
is(scalar(@{ $direct->all('x', '/volumes/flash-vm-100-disk-0/snapshots') }), 3, 'and none is added');
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
ok(-e $link, 'it is activated again');
$class->volume_snapshot_rollback($scfg, 'flash', 'vm-100-disk-0', 'third');
ok(!-l $link, 'and rolled back while it is active and nobody uses it: it is disconnected');

# --- Notes and protection
$class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'notes', "100% of it,\nin two lines \x{fc}") for 1, 2;
is($class->get_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'notes'), "100% of it,\nin two lines \x{fc}", 'notes');
is((grep { $_->{volid} eq 'flash:vm-100-disk-0' } @{ $class->list_images('flash', $scfg) })[0]{notes}, "100% of it,\nin two lines \x{fc}", 'are listed');
$class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'notes', '');
is($class->get_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'notes'), undef, 'and taken away');
fails(sub { $class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'notes', 'x' x 257) }, qr/256 bytes at most/, 'and are not longer than a label');
is($class->get_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'other'), undef, 'no other attribute');
fails(sub { $class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'other', 1) }, qr/not supported/, 'is set');
$class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'protected', 1) for 1, 2;
is($class->get_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'protected'), 1, 'protected');
fails(sub { $class->free_image('flash', $scfg, 'vm-100-disk-0') }, qr/is protected.*amita volume protect flash-vm-100-disk-0 --off/, 'it is not removed');
$class->update_volume_attribute($scfg, 'flash', 'vm-100-disk-0', 'protected', 0);

# --- Another name, another guest
$class->activate_volume('flash', $scfg, 'vm-100-disk-1', undef, {});
is($class->rename_volume($scfg, 'flash', 'vm-100-disk-1', 102), 'flash:vm-102-disk-0', 'a disk of another guest');
fails(sub { $class->rename_volume($scfg, 'flash', 'vm-100-disk-1', 102) }, qr/there is no disk vm-100-disk-1/, 'and again: it is gone');
is($class->rename_volume($scfg, 'flash', 'vm-102-disk-0', 100, 'vm-100-disk-9'), 'flash:vm-100-disk-9', 'under a given name');
fails(sub { $class->rename_volume($scfg, 'flash', 'vm-100-disk-9', 100, 'vm-100-disk-0') }, qr/disk vm-100-disk-0 is there already/, 'not one that is taken');
fails(sub { $class->rename_volume($scfg, 'flash', 'vm-100-disk-9', 100, 'vm-101-disk-5') }, qr/illegal name/, 'nor another guest\'s');

# --- A template, and linked clones
$class->activate_volume('flash', $scfg, 'vm-100-disk-9', undef, {});
is($class->create_base('flash', $scfg, 'vm-100-disk-9'), 'base-100-disk-9', 'a template, twice') for 1, 2;
fails(sub { $class->create_base('flash', $scfg, 'base-100-disk-9') }, qr/not possible with the base image/, 'a template is one already');
$direct->must('x', DELETE => '/volumes/flash-base-100-disk-9/snapshots/pve.base.', if_match => '*');
is($class->create_base('flash', $scfg, 'vm-100-disk-9'), 'base-100-disk-9', 'one that was cut short is made whole');
my $clone = $class->clone_image($scfg, 'flash', 'base-100-disk-9', 103);
is($clone, 'base-100-disk-9/vm-103-disk-0', 'a linked clone');
is($class->clone_image($scfg, 'flash', 'base-100-disk-9', 103), 'base-100-disk-9/vm-103-disk-1', 'and another one');
is($class->clone_image($scfg, 'flash', 'vm-100-disk-0', 104, 'second'), 'vm-104-disk-0', 'a clone of a snapshot');
fails(sub { $class->clone_image($scfg, 'flash', 'vm-100-disk-0', 104) }, qr/works on base images and on snapshots/, 'not of a disk that changes');
fails(sub { $class->clone_image($scfg, 'flash', 'vm-100-disk-0', 104, 'none') }, qr/no clone of disk.*\[not-found/, 'nor of a snapshot that is not there');
my ($listed) = grep { $_->{vmid} eq '103' } @{ $class->list_images('flash', $scfg) };
is_deeply({ %$listed, ctime => 0 }, { volid => "flash:$clone", format => 'raw', size => 16 << 20, vmid => '103', parent => 'base-100-disk-9', ctime => 0 }, 'is listed with its base');
$class->activate_volume('flash', $scfg, $clone, undef, {});
ok(-e scalar $class->path($scfg, $clone, 'flash'), 'and is a disk');
$class->deactivate_volume('flash', $scfg, $clone, undef, {});
$class->activate_volume('flash', $scfg, 'base-100-disk-9', undef, {});
on('pve2');
$class->activate_volume('flash', $scfg, 'base-100-disk-9', undef, {});
pass('a template is read at two nodes');
$class->deactivate_volume('flash', $scfg, 'base-100-disk-9', undef, {});
on('pve1');
# Proxmox keeps a base that has clones; who deletes it in Amita by hand loses no clone.
$class->free_image('flash', $scfg, 'base-100-disk-9', 1, 'raw') for 1, 2;
is((grep { $_->{vmid} eq '103' } @{ $class->list_images('flash', $scfg) })[0]{volid}, "flash:$clone", 'a clone whose base is gone is called as guests\' configurations have it');
$class->activate_volume('flash', $scfg, $clone, undef, {}) for 1, 2;
ok(-e scalar $class->path($scfg, $clone, 'flash'), 'and is there');
is($class->rename_volume($scfg, 'flash', $clone, 105), 'flash:base-100-disk-9/vm-105-disk-0', 'it may have another guest');
is($class->create_base('flash', $scfg, 'base-100-disk-9/vm-105-disk-0'), 'base-100-disk-9/base-105-disk-0', 'or become a template itself');
$class->free_image('flash', $scfg, $_) for 'base-100-disk-9/base-105-disk-0', 'base-100-disk-9/vm-103-disk-1', 'vm-104-disk-0';

# --- The end of disks
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', undef, {});
$class->activate_volume('flash', $scfg, 'vm-100-disk-0', 'second', {});
is(subsystems(), 2, 'a disk and a snapshot of it are active');
is($class->free_image('flash', $scfg, 'vm-100-disk-0', undef, 'raw'), undef, 'a disk is removed, with its snapshots, active or not') for 1, 2;
is(subsystems(), 0, 'no subsystem is left');
is_deeply([AmitaProxmox::Host::paths()], [], 'nor a path');
is_deeply([grep { !m/\A\.\.?\z/ } AmitaProxmox::Host::listed("$AmitaProxmox::Host::AT{dev}/amita/flash")], [], 'nor a link');
# By its name: a volume that was reverted has another number there than it had before.
my ($kept) = grep { $_->{name} eq 'flash-vm-100-disk-0' } @{ $direct->all('x', '/deleted-volumes') };
cmp_ok($kept && $kept->{purge_at}, '>', time(), 'and it can be had back, for as long as the pool says');
is($class->alloc_image('flash', $scfg, 100, 'raw', 'vm-100-disk-0', 1024), 'vm-100-disk-0', 'its name is free at once');
my $now = { %$scfg, 'amita-on-delete' => 'now' };
$class->volume_snapshot($now, 'flash', 'vm-100-disk-0', 'first');
$direct->must('by hand', POST => '/volumes/flash-vm-100-disk-0/snapshots', body => { name => 'daily' });
fails(sub { $class->free_image('flash', $now, 'vm-100-disk-0') }, qr/has snapshots that Proxmox has not taken: daily/, 'one that is to go for good stays for a snapshot of somebody else\'s');
$direct->must('by hand', DELETE => '/volumes/flash-vm-100-disk-0/snapshots/daily', if_match => '*');
my $id = number('vm-100-disk-0');
$class->free_image('flash', $now, 'vm-100-disk-0') for 1, 2;
is_deeply([grep { $_->{id} == $id } @{ $direct->all('x', '/deleted-volumes') }], [], 'and goes for good without');
# In a pool that keeps nothing every disk goes for good, whatever the storage says; what Proxmox and backups have left in it goes along.
$direct->must('by hand', PATCH => '/pools/main', body => { recycle_seconds => 0 }, if_match => '*');
$class->alloc_image('flash', $scfg, 100, 'raw', "vm-100-disk-$_", 1024) for 0, 1;
$class->volume_snapshot($scfg, 'flash', 'vm-100-disk-0', 'first');
$class->create_base('flash', $scfg, 'vm-100-disk-1');
for my $one ('vm-100-disk-0', 'base-100-disk-1') {
    my $path = "/volumes/flash-$one/snapshots";
    $direct->must('by hand', POST => $path, body => { name => $_ }) for qw(backed-up daily);
    $direct->must('by hand', DELETE => "$path/backed-up?keep_mark=true", if_match => '*');
    fails(sub { $class->free_image('flash', $scfg, $one) }, qr/to go for good \(pool main keeps nothing: `amita pool recycle`\), and has snapshots that Proxmox has not taken: daily:/, "$one: nor there with a snapshot of somebody else's");
    $direct->must('by hand', DELETE => "$path/daily", if_match => '*');
    is($class->free_image('flash', $scfg, $one), undef, "$one is removed from a pool that keeps nothing");
    ok(!defined number($one), 'and is gone');
}
$direct->must('by hand', PATCH => '/pools/main', body => { recycle_seconds => 604800 }, if_match => '*');

# A node that lived on with a disk, and whose guest is elsewhere, holds nothing up.
$class->alloc_image('flash', $scfg, 106, 'raw', undef, 1024);
on('pve2');
$class->activate_volume('flash', $scfg, 'vm-106-disk-0', undef, {});
on('pve1');
$PVE::Cluster::GUESTS{106} = 'pve1';
$class->free_image('flash', $scfg, 'vm-106-disk-0');
is(subsystems(), 0, 'what another node has left behind is taken from it');
on('pve2');
{
    local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
    $class->activate_storage('flash', $scfg, {});
}
is_deeply([AmitaProxmox::Host::paths()], [], 'and that ends its paths by itself');

# --- Several nodes of Proxmox at one time
on('pve1');
$class->alloc_image('flash', $scfg, 107, 'raw', undef, 1024);
my @at = map { my $name = $_; my $child = fork(); if (!$child) { on($name); $SIG{__WARN__} = sub { }; my $done = eval { $class->activate_volume('flash', $scfg, 'vm-107-disk-0', undef, {}); 1 }; POSIX::_exit($done ? 0 : 1) } $child } qw(pve1 pve2 pve3);
my $failed = 0;
for my $child (@at) { waitpid($child, 0); $failed++ if $? }
is($failed, 0, 'three nodes activate one disk at one time');
is_deeply(hosts('vm-107-disk-0'), [sort map { $machine{$_}->nqn() } qw(pve1 pve2 pve3)], 'and all have it');
@at = map { my $name = $_; my $child = fork(); if (!$child) { on($name); $SIG{__WARN__} = sub { }; my $done = eval { $class->deactivate_volume('flash', $scfg, 'vm-107-disk-0', undef, {}); 1 }; POSIX::_exit($done ? 0 : 1) } $child } qw(pve1 pve2 pve3);
$failed = 0;
for my $child (@at) { waitpid($child, 0); $failed++ if $? }
is($failed, 0, 'and let go of it at one time');
is(subsystems(), 0, 'which leaves nothing');
@at = map { my $name = $_; my $child = fork(); if (!$child) { on($name); my $done = eval { $class->alloc_image('flash', $scfg, 108, 'raw', undef, 1024); 1 }; POSIX::_exit($done ? 0 : 1) } $child } qw(pve1 pve2 pve3);
$failed = 0;
for my $child (@at) { waitpid($child, 0); $failed++ if $? }
is($failed, 0, 'three disks are made at one time, also without Proxmox\' lock');
is(scalar(@{ $class->list_images('flash', $scfg, 108) }), 3, 'under a name each');

# --- A machine that has the identifier of another one
on('pve3');
mkdir "$pve/nodes/pve9";
AmitaProxmox::Host::slurp("$pve/nodes/pve3/amita-host") =~ m/\A(\S+)\z/;
open(my $copy, '>', "$pve/nodes/pve9/amita-host") or die;
print {$copy} $machine{pve3}->identifier() . "\n";
close($copy);
fails(sub { $class->activate_storage('flash', $scfg, {}) }, qr/this node and pve9 have one host identifier/, 'two nodes of one identifier are told of');
unlink "$pve/nodes/pve9/amita-host";
on('pve1');

# --- Streams
$class->alloc_image('flash', $scfg, 110, 'raw', undef, 1024);
$class->activate_volume('flash', $scfg, 'vm-110-disk-0', undef, {});
my $device = "$AmitaProxmox::Host::AT{dev}/" . AmitaProxmox::Host::disk(nqn_of('vm-110-disk-0'));
my $data = join '', map { chr(65 + $_ % 26) x 4096 } 0 .. 255;
open(my $raw, '>:raw', $device) or die; print {$raw} $data; close($raw);
my $stream = "$pve/stream";
open(my $out, '>:raw', $stream) or die;
$class->volume_export($scfg, 'flash', $out, 'vm-110-disk-0', 'raw+size');
close($out);
is(-s $stream, 8 + length($data), 'a stream has a head, and all bytes');
is(scalar(@{ hosts('vm-110-disk-0') }), 1, 'and a disk that was connected stays so');
$class->volume_snapshot($scfg, 'flash', 'vm-110-disk-0', 'stream');
my $paths_before = AmitaProxmox::Host::paths();
open($out, '>:raw', "$pve/stream-of-snapshot") or die;
$class->volume_export($scfg, 'flash', $out, 'vm-110-disk-0', 'raw+size', 'stream');
close($out);
cmp_ok(-s "$pve/stream-of-snapshot", '>=', 8, 'that of a snapshot has a head');
is(scalar(AmitaProxmox::Host::paths()), $paths_before, 'and what was connected for it is so no more');
is(subsystems(), 1, 'nor published');
$class->volume_snapshot_delete($scfg, 'flash', 'vm-110-disk-0', 'stream');
open(my $in, '<:raw', $stream) or die;
is($class->volume_import($scfg, 'flash', $in, 'vm-111-disk-0', 'raw+size', undef, undef, 0, 0), 'flash:vm-111-disk-0', 'and is brought in');
close($in);
is(scalar $class->volume_size_info($scfg, 'flash', 'vm-111-disk-0'), length($data), 'as a disk of its size');
open($in, '<:raw', $stream) or die;
fails(sub { $class->volume_import($scfg, 'flash', $in, 'vm-111-disk-0', 'raw+size', undef, undef, 0, 0) }, qr/is there already/, 'not over one that is there');
is($class->volume_import($scfg, 'flash', $in, 'vm-111-disk-0', 'raw+size', undef, undef, 0, 1), 'flash:vm-111-disk-1', 'but under another name, where that is allowed');
close($in);
open($in, '<:raw', $stream) or die;
is($class->volume_import($scfg, 'flash', $in, 'base-113-disk-0', 'raw+size', undef, undef, 0, 0), 'flash:base-113-disk-0', 'a template is brought in as one');
close($in);
# As it is brought in its name as a template is taken: what is half done is removed, and the other is not touched.
{
    my $taken = $class->can('alloc_image');
    no warnings 'redefine';
    local *PVE::Storage::Custom::AmitaPlugin::alloc_image = sub {
        my $made = $taken->(@_);
        $direct->must('x', POST => '/volumes', body => { name => 'flash-base-114-disk-0', pool => 'main', size_bytes => 1 << 20, labels => label() });
        return $made;
    };
    open($in, '<:raw', $stream) or die;
    fails(sub { $class->volume_import($scfg, 'flash', $in, 'base-114-disk-0', 'raw+size', undef, undef, 0, 0) }, qr/base-114-disk-0 is there already/, 'a name that is taken meanwhile');
    close($in);
}
is_deeply([map { $_->{volid} } @{ $class->list_images('flash', $scfg, 114) }], ['flash:base-114-disk-0'], 'nothing is left of it, and the other is there');
{
    no warnings 'redefine';
    my $path = $class->can('create_base');
    local *PVE::Storage::Custom::AmitaPlugin::create_base = sub { $path->(@_); die "cut\n" };
    open($in, '<:raw', $stream) or die;
    fails(sub { $class->volume_import($scfg, 'flash', $in, 'base-115-disk-0', 'raw+size', undef, undef, 0, 0) }, qr/cut/, 'one that fails when it is a template already');
    close($in);
}
is_deeply($class->list_images('flash', $scfg, 115), [], 'leaves nothing');
fails(sub { $class->volume_export($scfg, 'flash', $out, 'vm-110-disk-0', 'qcow2+size') }, qr/not available/, 'no other format');

# --- Nodes that do not answer
my ($pid) = ($ENV{AMITA_TEST_FIRST_NODE} // '') =~ m/\A(\d+)\z/;
SKIP: {
    skip 'no node may be killed', 7 if !$pid;
    is($class->alloc_image('flash', $scfg, 112, 'raw', undef, 1024), 'vm-112-disk-0', 'a disk, before a node is killed');
    $class->activate_volume('flash', $scfg, 'vm-112-disk-0', undef, {});
    kill 'KILL', $pid;
    sleep(0.5);
    $began = time();
    is($class->alloc_image('flash', $scfg, 112, 'raw', undef, 1024), 'vm-112-disk-1', 'the next node is asked where one was killed');
    cmp_ok(time() - $began, '<', 20, sprintf('within %.1f s', time() - $began));
    my $nobody = { %$scfg, 'amita-api' => 'http://127.0.0.1:1' };
    fails(sub { $class->activate_storage('flash', $nobody, {}) }, qr/no node of the cluster answers/, 'no node answers: the storage is not active');
    @warned = ();
    my $path = scalar $class->path($nobody, 'vm-112-disk-0', 'flash');
    ok(-e $path, 'a disk is there all the same');
    is($class->deactivate_volume('flash', $nobody, 'vm-112-disk-0', undef, {}), 1, 'and is let go of');
    like("@warned", qr/is disconnected, and is published to this node still; that is mended by itself/, 'which is said');
    {
        local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
        $class->activate_storage('flash', $scfg, {});
    }
    is(hosts('vm-112-disk-0'), undef, 'and mended, when nodes answer again');
}

# --- A call was cut before it let its host in
{
    my $sum = substr(Digest::SHA::sha256_hex('flash'), 0, 8);
    local $PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
    my $made = sub { $direct->must('x', POST => '/subsystems', body => { name => "pve-$sum-999", nqn => "nqn.2026-11.io.amita:$_[0]:pve-$sum-999" }) };
    my $is_there = sub { $direct->find('x', "/subsystems/pve-$sum-999") ? 1 : 0 };
    $made->('one');
    $direct->must('x', POST => '/subsystems', body => { name => 'by-hand', nqn => 'nqn.2026-11.io.amita:by-hand' });
    $class->activate_storage('flash', $scfg, {});
    ok($is_there->(), 'a subsystem without a host may be somebody\'s who is just at it');
    $direct->must('x', DELETE => "/subsystems/pve-$sum-999?force=true", if_match => '*');
    $made->('two');
    $class->activate_storage('flash', $scfg, {});
    ok($is_there->(), 'another one of its name, too');
    $class->activate_storage('flash', $scfg, {});
    ok(!$is_there->(), 'a minute later it is nobody\'s, and goes');
    $class->activate_storage('flash', $scfg, {});
    ok($direct->find('x', '/subsystems/by-hand'), 'those of others stay');
    $direct->must('x', DELETE => '/subsystems/by-hand?force=true', if_match => '*');
}

# --- The storage is removed: disks stay
$class->activate_volume('flash', $scfg, 'vm-110-disk-0', undef, {});
$class->deactivate_storage('flash', $scfg, {}) for 1, 2;
is_deeply([AmitaProxmox::Host::paths()], [], 'a storage that is deactivated has no path');
is(subsystems(), 0, 'and nothing is published');
$class->on_update_hook('flash', {}, password => token('operator')) for 1, 2;
ok(-e "$pve/priv/storage/flash.pw", 'a token is exchanged');
{
    local $PVE::Storage::CONFIG = { ids => { flash => { %$scfg, type => 'amita' } } };
    my $change = sub { my ($update, $token) = @_; $class->on_update_hook('flash', $update, defined $token ? (password => $token) : ()) };
    my $change_full = sub { my ($update, $token) = @_; $class->on_update_hook_full('flash', $scfg, $update, [], defined $token ? { password => $token } : {}) };
    for my $how ([$change, 'before version 13'], [$change_full, 'from version 13 on']) {
        my ($changes, $when) = @$how;
        my $before = AmitaProxmox::Host::slurp("$pve/priv/storage/flash.pw");
        fails(sub { $changes->({}, 'amita_0123456789abcdef') }, qr/the token is not changed: .*\[unauthenticated/, "$when: a token that is none is not taken");
        fails(sub { $changes->({}, token('viewer')) }, qr/has the role viewer/, 'nor a viewer\'s');
        is(AmitaProxmox::Host::slurp("$pve/priv/storage/flash.pw"), $before, 'and the one before stays');
        $changes->({}, ' ' . token('operator') . "\n") for 1, 2;
        is(AmitaProxmox::Host::slurp("$pve/priv/storage/flash.pw"), token('operator'), 'one that is good is');
        @warned = ();
        $changes->({ 'amita-api' => 'http://127.0.0.1:1' }) for 1, 2;
        like("@warned", qr/no node of the cluster answers/, 'addresses where nobody answers are told of');
        @warned = ();
        $changes->({ 'amita-api' => 'http://127.0.0.1:1' }, 'amita_0123456789abcdef');
        like("@warned", qr/no node of the cluster answers/, 'and a token that nobody can look at is taken');
        $changes->({}, token('operator'));
        @warned = ();
        $changes->({ 'amita-api' => join(',', @nodes), nodes => { pve1 => 1 } });
        is("@warned", '', 'nothing is said of what is good');
    }
}
$class->on_update_hook_full('flash', $scfg, {}, ['password'], {});
ok(!-e "$pve/priv/storage/flash.pw", 'or taken away');
fails(sub { $class->list_images('flash', $scfg) }, qr/no token in .*pvesm set flash --password/, 'without which nothing is asked');
done_testing();
