package Amita::Machine;

# A host of NVMe/TCP that is made up: a folder with a sysfs, a /dev and a /proc of its own. It stands in for the few functions of the plugin that touch the
# kernel: a line for /dev/nvme-fabrics makes files as the kernel would, if the gateway lets the host in, and an end of a path takes them away. What was asked is written
# to a log. How real gateways and a real kernel answer is not tried by it.

use strict;
use warnings;

use Cwd ();
use File::Path qw(make_path remove_tree);
use File::Temp ();

use PVE::INotify;

my $current;

# `knows`: what a gateway says of a host: sub ($nqn, $host_nqn) -> [uuid, bytes], or nothing, where it does not let it in.
sub new {
    my ($class, $name, $pve, $knows) = @_;
    my ($root) = File::Temp::tempdir("amita-$name-XXXXXX", TMPDIR => 1, CLEANUP => 1) =~ m/\A(.*)\z/;
    my $self = bless { name => $name, root => $root, pve => $pve, knows => $knows, dead => {}, multipath => 'Y' }, $class;
    make_path(map { "$root/$_" } qw(sys/class/nvme sys/class/nvme-subsystem sys/block sys/module/nvme_core/parameters dev/disk/by-id proc run));
    make_path("$pve/priv", "$pve/nodes/$name");
    $self->write('sys/module/nvme_core/parameters/multipath', 'Y');
    $self->write('dev/nvme-fabrics', '');
    my $digits = join '', map { sprintf '%02x', ord } split //, substr("$name-------------------", 0, 16);
    $self->write('machine-id', $digits);
    return $self;
}

sub write {
    my ($self, $file, $text) = @_;
    open(my $handle, '>', "$self->{root}/$file") or die "$file: $!\n";
    print {$handle} "$text\n";
    close($handle);
    return;
}

# From here on the plugin runs on this machine.
sub enter {
    my ($self) = @_;
    $current = $self;
    my $root = $self->{root};
    %AmitaProxmox::Host::AT = (sys => "$root/sys", dev => "$root/dev", proc => "$root/proc", run => "$root/run", machine_id => "$root/machine-id");
    $PVE::Storage::Custom::AmitaPlugin::AT{pve} = $self->{pve};
    $PVE::INotify::NODENAME = $self->{name};
    return $self;
}

sub identifier {
    my ($self) = @_;
    local $AmitaProxmox::Host::AT{machine_id} = "$self->{root}/machine-id";
    return AmitaProxmox::Host::identifier($self->{name});
}


sub nqn { my ($self) = @_; return AmitaProxmox::Host::host_nqn($self->identifier()) }

sub said {
    my ($self, $line) = @_;
    open(my $handle, '>>', "$self->{root}/log") or die "log: $!\n";
    print {$handle} "$line\n";
    close($handle);
    return;
}

# What the kernel was asked since the last time that this was.
sub log {
    my ($self) = @_;
    my $text = AmitaProxmox::Host::slurp("$self->{root}/log");
    unlink "$self->{root}/log";
    return split /\n/, $text;
}

sub next_number {
    my ($folder, $prefix) = @_;
    my %taken = map { m/\A\Q$prefix\E(\d+)/ ? ($1 => 1) : () } AmitaProxmox::Host::listed($folder);
    my $number = 0;
    $number++ while $taken{$number};
    return $number;
}

sub connect_line {
    my ($self, $line) = @_;
    $self->said("connect $line");
    my %field = map { m/\A([a-z_]+)=(.*)\z/ ? ($1 => $2) : () } split /,/, $line;
    my $root = $self->{root};
    my $sys = "$root/sys";
    return ('', 111) if $self->{dead}{"$field{traddr}:$field{trsvcid}"};
    sleep(60) if $self->{hangs}{"$field{traddr}:$field{trsvcid}"};
    for my $path (AmitaProxmox::Host::paths()) {
        return ('', 114) if $path->{nqn} eq $field{nqn} && $path->{address} eq "$field{traddr} $field{trsvcid}";
    }
    my $disk = $self->{knows}->($field{nqn}, $field{hostnqn}) or return ('', 5);
    my ($nqn) = $field{nqn} =~ m/\A(.*)\z/;
    my $number = next_number("$sys/class/nvme", 'nvme');
    make_path("$sys/class/nvme/nvme$number");
    $self->write("sys/class/nvme/nvme$number/subsysnqn", $nqn);
    $self->write("sys/class/nvme/nvme$number/hostnqn", $field{hostnqn});
    $self->write("sys/class/nvme/nvme$number/address", "traddr=$field{traddr},trsvcid=$field{trsvcid},src_addr=127.0.0.1");
    $self->write("sys/class/nvme/nvme$number/state", 'live');
    $self->write("sys/class/nvme/nvme$number/$_", '') for qw(delete_controller rescan_controller);
    my ($there) = grep { AmitaProxmox::Host::slurp("$sys/class/nvme-subsystem/$_/subsysnqn") eq $nqn } AmitaProxmox::Host::listed("$sys/class/nvme-subsystem");
    return ("instance=$number,cntlid=1", 0) if defined $there;
    my $subsystem = next_number("$sys/class/nvme-subsystem", 'nvme-subsys');
    make_path("$sys/class/nvme-subsystem/nvme-subsys$subsystem");
    $self->write("sys/class/nvme-subsystem/nvme-subsys$subsystem/subsysnqn", $nqn);
    $self->appear($subsystem, @$disk) if !grep { lc(AmitaProxmox::Host::slurp("$sys/block/$_/uuid")) eq lc $disk->[0] } AmitaProxmox::Host::listed("$sys/block");
    return ("instance=$number,cntlid=1", 0);
}

sub appear {
    my ($self, $subsystem, $uuid, $bytes) = @_;
    ($uuid) = $uuid =~ m/\A(.*)\z/;
    my ($name, $root) = ("nvme${subsystem}n1", $self->{root});
    make_path("$root/sys/block/$name/holders", "$root/sys/class/nvme-subsystem/nvme-subsys$subsystem/$name");
    $self->write("sys/block/$name/uuid", $uuid);
    $self->write("sys/block/$name/size", $bytes / 512);
    $self->write("dev/$name", '');
    return if $self->{no_udev};
    symlink("../../$name", "$root/dev/disk/by-id/nvme-uuid.$uuid");
    return;
}

sub disappear {
    my ($self, $path) = @_;
    my ($root, $sys) = ($self->{root}, "$self->{root}/sys");
    my $nqn = AmitaProxmox::Host::slurp("$sys/class/nvme/$path/subsysnqn");
    remove_tree("$sys/class/nvme/$path");
    return if grep { $_->{nqn} eq $nqn } AmitaProxmox::Host::paths();
    for my $subsystem (AmitaProxmox::Host::listed("$sys/class/nvme-subsystem")) {
        next if AmitaProxmox::Host::slurp("$sys/class/nvme-subsystem/$subsystem/subsysnqn") ne $nqn;
        for my $disk (grep { m/\Anvme\d+n\d+\z/ } AmitaProxmox::Host::listed("$sys/class/nvme-subsystem/$subsystem")) {
            my ($uuid) = AmitaProxmox::Host::slurp("$sys/block/$disk/uuid") =~ m/\A(.*)\z/;
            remove_tree("$sys/block/$disk");
            unlink "$root/dev/$disk";
            my $is_own = (readlink("$root/dev/disk/by-id/nvme-uuid.$uuid") // '') eq "../../$disk";
            # What came from outside taints the whole statement.
            if ($is_own) {
                unlink "$root/dev/disk/by-id/nvme-uuid.$uuid";
            }
        }
        remove_tree("$sys/class/nvme-subsystem/$subsystem");
    }
    return;
}

# What a machine has after it was started anew: nothing.
sub reboot {
    my ($self) = @_;
    my $root = $self->{root};
    remove_tree(map { "$root/$_" } qw(sys/class/nvme sys/class/nvme-subsystem sys/block dev/disk dev/amita run));
    unlink glob("$root/dev/nvme[0-9]*") ? map { m/\A(.*)\z/ } glob("$root/dev/nvme[0-9]*") : ();
    make_path(map { "$root/$_" } qw(sys/class/nvme sys/class/nvme-subsystem sys/block dev/disk/by-id run));
    return;
}

sub wrote {
    my ($self, $file, $text) = @_;
    my ($path, $what) = $file =~ m{/class/nvme/(nvme\d+)/(delete_controller|rescan_controller)\z} or die "no such file is written: $file\n";
    return 2 if !-e "$self->{root}/sys/class/nvme/$path";
    $self->said("$what $path");
    if ($what eq 'delete_controller') {
        if (my $state = $self->{stuck}{$path}) {
            $self->write("sys/class/nvme/$path/state", $state);
            sleep(60);
        }
        $self->disappear($path);
        return 0;
    }
    my $nqn = AmitaProxmox::Host::slurp("$self->{root}/sys/class/nvme/$path/subsysnqn");
    my $disk = $self->{knows}->($nqn, AmitaProxmox::Host::slurp("$self->{root}/sys/class/nvme/$path/hostnqn")) or return 0;
    my $name = AmitaProxmox::Host::disk($nqn);
    if (defined $name) {
        $self->write("sys/block/$name/size", $disk->[1] / 512);
    } else {
        for my $subsystem (AmitaProxmox::Host::listed("$self->{root}/sys/class/nvme-subsystem")) {
            my ($number) = $subsystem =~ m/(\d+)\z/;
            next if AmitaProxmox::Host::slurp("$self->{root}/sys/class/nvme-subsystem/$subsystem/subsysnqn") ne $nqn;
            $self->appear($number, @$disk) if !-e "$self->{root}/dev/disk/by-id/nvme-uuid.$disk->[0]";
        }
    }
    return 0;
}

# A process of this machine has a disk open.
sub open_by {
    my ($self, $process, $comm, $disk) = @_;
    make_path("$self->{root}/proc/$process/fd");
    $self->write("proc/$process/comm", $comm);
    symlink("$self->{root}/dev/$disk", "$self->{root}/proc/$process/fd/7");
    return;
}

sub close_by { my ($self, $process) = @_; remove_tree("$self->{root}/proc/$process"); return }

# The real one, for gateways that are.
our $reach = \&AmitaProxmox::Host::reach;

{
    no warnings 'redefine';
    *AmitaProxmox::Host::fabrics = sub { return $current->connect_line(@_) };
    *AmitaProxmox::Host::put = sub { return $current->wrote(@_) };
    *AmitaProxmox::Host::modprobe = sub { $current->said('modprobe'); return };
    *AmitaProxmox::Host::is_block = sub { return -e $_[0] };
    *AmitaProxmox::Host::claimed = sub { my ($name) = $_[0] =~ m{([^/]+)\z}; sleep(60) if $current->{no_open}; return $current->{claimed}{$name} ? 1 : 0 };
    *AmitaProxmox::Host::flush = sub { my ($name) = $_[0] =~ m{([^/]+)\z}; $current->said("flush $name"); return $current->{flush_fails} // '' };
    *AmitaProxmox::Host::reach = sub { return $current->{unreached}{"$_[0]:$_[1]"} ? 'nothing listens there: Connection refused' : '' };
}

1;
