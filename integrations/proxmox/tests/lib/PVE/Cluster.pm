package PVE::Cluster;

# A stub for tests, written for them: what they say of nodes and guests.

use strict;
use warnings;

our %MEMBERS = (pve1 => { id => 1, online => 1 }, pve2 => { id => 2, online => 1 });
our %GUESTS;
our $QUORATE = 1;
# What happens elsewhere just before a process looks; and whether pmxcfs answers.
our $MEANWHILE = sub { };
our $ANSWERS = 1;

# As in Proxmox, a process has what there was when it looked last, and nothing before it has.
my ($members, $guests);
sub cfs_update {
    my ($fail) = @_;
    $MEANWHILE->();
    ($members, $guests) = (undef, {});
    if (!$ANSWERS) {
        die "ipcc_send_rec[1] failed: Connection refused\n" if $fail;
        warn "ipcc_send_rec[1] failed: Connection refused\n";
        return;
    }
    $members = { map { $_ => { %{ $MEMBERS{$_} } } } keys %MEMBERS };
    $guests = { ids => { map { $_ => { node => $GUESTS{$_}, type => 'qemu' } } keys %GUESTS } };
    return;
}
sub get_members { return $members }
sub get_vmlist { return $guests // {} }

sub check_cfs_quorum {
    my ($noerr) = @_;
    die "cluster not ready - no quorum?\n" if !$QUORATE && !$noerr;
    return $QUORATE;
}

sub cfs_lock_storage { my ($id, $timeout, $code, @with) = @_; my $said = eval { $code->(@with) }; return $said }
sub cfs_register_file { return }

1;
