# program: Perl (DB_File, Storable)
# kind: languages
# needs: perl
# debian: perl
# checks: tied trees and hashes, stored structures and locks between processes read back

version() {
    perl -e 'printf "%vd", $^V'
}

work() {
    perl - <<'PERL'
use strict; use warnings; use Fcntl qw(:flock SEEK_END O_RDWR O_CREAT); use DB_File; use Storable qw(lock_store); use File::Path qw(make_path);
tie(my %tree, 'DB_File', 'tree.db', O_RDWR | O_CREAT, 0644, $DB_BTREE) or die $!;
tie(my %hash, 'DB_File', 'hash.db', O_RDWR | O_CREAT, 0644, $DB_HASH) or die $!;
for my $n (1 .. 10000) { $tree{sprintf '%08d', $n} = $hash{$n} = "value $n" x ($n % 10 + 1) }
delete $tree{sprintf '%08d', $_ * 3} for 1 .. 3333;
untie %tree; untie %hash;
lock_store({ map { $_ => [1 .. $_ % 50] } 1 .. 1000 }, 'stored');
make_path('a/b/c');
for my $who (1 .. 4) {
    next if fork;
    for (1 .. 200) {
        open(my $file, '>>', 'counted') or die $!;
        flock($file, LOCK_EX) or die $!; seek($file, 0, SEEK_END); print $file "$who\n"; close $file or die $!;
    }
    exit 0;
}
while (wait() > 0) { die 'a child failed' if $? }
PERL
}

check() {
    perl - <<'PERL'
use strict; use warnings; use Fcntl; use DB_File; use Storable qw(lock_retrieve);
tie(my %tree, 'DB_File', 'tree.db', O_RDONLY, 0644, $DB_BTREE) or die $!;
tie(my %hash, 'DB_File', 'hash.db', O_RDONLY, 0644, $DB_HASH) or die $!;
die 'wrong count' unless keys %tree == 6667 && keys %hash == 10000;
while (my ($key, $value) = each %tree) { die "wrong value of $key" unless $value eq $hash{$key + 0} }
my $stored = lock_retrieve('stored');
die 'wrong structure' unless @{ $stored->{149} } == 49;
PERL
    [ "$(sort counted | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" = "200 200 200 200 " ] || fail "lines are missing"
}
