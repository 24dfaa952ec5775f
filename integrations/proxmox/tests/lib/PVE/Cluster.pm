package PVE::Cluster;

# A stub for tests, written for them: what they say of nodes and guests.

use strict;
use warnings;

our %MEMBERS = (pve1 => { id => 1, online => 1 }, pve2 => { id => 2, online => 1 });
our %GUESTS;
our $QUORATE = 1;

sub get_members { return \%MEMBERS }
sub get_vmlist { return { ids => { map { $_ => { node => $GUESTS{$_}, type => 'qemu' } } keys %GUESTS } } }

sub check_cfs_quorum {
    my ($noerr) = @_;
    die "cluster not ready - no quorum?\n" if !$QUORATE && !$noerr;
    return $QUORATE;
}

sub cfs_lock_storage { my ($id, $timeout, $code, @with) = @_; my $said = eval { $code->(@with) }; return $said }
sub cfs_register_file { return }

1;
