package PVE::JSONSchema;

# A stub for tests, written for them.

use strict;
use warnings;

my %formats;

sub register_format { my ($name, $code) = @_; $formats{$name} = $code; return }

sub check_format {
    my ($name, $value) = @_;
    my $code = $formats{$name} // die "undefined format '$name'\n";
    $code->($value);
    return;
}

sub get_standard_option { my ($name, $more) = @_; return { type => 'string', %{ $more // {} } } }

register_format('pve-storage-path', sub { $_[0] =~ m{\A/[^;()]+} or die "value does not look like a valid absolute path\n" });
register_format('pve-storage-content-list', sub { 1 });

1;
