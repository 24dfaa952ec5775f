#!/usr/bin/perl -T
# The host's side: paths, disks, links, locks. The kernel is made up (lib/Amita/Machine.pm): what it is asked is compared, and sysfs is a folder.
use strict;
use warnings;

use File::Temp ();
use Test::More;
use Time::HiRes qw(time);

use Amita::Here;
use PVE::Storage;
use Amita::Machine;

my ($pve) = File::Temp::tempdir(CLEANUP => 1) =~ m/\A(.*)\z/;
my $uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';
my $nqn = 'nqn.2026-11.io.amita:0123:pve-89abcdef-7';
my %let_in;
my $machine = Amita::Machine->new('pve1', $pve, sub { my ($nqn, $host) = @_; return $let_in{$nqn} })->enter();
my $identifier = AmitaProxmox::Host::identifier('pve1');
my @gateways = map { { address => '192.0.2.1' . $_, port => 4420 } } 1 .. 3;
my $target = { nqn => $nqn, uuid => $uuid, gateways => \@gateways };
my @warned;
local $SIG{__WARN__} = sub { push @warned, $_[0] };

like($identifier, qr/\A[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z/, 'a host identifier is a UUID of version 8');
is(AmitaProxmox::Host::identifier('pve1'), $identifier, 'which stays');
isnt(AmitaProxmox::Host::identifier('pve2'), $identifier, 'and is another one for a node of another name on a copied machine');

# --- Connecting
$let_in{$nqn} = [$uuid, 1 << 30];
is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'a disk');
is_deeply([$machine->log()], [map { "connect nqn=$nqn,transport=tcp,traddr=192.0.2.1$_,trsvcid=4420,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$identifier,hostid=$identifier,"
    . 'nr_io_queues=2,keep_alive_tmo=5,reconnect_delay=2,ctrl_loss_tmo=-1,fast_io_fail_tmo=600' } 1 .. 3], 'by a line for each gateway');
is(scalar(AmitaProxmox::Host::paths()), 3, 'three paths');
is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'and again');
is_deeply([$machine->log()], [], 'nothing is asked for what is there');
$machine->disappear('nvme1');
is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'a path that is missing');
is_deeply([map { m/traddr=([0-9.]+)/ } $machine->log()], ['192.0.2.12'], 'is made alone');
is(AmitaProxmox::Host::bytes('nvme0n1'), 1 << 30, 'its size');

# --- Links
my $link = AmitaProxmox::Host::link_of('flash', 'vm-100-disk-0');
AmitaProxmox::Host::make_link($link, $uuid) for 1, 2;
is(readlink($link), "$AmitaProxmox::Host::AT{dev}/disk/by-id/nvme-uuid.$uuid", 'a link leads to the name that stays');
is(AmitaProxmox::Host::uuid_of_link($link), $uuid, 'and says which disk it is');
ok(-e $link, 'which is there');
AmitaProxmox::Host::make_link($link, '7c9e6679-7425-40de-944b-e07fc1f90ae7');
is(AmitaProxmox::Host::uuid_of_link($link), '7c9e6679-7425-40de-944b-e07fc1f90ae7', 'it is replaced where the disk is another one');
ok(!-e $link, 'and leads nowhere, where that is not here: never to a disk that has got its name');
AmitaProxmox::Host::make_link($link, $uuid);

# --- In use
$AmitaProxmox::Host::SECONDS{busy} = 0.3;
for my $case (
    ['a process', sub { $machine->open_by(4711, 'kvm', 'nvme0n1') }, sub { $machine->close_by(4711) }, qr/in use, by process 4711 \(kvm\)/],
    ['a process, on a partition', sub { $machine->open_by(4711, 'kvm', 'nvme0n1p2') }, sub { $machine->close_by(4711) }, qr/in use, by process 4711 \(kvm\)/],
    ['the device mapper', sub { mkdir "$AmitaProxmox::Host::AT{sys}/block/nvme0n1/holders/dm-3" }, sub { rmdir "$AmitaProxmox::Host::AT{sys}/block/nvme0n1/holders/dm-3" }, qr/in use, by dm-3/],
    ['a file system', sub { $machine->{claimed}{nvme0n1} = 1 }, sub { delete $machine->{claimed}{nvme0n1} }, qr/in use, by a file system/],
    ['what was written', sub { $machine->{flush_fails} = 'Input/output error' }, sub { delete $machine->{flush_fails} }, qr/is not with the cluster: Input\/output error/],
) {
    my ($what, $on, $off, $why) = @$case;
    $on->();
    eval { AmitaProxmox::Host::disconnect($nqn) };
    like($@, $why, "$what keeps a disk connected");
    is(scalar(AmitaProxmox::Host::paths()), 3, 'with all paths');
    $off->();
}
$machine->open_by(4712, 'kvm', 'nvme0n10');
$machine->log();
is(AmitaProxmox::Host::disconnect($nqn), 1, 'nobody has it: a disk whose name is longer is another one');
is_deeply([$machine->log()], ['flush nvme0n1', 'delete_controller nvme0', 'delete_controller nvme1', 'delete_controller nvme2'], 'what was written goes out, then paths end');
is(AmitaProxmox::Host::disconnect($nqn), 0, 'and again: nothing is there');
is_deeply([$machine->log()], [], 'so nothing is done');

# --- Gateways that do not let in, or are away
delete $let_in{$nqn};
my $began = time();
$AmitaProxmox::Host::SECONDS{patience} = 1;
eval { AmitaProxmox::Host::connect_paths($target, $identifier, undef) };
like($@, qr/\Ano gateway lets this node in: 192\.0\.2\.11:4420: .*192\.0\.2\.13:4420: .*`amita node list`/, 'no gateway lets it in');
cmp_ok(time() - $began, '<', 15, 'which is said in time');
cmp_ok(scalar($machine->log()), '>', 3, 'they are asked again: they may not have heard yet');
$let_in{$nqn} = [$uuid, 1 << 30];
$machine->{unreached}{'192.0.2.11:4420'} = 1;
@warned = ();
is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'one gateway is away');
like("@warned", qr/a path of \Q$nqn\E is not there yet: 192\.0\.2\.11:4420: nothing listens there/, 'which is said');
is_deeply([map { m/traddr=([0-9.]+)/ } $machine->log()], ['192.0.2.12', '192.0.2.13'], 'the kernel is not asked for it');
delete $machine->{unreached};

# The cluster says which nodes are away: where there is a path nobody waits for them, and where there is none they are asked all the same.
AmitaProxmox::Host::end_all(AmitaProxmox::Host::paths());
$machine->log();
@warned = ();
is(AmitaProxmox::Host::connect_paths({ %$target, gateways => [map { { %$_, is_away => 1 } } @gateways] }, $identifier, undef), 'nvme0n1', 'all nodes are said to be away');
is_deeply([map { m/traddr=([0-9.]+)/ } $machine->log()], ['192.0.2.11'], 'one is asked, and is there');
like("@warned", qr/192\.0\.2\.13:4420: its node is away/, 'the others are told of');

# --- A gateway that does not answer: the kernel makes one path at a time, so the next one would wait with it.
AmitaProxmox::Host::end_all(AmitaProxmox::Host::paths());
$machine->{hangs}{'192.0.2.12:4420'} = 1;
$machine->log();
@warned = ();
{
    local $AmitaProxmox::Host::SECONDS{connect} = 1;
    is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'a gateway says nothing to Connect, and one was there before: that is enough');
    is_deeply([map { m/traddr=([0-9.]+)/ } $machine->log()], ['192.0.2.11', '192.0.2.12'], 'the kernel is not asked for another path while it is at that one');
    like("@warned", qr/a path to 192\.0\.2\.12:4420: nothing came of it within 1 s/, 'which is said');
    AmitaProxmox::Host::end_all(AmitaProxmox::Host::paths());
    $machine->{hangs} = { '192.0.2.11:4420' => 1 };
    $machine->log();
    is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'where none was there before the others are asked all the same');
    is_deeply([map { m/traddr=([0-9.]+)/ } $machine->log()], ['192.0.2.11', '192.0.2.12', '192.0.2.13'], 'one after the other');
}
delete $machine->{hangs};
is(AmitaProxmox::Host::connect_paths($target, $identifier, undef), 'nvme0n1', 'it answers again');
is(scalar(AmitaProxmox::Host::paths()), 3, 'and there are three paths');

# So each is greeted before, by processes that are what they are: one that is stopped has its connections taken by the kernel of its machine.
{
    require IO::Socket::INET;
    local $AmitaProxmox::Host::SECONDS{greet} = 0.5;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 4) or die "no port: $!\n";
    like($Amita::Machine::reach->('127.0.0.1', $listen->sockport()), qr/takes connections, and has not answered within 0\.5 s/, 'a gateway that is stopped is none');
    my $answered = sub {
        my ($code) = @_;
        my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 4) or die "no port: $!\n";
        my $child = fork() // die "no process: $!\n";
        if (!$child) {
            $code->(scalar $listen->accept());
            POSIX::_exit(0);
        }
        my $said = $Amita::Machine::reach->('127.0.0.1', $listen->sockport());
        kill 'KILL', $child;
        waitpid($child, 0);
        return $said;
    };
    $AmitaProxmox::Host::SECONDS{greet} = 5;
    my $asked = '';
    is($answered->(sub { sysread($_[0], $asked, 128); syswrite($_[0], pack('C4 V x120', 1, 0, 128, 0, 128)) if $asked eq pack('C4 V x120', 0, 0, 128, 0, 128); sleep(10) }), '', 'one that answers is');
    is($answered->(sub { syswrite($_[0], "220 mail.example ESMTP\r\n"); sleep(10) }), 'what listens there does not speak NVMe/TCP', 'another service is not');
    is($answered->(sub { close($_[0]) }), 'it hangs up', 'nor one that hangs up');
}

# --- A path that does not end: the kernel was just connecting it.
for my $case (['deleting (no IO)', 1], ['live', 0]) {
    my ($state, $ends) = @$case;
    local $AmitaProxmox::Host::SECONDS{end} = 1;
    my @names = map { $_->{name} } AmitaProxmox::Host::paths();
    $machine->{stuck}{ $names[0] } = $state;
    @warned = ();
    my $said = eval { AmitaProxmox::Host::disconnect($nqn) };
    is($said, $ends ? 1 : undef, "a path that stays '$state': " . ($ends ? 'it sends nothing more, and is waited for no longer' : 'it is told'));
    like($ends ? "@warned" : $@, qr/the end of path $names[0]: nothing came of it within 1 s/, 'with its name');
    is_deeply([map { $_->{name} } AmitaProxmox::Host::paths()], [$names[0]], 'the others have ended');
    $machine->log();
    is(AmitaProxmox::Host::disconnect($nqn), 0, 'and again: there is nothing to be done') if $ends;
    is_deeply([$machine->log()], [], 'so nothing is') if $ends;
    delete $machine->{stuck};
    $machine->disappear($names[0]);
    AmitaProxmox::Host::connect_paths($target, $identifier, undef);
}

# --- A disk that cannot be opened
{
    local $AmitaProxmox::Host::SECONDS{look} = 0.5;
    $machine->{no_open} = 1;
    eval { AmitaProxmox::Host::disconnect($nqn) };
    like($@, qr/in use, or it does not answer: it could not be opened/, 'a disk that cannot be opened keeps nobody for ever');
    delete $machine->{no_open};
}

# --- A disk that the machine was lost with, under the name of before
my $new = 'nqn.2026-11.io.amita:4567:pve-89abcdef-7';
$let_in{$new} = [$uuid, 1 << 30];
@warned = ();
is(AmitaProxmox::Host::connect_paths({ %$target, nqn => $new }, $identifier, qr/:pve-89abcdef-7\z/), 'nvme1n1', 'a disk by a new name');
is_deeply([grep { $_->{nqn} eq $nqn } AmitaProxmox::Host::paths()], [], 'paths by the name of before are ended');
like("@warned", qr/older name/, 'which is said');
is(AmitaProxmox::Host::disk($new, $uuid), 'nvme1n1', 'the disk is the new one\'s');
AmitaProxmox::Host::disconnect($new);

# --- udev
$machine->{no_udev} = 1;
{
    local $AmitaProxmox::Host::SECONDS{disk} = 1;
    eval { AmitaProxmox::Host::connect_paths($target, $identifier, undef) };
}
like($@, qr/udev has made no .*nvme-uuid\.$uuid for nvme\dn1/, 'a disk without its link is none');
$machine->{no_udev} = 0;
AmitaProxmox::Host::end($_) for AmitaProxmox::Host::paths();

# --- A kernel that cannot
$machine->write('sys/module/nvme_core/parameters/multipath', 'N');
eval { AmitaProxmox::Host::connect_paths($target, $identifier, undef) };
like($@, qr/nvme_core\.multipath=N/, 'no multipath');
$machine->write('sys/module/nvme_core/parameters/multipath', 'Y');
unlink "$AmitaProxmox::Host::AT{dev}/nvme-fabrics";
$machine->log();
eval { AmitaProxmox::Host::connect_paths($target, $identifier, undef) };
like($@, qr/no nvme-tcp \(`modprobe nvme-tcp`\)/, 'no NVMe/TCP');
is_deeply([$machine->log()], ['modprobe'], 'after it was loaded');

# --- Processes of their own
is(AmitaProxmox::Host::in_child(5, 'x', sub { 'done' }), 'done', 'a process says what it did');
eval { AmitaProxmox::Host::in_child(5, 'x', sub { die "it failed\n" }) };
is($@, "it failed\n", 'or why not');
$began = time();
eval { AmitaProxmox::Host::in_child(1, 'the thing', sub { sleep(20) }) };
is($@, "the thing: nothing came of it within 1 s\n", 'or nothing');
cmp_ok(time() - $began, '<', 3, 'and is not waited for');

# --- Locks
is(AmitaProxmox::Host::locked('a', 0, sub { AmitaProxmox::Host::in_child(5, 'x', sub { AmitaProxmox::Host::locked('a', 1, sub { 'both' }) // 'one' }) }), 'one', 'one at a time');
is(AmitaProxmox::Host::locked('a', 0, sub { AmitaProxmox::Host::in_child(5, 'x', sub { AmitaProxmox::Host::locked('b', 1, sub { 'both' }) // 'one' }) }), 'both', 'of one disk');
eval { AmitaProxmox::Host::locked('a', 0, sub { die "no\n" }) };
is(AmitaProxmox::Host::locked('a', 1, sub { 'free' }), 'free', 'also after an error');
done_testing();
