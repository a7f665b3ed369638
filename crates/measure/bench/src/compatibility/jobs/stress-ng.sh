# program: stress-ng (52 stressors of files)
# kind: load generators
# needs: stress-ng
# debian: stress-ng
# limit: 600
# checks: stress-ng --verify

version() {
    stress-ng --version | awk '{ print $3 }'
}

work() {
    for stressor in access aio aiol chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fcntl \
        fiemap file-ioctl filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify iomix lease link locka \
        lockf lockofd mknod mmap mmapfixed mmapfork msync open readahead rename revio seek sendfile splice symlink sync-file \
        tee touch utime verity vm-splice xattr; do
        timeout 60 stress-ng "--$stressor" 2 --timeout 1 --temp-path "$PWD" --verify >"$NOTES/log" 2>&1 ||
            fail "stress-ng --$stressor: $(grep -E 'fail|error' "$NOTES/log" | head -n 3)"
    done
}
