package PVE::INotify;

# A stub for tests, written for them.

use strict;
use warnings;

our $NODENAME = 'pve1';

sub nodename { return $NODENAME }

1;
