#!/usr/bin/perl -T
# Two nodes of Proxmox, each a guest with a real kernel, and three real nodes of Amita: live migration, and a node that is lost. scripts/test-proxmox --guest
# boots both. The first one (AMITA_TEST_NODE pve1) is the test; the second does what the first asks of it, by files of a folder that both have. That folder
# has what would be /etc/pve, too. Proxmox' classes are stubs here as elsewhere, and there is no QEMU in the guests: who writes is a process that has the
# disk open, as QEMU has, and goes past the cache.
use strict;
use warnings;

use Fcntl qw(:DEFAULT);
use JSON ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Amita::Here;
use PVE::Storage;
use PVE::Cluster;
use PVE::INotify;

my ($apis, $token, $share, $node) = map { m/\A([!-~]+)\z/ } @ENV{qw(AMITA_TEST_API AMITA_TEST_TOKEN AMITA_TEST_SHARE AMITA_TEST_NODE)};
my $class = 'PVE::Storage::Custom::AmitaPlugin';
my $pve = "$share/pve";
mkdir $_ for $pve, map { "$pve/$_" } qw(priv priv/storage nodes nodes/pve1 nodes/pve2);
$PVE::Storage::Custom::AmitaPlugin::AT{pve} = $pve;
$PVE::INotify::NODENAME = $node;
%PVE::Cluster::MEMBERS = (pve1 => { online => 1 }, pve2 => { online => 1 });
# Emulated machines are slow.
@AmitaProxmox::Host::SECONDS{qw(reach greet connect patience disk grow busy look)} = (10, 20, 60, 30, 60, 60, 10, 60);
$PVE::Storage::Custom::AmitaPlugin::SECONDS{tidy_every} = 0;
my $scfg = $class->check_config('flash', { 'amita-api' => join(',', map { "http://$_" } split /,/, $apis), 'amita-pool' => 'main' }, 1, 0);
sub spell { my ($file, $text) = @_; open(my $out, '>', "$file.new") or die "$file: $!\n"; print {$out} $text; close($out); rename("$file.new", $file) or die "$file: $!\n"; return }
sub await { my ($seconds, $code) = @_; my $until = time() + $seconds; while (time() < $until) { return 1 if $code->(); sleep(0.1) } return 0 }

# --- What both do. Blocks are of 4 KiB; dd goes past the cache.
my @dd = ('/usr/bin/dd', 'bs=4096', 'count=1', 'status=none');
sub device { return scalar $class->path($scfg, $_[0], 'flash') }
sub put { my ($disk, $block, $text) = ($_[0], clean($_[1]), $_[2]); open(my $out, '|-', @dd, 'of=' . device($disk), "seek=$block", 'oflag=direct', 'conv=notrunc', 'iflag=fullblock') or die; print {$out} pack('a4096', $text); return close($out) ? 1 : 0 }
sub got { my ($disk, $block) = ($_[0], clean($_[1])); open(my $in, '-|', @dd, 'if=' . device($disk), "skip=$block", 'iflag=direct') or die; local $/; my $text = <$in> // ''; close($in); $text =~ s/\0+\z//; return $text }
sub paths_here { return scalar AmitaProxmox::Host::paths() }
sub guests { %PVE::Cluster::GUESTS = @_; return }
sub quorate { $PVE::Cluster::QUORATE = $_[0]; return }
sub online { my ($which, $is) = @_; $PVE::Cluster::MEMBERS{$which}{online} = $is; return }

# A process that has the disk open, and writes one block after the other from FIRST on, each with its number and this node's name.
my $writer;
sub writes {
    my ($disk, $first) = @_;
    my ($path, $told) = (device($disk), "$share/writer-$node");
    unlink $told;
    $writer = fork() // die;
    return if $writer;
    $SIG{TERM} = 'DEFAULT';
    sysopen(my $held, $path, O_RDWR) or POSIX::_exit(1);
    my ($block, $longest, $why) = ($first, 0, '');
    while (!-e "$share/halt-$node") {
        my $began = time();
        if (!put($disk, $block, "$block $node")) { $why = 'refused'; last }
        $longest = time() - $began if time() - $began > $longest;
        spell($told, JSON::encode_json({ next => ++$block, longest => $longest, why => '' }));
    }
    spell($told, JSON::encode_json({ next => $block, longest => $longest, why => $why }));
    POSIX::_exit(0);
}
# What comes from a file is let through by a pattern.
sub clean { my ($number) = $_[0] =~ m/\A([0-9]+)\z/; return $number }
sub writer { my $text = AmitaProxmox::Host::slurp("$share/writer-$_[0]"); return $text ? JSON::decode_json($text) : { next => -1 } }
sub halt {
    spell("$share/halt-$node", '');
    waitpid($writer, 0);
    unlink "$share/halt-$node";
    return writer($node);
}
sub writer_ends { my ($seconds) = @_; return await($seconds, sub { waitpid($writer, POSIX::WNOHANG()) != 0 }) ? 1 : 0 }

my %does = (
    call => sub { my ($method, @with) = @_; return $class->$method(map { ref $_ eq 'HASH' && $_->{scfg} ? $scfg : $_ } @with) },
    put => \&put, got => \&got, paths => \&paths_here, guests => \&guests, online => \&online, quorate => \&quorate, writes => \&writes, halt => \&halt, writer_ends => \&writer_ends,
);

# --- The second one
if ($node ne 'pve1') {
    for (my $number = 1;; $number++) {
        await(3600, sub { -e "$share/ask.$number" }) or exit 1;
        my ($what, @with) = @{ JSON::decode_json(AmitaProxmox::Host::slurp("$share/ask.$number")) };
        exit 0 if $what eq 'end';
        # As what comes from elsewhere has to be: let through by a pattern.
        @with = map { defined $_ && !ref $_ ? m/\A([ -~]*)\z/ : $_ } @with;
        my @warned;
        local $SIG{__WARN__} = sub { push @warned, $_[0] };
        my $said = eval { scalar $does{$what}->(@with) };
        spell("$share/said.$number", JSON->new->utf8->allow_nonref->encode({ why => "$@", said => $said, warned => "@warned" }));
    }
}

# --- The first one
my @warned;
local $SIG{__WARN__} = sub { push @warned, $_[0]; diag($_[0]) };
my $asked = 0;
my $there_warned;
sub there {
    my @what = @_;
    $asked++;
    spell("$share/ask.$asked", JSON::encode_json(\@what));
    await(300, sub { -e "$share/said.$asked" }) or die "pve2 does not answer\n";
    my $said = JSON::decode_json(AmitaProxmox::Host::slurp("$share/said.$asked"));
    $there_warned = $said->{warned};
    die $said->{why} if $said->{why};
    return $said->{said};
}
my $cfg = { scfg => 1 };
sub active { my ($where, $disk) = @_; return $where eq 'pve1' ? $class->activate_volume('flash', $scfg, $disk, undef, {}) : there('call', 'activate_volume', 'flash', $cfg, $disk) }
sub inactive { my ($where, $disk) = @_; return $where eq 'pve1' ? $class->deactivate_volume('flash', $scfg, $disk) : there('call', 'deactivate_volume', 'flash', $cfg, $disk) }
sub at { my ($where, $what, @with) = @_; return $where eq 'pve1' ? $does{$what}->(@with) : there($what, @with) }
sub guests_are { guests(@_); there('guests', @_); return }
sub fails { my ($code, $why, $what) = @_; my $said = eval { $code->(); 1 }; if ($said) { fail("$what: it was done") } else { like($@, $why, $what) } return }
sub took { my ($began) = @_; return sprintf('%.1f s', time() - $began) }

$class->on_add_hook('flash', $scfg, password => $token);
ok(await(300, sub { eval { there('paths'); 1 } }), 'a second node') or BAIL_OUT('pve2 does not answer');
$class->activate_storage('flash', $scfg, {});
there('call', 'activate_storage', 'flash', $cfg, {});
is_deeply([map { -s "$pve/nodes/$_/amita-host" ? $_ : () } qw(pve1 pve2)], [qw(pve1 pve2)], 'both say who they are');
isnt(AmitaProxmox::Host::slurp("$pve/nodes/pve1/amita-host"), AmitaProxmox::Host::slurp("$pve/nodes/pve2/amita-host"), 'and are not one');
my $direct = AmitaProxmox::Api->new(storeid => 'tests', api => $scfg->{'amita-api'}, token => $token, seconds => 3600);
sub hosts { my ($disk) = @_; my $found = $direct->find('x', "/volumes/flash-$disk/attachment"); return $found ? scalar @{ $found->{thing}{hosts} } : 0 }

# --- Live migration, there and back and there, while somebody writes
my $disk = $class->alloc_image('flash', $scfg, 100, 'raw', undef, 64 * 1024);
guests_are(100 => 'pve1');
active('pve1', $disk);
at('pve1', 'writes', $disk, 0);
ok(await(60, sub { writer('pve1')->{next} > 5 }), 'a guest writes at pve1');
my @ways = ([qw(pve1 pve2)], [qw(pve2 pve1)], [qw(pve1 pve2)]);
my ($next, %written) = (0);
for my $way (@ways) {
    my ($from, $to) = @$way;
    my $began = time();
    active($to, $disk);
    my $ready = took($began);
    is(hosts($disk), 2, "from $from to $to: both have the disk, $to after $ready");
    my $sure = writer($from)->{next} - 1;
    is(at($to, 'got', $disk, $sure), "$sure $from", "what $from has written just now $to reads");
    put($disk, 16000, "by pve1, $from"), is(there('got', $disk, 16000), "by pve1, $from", 'and what pve1 has');
    there('put', $disk, 16001, "by pve2, $from"), is(got($disk, 16001), "by pve2, $from", 'and the other way');
    # The guest stands still, its configuration goes over, and it goes on at once.
    $began = time();
    my $ended = at($from, 'halt');
    is($ended->{why}, '', "$from has written all, the slowest block in " . sprintf('%.2f s', $ended->{longest}));
    $written{$_} = "$_ $from" for $next .. $ended->{next} - 1;
    $next = $ended->{next};
    guests_are(100 => $to);
    at($to, 'writes', $disk, $next);
    inactive($from, $disk) for 1, 2;
    is(hosts($disk), 1, "$to alone has it");
    is(at($from, 'paths'), 0, "and $from no path");
    my $now = writer($to)->{next};
    ok(await(60, sub { writer($to)->{next} > $now + 20 }), "$to goes on") or diag(`/usr/bin/dmesg | /usr/bin/tail -n 60; /usr/bin/ps axo pid,stat,wchan:32,args | /usr/bin/tail -n 30; /usr/bin/grep . /sys/class/nvme/*/state /sys/class/nvme-subsystem/*/*/ana_state 2>&1`);
}
fails(sub { $class->free_image('flash', $scfg, $disk) }, qr/guest 100 is at node pve2, which may be using it/, 'pve1 cannot remove it');
fails(sub { there('call', 'volume_snapshot_rollback', $cfg, 'flash', $disk, 'x') }, qr/has no snapshot x/, 'nor pve2 go back to what is not there');
$class->volume_snapshot($scfg, 'flash', $disk, 'running');
fails(sub { there('call', 'volume_snapshot_rollback', $cfg, 'flash', $disk, 'running') }, qr/in use, by process/, 'nor to a snapshot while it is used');

# --- pve2 is lost, and lives, and writes: what it writes is nowhere once pve1 has the disk
my $sure = writer('pve2')->{next} - 1;
online('pve2', 0);
guests(100 => 'pve1');
@warned = ();
my $began = time();
active('pve1', $disk);
ok(1, 'pve1 takes the disk from a lost node in ' . took($began));
like("@warned", qr/is taken from node pve2, which is lost/, 'and says so');
is(hosts($disk), 1, 'it has it alone');
my $last = writer('pve2')->{next};
is(got($disk, $sure), "$sure pve2", 'with all that was written before');
$written{$_} = "$_ pve2" for $next .. $last - 1;
put($disk, $_, "$_ after") for $last .. $last + 20;
my $ends = there('writer_ends', 30);
sleep(5);
is(writer('pve2')->{next}, $last, 'the lost one writes nothing more: ' . ($ends ? 'the kernel has refused it' : 'it waits'));
is_deeply([grep { got($disk, $_) ne "$_ after" } $last .. $last + 20], [], 'and what pve1 has written since is there');
is_deeply([grep { got($disk, $_) ne $written{$_} } sort { $a <=> $b } grep { $_ < $last } keys %written], [], "so are all $last blocks of both nodes");

# What it knows is of before: that the guest is its own.
there('quorate', 0);
fails(sub { active('pve2', $disk) }, qr/is let in at pve1, and this node is not with most of its Proxmox cluster/, 'it does not take it back while it is lost');

# It comes back without a start.
online('pve2', 1);
there('quorate', 1);
there('guests', 100 => 'pve1');
there('call', 'activate_storage', 'flash', $cfg, {});
is(there('paths'), 0, 'back again, and without a user, it ends its paths') if $ends;
$began = time();
active('pve2', $disk);
is(hosts($disk), 2, 'is let in beside pve1, after ' . took($began));
is(there('got', $disk, $last), "$last after", 'reads what is there');
is(got($disk, $last), "$last after", 'and nothing that it had queued has come');
inactive('pve2', $disk);

# --- A node that is switched off
my $other = $class->alloc_image('flash', $scfg, 101, 'raw', undef, 16 * 1024);
guests_are(100 => 'pve1', 101 => 'pve2');
active('pve2', $other);
there('put', $other, 0, 'before');
there('writes', $other, 1);
await(60, sub { writer('pve2')->{next} > 5 });
spell("$share/switch-off", '');
ok(await(60, sub { -e "$share/switched-off" }), 'pve2 is switched off');
online('pve2', 0);
guests(100 => 'pve1', 101 => 'pve1');
$began = time();
active('pve1', $other);
is(hosts($other), 1, 'pve1 has its disk after ' . took($began));
is(got($other, 0), 'before', 'with what was written');
$sure = writer('pve2')->{next} - 1;
is(got($other, $sure), "$sure pve2", 'to the last block that was told to be written');

# --- The end
for my $name ($disk, $other) {
    inactive('pve1', $name);
    $class->free_image('flash', $scfg, $name) for 1, 2;
}
is(paths_here(), 0, 'no path is left');
is_deeply([map { $_->{name} } @{ $direct->all('x', '/subsystems') }], [], 'nor a subsystem');
done_testing();
