# Amita's storage plugin for Proxmox VE 8 and 9: disks of guests are volumes of Amita, and hosts have them by NVMe/TCP.
#
# Three parts, each a package of this one file (Proxmox loads each file of its folder as a plugin):
#
#   AmitaProxmox::Api    requests of Amita's REST API: several nodes, TLS, the token, time-outs
#   AmitaProxmox::Host   this machine: paths by /dev/nvme-fabrics, what sysfs says of them, links below /dev/amita
#   the plugin           what Proxmox asks for
#
# It keeps nothing of its own. What there is lies in the cluster: a disk is a volume with the label `proxmox.amita.io/storage`, and who has
# it is the list of hosts of a subsystem of its own, `pve-SUM-NUMBER`. So any call can be cut anywhere and given again, by any node. Why it is
# as it is: docs/decisions/090-*.md; how it is used: docs/orchestrators/proxmox.md.
#
# Proxmox' daemons run with taint checks (perl -T): what came from the network or from a file goes into a path or a system call only after a
# pattern has let it through.

package AmitaProxmox::Api;

use strict;
use warnings;

use HTTP::Tiny;
use IO::Socket::IP;
use JSON ();
use Time::HiRes ();

our %SECONDS = (
    # All of one call of Proxmox', whatever it asks: its locks of the cluster are held for 60 s at most.
    call => 45,
    # One request; where a node says nothing for so long, the next one is asked. A change may have to wait for the node that has a volume open.
    look => 10,
    change => 30,
    # A machine that is gone says nothing at all: it is found out by a connection, before a request is sent.
    reach => 3,
);
# An answer may have so many bytes,
use constant MOST_BYTES => 16 << 20;
# and a list so many pieces of 1,000 items.
use constant MOST_PIECES => 200;
# Nodes that have no room, or no metadata, are asked again so often.
use constant MOST_ROUNDS => 5;

# Which node of a storage has answered last; for as long as this process lives.
my %answered;

sub json { return JSON->new->utf8->canonical }

# What a text is in a path or a parameter (RFC 3986, section 2.1).
sub encode {
    my ($text) = @_;
    utf8::encode($text) if utf8::is_utf8($text);
    $text =~ s/([^0-9A-Za-z\-._~])/sprintf('%%%02X', ord $1)/ge;
    return $text;
}

# HOST:PORT, https://HOST:PORT, or http:// for this machine alone: a token goes over no network in the clear.
sub address {
    my ($text) = @_;
    my ($scheme, $host, $port) = $text =~ m{\A(?:(https?)://)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):([0-9]{1,5})/?\z}
        or die "'$text' is no address of a node's API: write HOST:PORT, as `amita serve --api` has it\n";
    $scheme //= 'https';
    (my $bare = $host) =~ s/\A\[(.*)\]\z/$1/;
    die "'$text': the token would go over the network in the clear; http:// is for this machine alone, by 127.0.0.1 or [::1]\n"
        if $scheme eq 'http' && $bare !~ m{\A(?:127(?:\.[0-9]{1,3}){3}|::1|localhost)\z};
    die "'$text': a port is 1 to 65535\n" if $port < 1 || $port > 65535;
    return { url => "$scheme://$host:$port", host => $bare, port => $port + 0 };
}

sub addresses {
    my ($text) = @_;
    my @all = map { address($_) } grep { length } split /[\s,;]+/, $text // '';
    die "amita-api names no node: write HOST:PORT, several separated by commas\n" if !@all;
    return @all;
}

sub new {
    my ($class, %with) = @_;
    my $self = bless {
        storeid => $with{storeid},
        addresses => [addresses($with{api})],
        token => $with{token},
        seconds => $with{seconds} // $SECONDS{call},
    }, $class;
    $self->begin();
    # A node shows `--api-certificate` to who names a host or a protocol; an address is named to nobody (RFC 6066, section 3), so it is the protocol.
    my %tls = (SSL_verifycn_scheme => 'http', SSL_alpn_protocols => ['http/1.1']);
    if (defined(my $file = $with{authority})) {
        -r $file or die $self->text("there is no readable $file (amita-authority): the certificates of the authorities that nodes' certificates are by, as PEM");
        $tls{SSL_ca_file} = $file;
    }
    # A redirection would take the token elsewhere; environment variables of a proxy are not ours to follow.
    $self->{http} = HTTP::Tiny->new(
        verify_SSL => 1,
        SSL_options => \%tls,
        max_redirect => 0,
        max_size => MOST_BYTES,
        keep_alive => 1,
        proxy => undef,
        http_proxy => undef,
        https_proxy => undef,
        agent => 'amita-proxmox',
        timeout => $SECONDS{change},
    );
    return $self;
}

sub text { my ($self, $what) = @_; return "amita storage '$self->{storeid}': $what\n" }

# The time of a call runs from here on: who has waited for a lock has all of it.
sub begin { my ($self) = @_; $self->{until} = Time::HiRes::time() + $self->{seconds}; return }

sub left { my ($self) = @_; return $self->{until} - Time::HiRes::time() }

# Does somebody listen there? HTTP::Tiny has one time for connections and for answers, and an answer may take longer than a connection.
sub reach {
    my ($to, $seconds) = @_;
    my $socket = IO::Socket::IP->new(PeerHost => $to->{host}, PeerPort => $to->{port}, Type => Socket::SOCK_STREAM(), Timeout => $seconds);
    return undef if $socket;
    return 'no connection' . ($! ? ": $!" : '') . ' (is `amita serve --api` there?)';
}

# One request at one node: the answer, or why there is none; and whether it may have been done.
sub ask_one {
    my ($self, $to, $method, $path, $with) = @_;
    my $seconds = $self->left();
    my $why = $self->{reached}{ $to->{url} } ? undef : reach($to, $seconds < $SECONDS{reach} ? $seconds : $SECONDS{reach});
    return (undef, $why, 0) if $why;
    $seconds = $self->left();
    my $most = $SECONDS{ $method eq 'GET' ? 'look' : 'change' };
    $self->{http}->timeout($seconds < 1 ? 1 : $seconds < $most ? $seconds : $most);
    my %headers = (Accept => 'application/json');
    $headers{Authorization} = "Bearer $self->{token}" if defined $self->{token};
    $headers{'If-Match'} = $with->{if_match} if defined $with->{if_match};
    my %request = (headers => \%headers);
    if ($with->{body}) {
        $headers{'Content-Type'} = 'application/json';
        $request{content} = json()->encode($with->{body});
    }
    my $said = $self->{http}->request($method, "$to->{url}/api/v1$path", \%request);
    my ($status, $content) = ($said->{status}, $said->{content} // '');
    $self->{reached}{ $to->{url} } = $status != 599;
    if ($status == 599) {
        ($why) = $content =~ m{\A\s*([^\n]*)};
        $why =~ s/\s+at \S+ line \d+\.?\z//;
        $why .= ': is amita-authority the authority of what it shows (`amita serve --api-certificate`), and does that name this host?'
            if $why =~ m/SSL|certificate/i;
        return (undef, $why, $why !~ m/SSL connection failed|connect to/i);
    }
    my $thing = length($content) ? eval { json()->decode($content) } : undef;
    $thing = undef if defined $thing && ref $thing ne 'HASH';
    my %answer = (status => $status, ok => $status >= 200 && $status < 300, etag => $said->{headers}{etag}, thing => $thing, from => $to->{url});
    if ($answer{ok}) {
        return (undef, 'its answer cannot be read', $method ne 'GET') if $status != 204 && !$thing;
        return (\%answer);
    }
    $answer{code} = ($thing && $thing->{code}) || "http-$status";
    $answer{detail} = ($thing && $thing->{detail}) || "a node answers $status";
    my $elsewhere = $status =~ m/\A(?:421|429|50[234])\z/ && $answer{code} ne 'not-in-time';
    return (undef, "$answer{code}: $answer{detail}", $status >= 502, $status == 429 || $status == 503) if $elsewhere;
    return (\%answer);
}

# Asks the nodes, one after the other, until one answers. `unsure` of an answer: a node before it may have done it already.
sub ask {
    my ($self, $method, $path, %with) = @_;
    my @to = @{ $self->{addresses} };
    my $first = $answered{ $self->{storeid} };
    @to = sort { ($b->{url} eq $first) <=> ($a->{url} eq $first) } @to if defined $first;
    my $unsure = 0;
    my @why;
    for my $round (1 .. MOST_ROUNDS) {
        @why = ();
        my $again = 0;
        for my $to (@to) {
            if ($self->left() < 1) {
                push @why, "$to->{url}: not asked, for the time is over";
                next;
            }
            my ($answer, $why, $done, $soon) = $self->ask_one($to, $method, $path, \%with);
            $unsure ||= $done if !$answer && $method ne 'GET';
            if ($answer) {
                $answered{ $self->{storeid} } = $to->{url};
                $answer->{unsure} = $unsure;
                return $answer;
            }
            push @why, "$to->{url}: $why";
            $again ||= $soon;
        }
        last if !$again || $self->left() < 3 || $round == MOST_ROUNDS;
        Time::HiRes::sleep(1);
    }
    my $done = $unsure ? ' (it may have been done all the same)' : '';
    die $self->text("no node of the cluster answers$done: " . join('; ', @why) . '. Look at `amita status`, and at amita-api of this storage');
}

# What was refused, in words.
sub refused {
    my ($self, $what, $answer) = @_;
    my $more = '';
    $more = ". Make a token (`amita token create NAME --role operator --life 366d`) and give it: `pvesm set $self->{storeid} --password`"
        if $answer->{code} eq 'unauthenticated';
    $more = '. The token wants the role operator (`amita token create NAME --role operator`)' if $answer->{code} eq 'denied';
    return $self->text("$what: $answer->{detail} [$answer->{code}, $answer->{from}]$more");
}

# An answer that has to be good.
sub must {
    my ($self, $what, $method, $path, %with) = @_;
    my $answer = $self->ask($method, $path, %with);
    die $self->refused($what, $answer) if !$answer->{ok};
    return $answer;
}

# What lies there; undef: nothing does.
sub find {
    my ($self, $what, $path) = @_;
    my $answer = $self->ask(GET => $path);
    return $answer if $answer->{ok};
    return undef if $answer->{code} eq 'not-found';
    die $self->refused($what, $answer);
}

sub all {
    my ($self, $what, $path) = @_;
    my $mark = $path =~ m/\?/ ? '&' : '?';
    my ($after, @all) = ('');
    for (1 .. MOST_PIECES) {
        my $piece = $self->must($what, GET => "$path${mark}limit=1000$after")->{thing};
        push @all, @{ $piece->{items} // [] };
        return \@all if !defined $piece->{next};
        $after = '&after=' . encode($piece->{next});
    }
    die $self->text("$what: the list has more than " . MOST_PIECES . ' pieces');
}

package AmitaProxmox::Host;

use strict;
use warnings;

use Digest::SHA ();
use Errno ();
use Fcntl qw(:DEFAULT :flock);
use IO::Handle ();
use IO::Select ();
use IO::Socket::IP;
use POSIX ();
use Time::HiRes ();

# Where this machine's things are; tests have them elsewhere.
our %AT = (
    sys => '/sys',
    dev => '/dev',
    proc => '/proc',
    run => '/run/amita-proxmox',
    machine_id => '/etc/machine-id',
);

# Settings of each path (decision 069): a gateway that froze is noticed after five seconds, one that is back is a path again after two, attempts
# never end, and I/O waits ten minutes while there is no path at all. Two queues: each is a connection, and a machine has many disks.
use constant SETTINGS => 'nr_io_queues=2,keep_alive_tmo=5,reconnect_delay=2,ctrl_loss_tmo=-1,fast_io_fail_tmo=600';

our %SECONDS = (
    # The kernel makes one path at a time, whosever it is (nvmf_dev_mutex), and waits for a gateway that is stopped, or whose machine is gone, while it has all others wait:
    # 3 s for a connection, 10 s for the first answer, 60 s for that to Connect. So a gateway is greeted before, by TCP and by NVMe/TCP.
    reach => 2,
    # As long as the kernel would wait for it.
    greet => 10,
    # Longest that the kernel may take for one path.
    connect => 15,
    # A gateway that has not heard yet of what was just published refuses: it is asked again for so long where there is no path.
    patience => 5,
    # A disk that is connected is waited for, with the link that udev makes to it; and so is its new size.
    disk => 15,
    grow => 15,
    # What was written is to be with the cluster before the last path ends.
    flush => 60,
    end => 20,
    look => 10,
    # Who looks at a disk for a moment, as udev does when it was written to, is not who uses it.
    busy => 5,
    # Another process of this machine that is at work on the same disk is waited for.
    lock => 90,
);

# --- Small things that touch the machine; tests put others in their place.

sub slurp {
    my ($file) = @_;
    open(my $handle, '<', $file) or return '';
    my $text = do { local $/; <$handle> };
    close($handle);
    $text //= '';
    $text =~ s/\s+\z//;
    return $text;
}

sub listed {
    my ($folder) = @_;
    opendir(my $handle, $folder) or return ();
    my @names = sort grep { defined } map { m/\A([A-Za-z0-9_:.-]+)\z/ ? $1 : undef } readdir($handle);
    closedir($handle);
    return grep { !m/\A\.\.?\z/ } @names;
}

sub put {
    my ($file, $text) = @_;
    sysopen(my $handle, $file, O_WRONLY) or return $! + 0;
    my $said = defined(syswrite($handle, $text)) ? 0 : $! + 0;
    close($handle);
    return $said;
}

# Has the kernel make a path: what it says of it, and the number of the error.
sub fabrics {
    my ($line) = @_;
    sysopen(my $handle, "$AT{dev}/nvme-fabrics", O_RDWR) or return ('', $! + 0);
    defined(syswrite($handle, $line)) or return ('', $! + 0);
    my $said = '';
    sysread($handle, $said, 4096);
    return ($said, 0);
}

# Does a gateway answer there? The kernel of its machine takes connections for one that is stopped; so the first word is said, too (ICReq, NVMe/TCP transport
# specification, section 3.6.2.2), and the answer (ICResp) read.
sub reach {
    my ($address, $port) = @_;
    my $socket = IO::Socket::IP->new(PeerHost => $address, PeerPort => $port, Type => Socket::SOCK_STREAM(), Timeout => $SECONDS{reach});
    return "nothing listens there: $!" if !$socket;
    local $SIG{PIPE} = 'IGNORE';
    syswrite($socket, pack('C4 V x120', 0, 0, 128, 0, 128)) or return "it hangs up: $!";
    my ($said, $until, $select) = ('', Time::HiRes::time() + $SECONDS{greet}, IO::Select->new($socket));
    while (length($said) < 8) {
        my $left = $until - Time::HiRes::time();
        return "it takes connections, and has not answered within $SECONDS{greet} s (is the node stopped?)" if $left <= 0;
        next if !$select->can_read($left);
        my $got = sysread($socket, $said, 128, length $said);
        next if !defined $got && $! == Errno::EINTR();
        return 'it hangs up' if !$got;
    }
    return unpack('C', $said) == 1 ? '' : 'what listens there does not speak NVMe/TCP';
}

sub modprobe {
    local %ENV = (PATH => '/usr/sbin:/usr/bin:/sbin:/bin');
    system('/sbin/modprobe', '-q', 'nvme-tcp');
    return;
}

sub is_block { my ($path) = @_; return -b $path }

# Has something claimed the disk: a file system, the device mapper, swap?
sub claimed {
    my ($device) = @_;
    sysopen(my $handle, $device, O_RDONLY | O_EXCL | O_NONBLOCK) or return $! == Errno::EBUSY() ? 1 : 0;
    close($handle);
    return 0;
}

# To read, which is enough for it: who closes what was open to write has udev look at it.
sub flush {
    my ($device) = @_;
    sysopen(my $handle, $device, O_RDONLY | O_NONBLOCK) or return "$!";
    return IO::Handle::sync($handle) ? '' : "$!";
}

# --- Things that may take long, in a process of their own: Proxmox has the alarm of this one for its locks.

# Those that were not waited for: they were slow, or an alarm ended the wait.
my %left;

sub in_child {
    my ($seconds, $what, $code) = @_;
    for my $child (keys %left) { delete $left{$child} if waitpid($child, POSIX::WNOHANG()) != 0 }
    pipe(my $read, my $write) or die "$what: no pipe: $!\n";
    my $child = fork() // die "$what: no process: $!\n";
    if (!$child) {
        # A process that the kernel does not let go holds no lock and no connection of its parent's.
        my $own = fileno($write);
        POSIX::close($_) for grep { $_ != $own } 3 .. 1023;
        $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP QUIT PIPE CHLD ALRM __WARN__ __DIE__);
        my $said = eval { '=' . ($code->() // '') };
        $said = "!$@" if !defined $said;
        syswrite($write, $said);
        POSIX::_exit(0);
    }
    $left{$child} = 1;
    close($write);
    my ($said, $until) = ('', Time::HiRes::time() + $seconds);
    my $select = IO::Select->new($read);
    while (1) {
        my $left = $until - Time::HiRes::time();
        if ($left <= 0 || !$select->can_read($left)) {
            next if $left > 0;
            kill 'KILL', $child;
            die "$what: nothing came of it within $seconds s\n";
        }
        my $got = sysread($read, $said, 65536, length $said);
        next if !defined $got && $! == Errno::EINTR();
        last if !$got;
    }
    waitpid($child, 0);
    delete $left{$child};
    return $1 if $said =~ m/\A=(.*)\z/s;
    die $said =~ m/\A!(.+)\z/s ? $1 : "$what: it ended without a word\n";
}

# One process of this machine at a time is at work on a disk. With `at_once`, where another one is: undef.
sub locked {
    my ($key, $at_once, $code) = @_;
    ($key) = $key =~ m/\A([A-Za-z0-9._@-]+)\z/ or die "no name of a lock: $key\n";
    mkdir($AT{run}, 0755);
    my $file = "$AT{run}/$key.lock";
    my $until = Time::HiRes::time() + ($at_once ? 0 : $SECONDS{lock});
    while (1) {
        sysopen(my $handle, $file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600) or die "no lock $file: $!\n";
        while (!flock($handle, LOCK_EX | LOCK_NB)) {
            return undef if $at_once;
            die "$file: another process is at work on this disk for $SECONDS{lock} s\n" if Time::HiRes::time() > $until;
            Time::HiRes::sleep(0.1);
        }
        # Who had it may have taken the file away.
        my ($own, $there) = ((stat $handle)[1], (stat $file)[1]);
        next if !defined $there || $own != $there;
        my @said = wantarray ? $code->() : scalar $code->();
        unlink $file;
        return wantarray ? @said : $said[0];
    }
}

# --- Who this machine is for gateways.

# A UUID that stays, and is none that other programs connect by: kernels want one name for each identifier, and what is taken from this
# plugin is not taken from others.
sub identifier {
    my ($node) = @_;
    my $machine = slurp($AT{machine_id});
    die "there is no $AT{machine_id}: `systemd-machine-id-setup` makes it\n" if $machine !~ m/\A[0-9a-f]{32}\z/;
    my $sum = Digest::SHA::sha256_hex("amita-proxmox\0$machine\0$node");
    # RFC 9562, section 5.8.
    substr($sum, 12, 1) = '8';
    substr($sum, 16, 1) = sprintf('%x', hex(substr($sum, 16, 1)) & 3 | 8);
    return join('-', $sum =~ m/\A(.{8})(.{4})(.{4})(.{4})(.{12})/);
}

sub host_nqn { my ($identifier) = @_; return "nqn.2014-08.org.nvmexpress:uuid:$identifier" }

# --- Paths and disks, as sysfs has them.

sub paths {
    my @all;
    for my $name (grep { m/\Anvme\d+\z/ } listed("$AT{sys}/class/nvme")) {
        my $folder = "$AT{sys}/class/nvme/$name";
        my $nqn = slurp("$folder/subsysnqn") =~ m/\A([!-~]+)\z/ ? $1 : '';
        my %address = map { m/\A([a-z_]+)=(.*)\z/ ? ($1, $2) : () } split /,/, slurp("$folder/address");
        push @all, { name => $name, nqn => $nqn, state => slurp("$folder/state"), address => ($address{traddr} // '') . ' ' . ($address{trsvcid} // '') };
    }
    return @all;
}

# `nvme0n1`, and not `nvme0c0n1`, which is one path of it.
sub disk {
    my ($nqn, $uuid) = @_;
    for my $subsystem (listed("$AT{sys}/class/nvme-subsystem")) {
        my $folder = "$AT{sys}/class/nvme-subsystem/$subsystem";
        next if slurp("$folder/subsysnqn") ne $nqn;
        for my $name (grep { m/\Anvme\d+n\d+\z/ } listed($folder)) {
            return $name if !defined $uuid || lc(slurp("$AT{sys}/block/$name/uuid")) eq lc($uuid);
        }
    }
    return undef;
}

sub bytes { my ($disk) = @_; my $sectors = slurp("$AT{sys}/block/$disk/size"); return $sectors =~ m/\A\d+\z/ ? $sectors * 512 : 0 }

sub rescan {
    my ($nqn) = @_;
    put("$AT{sys}/class/nvme/$_->{name}/rescan_controller", '1') for grep { $_->{nqn} eq $nqn && $_->{state} eq 'live' } paths();
    return;
}

# Who uses a disk; empty: nobody.
sub used_by {
    my ($disk) = @_;
    my @holders = listed("$AT{sys}/block/$disk/holders");
    for my $part (grep { m/\A\Q$disk\Ep\d+\z/ } listed("$AT{sys}/block/$disk")) {
        push @holders, listed("$AT{sys}/block/$disk/$part/holders");
    }
    return 'by ' . join(', ', map { my $name = slurp("$AT{sys}/block/$_/dm/name"); $name ? "$_ ($name)" : $_ } @holders) if @holders;
    # By names alone: whatever else a process has open may hang.
    for my $process (grep { m/\A\d+\z/ } listed("$AT{proc}")) {
        for my $number (listed("$AT{proc}/$process/fd")) {
            my $open = readlink("$AT{proc}/$process/fd/$number") // next;
            next if $open !~ m{\A\Q$AT{dev}\E/\Q$disk\E(?:p\d+)?\z} || $process == $$;
            return "by process $process (" . slurp("$AT{proc}/$process/comm") . ')';
        }
    }
    # Who opens a disk whose partitions are to be read has the kernel read them, and that hangs where no path is left.
    my $is_claimed = eval { in_child($SECONDS{look}, "the look at $AT{dev}/$disk", sub { claimed("$AT{dev}/$disk") }) };
    if (!defined $is_claimed) {
        die $@ if $@ !~ m/nothing came of it/;
        return "or it does not answer: it could not be opened within $SECONDS{look} s";
    }
    return 'by a file system, swap, or an array of disks' if $is_claimed;
    return '';
}

# --- Connecting.

sub ready {
    modprobe() if !-e "$AT{dev}/nvme-fabrics";
    die "there is no $AT{dev}/nvme-fabrics: this kernel has no nvme-tcp (`modprobe nvme-tcp`)\n" if !-e "$AT{dev}/nvme-fabrics";
    my $multipath = slurp("$AT{sys}/module/nvme_core/parameters/multipath");
    die "the kernel has no multipath of NVMe, or was started with nvme_core.multipath=N: each path would be a disk of its own\n" if $multipath ne 'Y';
    return;
}

# Has the paths to a disk that are missing made; its name, where one is there at least. `ends`: whose paths by other names are ended once this
# one is live: what is queued there is to fail, and the kernel makes no second disk of one UUID.
sub connect_paths {
    my ($target, $identifier, $ends, $seconds) = @_;
    ready();
    my ($nqn, $uuid) = ($target->{nqn}, $target->{uuid});
    my $mine = sub { grep { $_->{nqn} eq $nqn && $_->{state} !~ m/\Adeleting/ } paths() };
    my %there = map { $_->{address} => 1 } $mine->();
    my $live = grep { $_->{state} eq 'live' } $mine->();
    my @missing = grep { !$there{"$_->{address} $_->{port}"} } @{ $target->{gateways} };
    my $until = Time::HiRes::time() + $SECONDS{patience};
    my @why;
    while (@missing) {
        my @refused;
        @why = ();
        for my $gateway (@missing) {
            my $at = "$gateway->{address}:$gateway->{port}";
            # Those come last: a disk that has a path does not wait for them.
            if ($live && $gateway->{is_away}) {
                push @why, "$at: its node is away";
                next;
            }
            if (my $why = reach($gateway->{address}, $gateway->{port})) {
                push @why, "$at: $why";
                next;
            }
            my $line = "nqn=$nqn,transport=tcp,traddr=$gateway->{address},trsvcid=$gateway->{port},hostnqn=" . host_nqn($identifier)
                . ",hostid=$identifier," . SETTINGS;
            my $error = eval { in_child($seconds // $SECONDS{connect}, "a path to $at", sub { (fabrics($line))[1] }) };
            if (!defined $error) {
                chomp(my $why = $@);
                push @why, $why;
                # The kernel is at it still, and the next one would wait for it. With a path there is a disk, and the others are made later.
                last if $live;
            } elsif ($error == 0 || $error == Errno::EALREADY()) {
                $live = 1;
            } else {
                push @refused, $gateway;
                push @why, "$at: " . do { local $! = $error; "$!" };
            }
        }
        @missing = @refused;
        last if $live || !@missing || Time::HiRes::time() > $until;
        Time::HiRes::sleep(0.5);
    }
    die "no gateway lets this node in: " . join('; ', @why) . ". Is the address of `amita node list` (NVMe) reached from here?\n" if !$live && !$mine->();
    warn "amita: a path of $nqn is not there yet: $_\n" for @why;
    if ($ends && grep { $_->{nqn} ne $nqn && $_->{nqn} =~ $ends && $_->{state} !~ m/\Adeleting/ } paths()) {
        warn "amita: paths by an older name of $nqn were lost to this node, and are ended: what was queued there fails\n";
        end_all(grep { $_->{nqn} ne $nqn && $_->{nqn} =~ $ends } paths());
        rescan($nqn);
    }
    return await($nqn, $uuid);
}

# The disk, once it is there, with the link that udev makes to it.
sub await {
    my ($nqn, $uuid) = @_;
    my $until = Time::HiRes::time() + $SECONDS{disk};
    my $looks = 0;
    while (1) {
        my $disk = disk($nqn, $uuid);
        return $disk if defined $disk && bytes($disk) > 0 && is_block("$AT{dev}/$disk") && is_disk(stable($uuid), $disk);
        if (Time::HiRes::time() > $until) {
            die "$nqn is connected, and its disk $uuid has not come within $SECONDS{disk} s\n" if !defined $disk;
            die "udev has made no " . stable($uuid) . " for $disk within $SECONDS{disk} s (`udevadm info /dev/$disk`)\n";
        }
        # It was ignored when the kernel looked, and nobody has told it that it may look again.
        rescan($nqn) if ++$looks % 20 == 10;
        Time::HiRes::sleep(0.1);
    }
}

# The name that stays: names like nvme3n1 are another disk's tomorrow.
sub stable { my ($uuid) = @_; return "$AT{dev}/disk/by-id/nvme-uuid." . lc($uuid) }

sub is_disk {
    my ($link, $disk) = @_;
    my $to = readlink($link) // return 0;
    return $to =~ m{(?:\A|/)\Q$disk\E\z} ? 1 : 0;
}

# Waits until a disk has its new size, which gateways tell the kernel by themselves.
sub await_bytes {
    my ($nqn, $uuid, $bytes) = @_;
    my $until = Time::HiRes::time() + $SECONDS{grow};
    my $looks = 0;
    while (1) {
        my $disk = disk($nqn, $uuid) // return;
        return if bytes($disk) >= $bytes;
        die "$disk has " . bytes($disk) . " bytes still, and $bytes are to be there: give the command again\n" if Time::HiRes::time() > $until;
        rescan($nqn) if ++$looks % 10 == 5;
        Time::HiRes::sleep(0.1);
    }
}

# A path that is being deleted sends nothing more: what is queued there has failed, and its connections are closed. The kernel may be at it for a minute all the same, where
# it was just connecting to a gateway that does not answer.
sub is_ending { my ($name) = @_; return slurp("$AT{sys}/class/nvme/$name/state") =~ m/\Adeleting/ ? 1 : 0 }

sub end {
    my ($path) = @_;
    return if is_ending($path->{name});
    my $error = eval { in_child($SECONDS{end}, "the end of path $path->{name}", sub { put("$AT{sys}/class/nvme/$path->{name}/delete_controller", '1') }) };
    if (!defined $error) {
        my $why = $@;
        die $why if !is_ending($path->{name});
        warn "amita: $why";
        return;
    }
    return if !$error || $error == Errno::ENOENT();
    local $! = $error;
    die "path $path->{name} does not end: $!\n";
}

# One that does not end keeps none of the others.
sub end_all {
    my (@paths) = @_;
    my @why = map { my $path = $_; eval { end($path); 1 } ? () : $@ } @paths;
    die join('', @why) if @why;
    return;
}

sub must_be_unused {
    my ($disk) = @_;
    my ($user, $until) = (used_by($disk), Time::HiRes::time() + $SECONDS{busy});
    while ($user && Time::HiRes::time() < $until) {
        Time::HiRes::sleep(0.1);
        $user = used_by($disk);
    }
    die "$AT{dev}/$disk is in use, $user: end that first\n" if $user;
    return;
}

# Ends all paths of a subsystem, where nobody uses its disk, and what was written is with the cluster. `is_lost`: no gateway takes anything by them any more, so there is
# nothing to wait for.
sub disconnect {
    my ($nqn, $is_lost) = @_;
    my @paths = grep { $_->{nqn} eq $nqn && $_->{state} !~ m/\Adeleting/ } paths();
    return 0 if !@paths;
    if (defined(my $disk = disk($nqn))) {
        must_be_unused($disk);
        my $why = $is_lost ? '' : in_child($SECONDS{flush}, "what was written to $AT{dev}/$disk", sub { flush("$AT{dev}/$disk") });
        die "what was written to $AT{dev}/$disk is not with the cluster: $why\n" if $why;
        must_be_unused($disk);
    }
    end_all(@paths);
    return 1;
}

# --- Links: /dev/amita/PREFIX/NAME leads to the name that stays. So a path is known without a request, and is never another disk's.

sub link_of {
    my ($prefix, $name, $snapshot) = @_;
    return "$AT{dev}/amita/$prefix/$name" . (defined $snapshot ? "\@$snapshot" : '');
}

sub make_link {
    my ($link, $uuid) = @_;
    my $to = stable($uuid);
    return if (readlink($link) // '') eq $to;
    my ($folder) = $link =~ m{\A(.*)/};
    (my $above = $folder) =~ s{/[^/]*\z}{};
    mkdir($above, 0755);
    mkdir($folder, 0755);
    my $new = "$folder/.$$.new";
    unlink $new;
    symlink($to, $new) && rename($new, $link) or die "no link $link: $!\n";
    return;
}

sub uuid_of_link {
    my ($link) = @_;
    return (readlink($link) // '') =~ m{/nvme-uuid\.([0-9a-f-]{36})\z} ? $1 : undef;
}

package PVE::Storage::Custom::AmitaPlugin;

use strict;
use warnings;

use Digest::SHA ();
use IO::Handle ();
use Time::HiRes ();

use PVE::Cluster;
use PVE::INotify;
use PVE::Storage::Plugin;
use PVE::Tools qw(run_command);

use base qw(PVE::Storage::Plugin);

# Disks are there at every node: a guest is migrated without a copy. (parse_config of the base class goes by this list.)
push @PVE::Storage::Plugin::SHARED_STORAGE, 'amita';

# Labels of volumes and snapshots.
use constant STORAGE_LABEL => 'proxmox.amita.io/storage'; # whose it is: the storage's prefix
use constant BASE_LABEL => 'proxmox.amita.io/base'; # the base that it is a linked clone of
use constant CALL_LABEL => 'proxmox.amita.io/call'; # which call has made it: an answer that was lost is known by it
use constant NOTES_LABEL => 'proxmox.amita.io/notes';

# Snapshots that Proxmox takes are called so; its own names have no dot, so no other of the volume's has such a name. What linked clones begin as is `pve.base.`.
use constant SNAPSHOT => 'pve.';
use constant BASE_SNAPSHOT => 'pve.base.';

# What changes while it is looked at is looked at so often.
use constant LOOKS => 8;
our %SECONDS = (
    # Until all gateways that reach the metadata have heard who is let in no more, and have cut them off.
    cut_off => 2,
    # Paths that are missing, and what was left behind, are looked after once in so many seconds, for so long at most.
    tidy_every => 60,
    tidy => 15,
    # What Proxmox' statistics wait for at most.
    status => 10,
    # Another process that is at work on a disk is waited for, where Proxmox' lock of the storage is held meanwhile.
    lock => 20,
);
# The largest text of a label.
use constant MOST_NOTES => 256;

# Where Proxmox' own files are; tests have them elsewhere.
our %AT = (pve => '/etc/pve');

# The newest version of Proxmox' storage API whose changes are carried out here, and the oldest one.
use constant API_NEWEST => 15;
use constant API_OLDEST => 10;

# A plugin that claims more than is there is refused, and one that claims less is warned of at each start. Versions only add: what this Proxmox does
# not know it does not ask for.
sub api {
    my $there = eval { PVE::Storage::APIVER() };
    return API_NEWEST if !defined $there || $there > API_NEWEST;
    return $there < API_OLDEST ? API_OLDEST : $there;
}

# --- Configuration

sub type { return 'amita' }

sub plugindata {
    return {
        content => [{ images => 1, rootdir => 1, none => 1 }, { images => 1, rootdir => 1 }],
        format => [{ raw => 1 }, 'raw'],
        # The token. `password` is kept out of storage.cfg by every version, also by those before 11, which have a list of their own.
        'sensitive-properties' => { password => 1 },
    };
}

sub properties {
    return {
        'amita-api' => {
            description => 'Nodes whose REST API is asked, as HOST:PORT, separated by commas: the next one where one does not answer.',
            type => 'string',
            maxLength => 1024,
        },
        'amita-pool' => {
            description => 'The pool of Amita that holds the disks.',
            type => 'string',
            pattern => '[A-Za-z0-9_][A-Za-z0-9._-]{0,127}',
        },
        'amita-prefix' => {
            description => 'What names of volumes begin with, and by what they are known as this storage\'s. The storage\'s ID where it is not said.',
            type => 'string',
            pattern => '[A-Za-z0-9][A-Za-z0-9._-]{0,62}',
        },
        'amita-authority' => {
            description => 'A file (PEM) with the authorities of the certificates that nodes show; the system\'s where it is not said. Below /etc/pve every node has it.',
            type => 'string',
            format => 'pve-storage-path',
        },
        'amita-gateways' => {
            description => 'Names of the Amita nodes by which disks are reached, separated by commas; all that serve NVMe/TCP where it is not said.',
            type => 'string',
            maxLength => 1024,
        },
        'amita-block-size' => {
            description => 'Bytes of a logical block of disks that are activated from now on. With 4096, disks that were copied from elsewhere block by block may not be readable.',
            type => 'integer',
            enum => [512, 4096],
            default => 512,
        },
        'amita-on-delete' => {
            description => 'What becomes of a disk that is deleted: it is kept for as long as its pool says, or goes at once.',
            type => 'string',
            enum => ['recycle', 'now'],
            default => 'recycle',
        },
    };
}

sub options {
    return {
        'amita-api' => {},
        'amita-pool' => { fixed => 1 },
        'amita-prefix' => { fixed => 1, optional => 1 },
        'amita-authority' => { optional => 1 },
        'amita-gateways' => { optional => 1 },
        'amita-block-size' => { optional => 1 },
        'amita-on-delete' => { optional => 1 },
        password => { optional => 1 },
        nodes => { optional => 1 },
        shared => { optional => 1 },
        disable => { optional => 1 },
        content => { optional => 1 },
        bwlimit => { optional => 1 },
    };
}

sub check_config {
    my ($class, $sectionId, $config, $create, $skipSchemaCheck) = @_;
    my $checked = $class->SUPER::check_config($sectionId, $config, $create, $skipSchemaCheck);
    AmitaProxmox::Api::addresses($checked->{'amita-api'}) if defined $checked->{'amita-api'};
    # A change has what is changed alone; what is fixed is there when a storage is added, and when it is read.
    if (defined $checked->{'amita-pool'}) {
        $checked->{'amita-prefix'} //= $sectionId;
        die "amita-prefix '$checked->{'amita-prefix'}': 1 to 63 letters, digits and . _ -, and the first is a letter or a digit; say --amita-prefix\n"
            if $checked->{'amita-prefix'} !~ m/\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\z/;
    }
    return $checked;
}

my sub token_file {
    my ($storeid) = @_;
    my ($name) = $storeid =~ m/\A([A-Za-z][A-Za-z0-9_.-]*)\z/ or die "storage '$storeid': no name of a storage\n";
    return "$AT{pve}/priv/storage/$name.pw";
}

my sub keep_token {
    my ($storeid, $token) = @_;
    $token =~ s/\A\s+|\s+\z//g;
    ($token) = $token =~ m/\A([!-~]{8,1024})\z/ or die "amita storage '$storeid': that is no token: `amita token create NAME --role operator` shows one\n";
    mkdir "$AT{pve}/priv/storage", 0700;
    PVE::Tools::file_set_contents(token_file($storeid), "$token\n", 0600);
    return;
}

my sub forget_token { my ($storeid) = @_; unlink token_file($storeid); return }

my sub token {
    my ($storeid) = @_;
    my $file = token_file($storeid);
    open(my $handle, '<', $file)
        or die "amita storage '$storeid': no token in $file ($!): make one (`amita token create NAME --role operator --life 366d`) and give it: "
        . "`pvesm set $storeid --password`\n";
    my $text = <$handle> // '';
    close($handle);
    my ($token) = $text =~ m/\A\s*([!-~]+)\s*\z/ or die "amita storage '$storeid': $file has no token\n";
    return $token;
}

my sub connection {
    my ($storeid, $scfg, $seconds, $token) = @_;
    my $authority = $scfg->{'amita-authority'};
    ($authority) = $authority =~ m{\A(/[^\0\n]+)\z} if defined $authority;
    return AmitaProxmox::Api->new(storeid => $storeid, api => $scfg->{'amita-api'}, token => $token // token($storeid), authority => $authority, seconds => $seconds);
}

my sub encode { return AmitaProxmox::Api::encode($_[0]) }

my sub pool {
    my ($api, $scfg) = @_;
    my $pool = $scfg->{'amita-pool'};
    return $api->must("pool $pool", GET => '/pools/' . encode($pool))->{thing};
}

# Links and subsystems are called by the prefix: with two storages of one, a disk of one could be taken for the other's.
my sub must_be_only {
    my ($storeid, $scfg) = @_;
    my $prefix = $scfg->{'amita-prefix'} // $storeid;
    my $others = (eval { PVE::Storage::config() } // {})->{ids} // {};
    for my $other (sort grep { $_ ne $storeid } keys %$others) {
        next if ($others->{$other}{type} // '') ne 'amita' || ($others->{$other}{'amita-prefix'} // $other) ne $prefix;
        die "amita storage '$storeid': storage '$other' has the prefix '$prefix' already: give another one by --amita-prefix\n";
    }
    return;
}

# Has a token the role that it needs?
my sub must_be_good {
    my ($api, $myself) = @_;
    my %may = map { $_ => 1 } @{ $myself->{may} // [] };
    my @lacks = grep { !$may{$_} } qw(volume.create volume.delete);
    die $api->text("the token '$myself->{name}' has the role $myself->{role}, which may not " . join(', ', @lacks)
        . ": make one with `amita token create NAME --role operator --life 366d`") if %may && @lacks;
    return;
}

# Is what was said true: the nodes, the token, the pool? What is wrong is told before the storage is written down.
my sub try_out {
    my ($storeid, $scfg) = @_;
    my $api = connection($storeid, $scfg);
    must_be_good($api, $api->must('who asks', GET => '/self')->{thing});
    pool($api, $scfg);
    my $prefix = $scfg->{'amita-prefix'} // $storeid;
    my $others = $api->all('volumes', '/volumes?label=' . encode(STORAGE_LABEL . "=$prefix"));
    warn $api->text(scalar(@$others) . " volumes with the prefix '$prefix' are there already, and are in this storage. Are they another Proxmox cluster's, remove it and add it "
        . 'with another --amita-prefix') if @$others;
    return;
}

sub on_add_hook {
    my ($class, $storeid, $scfg, %sensitive) = @_;
    die "amita storage '$storeid': no token: give one by --password (`amita token create NAME --role operator --life 366d` makes it)\n" if !defined $sensitive{password};
    must_be_only($storeid, $scfg);
    # Written down too: not everything that reads storage.cfg asks the plugin.
    $scfg->{shared} //= 1;
    keep_token($storeid, $sensitive{password});
    eval { try_out($storeid, $scfg) };
    if (my $why = $@) {
        forget_token($storeid);
        die $why;
    }
    return undef;
}

# A token that nodes refuse is not taken; where none answers it is, and that is told, for it may be the addresses that are to be mended.
my sub try_change {
    my ($storeid, $scfg, $token) = @_;
    my ($api, $said);
    eval {
        $api = connection($storeid, $scfg, $SECONDS{status}, $token);
        $said = $api->ask(GET => '/self');
    };
    if (my $why = $@) {
        warn $why;
        return;
    }
    die $api->refused('the token is not changed', $said) if !$said->{ok} && defined $token;
    warn $api->refused('who asks', $said) if !$said->{ok};
    must_be_good($api, $said->{thing}) if $said->{ok} && defined $token;
    return;
}

my sub change {
    my ($storeid, $there, $update, %sensitive) = @_;
    my $scfg = { %$there, %{ $update // {} } };
    my $token = $sensitive{password};
    if (defined $token) {
        $token =~ s/\A\s+|\s+\z//g;
        try_change($storeid, $scfg, $token) if defined $scfg->{'amita-api'};
        keep_token($storeid, $token);
    } elsif (exists $sensitive{password}) {
        forget_token($storeid);
    } elsif (grep { exists $update->{$_} } qw(amita-api amita-authority)) {
        try_change($storeid, $scfg);
    }
    return;
}

# Before version 13 it is told what becomes other alone; what is there is in storage.cfg.
sub on_update_hook {
    my ($class, $storeid, $scfg, %sensitive) = @_;
    my $there = ((eval { PVE::Storage::config() } // {})->{ids} // {})->{$storeid} // {};
    change($storeid, $there, $scfg, %sensitive);
    return undef;
}

sub on_update_hook_full {
    my ($class, $storeid, $scfg, $update, $delete, $sensitive) = @_;
    my %sensitive = %{ $sensitive // {} };
    $sensitive{password} = undef if !exists $sensitive{password} && grep { $_ eq 'password' } @{ $delete // [] };
    my %there = %{ $scfg // {} };
    delete @there{ @{ $delete // [] } };
    change($storeid, \%there, $update, %sensitive);
    return undef;
}

sub on_delete_hook {
    my ($class, $storeid, $scfg) = @_;
    forget_token($storeid);
    return undef;
}

# --- Names

my $name_of_disk = qr/(?:vm|base)-[0-9]+-[A-Za-z0-9._-]+/;

sub parse_volname {
    my ($class, $volname) = @_;
    if ($volname =~ m{\A(?:(base-([0-9]+)-[A-Za-z0-9._-]+)/)?((vm|base)-([0-9]+)-[A-Za-z0-9._-]+)\z}) {
        return ('images', $3, $5, $1, $2, $4 eq 'base' ? 1 : undef, 'raw');
    }
    die "unable to parse the name '$volname' of a disk: it is vm-VMID-NAME, base-VMID-NAME, or base-VMID-NAME/vm-VMID-NAME\n";
}

my sub prefix {
    my ($scfg) = @_;
    my ($prefix) = ($scfg->{'amita-prefix'} // '') =~ m/\A([A-Za-z0-9][A-Za-z0-9._-]{0,62})\z/ or die "this storage has no amita-prefix\n";
    return $prefix;
}

my sub volume_name {
    my ($scfg, $name) = @_;
    my $whole = prefix($scfg) . "-$name";
    die "'$name' is too long: with the prefix the name of a volume has 200 letters at most\n" if length($whole) > 200;
    return $whole;
}

my sub volume_path { my ($scfg, $name) = @_; return '/volumes/' . encode(volume_name($scfg, $name)) }

my sub snapshot_name {
    my ($snap) = @_;
    die "'$snap' cannot be the name of a snapshot\n" if $snap !~ m/\A[A-Za-z0-9_][A-Za-z0-9_-]{0,99}\z/;
    return SNAPSHOT . $snap;
}

# The subsystem of a volume, or of a snapshot of it. The sum tells storages, and Proxmox clusters, apart for a machine that has disks of several.
my sub sum { my ($scfg) = @_; return substr(Digest::SHA::sha256_hex(prefix($scfg)), 0, 8) }

my sub subsystem_name {
    my ($scfg, $volume, $snapshot) = @_;
    my ($number) = $volume->{id} =~ m/\A([0-9]+)\z/;
    my ($of) = defined $snapshot ? $snapshot->{number} =~ m/\A([0-9]+)\z/ : ();
    return 'pve-' . sum($scfg) . "-$number" . (defined $of ? ".$of" : '');
}

my sub random_bytes {
    open(my $handle, '<:raw', '/dev/urandom') or die "no /dev/urandom: $!\n";
    my $bytes = '';
    while (length($bytes) < 16) {
        my $got = sysread($handle, $bytes, 16 - length($bytes), length($bytes));
        die "no random bytes: $!\n" if !$got;
    }
    close($handle);
    return $bytes;
}

my sub fresh_nqn { my ($name) = @_; return 'nqn.2026-11.io.amita:' . unpack('H*', random_bytes()) . ":$name" }

# The volume of a name, as it is looked at; undef: there is none. One of that name that is not this storage's is nobody's business here.
my sub look_up {
    my ($api, $scfg, $name) = @_;
    my $found = $api->find("disk $name", volume_path($scfg, $name)) // return undef;
    my $whose = $found->{thing}{labels}{ +STORAGE_LABEL } // '';
    die $api->text("volume $found->{thing}{name} is not this storage's: it has no label " . STORAGE_LABEL . '=' . prefix($scfg)
        . ' (`amita volume label` gives it, if it is to be)') if $whose ne prefix($scfg);
    return $found;
}

my sub volume {
    my ($api, $scfg, $name) = @_;
    return look_up($api, $scfg, $name) // die $api->text("there is no disk $name (no volume " . volume_name($scfg, $name) . ' in Amita)');
}

my sub snapshot {
    my ($api, $scfg, $name, $snap) = @_;
    my $found = $api->find("snapshot $snap of $name", volume_path($scfg, $name) . '/snapshots/' . encode(snapshot_name($snap)));
    return undef if !$found || $found->{thing}{mark} || $found->{thing}{hidden};
    return $found;
}

# --- Where disks are, for the host

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;
    my ($vtype, $name, $vmid) = $class->parse_volname($volname);
    snapshot_name($snapname) if defined $snapname;
    my $path = AmitaProxmox::Host::link_of(prefix($scfg), $name, $snapname);
    return wantarray ? ($path, $vmid, $vtype) : $path;
}

sub path {
    my ($class, $scfg, $volname, $storeid, $snapname) = @_;
    return $class->filesystem_path($scfg, $volname, $snapname);
}

sub qemu_blockdev_options {
    my ($class, $scfg, $storeid, $volname, $machine_version, $options) = @_;
    my ($path) = $class->path($scfg, $volname, $storeid, $options->{'snapshot-name'});
    return { driver => 'host_device', filename => "$path" };
}

# QEMU has nothing to do for a snapshot: the cluster takes it beneath.
sub volume_qemu_snapshot_method {
    my ($class, $storeid, $scfg, $volname) = @_;
    return 'storage';
}

# --- Who has a disk

# What each node of this Proxmox cluster is for gateways: nodes write it down for the others.
my sub identities {
    my %node_of;
    for my $node (AmitaProxmox::Host::listed("$AT{pve}/nodes")) {
        my $identifier = AmitaProxmox::Host::slurp("$AT{pve}/nodes/$node/amita-host");
        push @{ $node_of{$identifier} }, $node if $identifier =~ m/\A[0-9a-f-]{36}\z/;
    }
    return \%node_of;
}

my sub identifier {
    my ($storeid) = @_;
    my ($node) = PVE::INotify::nodename() =~ m/\A([A-Za-z0-9.-]+)\z/ or die "this node has no name\n";
    my $own = AmitaProxmox::Host::identifier($node);
    my @others = grep { $_ ne $node } @{ identities()->{$own} // [] };
    die "amita storage '$storeid': this node and $others[0] have one host identifier, $own. Does this machine have the name of another one? "
        . "Remove $AT{pve}/nodes/$others[0]/amita-host if that node is gone\n" if @others;
    my $file = "$AT{pve}/nodes/$node/amita-host";
    if (AmitaProxmox::Host::slurp($file) ne $own) {
        # Without a quorum nothing is written; others take this node for a stranger until it is.
        eval { PVE::Tools::file_set_contents($file, "$own\n", 0640) };
        warn "amita storage '$storeid': $file cannot be written, so other nodes do not know this one: $@" if $@;
    }
    return $own;
}

# Before something is taken from another node. A process knows nodes and guests as they were when it asked last, which for a task that has many guests to see to
# may be hours ago; and where pmxcfs did not answer then it knows of none at all, which is not the same as that all are lost.
my sub look_around {
    my ($api, $what) = @_;
    eval { PVE::Cluster::cfs_update(1); 1 } or die $api->text("$what, and which nodes and guests there are cannot be learnt (`systemctl status pve-cluster`): $@" =~ s/\n\z//r);
    die $api->text("$what, and this node is not with most of its Proxmox cluster (`pvecm status`)") if !PVE::Cluster::check_cfs_quorum(1);
    return;
}

# The node that a host is; and whether it is lost: it is away, and most of the cluster is here, so that its guests may be started elsewhere. A list of members that this
# node is not on says nothing of others.
my sub node_of {
    my ($nqn) = @_;
    my ($identifier) = $nqn =~ m/:uuid:([0-9a-f-]{36})\z/ or return;
    my ($node) = @{ identities()->{$identifier} // [] };
    return if !defined $node;
    my ($member, $own) = @{ PVE::Cluster::get_members() // {} }{ $node, PVE::INotify::nodename() };
    my $is_lost = $own && $own->{online} && (!$member || !$member->{online}) && PVE::Cluster::check_cfs_quorum(1);
    return ($node, $is_lost ? 1 : 0);
}

# Takes hosts off the list of a subsystem; with the last of them that goes, in one step: a name by which a host was let in is not used for the next one. True: it is gone.
my sub take_off {
    my ($api, $name, $is_meant) = @_;
    for (1 .. LOOKS) {
        my $found = $api->find("subsystem $name", '/subsystems/' . encode($name)) // return 1;
        my @off = grep { $is_meant->($_) } @{ $found->{thing}{hosts} };
        my $stay = @{ $found->{thing}{hosts} } - @off;
        if (!$stay) {
            my $said = $api->ask(DELETE => '/subsystems/' . encode($name) . '?force=true', if_match => $found->{etag});
            return 1 if $said->{ok} || $said->{code} eq 'not-found';
            # Somebody else was let in.
            next if $said->{code} eq 'changed';
            die $api->refused("the end of subsystem $name", $said);
        }
        return 0 if !@off;
        for my $host (@off) {
            my $said = $api->ask(DELETE => '/subsystems/' . encode($name) . '/hosts/' . encode($host));
            die $api->refused("host $host off $name", $said) if !$said->{ok} && $said->{code} ne 'not-found';
        }
    }
    die $api->text("who has $name changes again and again: give the command again");
}

my sub until_cut_off { Time::HiRes::sleep($SECONDS{cut_off}); return }

# Paths of this machine that are of a subsystem of that name, whatever stands before it in the qualified name.
my sub of_subsystem { my ($name) = @_; return qr/:\Q$name\E\z/ }

my sub local_nqns {
    my ($name) = @_;
    my $is_of = of_subsystem($name);
    my %nqns = map { $_->{nqn} => 1 } grep { $_->{nqn} =~ $is_of } AmitaProxmox::Host::paths();
    return sort keys %nqns;
}

# What another node has of a disk that nobody is to have: a guest's disks belong to the node that its configuration is at. So what a node has left behind,
# or was lost with, is taken from it, and what may be in use there is not.
my sub free_of_others {
    my ($api, $name, $vmid, $own, $what) = @_;
    my $waits = 0;
    for (1 .. LOOKS) {
        my $found = $api->find("subsystem $name", '/subsystems/' . encode($name));
        my @others = $found ? grep { $_ ne $own } @{ $found->{thing}{hosts} } : ();
        look_around($api, "$what: another node has it") if @others;
        for my $host (@others) {
            my ($node, $is_lost) = node_of($host);
            my $how = "`amita host deny $name $host` takes it away there";
            die $api->text("$what: $host has it, which is no node of this Proxmox cluster. If it is gone for good: $how") if !defined $node;
            my $guest = (PVE::Cluster::get_vmlist() // {})->{ids}{$vmid};
            die $api->text("$what: guest $vmid is at node $node, which may be using it: stop it there, or give the command there. If nobody uses it: $how")
                if !$is_lost && $guest && $guest->{node} eq $node;
            # Another guest may have it, by hand.
            die $api->text("$what: node $node has it, and there is no guest $vmid: give the command there. If nobody uses it: $how") if !$is_lost && !$guest;
            $waits = 1;
        }
        # Those that were looked at: one that was let in since is looked at like them.
        my %seen = map { $_ => 1 } $own, @others;
        next if $found && !take_off($api, $name, sub { $seen{ $_[0] } });
        until_cut_off() if $waits;
        return;
    }
    die $api->text("$what: who has it changes again and again: give the command again");
}

# Ends what this node has of a disk; dies where it is in use.
my sub end_here {
    my ($name, $link, $is_lost) = @_;
    AmitaProxmox::Host::disconnect($_, $is_lost) for local_nqns($name);
    unlink $link if defined $link;
    return;
}

# What is to be done to a volume that nobody may have meanwhile; also of its snapshots.
my sub alone {
    my ($storeid, $scfg, $api, $found, $name, $what) = @_;
    my $volume = $found->{thing};
    my (undef, undef, $vmid) = PVE::Storage::Custom::AmitaPlugin->parse_volname($name);
    my $own = AmitaProxmox::Host::host_nqn(identifier($storeid));
    my @all = ([subsystem_name($scfg, $volume), undef]);
    for my $taken (@{ $api->all("snapshots of $name", volume_path($scfg, $name) . '/snapshots') }) {
        next if $taken->{mark} || $taken->{hidden};
        my $snap = $taken->{name} =~ m/\A\Q${\SNAPSHOT}\E([A-Za-z0-9_-]+)\z/ ? $1 : undef;
        push @all, [subsystem_name($scfg, $volume, $taken), $snap] if defined $snap;
    }
    # Whoever asks holds Proxmox' lock of the storage.
    local $AmitaProxmox::Host::SECONDS{lock} = $SECONDS{lock};
    for my $one (@all) {
        my ($subsystem, $snap) = @$one;
        AmitaProxmox::Host::locked($subsystem, 0, sub {
            eval { end_here($subsystem, AmitaProxmox::Host::link_of(prefix($scfg), $name, $snap)) };
            die $api->text("$what: $@" =~ s/\n\z//r) if $@;
            free_of_others($api, $subsystem, $vmid, $own, $what);
        });
    }
    return;
}

# --- Activation: the disk is published to this node, and connected

my sub is_there {
    my ($api, $of, $name) = @_;
    my $told = $api->find("how $of is reached", '/volumes/' . encode($of) . '/attachment') // return 0;
    return $told->{thing}{subsystem} eq $name;
}

# What a host connects to: nothing of it goes into a line for the kernel that is not of the form it should be of.
my sub target {
    my ($api, $of, $told) = @_;
    my ($nqn) = $told->{nqn} =~ m/\A([A-Za-z0-9.:_-]{1,223})\z/ or die $api->text("$of has the qualified name '$told->{nqn}', which is none");
    my ($uuid) = lc($told->{uuid}) =~ m/\A([0-9a-f-]{36})\z/ or die $api->text("$of has the UUID '$told->{uuid}', which is none");
    my @gateways;
    for my $gateway (sort { ($b->{alive} ? 1 : 0) <=> ($a->{alive} ? 1 : 0) } @{ $told->{gateways} }) {
        my ($address) = $gateway->{traddr} =~ m/\A([0-9A-Fa-f:.]+)\z/ or next;
        my ($port) = $gateway->{trsvcid} =~ m/\A([0-9]{1,5})\z/ or next;
        push @gateways, { address => $address, port => $port, is_away => $gateway->{alive} ? 0 : 1 };
    }
    die $api->text('no node serves NVMe/TCP: `amita serve --nvme ADDRESS:PORT`') if !@gateways;
    return { nqn => $nqn, uuid => $uuid, gateways => \@gateways };
}

# The subsystem of a volume, with it in it, and this host on its list. Hosts of lost nodes are taken off; and where the guest is this node's, also those
# of living ones, which have it from before. A guest that is migrated is the other node's until it has come, and both have its disks.
my sub publish {
    my ($api, $scfg, $of, $name, $own, $vmid, $on_new) = @_;
    my $path = '/subsystems/' . encode($name);
    my $is_new = 0;
    for (1 .. LOOKS) {
        my $found = $api->find("subsystem $name", $path);
        if ($found) {
            my @others = grep { $_ ne $own } @{ $found->{thing}{hosts} };
            # It may be this node that is lost.
            look_around($api, "$of is let in at " . ((node_of($others[0]))[0] // $others[0])) if @others;
            my $is_here = defined $vmid && @others && ((PVE::Cluster::get_vmlist() // {})->{ids}{$vmid} // {})->{node};
            $is_here = $is_here && $is_here eq PVE::INotify::nodename();
            my @lost;
            for my $host (@others) {
                my ($node, $is_lost) = node_of($host);
                die $api->text("$of is let in at $host, which is no node of this Proxmox cluster: two that do not know of each other must not write it. If it is gone "
                    . "for good: `amita host deny $name $host`") if !defined $node;
                next if !$is_lost && !$is_here;
                warn $api->text("$of is taken from node $node, " . ($is_lost ? 'which is lost' : "for guest $vmid is this node's"));
                push @lost, $host;
            }
            if (@lost) {
                my %lost = map { $_ => 1 } @lost;
                take_off($api, $name, sub { $lost{ $_[0] } });
                until_cut_off();
                next;
            }
            if (!@{ $found->{thing}{hosts} }) {
                # Made by a call that was cut; or by one that is just at it; or somebody was taken off, and whether its name was used is not known.
                Time::HiRes::sleep($SECONDS{cut_off});
                my $said = $api->ask(DELETE => "$path?force=true", if_match => $found->{etag});
                die $api->refused("the end of subsystem $name", $said) if !$said->{ok} && $said->{code} !~ m/\A(?:changed|not-found)\z/;
                next;
            }
        }
        if (!$found) {
            my %wanted = (name => $name, nqn => fresh_nqn($name));
            my @gateways = grep { length } split /[\s,;]+/, $scfg->{'amita-gateways'} // '';
            $wanted{gateways} = \@gateways if @gateways;
            my $said = $api->ask(POST => '/subsystems', body => \%wanted);
            # By another node, or by this call.
            next if !$said->{ok} && $said->{code} eq 'exists' && !$said->{unsure};
            die $api->refused("subsystem $name", $said) if !$said->{ok} && $said->{code} ne 'exists';
            $found = $api->find("subsystem $name", $path) // next;
        }
        if (!grep { $_ eq $own } @{ $found->{thing}{hosts} }) {
            # What this node has of it still is of a time before it was taken from it: what is queued there must not be sent when it is let in again.
            for my $nqn (local_nqns($name)) {
                warn $api->text("$nqn was lost to this node, and is ended");
                AmitaProxmox::Host::end_all(grep { $_->{nqn} eq $nqn } AmitaProxmox::Host::paths());
            }
            my $said = $api->ask(POST => '/hosts', body => { nqn => $own });
            die $api->refused("host $own", $said) if !$said->{ok} && $said->{code} ne 'exists';
            $is_new = 1;
            $on_new->();
        }
        if (!$found->{thing}{namespaces}) {
            my $bytes = ($scfg->{'amita-block-size'} // 512) + 0;
            my $said = $api->ask(POST => "$path/namespaces", body => { volume => $of, block_bytes => $bytes });
            next if !$said->{ok} && $said->{code} eq 'not-found' && $api->find($name, $path);
            die $api->refused("$of cannot be published", $said)
                if !$said->{ok} && !($said->{code} =~ m/\A(?:exists|in-use)\z/ && ($said->{unsure} || is_there($api, $of, $name)));
        }
        if ($is_new) {
            my $said = $api->ask(PUT => "$path/hosts/" . encode($own));
            next if !$said->{ok} && $said->{code} eq 'not-found';
            die $api->refused("$of cannot be published to this node", $said) if !$said->{ok};
        }
        my $told = $api->find("how $of is reached", '/volumes/' . encode($of) . '/attachment') // next;
        # Another call may have ended it meanwhile.
        next if $told->{thing}{subsystem} ne $name || !grep { $_ eq $own } @{ $told->{thing}{hosts} };
        return target($api, $of, $told->{thing});
    }
    die $api->text("who has $of changes again and again: give the command again");
}

sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;
    my (undef, $name, $vmid, undef, undef, $isBase) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    my $volume = volume($api, $scfg, $name)->{thing};
    my $of = $volume->{name};
    # What is only read may be read at any node.
    $vmid = undef if $isBase || defined $snapname;
    my $taken;
    if (defined $snapname) {
        $taken = snapshot($api, $scfg, $name, $snapname) // die $api->text("disk $name has no snapshot $snapname");
        $of .= '@' . $taken->{thing}{name};
    }
    my $subsystem = subsystem_name($scfg, $volume, $taken ? $taken->{thing} : undef);
    my $identifier = identifier($storeid);
    my $own = AmitaProxmox::Host::host_nqn($identifier);
    AmitaProxmox::Host::locked($subsystem, 0, sub {
        my $is_new = 0;
        $api->begin();
        eval {
            my $target = publish($api, $scfg, $of, $subsystem, $own, $vmid, sub { $is_new = 1 });
            AmitaProxmox::Host::connect_paths($target, $identifier, of_subsystem($subsystem));
            AmitaProxmox::Host::make_link(AmitaProxmox::Host::link_of(prefix($scfg), $name, $snapname), $target->{uuid});
        };
        if (my $why = $@) {
            # What this call has begun it ends: paths that nobody uses, and the right to have them.
            if ($is_new) {
                eval { end_here($subsystem, undef) };
                eval { take_off(connection($storeid, $scfg, 15), $subsystem, sub { $_[0] eq $own }) } if !$@;
            }
            die $why =~ m/\Aamita storage/ ? $why : $api->text("disk $name: $why" =~ s/\n\z//r);
        }
    });
    return;
}

# The subsystem of the disk that a link leads to, by what sysfs says.
my sub here {
    my ($scfg, $link) = @_;
    my $uuid = AmitaProxmox::Host::uuid_of_link($link) // return;
    my $own = sum($scfg);
    my %nqns = map { $_->{nqn} => 1 } AmitaProxmox::Host::paths();
    for my $nqn (sort keys %nqns) {
        my ($name) = $nqn =~ m/:(pve-\Q$own\E-[0-9]+(?:\.[0-9]+)?)\z/ or next;
        return $name if defined AmitaProxmox::Host::disk($nqn, $uuid);
    }
    return;
}

sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $link = AmitaProxmox::Host::link_of(prefix($scfg), $name, $snapname);
    # By what is here first: where no node answers, a guest is stopped all the same.
    my ($subsystem) = here($scfg, $link);
    my ($api, $why) = (undef, '');
    eval {
        $api = connection($storeid, $scfg);
        my $found = look_up($api, $scfg, $name);
        my $taken = $found && defined $snapname ? snapshot($api, $scfg, $name, $snapname) : undef;
        $subsystem = subsystem_name($scfg, $found->{thing}, $taken ? $taken->{thing} : undef) if $found && (!defined $snapname || $taken);
    };
    $why = $@;
    if (!defined $subsystem) {
        die $why if $why;
        unlink $link;
        return 1;
    }
    AmitaProxmox::Host::locked($subsystem, 0, sub {
        my $is_lost = 0;
        if (!$why) {
            $api->begin();
            eval {
                my $own = AmitaProxmox::Host::host_nqn(identifier($storeid));
                my $there = $api->find("subsystem $subsystem", '/subsystems/' . encode($subsystem));
                $is_lost = !$there || !grep { $_ eq $own } @{ $there->{thing}{hosts} };
            };
            $why = $@;
        }
        eval { end_here($subsystem, $link, $is_lost) };
        die "amita storage '$storeid': disk $name: $@" if $@;
        return if $why;
        $api->begin();
        eval {
            my $own = AmitaProxmox::Host::host_nqn(identifier($storeid));
            take_off($api, $subsystem, sub { $_[0] eq $own });
        };
        $why = $@;
    });
    # Nothing of it is here any more. That it may be had here again is taken back later, by activate_storage.
    warn "disk $name is disconnected, and is published to this node still; that is mended by itself when nodes answer again: $why" if $why;
    return 1;
}

sub map_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $hints) = @_;
    my ($path) = $class->path($scfg, $volname, $storeid, $snapname);
    $class->activate_volume($storeid, $scfg, $volname, $snapname) if !AmitaProxmox::Host::is_block($path);
    return $path;
}

# Deactivation does it.
sub unmap_volume {
    my ($class, $storeid, $scfg, $volname, $snapname) = @_;
    return 1;
}

# --- The storage as a whole

# activate_storage asks by itself, and says what is wrong.
sub check_connection {
    my ($class, $storeid, $scfg) = @_;
    return 1;
}

my sub links {
    my ($scfg) = @_;
    my $folder = "$AmitaProxmox::Host::AT{dev}/amita/" . prefix($scfg);
    opendir(my $handle, $folder) or return ();
    my @links = map { m/\A([A-Za-z0-9][A-Za-z0-9._@-]*)\z/ ? "$folder/$1" : () } readdir($handle);
    closedir($handle);
    return sort @links;
}

# Links to disks that are not there.
my sub unlink_dead {
    my ($scfg) = @_;
    for my $link (links($scfg)) {
        my $to = readlink($link) // next;
        my $is_there = -l $to || -e $to ? 1 : 0;
        # perl -T takes all of a statement for tainted that has something tainted in it.
        if (!$is_there) {
            unlink $link;
        }
    }
    return;
}

# Paths that gateways let this node in by no more. Where somebody uses the disk it is left: the kernel fails what waits there by itself.
my sub lost {
    my ($api, $own, $name, $nqn) = @_;
    my $found = $api->find("subsystem $name", '/subsystems/' . encode($name));
    return if $found && $found->{thing}{nqn} eq $nqn && grep { $_ eq $own } @{ $found->{thing}{hosts} };
    my $disk = AmitaProxmox::Host::disk($nqn);
    return if defined $disk && AmitaProxmox::Host::used_by($disk);
    AmitaProxmox::Host::end_all(grep { $_->{nqn} eq $nqn } AmitaProxmox::Host::paths());
    return;
}

# Paths that are missing, and those to gateways that are no more: the kernel would try these for ever.
my sub mend {
    my ($api, $name, $identifier, $own) = @_;
    my $namespaces = $api->all("namespaces of $name", '/subsystems/' . encode($name) . '/namespaces');
    my $of = $namespaces->[0] && $namespaces->[0]{volume} // return;
    $of .= "\@$namespaces->[0]{snapshot}" if defined $namespaces->[0]{snapshot};
    my $told = $api->find("how $of is reached", '/volumes/' . encode($of) . '/attachment') // return;
    return if $told->{thing}{subsystem} ne $name || !grep { $_ eq $own } @{ $told->{thing}{hosts} };
    my $target = target($api, $of, $told->{thing});
    my %alive = map { ("$_->{traddr} $_->{trsvcid}" => $_->{alive}) } @{ $told->{thing}{gateways} };
    $target->{gateways} = [grep { $alive{"$_->{address} $_->{port}"} } @{ $target->{gateways} }];
    # Others may have ended it since.
    my @paths = grep { $_->{nqn} eq $target->{nqn} } AmitaProxmox::Host::paths();
    return if !@paths;
    # Not the last hope of a disk: it may be the list that is short.
    AmitaProxmox::Host::end_all(grep { $_->{state} ne 'live' && !exists $alive{ $_->{address} } } @paths) if grep { $_->{state} eq 'live' } @paths;
    AmitaProxmox::Host::connect_paths($target, $identifier, undef, 5);
    return;
}

# Once a minute: what this node was published and has not (it was started anew, or no node answered when it let go), what it has and is published no more
# (it was lost, and lives), paths that a disk lacks (a gateway was away when it was connected), and what nobody has since the minute before (it was
# made by a call that was cut).
my sub tidy {
    my ($storeid, $scfg, $identifier) = @_;
    my $run = $AmitaProxmox::Host::AT{run};
    my $sum = sum($scfg);
    my $stamp = "$run/tidy-$sum";
    my $last = (stat $stamp)[9];
    return if defined $last && $last <= time() && time() - $last < $SECONDS{tidy_every};
    AmitaProxmox::Host::locked("tidy-$sum", 1, sub {
        my %empty_before = map { $_ => 1 } split /\s+/, AmitaProxmox::Host::slurp($stamp);
        open(my $handle, '>', $stamp) or die "no $stamp: $!\n";
        utime(undef, undef, $stamp);
        my $own = AmitaProxmox::Host::host_nqn($identifier);
        my $api = connection($storeid, $scfg, $SECONDS{tidy});
        my %listed = map { $_->{name} => $_ } grep { $_->{name} =~ m/\Apve-\Q$sum\E-[0-9]/ } @{ $api->all('subsystems', '/subsystems') };
        my %here;
        for my $path (AmitaProxmox::Host::paths()) {
            push @{ $here{$1}{ $path->{nqn} } }, $path if $path->{nqn} =~ m/:(pve-\Q$sum\E-[0-9]+(?:\.[0-9]+)?)\z/;
        }
        for my $name (sort keys %listed) {
            next if $here{$name} || !grep { $_ eq $own } @{ $listed{$name}{hosts} };
            AmitaProxmox::Host::locked($name, 1, sub {
                take_off($api, $name, sub { $_[0] eq $own }) if !local_nqns($name);
            });
        }
        for my $name (grep { !@{ $listed{$_}{hosts} } } sort keys %listed) {
            print {$handle} "$listed{$name}{nqn}\n";
            next if !$empty_before{ $listed{$name}{nqn} };
            AmitaProxmox::Host::locked($name, 1, sub { take_off($api, $name, sub { 0 }) });
        }
        close($handle);
        my $gateways;
        for my $name (sort keys %here) {
            my $there = $listed{$name};
            for my $nqn (sort keys %{ $here{$name} }) {
                if (!$there || $there->{nqn} ne $nqn || !grep { $_ eq $own } @{ $there->{hosts} }) {
                    AmitaProxmox::Host::locked($name, 1, sub { lost($api, $own, $name, $nqn) }) if $api->left() > 5;
                    next;
                }
                $gateways //= grep { $_->{alive} && defined $_->{nvme} } @{ $api->all('nodes', '/nodes') };
                my $live = grep { $_->{state} eq 'live' } @{ $here{$name}{$nqn} };
                next if $live >= ($there->{gateways} && @{ $there->{gateways} } ? @{ $there->{gateways} } : $gateways);
                AmitaProxmox::Host::locked($name, 1, sub { mend($api, $name, $identifier, $own) }) if $api->left() > 5;
            }
        }
        unlink_dead($scfg);
    });
    return;
}

sub activate_storage {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $api = connection($storeid, $scfg, $SECONDS{status});
    $cache->{amita}{$storeid}{pool} = pool($api, $scfg);
    my $own = identifier($storeid);
    eval { tidy($storeid, $scfg, $own) };
    warn "amita storage '$storeid': what was left behind is not looked after: $@" if $@;
    return 1;
}

sub deactivate_storage {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $sum = sum($scfg);
    my %names = map { $_->{nqn} =~ m/:(pve-\Q$sum\E-[0-9]+(?:\.[0-9]+)?)\z/ ? ($1 => 1) : () } AmitaProxmox::Host::paths();
    for my $name (sort keys %names) {
        eval {
            AmitaProxmox::Host::locked($name, 1, sub {
                end_here($name, undef);
                my $own = AmitaProxmox::Host::host_nqn(identifier($storeid));
                take_off(connection($storeid, $scfg, 15), $name, sub { $_[0] eq $own });
            });
        };
        warn "amita storage '$storeid': $name stays connected: $@" if $@;
    }
    unlink_dead($scfg);
    return 1;
}

# Of one copy, and no more than the pool's quota leaves.
sub status {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $pool = $cache->{amita}{$storeid}{pool} // pool(connection($storeid, $scfg, $SECONDS{status}), $scfg);
    my $copies = $pool->{copies} || 1;
    my $total = int($pool->{raw_bytes} / $copies);
    my $free = int($pool->{free_bytes} / $copies);
    my $quota = $pool->{quota}{provisioned_bytes};
    if (defined $quota) {
        my $left = $quota - ($pool->{asked}{provisioned_bytes} // 0);
        $left = 0 if $left < 0;
        $free = $left if $left < $free;
    }
    $free = $total if $free > $total;
    return ($total, $free, $total - $free, 1);
}

# By what two entries of storage.cfg are known to be one storage.
sub get_identity {
    my ($class, $scfg, $storeid) = @_;
    my $cluster = connection($storeid, $scfg)->must('the cluster', GET => '/cluster')->{thing};
    return "amita:$cluster->{id}:$scfg->{'amita-pool'}:" . prefix($scfg);
}

my sub notes_of {
    my ($text) = @_;
    return undef if !defined $text;
    $text =~ s/%([0-9A-F]{2})/chr(hex($1))/ge;
    return $text;
}

sub list_images {
    my ($class, $storeid, $scfg, $vmid, $vollist, $cache) = @_;
    my $prefix = prefix($scfg);
    my $api = connection($storeid, $scfg);
    my $all = $api->all('the list of disks', '/volumes?label=' . encode(STORAGE_LABEL . "=$prefix"));
    my %wanted = map { $_ => 1 } @{ $vollist // [] };
    my @list;
    for my $volume (@$all) {
        # A volume that was given another name by hand is not to be had by Proxmox until it has one that it knows.
        my ($name, $owner) = $volume->{name} =~ m/\A\Q$prefix\E-((?:vm|base)-([0-9]+)-[A-Za-z0-9._-]+)\z/ or next;
        # What a clone is called stays, whatever becomes of its base: guests' configurations have the whole name.
        my $base = $volume->{labels}{ +BASE_LABEL };
        my $volname = defined $base && $base =~ m/\Abase-[0-9]+-[A-Za-z0-9._-]+\z/ ? "$base/$name" : $name;
        my $volid = "$storeid:$volname";
        next if $vollist ? !$wanted{$volid} : defined $vmid && $owner ne $vmid;
        my %info = (volid => $volid, format => 'raw', size => $volume->{size_bytes} + 0, vmid => $owner);
        $info{parent} = $base if defined $base;
        $info{ctime} = $volume->{created_at} + 0 if defined $volume->{created_at};
        $info{notes} = notes_of($volume->{labels}{ +NOTES_LABEL }) if defined $volume->{labels}{ +NOTES_LABEL };
        $info{protected} = 1 if $volume->{protected};
        push @list, \%info;
    }
    return \@list;
}

# --- Disks

my sub whole_blocks { my ($bytes) = @_; return int(($bytes + 4095) / 4096) * 4096 }

my sub labels_of {
    my ($scfg, %more) = @_;
    return { STORAGE_LABEL, prefix($scfg), %more };
}

# What was made: by this call, whose answer was lost, or by another one.
my sub made {
    my ($api, $said, $call, $what, $look) = @_;
    return if $said->{ok};
    if ($said->{code} eq 'exists' && $said->{unsure}) {
        my $there = $look->();
        return if $there && ($there->{thing}{labels}{ +CALL_LABEL } // '') eq $call;
    }
    die $api->refused($what, $said);
}

my sub free_name {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name) = @_;
    return $class->find_free_diskname($storeid, $scfg, $vmid, $fmt) if !defined $name;
    die "illegal name '$name': it should be vm-$vmid-NAME\n" if $name !~ m/\A(?:vm|base)-\Q$vmid\E-[A-Za-z0-9._-]+\z/;
    return $1 if $name =~ m/\A(.*)\z/;
}

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name, $size) = @_;
    die "unsupported format '$fmt': disks of Amita are raw\n" if $fmt ne 'raw';
    die "illegal name '$name': it should be vm-$vmid-NAME\n" if defined $name && $name !~ m/\Avm-/;
    my $api = connection($storeid, $scfg);
    my $bytes = whole_blocks($size * 1024);
    my $is_given = defined $name;
    for (1 .. LOOKS) {
        my $wanted = free_name($class, $storeid, $scfg, $vmid, $fmt, $name);
        my $call = unpack('H*', random_bytes());
        my $said = $api->ask(POST => '/volumes', body => {
            name => volume_name($scfg, $wanted),
            pool => $scfg->{'amita-pool'},
            size_bytes => $bytes,
            labels => labels_of($scfg, CALL_LABEL, $call),
        });
        # Another node was faster, or somebody has a volume of that name by hand.
        next if !$is_given && !$said->{ok} && $said->{code} eq 'exists' && !$said->{unsure};
        made($api, $said, $call, "disk $wanted cannot be made", sub { look_up($api, $scfg, $wanted) });
        return $wanted;
    }
    die $api->text("no free name for a disk of guest $vmid: others take them, or volumes of these names are not this storage's (`amita volume list`)");
}

# Why a disk cannot be had back when it is removed; undef: it can. What its pool keeps for no time goes for good, too, and nodes refuse that where there are snapshots
# and nobody speaks of them: a template always has one.
my sub why_for_good {
    my ($api, $scfg, $volume, $snapshots) = @_;
    return 'amita-on-delete now' if ($scfg->{'amita-on-delete'} // 'recycle') eq 'now';
    return undef if !@$snapshots;
    my $pool = $api->find("pool $volume->{pool}", '/pools/' . encode($volume->{pool}));
    return undef if !$pool || $pool->{thing}{recycle_seconds} != 0;
    return "pool $volume->{pool} keeps nothing: `amita pool recycle`";
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    for (1 .. LOOKS) {
        my $found = look_up($api, $scfg, $name);
        if (!$found) {
            unlink AmitaProxmox::Host::link_of(prefix($scfg), $name);
            return undef;
        }
        die $api->text("cannot remove disk $name: it is protected (`amita volume protect $found->{thing}{name} --off`)") if $found->{thing}{protected};
        my $query = '';
        my $snapshots = $api->all("snapshots of $name", volume_path($scfg, $name) . '/snapshots');
        if (my $why = why_for_good($api, $scfg, $found->{thing}, $snapshots)) {
            my @others = grep { $_->{name} !~ m/\A\Q${\SNAPSHOT}\E/ && !$_->{hidden} && !$_->{mark} } @$snapshots;
            die $api->text("disk $name is to go for good ($why), and has snapshots that Proxmox has not taken: " . join(', ', map { $_->{name} } @others)
                . ': delete them, and give the command again') if @others;
            $query = '?now=true&snapshots=true';
        }
        alone($storeid, $scfg, $api, $found, $name, "disk $name cannot be removed");
        my $said = $api->ask(DELETE => volume_path($scfg, $name) . $query, if_match => $found->{etag});
        return undef if $said->{ok} || $said->{code} eq 'not-found';
        # Its owner comes and goes.
        next if $said->{code} eq 'changed';
        die $api->refused("disk $name cannot be removed", $said);
    }
    die $api->text("disk $name changes again and again: give the command again");
}

sub volume_size_info {
    my ($class, $scfg, $storeid, $volname, $timeout) = @_;
    my (undef, $name, undef, $base) = $class->parse_volname($volname);
    my $volume = volume(connection($storeid, $scfg, $timeout), $scfg, $name)->{thing};
    my $bytes = $volume->{size_bytes} + 0;
    return wantarray ? ($bytes, 'raw', undef, $base, $volume->{created_at}) : $bytes;
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;
    die "a snapshot is not resized\n" if defined $snapname;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    my $bytes = whole_blocks($size);
    for my $look (1 .. LOOKS) {
        my $found = volume($api, $scfg, $name);
        my $there = $found->{thing}{size_bytes};
        die $api->text("disk $name has $there bytes, and does not become smaller ($bytes)") if $bytes < $there;
        if ($bytes > $there) {
            my $said = $api->ask(PATCH => volume_path($scfg, $name), body => { size_bytes => $bytes }, if_match => $found->{etag});
            next if !$said->{ok} && $said->{code} eq 'changed';
            die $api->refused("disk $name cannot grow to $bytes bytes", $said) if !$said->{ok};
        }
        # Where this node has it, whoever asked goes on to tell QEMU or a file system, which go by what the kernel says.
        for my $nqn (local_nqns(subsystem_name($scfg, $found->{thing}))) {
            eval { AmitaProxmox::Host::await_bytes($nqn, undef, $bytes) };
            die $api->text("disk $name: $@" =~ s/\n\z//r) if $@;
        }
        return 1;
    }
    die $api->text("disk $name changes again and again: give the command again");
}

my sub rename_to {
    my ($api, $scfg, $name, $target, $number) = @_;
    my $said = $api->ask(POST => volume_path($scfg, $name) . '/rename', body => { name => volume_name($scfg, $target) });
    return if $said->{ok};
    if ($said->{unsure}) {
        my $there = look_up($api, $scfg, $target);
        return if $there && $there->{thing}{id} == $number;
    }
    die $api->refused("disk $name cannot be renamed to $target", $said);
}

sub rename_volume {
    my ($class, $scfg, $storeid, $source_volname, $target_vmid, $target_volname) = @_;
    my (undef, $name, undef, $base, undef, $isBase) = $class->parse_volname($source_volname);
    my $api = connection($storeid, $scfg);
    my $target = free_name($class, $storeid, $scfg, $target_vmid, 'raw', $target_volname);
    my $found = volume($api, $scfg, $name);
    die $api->text("disk $target is there already") if look_up($api, $scfg, $target);
    alone($storeid, $scfg, $api, $found, $name, "disk $name cannot be renamed");
    rename_to($api, $scfg, $name, $target, $found->{thing}{id});
    return "$storeid:" . (defined $base ? "$base/" : '') . $target;
}

# --- Snapshots

# A snapshot that is there already is an error, also where it is this storage's: who asked would take an old one for what is there now.
my sub take {
    my ($api, $scfg, $name, $as, $what) = @_;
    my $call = unpack('H*', random_bytes());
    my $path = volume_path($scfg, $name) . '/snapshots';
    my $said = $api->ask(POST => $path, body => { name => $as, labels => labels_of($scfg, CALL_LABEL, $call) });
    made($api, $said, $call, $what, sub { $api->find($what, "$path/" . encode($as)) });
    return;
}

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    volume($api, $scfg, $name);
    take($api, $scfg, $name, snapshot_name($snap), "snapshot $snap of disk $name cannot be taken");
    return undef;
}

sub volume_snapshot_info {
    my ($class, $scfg, $storeid, $volname) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    look_up($api, $scfg, $name) // return {};
    my %info;
    my $order = 0;
    for my $taken (@{ $api->all("snapshots of $name", volume_path($scfg, $name) . '/snapshots') }) {
        next if $taken->{mark} || $taken->{hidden} || $taken->{name} !~ m/\A\Q${\SNAPSHOT}\E([A-Za-z0-9_-]+)\z/;
        $info{$1} = { id => "$taken->{number}", timestamp => $taken->{taken_at} + 0, 'virtual-size' => $taken->{size_bytes} + 0, order => $order++ };
    }
    return \%info;
}

# A snapshot of a mounted file system wants it frozen: containers are mounted on the host.
sub volume_snapshot_needs_fsfreeze { return 1 }

# To any of them, whatever was taken since: those stay.
sub volume_rollback_is_possible {
    my ($class, $scfg, $storeid, $volname, $snap, $blockers) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    volume($api, $scfg, $name);
    snapshot($api, $scfg, $name, $snap) // die $api->text("disk $name has no snapshot $snap");
    return 1;
}

sub volume_snapshot_rollback {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    my $as = snapshot_name($snap);
    for (1 .. LOOKS) {
        my $found = volume($api, $scfg, $name);
        snapshot($api, $scfg, $name, $snap) // die $api->text("disk $name has no snapshot $snap");
        alone($storeid, $scfg, $api, $found, $name, "disk $name cannot be rolled back");
        my $said = $api->ask(POST => volume_path($scfg, $name) . '/snapshots/' . encode($as) . '/revert', body => { keep_snapshot => JSON::false() },
            if_match => $found->{etag});
        return undef if $said->{ok};
        # Its owner comes and goes; or it was done, and the answer was lost: it is done again, and nobody has it meanwhile.
        next if $said->{code} eq 'changed';
        die $api->refused("disk $name cannot be rolled back to $snap", $said);
    }
    die $api->text("disk $name changes again and again: give the command again");
}

sub volume_snapshot_delete {
    my ($class, $scfg, $storeid, $volname, $snap, $running) = @_;
    my (undef, $name, $vmid) = $class->parse_volname($volname);
    my $api = connection($storeid, $scfg);
    my $path = volume_path($scfg, $name) . '/snapshots/' . encode(snapshot_name($snap));
    for (1 .. LOOKS) {
        my $found = look_up($api, $scfg, $name) // return undef;
        my $taken = snapshot($api, $scfg, $name, $snap) // return undef;
        # A backup of a container has it mounted, and nobody deactivates it afterwards.
        my $subsystem = subsystem_name($scfg, $found->{thing}, $taken->{thing});
        my $own = AmitaProxmox::Host::host_nqn(identifier($storeid));
        AmitaProxmox::Host::locked($subsystem, 0, sub {
            eval { end_here($subsystem, AmitaProxmox::Host::link_of(prefix($scfg), $name, $snap)) };
            die $api->text("snapshot $snap of disk $name: $@" =~ s/\n\z//r) if $@;
            free_of_others($api, $subsystem, $vmid, $own, "snapshot $snap of disk $name cannot be deleted");
        });
        my $said = $api->ask(DELETE => $path, if_match => $taken->{etag});
        return undef if $said->{ok} || $said->{code} eq 'not-found';
        next if $said->{code} eq 'changed';
        die $api->refused("snapshot $snap of disk $name cannot be deleted", $said);
    }
    die $api->text("snapshot $snap of disk $name changes again and again: give the command again");
}

# --- Templates and linked clones

sub create_base {
    my ($class, $storeid, $scfg, $volname) = @_;
    my (undef, $name, undef, $base, undef, $isBase) = $class->parse_volname($volname);
    die "create_base is not possible with the base image $volname\n" if $isBase;
    my $api = connection($storeid, $scfg);
    (my $new = $name) =~ s/\Avm-/base-/;
    if (my $found = look_up($api, $scfg, $name)) {
        die $api->text("disk $new is there already") if look_up($api, $scfg, $new);
        alone($storeid, $scfg, $api, $found, $name, "disk $name cannot become a template");
        rename_to($api, $scfg, $name, $new, $found->{thing}{id});
    } else {
        # A call before this one may have been cut here.
        volume($api, $scfg, $new);
    }
    my $path = volume_path($scfg, $new) . '/snapshots/' . encode(BASE_SNAPSHOT);
    take($api, $scfg, $new, BASE_SNAPSHOT, "disk $new cannot become a template") if !$api->find("the snapshot of $new", $path);
    return defined $base ? "$base/$new" : $new;
}

sub clone_image {
    my ($class, $scfg, $storeid, $volname, $vmid, $snap) = @_;
    my (undef, $name, undef, undef, undef, $isBase) = $class->parse_volname($volname);
    die "clone_image works on base images and on snapshots, and $volname is neither\n" if !$isBase && !defined $snap;
    my $api = connection($storeid, $scfg);
    my $source = volume($api, $scfg, $name)->{thing};
    my $as = defined $snap ? snapshot_name($snap) : BASE_SNAPSHOT;
    my $is_of_base = $isBase && !defined $snap;
    for (1 .. LOOKS) {
        my $new = $class->find_free_diskname($storeid, $scfg, $vmid, 'raw');
        my $call = unpack('H*', random_bytes());
        my $said = $api->ask(POST => volume_path($scfg, $name) . '/snapshots/' . encode($as) . '/clones', body => {
            name => volume_name($scfg, $new),
            labels => labels_of($scfg, CALL_LABEL, $call, $is_of_base ? (BASE_LABEL, $name) : ()),
        });
        next if !$said->{ok} && $said->{code} eq 'exists' && !$said->{unsure};
        made($api, $said, $call, "no clone of disk $source->{name}\@$as", sub { look_up($api, $scfg, $new) });
        return $is_of_base ? "$name/$new" : $new;
    }
    die $api->text("no free name for a disk of guest $vmid");
}

sub volume_has_feature {
    my ($class, $scfg, $feature, $storeid, $volname, $snapname, $running, $opts) = @_;
    my %features = (
        snapshot => { current => 1, snap => 1 },
        clone => { base => 1, snap => 1 },
        template => { current => 1 },
        copy => { base => 1, current => 1, snap => 1 },
        sparseinit => { base => 1, current => 1 },
        rename => { current => 1 },
    );
    if ($feature eq 'clone' && defined $opts->{valid_target_formats}) {
        return 0 if !grep { $_ eq 'raw' } @{ $opts->{valid_target_formats} };
    }
    my (undef, undef, undef, undef, undef, $isBase) = $class->parse_volname($volname);
    my $key = defined $snapname ? 'snap' : $isBase ? 'base' : 'current';
    return $features{$feature}{$key} ? 1 : undef;
}

# --- Notes and protection. A label has no control characters.

sub get_volume_attribute {
    my ($class, $scfg, $storeid, $volname, $attribute) = @_;
    return undef if $attribute ne 'notes' && $attribute ne 'protected';
    my (undef, $name) = $class->parse_volname($volname);
    my $volume = volume(connection($storeid, $scfg), $scfg, $name)->{thing};
    return $volume->{protected} ? 1 : 0 if $attribute eq 'protected';
    return notes_of($volume->{labels}{ +NOTES_LABEL });
}

sub update_volume_attribute {
    my ($class, $scfg, $storeid, $volname, $attribute, $value) = @_;
    my (undef, $name) = $class->parse_volname($volname);
    my $change;
    if ($attribute eq 'protected') {
        $change = { protected => $value ? JSON::true() : JSON::false() };
    } elsif ($attribute eq 'notes') {
        my $text = $value // '';
        $text =~ s/([%\x00-\x1f\x7f-\x9f])/sprintf('%%%02X', ord $1)/ge;
        my $bytes = $text;
        utf8::encode($bytes) if utf8::is_utf8($bytes);
        die "amita storage '$storeid': notes of a disk have " . MOST_NOTES . " bytes at most, and these have " . length($bytes) . "\n" if length($bytes) > MOST_NOTES;
        $change = { labels => { NOTES_LABEL, length($text) ? $text : undef } };
    } else {
        die "attribute '$attribute' is not supported for storage type 'amita'\n";
    }
    my $api = connection($storeid, $scfg);
    volume($api, $scfg, $name);
    $api->must("disk $name", PATCH => volume_path($scfg, $name), body => $change);
    return undef;
}

# --- Streams: to and from storages of other kinds, and other clusters

sub volume_export_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return () if $with_snapshots || defined $base_snapshot;
    return ('raw+size');
}

sub volume_import_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return () if $with_snapshots || defined $base_snapshot || defined $snapshot;
    return ('raw+size');
}

sub volume_export {
    my ($class, $scfg, $storeid, $fh, $volname, $format, $snapshot, $base_snapshot, $with_snapshots) = @_;
    die "volume export format '$format' is not available for Amita: raw+size is, without snapshots\n"
        if $format ne 'raw+size' || $with_snapshots || defined $base_snapshot;
    my ($path) = $class->path($scfg, $volname, $storeid, $snapshot);
    my $was_there = AmitaProxmox::Host::is_block($path);
    $class->activate_volume($storeid, $scfg, $volname, $snapshot);
    eval {
        my (undef, $name) = $class->parse_volname($volname);
        my $bytes = defined $snapshot
            ? (snapshot(connection($storeid, $scfg), $scfg, $name, $snapshot) // die "disk $name has no snapshot $snapshot\n")->{thing}{size_bytes}
            : scalar $class->volume_size_info($scfg, $storeid, $volname);
        PVE::Storage::Plugin::write_common_header($fh, $bytes);
        run_command(['dd', "if=$path", 'bs=1M', 'status=progress'], output => '>&' . fileno($fh));
    };
    my $why = $@;
    # Nobody else deactivates it. Who has begun to use it meanwhile keeps it.
    eval { $class->deactivate_volume($storeid, $scfg, $volname, $snapshot) } if !$was_there;
    warn $@ if !$was_there && $@;
    die $why if $why;
    return;
}

sub volume_import {
    my ($class, $scfg, $storeid, $fh, $volname, $format, $snapshot, $base_snapshot, $with_snapshots, $allow_rename) = @_;
    die "volume import format '$format' is not available for Amita: raw+size is, without snapshots\n"
        if $format ne 'raw+size' || $with_snapshots || defined $base_snapshot || defined $snapshot;
    my (undef, $name, $vmid, undef, undef, $isBase) = $class->parse_volname($volname);
    my $wanted = $name;
    $wanted =~ s/\Abase-/vm-/;
    my $api = connection($storeid, $scfg);
    my ($there) = grep { look_up($api, $scfg, $_) } $wanted, $isBase ? ($name) : ();
    if (defined $there) {
        die $api->text("disk $there is there already") if !$allow_rename;
        warn $api->text("disk $there is there already: what comes gets another name");
        $wanted = undef;
    }
    my ($bytes) = PVE::Storage::Plugin::read_common_header($fh);
    my $made = $class->alloc_image($storeid, $scfg, $vmid, 'raw', $wanted, int(($bytes + 1023) / 1024));
    eval {
        $class->activate_volume($storeid, $scfg, $made);
        my ($path) = $class->path($scfg, $made, $storeid);
        # A new volume is zeros already.
        run_command(['dd', "of=$path", 'bs=64k', 'conv=sparse,fsync'], input => '<&' . fileno($fh));
        $class->deactivate_volume($storeid, $scfg, $made);
        $made = $class->create_base($storeid, $scfg, $made) if $isBase;
    };
    if (my $why = $@) {
        eval {
            # It may be renamed already.
            $made =~ s/\Avm-/base-/ if $isBase && !look_up(connection($storeid, $scfg), $scfg, $made);
            $class->free_image($storeid, $scfg, $made, 0, 'raw');
        };
        warn $@ if $@;
        die $why;
    }
    return "$storeid:$made";
}

1;
