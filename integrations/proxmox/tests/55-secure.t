#!/usr/bin/perl
# A cluster whose parts prove who they are, and whose API is HTTPS with a certificate by an authority of one's own: as one is that is not on one machine.
# scripts/test-proxmox starts it, with a node of one store.
use strict;
use warnings;

use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep);

use Amita::Here;
use PVE::Storage;

my $port = $ENV{AMITA_TEST_SECURE_PORT} or plan skip_all => 'scripts/test-proxmox starts the cluster';
my $files = $ENV{AMITA_TEST_SECURE};
my $class = 'PVE::Storage::Custom::AmitaPlugin';
my $pve = File::Temp::tempdir(CLEANUP => 1);
mkdir "$pve/$_" for qw(priv priv/storage nodes nodes/pve1);
$PVE::Storage::Custom::AmitaPlugin::AT{pve} = $pve;
$AmitaProxmox::Host::AT{$_} = "$pve/$_" for qw(sys dev proc run);
$AmitaProxmox::Host::AT{machine_id} = "$pve/machine-id";
PVE::Tools::file_set_contents("$pve/machine-id", "0123456789abcdef0123456789abcdef\n");
my $token = AmitaProxmox::Host::slurp("$files/operator");
sub fails { my ($code, $why, $what) = @_; my $said = eval { $code->(); 1 }; if ($said) { fail("$what: it was done") } else { like($@, $why, $what) } return }
sub add {
    my ($storeid, $host, $authority) = @_;
    my $scfg = $class->check_config($storeid, { 'amita-api' => "$host:$port", 'amita-pool' => 'main', defined $authority ? ('amita-authority' => $authority) : () }, 1, 0);
    $class->on_add_hook($storeid, $scfg, password => $token);
    return $scfg;
}

for my $host ('127.0.0.1', 'localhost') {
    fails(sub { add('other', $host) }, qr/certificate verify failed.*is amita-authority the authority/, "$host: not by an authority that the system does not have");
    fails(sub { add('other', $host, "$files/stranger.pem") }, qr/certificate verify failed/, 'nor by another one');
    my $scfg = add("by-$host", $host, "$files/authority.pem");
    ok($scfg, 'by that of its certificate');
    $class->activate_storage("by-$host", $scfg, {}) for 1, 2;
    is($class->alloc_image("by-$host", $scfg, 100, 'raw', undef, 1024), 'vm-100-disk-0', 'a disk');
    $class->volume_snapshot($scfg, "by-$host", 'vm-100-disk-0', 'before');
    is_deeply([keys %{ $class->volume_snapshot_info($scfg, "by-$host", 'vm-100-disk-0') }], ['before'], 'its snapshot');
    is(scalar @{ $class->list_images("by-$host", $scfg) }, 1, 'a list');
    $class->free_image("by-$host", $scfg, 'vm-100-disk-0') for 1, 2;
    is_deeply($class->list_images("by-$host", $scfg), [], 'it is gone');
}
fails(sub { add('other', '127.0.0.2', "$files/authority.pem") }, qr/no node of the cluster answers/, 'an address that the certificate does not have');
fails(sub { $class->check_config('other', { 'amita-api' => "http://10.0.0.1:$port", 'amita-pool' => 'main' }, 1, 0) }, qr/in the clear/, 'a token goes over no network in the clear');
done_testing();
