package Amita::Here;

# Where the plugin is that the tests try: the file beside them, or AMITA_TEST_PLUGIN. It is found under the name that Proxmox has for it.

use strict;
use warnings;

my ($folder) = __FILE__ =~ m{\A(?:([^\0]*)/)?tests/lib/Amita/Here\.pm\z} or die 'where is this?';
$folder //= '.';
my ($file) = ($ENV{AMITA_TEST_PLUGIN} // "$folder/AmitaPlugin.pm") =~ m{\A([^\0]+)\z};

unshift @INC, sub {
    my (undef, $wanted) = @_;
    return if $wanted ne 'PVE/Storage/Custom/AmitaPlugin.pm';
    open(my $handle, '<', $file) or die "no $file: $!\n";
    $INC{$wanted} = $file;
    return $handle;
};

sub folder { return $folder }
sub file { return $file }

$ENV{PATH} = '/usr/sbin:/usr/bin:/sbin:/bin';
delete @ENV{qw(IFS CDPATH ENV BASH_ENV)};

1;
