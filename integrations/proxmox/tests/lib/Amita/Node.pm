package Amita::Node;

# A node's API that is made up: what it answers is said by the test. For what a real node does not do when it is asked to: die in the middle, say nothing, say
# what is none.

use strict;
use warnings;

use IO::Socket::INET;
use JSON ();
use POSIX ();

# `answers`: sub ($method, $path, $headers, $body, $count) -> ($status, $thing, %headers); 'hang', 'drop' as the status. With `tls`: [certificate, key].
sub new {
    my ($class, $answers, %with) = @_;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 16, ReuseAddr => 1) or die "no port: $!\n";
    my $self = bless { port => $listen->sockport(), pid => undef }, $class;
    my $child = fork() // die "no process: $!\n";
    if (!$child) {
        $SIG{PIPE} = 'IGNORE';
        $SIG{CHLD} = 'IGNORE';
        my $count = 0;
        while (1) {
            my $client = $listen->accept() or next;
            serve($client, $answers, \$count, $with{tls});
        }
        POSIX::_exit(0);
    }
    close($listen);
    $self->{pid} = $child;
    return $self;
}

sub serve {
    my ($client, $answers, $count, $tls) = @_;
    if ($tls) {
        require IO::Socket::SSL;
        IO::Socket::SSL->start_SSL($client, SSL_server => 1, SSL_cert_file => $tls->[0], SSL_key_file => $tls->[1]) or return;
    }
    my $head = '';
    while ($head !~ m/\r\n\r\n/) {
        my $line = <$client> // return;
        $head .= $line;
    }
    my ($method, $path) = $head =~ m{\A(\S+) (\S+) HTTP} or return;
    my %headers = map { m/\A([^:]+):\s*(.*?)\r?\z/ ? (lc $1 => $2) : () } split /\n/, $head;
    my $body = '';
    read($client, $body, $headers{'content-length'}) if $headers{'content-length'};
    my ($status, $thing, %more) = $answers->($method, $path =~ s{\A/api/v1}{}r, \%headers, length $body ? JSON::decode_json($body) : undef, ++$$count);
    if ($status eq 'hang') { sleep(30); return }
    return close($client) if $status eq 'drop';
    my $text = ref $thing ? JSON::encode_json($thing) : $thing // '';
    my $lines = join '', map { "$_: $more{$_}\r\n" } sort keys %more;
    print {$client} "HTTP/1.1 $status X\r\nContent-Length: " . length($text) . "\r\nContent-Type: application/json\r\nConnection: close\r\n$lines\r\n$text";
    close($client);
    return;
}

sub at { my ($self) = @_; return "127.0.0.1:$self->{port}" }

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} // return;
    kill 'KILL', $pid;
    waitpid($pid, 0);
    return;
}

sub DESTROY { my ($self) = @_; local $?; $self->stop(); return }

1;
