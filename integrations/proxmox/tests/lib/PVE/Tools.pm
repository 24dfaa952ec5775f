package PVE::Tools;

# A stub for tests, written for them: the functions that the plugin calls, with the meaning that Proxmox' have.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(run_command file_set_contents split_list);

# Options: input ('<&FD'), output ('>&FD'); the command is a list.
sub run_command {
    my ($command, %with) = @_;
    my $child = fork() // die "no process: $!\n";
    if (!$child) {
        %ENV = (PATH => '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL => 'C');
        if (defined $with{input}) { my ($fd) = $with{input} =~ m/(\d+)/; open(STDIN, '<&=', $fd) or POSIX::_exit(126) }
        if (defined $with{output}) { my ($fd) = $with{output} =~ m/(\d+)/; open(STDOUT, '>&', $fd) or POSIX::_exit(126) }
        open(STDERR, '>', '/dev/null') if !$ENV{VERBOSE};
        my @words = map { m/\A(.*)\z/s } @$command;
        exec { $words[0] } @words;
        exit(127);
    }
    waitpid($child, 0);
    die "command '@$command' failed: exit code " . ($? >> 8) . "\n" if $?;
    return 0;
}

sub file_set_contents {
    my ($file, $data, $mode) = @_;
    ($file) = $file =~ m/\A(.*)\z/s;
    my $new = "$file.tmp.$$";
    sysopen(my $handle, $new, 0x241, $mode // 0644) or die "unable to open file '$new' - $!\n";
    print {$handle} $data or die "unable to write '$new' - $!\n";
    close($handle) or die "closing file '$new' failed - $!\n";
    rename($new, $file) or die "unable to rename '$new' - $!\n";
    return;
}

sub split_list { my ($list) = @_; return grep { length } split /[\s,;]+/, $list // '' }

1;
