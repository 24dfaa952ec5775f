package PVE::Storage::Plugin;

# A stub for tests, written for them: what plugins inherit of Proxmox' base, as far as this one meets it. Its own is in libpve-storage-perl. Methods that
# a plugin of raw disks has to have of its own die here.

use strict;
use warnings;

use PVE::Cluster;
use PVE::JSONSchema;
use PVE::SectionConfig;
use PVE::Tools;

use base qw(PVE::SectionConfig);

our @SHARED_STORAGE = qw(iscsi nfs cifs rbd cephfs iscsidirect zfs drbd pbs);
our $MAX_VOLUMES_PER_GUEST = 1024;

my $data = {
    propertyList => {
        type => { description => 'Storage type.' },
        storage => { type => 'string' },
        nodes => { type => 'string', optional => 1 },
        content => { type => 'string', format => 'pve-storage-content-list', optional => 1 },
        disable => { type => 'boolean', optional => 1 },
        shared => { type => 'boolean', optional => 1 },
        format => { type => 'string', optional => 1 },
    },
};

sub private { return $data }

# A plugin of before sensitive properties were declared has these.
my @always_sensitive = qw(encryption-key keyring master-pubkey password);

sub sensitive_properties {
    my ($type) = @_;
    my $own = $data->{plugindata}{$type}{'sensitive-properties'};
    return $own ? [sort grep { $own->{$_} } keys %$own] : [@always_sensitive];
}

sub decode_value {
    my ($class, $type, $name, $value) = @_;
    if ($name eq 'content') {
        my $valid = $data->{plugindata}{$type}{content}[0];
        my %content;
        for my $one (PVE::Tools::split_list($value)) {
            $valid->{$one} or do { warn "storage does not support content type '$one'\n"; next };
            $content{$one} = 1;
        }
        return \%content;
    }
    return { map { $_ => 1 } PVE::Tools::split_list($value) } if $name eq 'nodes';
    return $value;
}

sub encode_value {
    my ($class, $type, $name, $value) = @_;
    return join(',', sort grep { $value->{$_} } keys %$value) if ref $value eq 'HASH';
    return $value;
}

sub parse_config {
    my ($class, $file, $text) = @_;
    my $cfg = $class->SUPER::parse_config($file, $text);
    for my $section (values %{ $cfg->{ids} }) {
        my $type = $section->{type};
        $section->{content} //= $data->{plugindata}{$type}{content}[1];
        $section->{shared} = 1 if grep { $_ eq $type } @SHARED_STORAGE;
    }
    return $cfg;
}

sub cluster_lock_storage {
    my ($class, $storeid, $shared, $timeout, $code, @with) = @_;
    my $said = PVE::Cluster::cfs_lock_storage($storeid, $timeout, $code, @with);
    die $@ if $@;
    return $said;
}

sub get_next_vm_diskname {
    my ($list, $storeid, $vmid, $format, $scfg, $with_suffix) = @_;
    my %taken = map { m/(?:vm|base)-\Q$vmid\E-disk-([0-9]+)\z/ ? ($1 => 1) : () } @$list;
    for my $number (0 .. $MAX_VOLUMES_PER_GUEST - 1) {
        return "vm-$vmid-disk-$number" if !$taken{$number};
    }
    die "unable to allocate an image name for VM $vmid in storage '$storeid'\n";
}

sub find_free_diskname {
    my ($class, $storeid, $scfg, $vmid, $format, $with_suffix) = @_;
    my @list = map { $_->{volid} } @{ $class->list_images($storeid, $scfg, $vmid) };
    return get_next_vm_diskname(\@list, $storeid, $vmid, $format, $scfg, $with_suffix);
}

sub list_volumes {
    my ($class, $storeid, $scfg, $vmid, $types) = @_;
    my @all;
    for my $type (@$types) {
        next if $type ne 'images' && $type ne 'rootdir';
        for my $item (@{ $class->list_images($storeid, $scfg, $vmid) }) {
            my $guest = PVE::Cluster::get_vmlist()->{ids}{ $item->{vmid} };
            $item->{content} = $guest && $guest->{type} eq 'lxc' ? 'rootdir' : 'images';
            push @all, $item if $item->{content} eq $type;
        }
    }
    return \@all;
}

sub get_formats {
    my ($class, $scfg, $storeid) = @_;
    my $format = $data->{plugindata}{ $scfg->{type} }{format};
    return { default => $scfg->{format} || $format->[1], valid => { %{ $format->[0] } } };
}

sub write_common_header($$) { my ($handle, $bytes) = @_; syswrite($handle, pack('Q<', $bytes), 8); return }

sub read_common_header($) {
    my ($handle) = @_;
    sysread($handle, my $bytes, 8);
    $bytes = unpack('Q<', $bytes);
    die "import: no size found in export header, aborting.\n" if !defined $bytes;
    return $bytes;
}

sub on_add_hook { return undef }
sub on_update_hook { return undef }
sub on_delete_hook { return undef }
sub deactivate_storage { return }
sub storage_can_replicate { return 0 }
sub get_subdir { die "storage definition has no path\n" }

for my $name (qw(parse_volname filesystem_path path create_base clone_image alloc_image free_image volume_size_info volume_resize volume_snapshot
    volume_rollback_is_possible volume_snapshot_rollback volume_snapshot_delete volume_snapshot_info volume_has_feature list_images status
    activate_storage activate_volume deactivate_volume rename_volume volume_export volume_import volume_export_formats volume_import_formats)) {
    no strict 'refs';
    *$name = sub { die "$name of the base class is for folders\n" };
}

1;
