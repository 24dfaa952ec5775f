package PVE::SectionConfig;

# A stub for tests, written for them: as much of Proxmox' SectionConfig as the storage plugin meets. Proxmox' own is in libpve-common-perl.

use strict;
use warnings;

use PVE::JSONSchema;

sub private { die "overwritten by the base of the plugins\n" }

sub register {
    my ($class) = @_;
    my $data = $class->private();
    my $type = $class->type();
    die "type '$type' is already registered\n" if $data->{plugins}{$type};
    $data->{plugins}{$type} = $class;
    $data->{options}{$type} = $class->options();
    $data->{plugindata}{$type} = $class->plugindata();
    return;
}

sub lookup {
    my ($class, $type) = @_;
    return $class->private()->{plugins}{$type} // die "unknown section type '$type'\n";
}

sub lookup_types { my ($class) = @_; return [sort keys %{ $class->private()->{plugins} }] }

# Each property is declared by one plugin, and each option is a property of some plugin.
sub init {
    my ($class) = @_;
    my $data = $class->private();
    my %all = %{ $data->{propertyList} };
    for my $type (sort keys %{ $data->{plugins} }) {
        my $properties = $data->{plugins}{$type}->properties();
        for my $name (sort keys %$properties) {
            die "duplicate property '$name'\n" if $all{$name};
            $all{$name} = $properties->{$name};
        }
    }
    for my $type (sort keys %{ $data->{options} }) {
        for my $name (sort keys %{ $data->{options}{$type} }) {
            die "undefined property '$name' of type '$type'\n" if !$all{$name};
        }
    }
    $data->{all} = \%all;
    return;
}

sub check_value {
    my ($class, $name, $value) = @_;
    my $schema = $class->private()->{all}{$name} // die "unknown property '$name'\n";
    my $type = $schema->{type} // 'string';
    die "$name: '$value' is no number\n" if $type eq 'integer' && $value !~ m/\A-?[0-9]+\z/;
    die "$name: '$value' is neither true nor false\n" if $type eq 'boolean' && $value !~ m/\A[01]\z/;
    die "$name: '$value' does not match the pattern\n" if defined $schema->{pattern} && $value !~ m/\A$schema->{pattern}\z/;
    die "$name: '$value' is none of its values\n" if $schema->{enum} && !grep { $_ eq $value } @{ $schema->{enum} };
    die "$name: too long\n" if defined $schema->{maxLength} && length($value) > $schema->{maxLength};
    PVE::JSONSchema::check_format($schema->{format}, $value) if defined $schema->{format};
    return;
}

sub check_config {
    my ($class, $id, $config, $create, $skip_schema_check) = @_;
    my $data = $class->private();
    my $type = $class->type();
    my $options = $data->{options}{$type};
    my $checked = { type => $type };
    for my $name (sort keys %$config) {
        next if $name eq 'type' || $name eq 'storage' || $name eq 'digest' || $name eq 'delete';
        my $option = $options->{$name} // die "unexpected property '$name'\n";
        die "can't change value of fixed parameter '$name'\n" if !$create && $option->{fixed};
        $class->check_value($name, $config->{$name}) if !$skip_schema_check;
        $checked->{$name} = $class->decode_value($type, $name, $config->{$name});
    }
    if ($create) {
        for my $name (sort keys %$options) {
            die "missing value for required option '$name'\n" if !$options->{$name}{optional} && !defined $config->{$name};
        }
    }
    return $checked;
}

sub decode_value { my ($class, $type, $name, $value) = @_; return $value }
sub encode_value { my ($class, $type, $name, $value) = @_; return $value }

sub parse_config {
    my ($class, $file, $text) = @_;
    my (%ids, $id, $type);
    my %raw;
    for my $line (split /\n/, $text) {
        if ($line =~ m/\A(\S+):\s*(\S+)\s*\z/) {
            ($type, $id) = ($1, $2);
            $raw{$id} = { type => $type };
        } elsif ($line =~ m/\A\s+(\S+)(?:\s+(.*?))?\s*\z/) {
            $raw{$id}{$1} = $2 // 1;
        }
    }
    for my $found (sort keys %raw) {
        my $plugin = $class->lookup($raw{$found}{type});
        my %config = %{ $raw{$found} };
        delete $config{type};
        eval { $ids{$found} = $plugin->check_config($found, \%config, 1) };
        warn "$file: section '$found': $@" if $@;
    }
    return { ids => \%ids };
}

sub write_config {
    my ($class, $file, $cfg) = @_;
    my $text = '';
    for my $id (sort keys %{ $cfg->{ids} }) {
        my $section = $cfg->{ids}{$id};
        $text .= "$section->{type}: $id\n";
        for my $name (sort grep { $_ ne 'type' } keys %$section) {
            $text .= "\t$name " . $class->encode_value($section->{type}, $name, $section->{$name}) . "\n";
        }
        $text .= "\n";
    }
    return $text;
}

1;
