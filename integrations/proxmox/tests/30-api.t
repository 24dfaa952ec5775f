#!/usr/bin/perl -T
# Requests: which node is asked, what is sent, what is done where an answer is lost. Nodes are made up here; real ones are in 50-cluster.t.
use strict;
use warnings;

use File::Temp ();
use Test::More;
use Time::HiRes qw(time);

use Amita::Here;
use Amita::Node;
use PVE::Storage;

my $class = 'PVE::Storage::Custom::AmitaPlugin';
my ($folder) = File::Temp::tempdir(CLEANUP => 1) =~ m/\A(.*)\z/;
$PVE::Storage::Custom::AmitaPlugin::AT{pve} = $folder;
mkdir "$folder/$_" for qw(priv priv/storage nodes nodes/pve1);
sub token { my ($text) = @_; open(my $handle, '>', "$folder/priv/storage/flash.pw") or die; print {$handle} "$text\n"; close($handle); return }
token('amita-token-of-a-test');
my $closed = do { my $free = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1); $free->sockport() };
sub scfg { my (@nodes) = @_; return { type => 'amita', 'amita-prefix' => 'flash', 'amita-pool' => 'main', 'amita-api' => join(',', map { ref $_ ? 'http://' . $_->at() : $_ } @nodes) } }
my $volume = { name => 'flash-vm-100-disk-0', id => 7, size_bytes => 4096, labels => { 'proxmox.amita.io/storage' => 'flash' } };
my $good = sub { my ($method, $path) = @_; return $path =~ m{/volumes/} ? (200, $volume, ETag => '"1"') : (200, { items => [$volume], next => undef }) };
sub size { return scalar $class->volume_size_info(scfg(@_), 'flash', 'vm-100-disk-0') }
sub problem { my ($status, $code, $detail) = @_; return ($status, { code => $code, detail => $detail, status => $status }) }

my $node = Amita::Node->new($good);
is(size($node), 4096, 'a node is asked');
is(size("http://127.0.0.1:$closed", $node), 4096, 'the next one, where nobody listens');
my $began = time();
is(size($node, "http://127.0.0.1:$closed"), 4096, 'whichever stands first');
my $seen = Amita::Node->new(sub { my ($method, $path, $headers) = @_; return (200, { %$volume, size_bytes => $headers->{authorization} eq 'Bearer amita-token-of-a-test' ? 8192 : 0 }) });
is(size($seen), 8192, 'with the token');

for my $case (
    ['has lost its metadata', sub { problem(503, 'metadata-away', 'the metadata is away') }],
    ['has no room', sub { problem(429, 'too-many', 'too many requests') }],
    ['goes away in the middle', sub { 'drop' }],
    ['is a proxy without a node', sub { (502, '<html>') }],
    ['says what is no JSON', sub { (200, 'hello') }],
) {
    my ($what, $answers) = @$case;
    my $bad = Amita::Node->new($answers);
    is(size($bad, $node), 4096, "the next one, where one $what");
}
my $later = Amita::Node->new(sub { my ($method, $path, $headers, $body, $count) = @_; return $count < 3 ? problem(503, 'metadata-away', 'the metadata is away') : $good->($method, $path) });
is(size($later), 4096, 'the same one again, until its metadata is there');

eval { size("http://127.0.0.1:$closed") };
like($@, qr{\Aamita storage 'flash': no node of the cluster answers: http://127\.0\.0\.1:$closed: no connection.*amita serve --api.*Look at `amita status`}, 'what, where, and what to do');
is($@ =~ tr/\n//, 1, 'in one line');

# What needs time to be found out: a node that takes connections and says nothing.
{
    my $hangs = Amita::Node->new(sub { 'hang' });
    my $api = AmitaProxmox::Api->new(storeid => 'flash', api => 'http://' . $hangs->at(), token => 'x' x 8, seconds => 2);
    $began = time();
    eval { $api->find('a disk', '/volumes/x') };
    like($@, qr/no node of the cluster answers.*[Tt]imed out/, 'a node that says nothing is not waited for');
    cmp_ok(time() - $began, '<', 4, 'for longer than the call may take');
}

# Refusals are told as they are, and no other node is asked.
my $asked = 0;
my $refuses = Amita::Node->new(sub { problem(401, 'unauthenticated', 'nobody has shown who asks') });
eval { size($refuses, "http://127.0.0.1:$closed") };
like($@, qr/nobody has shown who asks.*amita token create NAME --role operator.*pvesm set flash --password/, 'a token that is not good: how to make one');
my $denies = Amita::Node->new(sub { problem(403, 'denied', 'a viewer may not') });
eval { $class->alloc_image('flash', scfg($denies), 100, 'raw', 'vm-100-disk-0', 4) };
like($@, qr/disk vm-100-disk-0 cannot be made: a viewer may not.*role operator/, 'a token of another role');
unlink "$folder/priv/storage/flash.pw";
eval { size($node) };
like($@, qr/no token in .*flash\.pw.*pvesm set flash --password/, 'no token');
token('amita-token-of-a-test');

# Another storage's volume, or one made by hand, is left alone.
my $strange = Amita::Node->new(sub { (200, { %$volume, labels => {} }, ETag => '"1"') });
for my $call (
    [size => sub { size($strange) }], [free_image => sub { $class->free_image('flash', scfg($strange), 'vm-100-disk-0') }],
    [activate_volume => sub { $class->activate_volume('flash', scfg($strange), 'vm-100-disk-0') }],
    [volume_resize => sub { $class->volume_resize(scfg($strange), 'flash', 'vm-100-disk-0', 1 << 20) }],
    [volume_snapshot => sub { $class->volume_snapshot(scfg($strange), 'flash', 'vm-100-disk-0', 'a') }],
) {
    eval { $call->[1]->() };
    like($@, qr/is not this storage's: it has no label proxmox\.amita\.io\/storage=flash/, "$call->[0] of another's volume");
}

# An answer that is lost: it was done, and the next node says so. `files` are what all nodes know.
sub store { my ($name, $text) = @_; open(my $handle, '>', "$folder/$name") or die; print {$handle} $text; close($handle); return }
sub stored { my ($name) = @_; open(my $handle, '<', "$folder/$name") or return ''; local $/; return scalar <$handle> }
sub cluster {
    my ($is_cut) = @_;
    return Amita::Node->new(sub {
        my ($method, $path, $headers, $body) = @_;
        if ($method eq 'POST' && $path eq '/volumes') {
            return problem(409, 'exists', "a volume named $body->{name} exists already") if stored('made');
            store('made', JSON::encode_json({ %$volume, name => $body->{name}, size_bytes => $body->{size_bytes}, labels => $body->{labels} }));
            return 'drop' if $is_cut;
            return (201, JSON::decode_json(stored('made')), ETag => '"1"');
        }
        return stored('made') ? (200, JSON::decode_json(stored('made')), ETag => '"1"') : problem(404, 'not-found', 'there is none') if $path =~ m{\A/volumes/};
        return (200, { items => [] });
    });
}
my ($cut, $whole) = (cluster(1), cluster(0));
is($class->alloc_image('flash', scfg($cut, $whole), 100, 'raw', 'vm-100-disk-0', 4), 'vm-100-disk-0', 'a disk whose making was not told of is known as this call\'s');
like(JSON::decode_json(stored('made'))->{labels}{'proxmox.amita.io/call'}, qr/\A[0-9a-f]{32}\z/, 'by a label');
eval { $class->alloc_image('flash', scfg($cut, $whole), 100, 'raw', 'vm-100-disk-0', 4) };
like($@, qr/exists already/, 'and another call has not made it');

# Sizes: Proxmox counts in KiB, Amita in 4 KiB.
unlink "$folder/made";
$class->alloc_image('flash', scfg($whole), 100, 'raw', 'vm-100-disk-0', 5);
is(JSON::decode_json(stored('made'))->{size_bytes}, 8192, 'a size is rounded up');
eval { $class->alloc_image('flash', scfg($whole), 100, 'qcow2', undef, 4) };
like($@, qr/unsupported format 'qcow2'/, 'raw alone');
eval { $class->alloc_image('flash', scfg($whole), 100, 'raw', 'vm-101-disk-0', 4) };
like($@, qr/illegal name 'vm-101-disk-0'/, 'another guest\'s name');

# TLS.
SKIP: {
    eval { require IO::Socket::SSL; 1 } or skip 'there is no IO::Socket::SSL (libio-socket-ssl-perl)', 6;
    my $made = system('sh', '-c', <<'SH', $folder);
cd "$0" && exec >openssl.log 2>&1 && set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca-key.pem -out ca.pem -subj /CN=authority -days 2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout other-key.pem -out other.pem -subj /CN=other -days 2
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out request.pem -subj /CN=node
printf 'subjectAltName=IP:127.0.0.1' >names && openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out cert.pem
printf 'subjectAltName=DNS:elsewhere' >names && openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out elsewhere.pem
SH
    is($made, 0, 'certificates');
    my $tls = Amita::Node->new($good, tls => ["$folder/cert.pem", "$folder/key.pem"]);
    my $elsewhere = Amita::Node->new($good, tls => ["$folder/elsewhere.pem", "$folder/key.pem"]);
    my $ask = sub { my ($node, $authority) = @_; return scalar $class->volume_size_info({ %{ scfg($node->at()) }, 'amita-authority' => $authority }, 'flash', 'vm-100-disk-0') };
    is($ask->($tls, "$folder/ca.pem"), 4096, 'by TLS');
    eval { $ask->($tls, "$folder/other.pem") };
    like($@, qr/no node of the cluster answers.*certificate.*amita-authority/s, 'another authority is not believed');
    eval { $ask->($tls, undef) };
    like($@, qr/no node of the cluster answers.*certificate/s, 'nor one that the system does not know');
    eval { $ask->($elsewhere, "$folder/ca.pem") };
    like($@, qr/no node of the cluster answers.*does that name this host/s, 'nor a certificate for another host');
    eval { $ask->($tls, "$folder/none.pem") };
    like($@, qr/there is no readable .*none\.pem \(amita-authority\)/, 'and a file that is not there is told of');
}

# A redirection would take the token elsewhere.
my $moved = Amita::Node->new(sub { (302, '', Location => 'http://' . $seen->at() . '/api/v1/volumes/flash-vm-100-disk-0') });
eval { size($moved) };
like($@, qr/a node answers 302/, 'redirections are not followed');
{
    local $ENV{http_proxy} = "http://127.0.0.1:$closed";
    is(size($node), 4096, 'nor is a proxy of the environment asked');
}
done_testing();
