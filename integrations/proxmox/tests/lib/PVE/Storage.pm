package PVE::Storage;

# A stub for tests, written for them: how Proxmox loads plugins of others, by the version that they say. The versions are those of the environment:
# AMITA_TEST_APIVER and AMITA_TEST_APIAGE (9.2 where nothing is said).

use strict;
use warnings;

use PVE::Storage::Plugin;

# As in Proxmox, they are there before plugins are loaded.
my ($version, $age);
BEGIN {
    ($version) = ($ENV{AMITA_TEST_APIVER} // 15) =~ m/\A([0-9]+)\z/;
    ($age) = ($ENV{AMITA_TEST_APIAGE} // 6) =~ m/\A([0-9]+)\z/;
}
use constant APIVER => $version;
use constant APIAGE => $age;

# Of Proxmox' own plugins one that declares what others only use.
{
    package PVE::Storage::PBSPlugin;
    use base qw(PVE::Storage::Plugin);
    sub type { return 'pbs' }
    sub plugindata { return { content => [{ backup => 1, none => 1 }, { backup => 1 }] } }
    sub properties { return { password => { type => 'string' }, bwlimit => { type => 'string' }, server => { type => 'string' } } }
    sub options { return { password => { optional => 1 }, bwlimit => { optional => 1 }, server => {} } }
}
PVE::Storage::PBSPlugin->register();

sub load_custom {
    my ($name) = @_;
    my $module = "PVE::Storage::Custom::$name";
    eval {
        require "PVE/Storage/Custom/$name.pm";
        die "not derived from PVE::Storage::Plugin\n" if !$module->isa('PVE::Storage::Plugin');
        die "does not provide an api() method\n" if !$module->can('api');
        my $claims = $module->api();
        die "implements an API version newer than current ($claims > " . APIVER . ")\n" if $claims > APIVER;
        my $oldest = APIVER - APIAGE;
        die "API version too old, please update the plugin ($claims < $oldest)\n" if $claims < $oldest;
        $module->register();
        warn "Plugin \"$module\" is implementing an older storage API, an upgrade is recommended\n" if $claims != APIVER;
    };
    warn "Error loading storage plugin \"$module\": $@" if $@;
    return;
}

# What storage.cfg says.
our $CONFIG = { ids => {} };
sub config { return $CONFIG }

load_custom('AmitaPlugin');
PVE::Storage::Plugin->init();

1;
