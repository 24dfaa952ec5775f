#!/usr/bin/perl
# The package: what is in it, with which modes and owners, what its scripts do, and that the same input makes the same bytes.
use strict;
use warnings;

use Digest::SHA ();
use File::Temp ();
use Test::More;

use Amita::Here;

my $folder = Amita::Here::folder();
my $work = File::Temp::tempdir(CLEANUP => 1);
sub run { my (@words) = @_; open(my $handle, '-|', @words) or die "@words: $!"; local $/; my $said = <$handle>; close($handle); is($?, 0, $words[0] =~ s{.*/}{}r . " $words[1]"); return $said }
sub bytes { my ($file) = @_; return Digest::SHA->new(256)->addfile($file)->hexdigest() }

my ($deb) = run("$folder/build-deb", "$work/one") =~ m/\A(.*)\n\z/;
like($deb, qr{/amita-proxmox_\d+\.\d+\.\d+_all\.deb\z}, 'a package');
my ($again) = run("$folder/build-deb", "$work/two") =~ m/\A(.*)\n\z/;
is(bytes($again), bytes($deb), 'the same bytes from the same input');

my %files;
for my $line (split /\n/, run('dpkg-deb', '--contents', $deb)) {
    my ($mode, $owner, undef, undef, undef, $name) = split ' ', $line, 6;
    $files{$name} = [$mode, $owner];
}
is_deeply([sort grep { $files{$_}[0] =~ m/\A-/ } keys %files], [
    './usr/lib/modules-load.d/amita-proxmox.conf',
    './usr/lib/udev/rules.d/59-amita-proxmox.rules',
    './usr/share/doc/amita-proxmox/copyright',
    './usr/share/perl5/PVE/Storage/Custom/AmitaPlugin.pm',
], 'these files and no others');
is_deeply([grep { $files{$_}[1] ne 'root/root' } sort keys %files], [], 'all are root\'s');
is_deeply([grep { $files{$_}[0] !~ m/\A(?:drwxr-xr-x|-rw-r--r--)\z/ } sort keys %files], [], 'and are written by root alone');

my %field = map { m/\A([A-Za-z-]+): (.*)\z/ ? ($1 => $2) : () } split /\n/, run('dpkg-deb', '--field', $deb);
is($field{Package}, 'amita-proxmox', 'its name');
is($field{Architecture}, 'all', 'for all machines');
for my $needed (qw(libpve-storage-perl libjson-perl libio-socket-ssl-perl perl)) {
    like($field{Depends}, qr/(?:\A|, )\Q$needed\E(?: \(|,|\z)/, "depends on $needed");
}
unlike($field{Depends}, qr/nvme-cli/, 'and not on nvme-cli');

run('dpkg-deb', '--raw-extract', $deb, "$work/raw");
is(bytes("$work/raw/usr/share/perl5/PVE/Storage/Custom/AmitaPlugin.pm"), bytes("$folder/AmitaPlugin.pm"), 'the plugin is the one that is tested');
for my $script (qw(postinst prerm postrm)) {
    is((stat "$work/raw/DEBIAN/$script")[2] & 0777, 0755, "$script can be run");
    is(system('sh', '-n', "$work/raw/DEBIAN/$script"), 0, "$script is a script");
}
open(my $sums, '<', "$work/raw/DEBIAN/md5sums") or die;
is(scalar(my @sums = <$sums>), 4, 'each file has its sum');
is(system("cd '$work/raw' && md5sum --check --quiet DEBIAN/md5sums"), 0, 'which is right');

# The daemons are restarted, where they run: with a systemctl that writes down what it is asked.
mkdir "$work/bin";
for my $name (qw(systemctl udevadm)) {
    open(my $fake, '>', "$work/bin/$name") or die;
    print {$fake} "#!/bin/sh\necho \"$name \$*\" >>'$work/asked'\ncase \"\$*\" in *is-active*pveproxy*) exit 3 ;; esac\nexit 0\n";
    close($fake);
    chmod 0755, "$work/bin/$name";
}
open(my $postinst, '<', "$work/raw/DEBIAN/postinst") or die;
my $text = do { local $/; <$postinst> };
# This machine may have no systemd, and its modules are not the test's to load.
$text =~ s{-d /run/systemd/system}{-d /};
$text =~ s{/sbin/modprobe}{$work/bin/modprobe}g;
open(my $changed, '>', "$work/postinst") or die;
print {$changed} $text;
close($changed);
$ENV{PATH} = "$work/bin:$ENV{PATH}";
is(system('sh', "$work/postinst", 'configure'), 0, 'postinst');
open(my $asked, '<', "$work/asked") or die;
my $asked_text = do { local $/; <$asked> };
like($asked_text, qr/udevadm control --reload/, 'the rules are read');
for my $unit (qw(pvedaemon pvestatd pvescheduler)) {
    like($asked_text, qr/systemctl try-reload-or-restart $unit\.service/, "$unit is restarted");
}
unlike($asked_text, qr/restart pveproxy/, 'what is not running is left so');
unlink "$work/asked";
is(system('sh', "$work/postinst", 'triggered'), 0, 'and nothing is done');
ok(!-e "$work/asked", 'where nothing was installed');
done_testing();
