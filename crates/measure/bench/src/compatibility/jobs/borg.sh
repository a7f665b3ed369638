# program: BorgBackup
# kind: tools
# needs: borg
# debian: borgbackup linux-libc-dev
# checks: borg check --verify-data, an extracted tree compared with the original
# survives: every archive that had returned; borg check

version() {
    borg --version | awk '{ print $2 }'
}

settle() {
    export BORG_BASE_DIR="$PWD/base" BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_CHECK_I_KNOW_WHAT_I_AM_DOING=YES
    export BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
}

work() {
    settle
    copy_tree tree
    borg init -e none repository
    borg create repository::one tree
    echo more >>tree/types.h
    borg create repository::two tree
    borg delete repository::one
    borg compact repository
    mkdir out
    cd out
    borg extract ../repository::two
}

check() {
    settle
    borg check --verify-data repository
    same tree out/tree
}

load() {
    settle
    copy_tree tree
    borg init -e none repository
    create_next() {
        head -c 300000 /dev/urandom >tree/random
        borg create "repository::number$1" tree
    }
    count_up create_next
}

survived() {
    settle
    borg break-lock repository
    borg check repository
    at_least "$(borg list --short repository | grep -c number)" "$(acknowledged)"
}
